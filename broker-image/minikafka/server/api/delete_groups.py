"""DeleteGroups, 0 to 2: groups without members, with their offsets; answered once the tombstones are replicated."""

from __future__ import annotations

import asyncio
from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.DELETE_GROUPS, 0, 2)


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    deleted: dict[str, asyncio.Task[ErrorCode]] = {}
    for name in dict.fromkeys(request.groups_names):
        deleted[name] = asyncio.ensure_future(services.groups.delete_group(name))
        await asyncio.sleep(0)  # it begins, and others are served
    return {"results": [{"group_id": name, "error_code": await code} for name, code in deleted.items()]}
