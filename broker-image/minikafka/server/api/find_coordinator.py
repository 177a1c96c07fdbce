"""FindCoordinator, 0 to 6: which broker coordinates a group; many groups at once from version 4 on (KIP-699).

The first request creates ``__consumer_offsets``. Transactions (key type 1) are not there yet:
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as InitProducerId answers, which is the end for a transactional client; after
INVALID_REQUEST librdkafka would ask again until its time is over. Other kinds of coordinators: INVALID_REQUEST.
"""

from __future__ import annotations

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
    kind = getattr(request, "key_type", GROUP)
    if ctx.api_version < 4:
        answer = await _find(services, ctx, kind, request.key)
        del answer["key"]
        return answer
    return {"coordinators": [await _find(services, ctx, kind, key) for key in request.coordinator_keys]}


async def _find(services: Services, ctx: RequestContext, kind: int, key: str) -> dict[str, Any]:
    message = None
    if kind != GROUP:
        code, node, host, port = ErrorCode.INVALID_REQUEST, -1, "", -1
        if kind == TRANSACTION:
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        message = f"{KEY_TYPES.get(kind, f'key type {kind}')}: not supported by this broker"
    else:
        code, node, host, port = await services.groups.find(key, ctx.listener)
        if code is not ErrorCode.NONE:
            message = "the coordinator is not available, try again"
    return {
        "key": key,
        "error_code": code,
        "error_message": message,
        "node_id": node,
        "host": host,
        "port": port,
    }
