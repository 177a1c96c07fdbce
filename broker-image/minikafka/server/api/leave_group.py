"""LeaveGroup, 0 to 5: one member, or from version 3 on many, also by instance id alone (KIP-345)."""

from __future__ import annotations

from typing import Any

from minikafka.groups.requests import MemberIdentity
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api.spec import NO_REASONS, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.LEAVE_GROUP, 0, 5, unread={"members.reason": NO_REASONS})

BATCHED = 3


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    if ctx.api_version < BATCHED:
        error, members = services.groups.leave(request.group_id, [MemberIdentity(request.member_id)])
        return {"error_code": members[0][1] if error is ErrorCode.NONE else error}
    leaving = [MemberIdentity(m.member_id, m.group_instance_id) for m in request.members]
    error, members = services.groups.leave(request.group_id, leaving)
    return {
        "error_code": error,
        "members": [
            {"member_id": who.member_id, "group_instance_id": who.group_instance_id, "error_code": code}
            for who, code in members
        ],
    }
