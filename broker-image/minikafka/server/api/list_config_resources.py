"""ListConfigResources, 0 to 1: whatever may have settings: topics, brokers and their loggers (KIP-1142).

Groups and client metrics have none here; version 0 asks for those of client metrics only.
"""

from __future__ import annotations

from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.LIST_CONFIG_RESOURCES, 0, 1)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
ALL = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    kinds = getattr(request, "resource_types", (CLIENT_METRICS,)) or ALL
    if not set(kinds) <= set(ALL):
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "config_resources": []}
    image = services.metadata.image
    brokers = [str(b.broker_id) for b in image.active_brokers() if b.endpoint(ctx.listener) is not None]
    names = {BROKER_LOGGER: brokers, BROKER: brokers, TOPIC: sorted(image.topics)}
    return {
        "error_code": ErrorCode.NONE,
        "config_resources": [
            {"resource_name": name, "resource_type": kind}
            for kind in ALL
            if kind in kinds
            for name in names.get(kind, ())
        ],
    }


SPECS = ((SPEC, handle),)
