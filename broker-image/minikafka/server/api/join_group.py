"""JoinGroup, 0 to 9: the classic rebalance protocol. Answers when the new generation is complete.

Version 4 asks new members to come again with the id they are given (KIP-394), 5 has static members (KIP-345), 9 lets a
returned static leader skip the assignment (KIP-814). The reason of version 8 is not kept.
"""

from __future__ import annotations

from typing import Any

from minikafka.groups.requests import GroupProtocol, JoinRequest
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages import millis
from minikafka.server.api.spec import NO_REASONS, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.JOIN_GROUP, 0, 9, unread={"reason": NO_REASONS})

NULLABLE_PROTOCOL_NAME = 7


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    result = await services.groups.join(_request(ctx, request))
    no_name = None if ctx.api_version >= NULLABLE_PROTOCOL_NAME else ""
    return {
        "error_code": result.error,
        "generation_id": result.generation,
        "protocol_type": result.protocol_type,
        "protocol_name": no_name if result.protocol_name is None else result.protocol_name,
        "leader": result.leader,
        "skip_assignment": result.skip_assignment,
        "member_id": result.member_id,
        "members": [
            {"member_id": m.member_id, "group_instance_id": m.group_instance_id, "metadata": m.metadata}
            for m in result.members
        ],
    }


def _request(ctx: RequestContext, request: Any) -> JoinRequest:
    session_timeout = millis(request.session_timeout)
    instance_id = getattr(request, "group_instance_id", None)
    return JoinRequest(
        request.group_id,
        request.member_id,
        request.protocol_type,
        tuple(GroupProtocol(p.name, bytes(p.metadata)) for p in request.protocols),
        session_timeout,
        millis(request.rebalance_timeout) if ctx.api_version >= 1 else session_timeout,
        instance_id,
        ctx.client_id,
        f"/{ctx.client_host}",  # the text form of Java's InetAddress, which tools expect
        require_known_member_id=ctx.api_version >= 4 and instance_id is None,
        may_skip_assignment=ctx.api_version >= 9,
    )
