"""Heartbeat, 0 to 4: a member says that it is alive, and learns that it has to join again."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.HEARTBEAT, 0, 4)


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    instance_id = getattr(request, "group_instance_id", None)
    return {
        "error_code": services.groups.heartbeat(request.group_id, request.member_id, instance_id, request.generation_id)
    }
