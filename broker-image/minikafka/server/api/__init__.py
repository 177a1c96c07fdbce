"""One module for each Kafka API (or a few that are one subject); its header says what is supported and what is not.

A module has ``SPECS``: pairs of :class:`~minikafka.server.api.spec.ApiSpec` and a handler
``async def (broker, ctx, request) -> dict`` (see :mod:`minikafka.protocol.messages` for both ends).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from minikafka.server.api import fetch, produce
from minikafka.server.api.spec import ApiSpec

Handler = Callable[[Any, Any, Any], Awaitable[dict[str, Any]]]

MODULES = (
    "acls",
    "alter_configs",
    "api_versions",
    "client_quotas",
    "cluster",
    "configs",
    "create_topics",
    "delete_topics",
    "create_partitions",
    "features",
    "groups",
    "init_producer_id",
    "list_config_resources",
    "list_offsets",
    "metadata",
    "offset_for_leader_epoch",
    "partitions",
    "quorum",
    "records_and_dirs",
    "sasl",
    "scram_credentials",
    "transactions",
    "describe_topic_partitions",
)


async def _hot(broker: Any, ctx: Any, request: Any) -> dict[str, Any]:
    del broker, ctx, request
    raise AssertionError("Produce and Fetch are served by the connection, without a task")


def load_handlers() -> dict[int, tuple[ApiSpec, Handler]]:
    """Every supported API by its key."""
    handlers: dict[int, tuple[ApiSpec, Handler]] = {
        produce.SPEC.key: (produce.SPEC, _hot),
        fetch.SPEC.key: (fetch.SPEC, _hot),
    }
    for name in MODULES:
        for spec, handler in import_module(f"{__name__}.{name}").SPECS:
            assert spec.key not in handlers, spec
            handlers[spec.key] = (spec, handler)
    return handlers
