"""DescribeClientQuotas 0 to 1: there are none. Kafka's tools ask it beside what they were told to show of a user.

What is asked is checked as Kafka's ``ClientQuotasImage.describe`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.api.spec import ApiSpec

if TYPE_CHECKING:
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

NO_QUOTAS = "there are no quotas"
SPEC = ApiSpec(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    0,
    1,
    unread={"strict": NO_QUOTAS},
    unset={f"entries.{field}": NO_QUOTAS for field in ("entity", "values")},
)
IP, ENTITY_TYPES = "ip", {"ip", "user", "client-id"}
MATCH_TYPES = {0: "MATCH_TYPE_EXACT", 1: "MATCH_TYPE_DEFAULT", 2: "MATCH_TYPE_SPECIFIED"}


async def handle(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del broker, ctx
    try:
        _check(request.components)
    except KafkaError as refused:
        return {"error_code": refused.code, "error_message": str(refused), "entries": None}
    return {"error_code": ErrorCode.NONE, "error_message": None, "entries": []}


def _check(components: Any) -> None:
    """Raise KafkaError when a filter is none."""
    seen: set[str] = set()
    for each in components:
        entity_type, match, name = each.entity_type, each.match, MATCH_TYPES.get(each.match_type)
        if not entity_type:
            raise _invalid("Invalid empty entity type.")
        if entity_type in seen:
            raise _invalid(f"Entity type {entity_type} cannot appear more than once in the filter.")
        if entity_type not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {entity_type}")
        if name is None:
            raise _invalid(f"Unknown match type {each.match_type}")
        if (match is None) is (name == "MATCH_TYPE_EXACT"):
            problem = "set match string to null" if match is None else "also specified a match string"
            raise _invalid(f"Request specified {name}, but {problem}.")
        seen.add(entity_type)
    if IP in seen and len(seen) > 1:
        raise _invalid("An IP filter component must not be used with user or client-id filter components.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


SPECS = ((SPEC, handle),)
