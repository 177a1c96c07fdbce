"""FindCoordinator, 0 to 6: which broker coordinates a group; many groups at once from version 4 on (KIP-699).

The first request creates ``__consumer_offsets``. Transactions (key type 1) and share groups (2) are not there yet:
INVALID_REQUEST, which clients report at once instead of trying again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api.spec import ApiSpec

if TYPE_CHECKING:
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

SPEC = ApiSpec(ApiKey.FIND_COORDINATOR, 0, 6)

GROUP = 0
KEY_TYPES = {1: "transactions", 2: "share groups"}


async def handle(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    kind = getattr(request, "key_type", GROUP)
    if ctx.api_version < 4:
        answer = await _find(broker, ctx, kind, request.key)
        del answer["key"]
        return answer
    return {"coordinators": [await _find(broker, ctx, kind, key) for key in request.coordinator_keys]}


async def _find(broker: Broker, ctx: RequestContext, kind: int, key: str) -> dict[str, Any]:
    message = None
    if kind != GROUP:
        code, node, host, port = ErrorCode.INVALID_REQUEST, -1, "", -1
        message = f"{KEY_TYPES.get(kind, f'key type {kind}')}: not supported by this broker"
    else:
        code, node, host, port = await broker.groups.find(key, ctx.listener)
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
