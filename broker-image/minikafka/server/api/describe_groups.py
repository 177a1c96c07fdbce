"""DescribeGroups, 0 to 6. A group nobody knows is ``Dead``, and from version 6 on GROUP_ID_NOT_FOUND (KIP-1043).

Each group is described once, however often it is named.
"""

from __future__ import annotations

from typing import Any

from minikafka.groups.requests import GroupDescription
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.security.acls import ResourceType
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.DESCRIBE_GROUPS, 0, 6)

NOT_FOUND = 6


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    tells_operations = getattr(request, "include_authorized_operations", False)
    groups = []
    async for group_id in services.yielding(dict.fromkeys(request.groups)):
        group = services.groups.coordinator.describe_group(group_id)
        row = _describe(group)
        if ctx.api_version >= NOT_FOUND and group.error is ErrorCode.NONE and not group.exists:
            row["error_code"] = ErrorCode.GROUP_ID_NOT_FOUND
            row["error_message"] = f"Group {group_id} not found."
        if tells_operations and row["error_code"] is ErrorCode.NONE:
            row["authorized_operations"] = services.authorization.operations(ctx, ResourceType.GROUP, group_id)
        groups.append(row)
    return {"groups": groups}


def _describe(group: GroupDescription) -> dict[str, Any]:
    return {
        "error_code": group.error,
        "error_message": None,
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol,
        "members": [
            {
                "member_id": m.member_id,
                "group_instance_id": m.group_instance_id,
                "client_id": m.client_id,
                "client_host": m.client_host,
                "member_metadata": m.metadata,
                "member_assignment": m.assignment,
            }
            for m in group.members
        ],
    }
