"""ApiVersions, 0 to 4. An unknown version is answered in version 0 with UNSUPPORTED_VERSION (KIP-511), by the connection.

No features are reported: transactions (``transaction.version``) and the new group protocol are not there yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api import produce
from minikafka.server.api.spec import ApiSpec

if TYPE_CHECKING:
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

SPEC = ApiSpec(ApiKey.API_VERSIONS, 0, 4)


async def handle(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del request
    return supported(broker.handlers, ctx.inter_broker)


def supported(
    handlers: Mapping[int, tuple[ApiSpec, Any]], inter_broker: bool, error: ErrorCode = ErrorCode.NONE
) -> dict[str, Any]:
    """The body of ApiVersions; after a version nobody knows only its own range, as Kafka does (KIP-511).

    ``inter_broker``: asked on the inter-broker listener, where there are more.
    """
    keys = [
        # Produce from 0 on, as Kafka 4 says (KAFKA-18659): librdkafka looks there for what codecs there are.
        {
            "api_key": key,
            "min_version": 0 if key == produce.SPEC.key else spec.min_version,
            "max_version": spec.max_version,
        }
        for key, (spec, _) in sorted(handlers.items())
        if (error is ErrorCode.NONE or key == SPEC.key) and (inter_broker or not spec.inter_broker)
    ]
    return {"error_code": error, "api_keys": keys}


SPECS = ((SPEC, handle),)
