"""DeleteGroups, 0 to 2: groups without members, with their offsets; answered once the tombstones are replicated."""

from __future__ import annotations

import asyncio
from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.DELETE_GROUPS, 0, 2)


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    names = list(dict.fromkeys(request.groups_names))
    codes = await asyncio.gather(*(services.groups.delete_group(name) for name in names))
    return {"results": [{"group_id": name, "error_code": code} for name, code in zip(names, codes, strict=True)]}
