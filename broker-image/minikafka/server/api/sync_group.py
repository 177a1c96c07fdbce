"""SyncGroup, 0 to 5: the leader hands in the assignment, everybody gets their part once it is stored."""

from __future__ import annotations

from typing import Any

from minikafka.groups.requests import SyncRequest
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.SYNC_GROUP, 0, 5)

PROTOCOL_MANDATORY = 5


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    protocol_type = getattr(request, "protocol_type", None)
    protocol_name = getattr(request, "protocol_name", None)
    if ctx.api_version >= PROTOCOL_MANDATORY and (protocol_type is None or protocol_name is None):
        return {"error_code": ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "assignment": b""}
    result = await services.groups.sync(
        SyncRequest(
            request.group_id,
            request.member_id,
            request.generation_id,
            {a.member_id: bytes(a.assignment) for a in request.assignments},
            getattr(request, "group_instance_id", None),
            protocol_type,
            protocol_name,
        )
    )
    return {
        "error_code": result.error,
        "protocol_type": result.protocol_type,
        "protocol_name": result.protocol_name,
        "assignment": result.assignment,
    }
