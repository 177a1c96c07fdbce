"""ListGroups, 0 to 5: the groups this broker coordinates; by state (KIP-518) and by type (KIP-848; all are Classic)."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.LIST_GROUPS, 0, 5)


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    states, types = getattr(request, "states_filter", ()), getattr(request, "types_filter", ())
    error, groups = services.groups.coordinator.list_groups(states or (), types or ())
    return {
        "error_code": error,
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.group_type,
            }
            for group in groups
        ],
    }
