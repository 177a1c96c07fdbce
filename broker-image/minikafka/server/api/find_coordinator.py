"""FindCoordinator, 0 to 6: which broker coordinates a group; many groups at once from version 4 on (KIP-699).

The first request creates ``__consumer_offsets``. Transactions (key type 1) are not there yet:
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as InitProducerId answers, which is the end for a transactional client; after
INVALID_REQUEST librdkafka would ask again until its time is over. Other kinds of coordinators: INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.FIND_COORDINATOR, 0, 6)

GROUP, TRANSACTION, SHARE = 0, 1, 2
KEY_TYPES = {TRANSACTION: "transactions", SHARE: "share groups"}


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    many = ctx.api_version >= 4
    keys = tuple(dict.fromkeys(request.coordinator_keys)) if many else (request.key,)
    kind = getattr(request, "key_type", GROUP)
    if kind == GROUP:
        rows = await _of_groups(services, ctx, keys)
    else:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if kind == TRANSACTION else ErrorCode.INVALID_REQUEST
        why = f"{KEY_TYPES.get(kind, f'key type {kind}')}: not supported by this broker"
        rows = [_row(key, code, why) async for key in services.yielding(keys)]
    if many:
        return {"coordinators": rows}
    (row,) = rows
    del row["key"]
    return row


async def _of_groups(services: Services, ctx: RequestContext, groups: Sequence[str]) -> list[dict[str, Any]]:
    await services.groups.wait_for_topic()
    rows = []
    async for group in services.yielding(groups):
        address = services.groups.find(group, ctx.listener)
        if address is None:
            later = "the coordinator is not available, try again"
            rows.append(_row(group, ErrorCode.COORDINATOR_NOT_AVAILABLE, later))
        else:
            rows.append(_row(group, ErrorCode.NONE, None, *address))
    return rows


def _row(
    key: str, code: ErrorCode, message: str | None, node: int = -1, host: str = "", port: int = -1
) -> dict[str, Any]:
    return {"key": key, "error_code": code, "error_message": message, "node_id": node, "host": host, "port": port}
