"""DescribeClientQuotas 0 to 1: there are none. Kafka's tools ask it beside what they were told to show of a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api.spec import ApiSpec

if TYPE_CHECKING:
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

NO_QUOTAS = "there are no quotas"
SPEC = ApiSpec(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    0,
    1,
    unread={"components": NO_QUOTAS, "strict": NO_QUOTAS},
    unset={f"entries.{field}": NO_QUOTAS for field in ("entity", "values")},
)


async def handle(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del broker, ctx, request
    return {"error_code": ErrorCode.NONE, "error_message": None, "entries": []}


SPECS = ((SPEC, handle),)
