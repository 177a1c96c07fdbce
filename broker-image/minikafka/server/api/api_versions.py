"""ApiVersions, 0 to 4. An unknown version is answered in version 0 with UNSUPPORTED_VERSION (KIP-511), by the connection.

There are no features: transactions (``transaction.version``) and the new group protocol are not there yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api import produce
from minikafka.server.api.spec import NO_ZOOKEEPER, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

NO_FEATURE_LEVELS = "no feature has levels"

SPEC = ApiSpec(
    ApiKey.API_VERSIONS,
    0,
    4,
    unset={
        **{f"supported_features.{field}": NO_FEATURE_LEVELS for field in ("name", "min_version", "max_version")},
        **{
            f"finalized_features.{field}": NO_FEATURE_LEVELS
            for field in ("name", "min_version_level", "max_version_level")
        },
        "zk_migration_ready": NO_ZOOKEEPER,
    },
)

NO_FEATURES: Mapping[str, Any] = {"supported_features": [], "finalized_features_epoch": 0, "finalized_features": []}
"""The epoch says that it is known that there are none."""

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""What name and version of a client's software may look like (KIP-511)."""


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    names = [getattr(request, f"client_software_{what}", "unknown") for what in ("name", "version")]
    if not all(SOFTWARE.fullmatch(name) for name in names):
        return {"error_code": ErrorCode.INVALID_REQUEST, "api_keys": [], **NO_FEATURES}
    return supported(services.handlers, ctx.inter_broker)


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
    return {"error_code": error, "api_keys": keys, **NO_FEATURES}


SPECS = ((SPEC, handle),)
