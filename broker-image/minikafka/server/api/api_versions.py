"""ApiVersions, 0 to 4. An unknown version is answered in version 0 with UNSUPPORTED_VERSION (KIP-511), by the connection.

No features are reported: transactions (``transaction.version``) and the new group protocol are not there yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.server.api.spec import ApiSpec

if TYPE_CHECKING:
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

SPEC = ApiSpec(18, "ApiVersions", 0, 4)


async def handle(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del request
    return broker.api_versions(ctx.inter_broker)


SPECS = ((SPEC, handle),)
