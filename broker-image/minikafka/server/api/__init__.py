"""One module for each Kafka API (or a few that are one subject); its header says what is supported and what is not.

A module has ``SPECS``: pairs of :class:`~minikafka.server.api.spec.ApiSpec` and a handler
``async def (services, ctx, request) -> dict`` (see :mod:`minikafka.protocol.messages` for both ends).
"""

from __future__ import annotations

from typing import Any

from minikafka.server.api import (
    acls,
    alter_configs,
    api_versions,
    client_quotas,
    cluster,
    configs,
    create_partitions,
    create_topics,
    delete_groups,
    delete_topics,
    describe_groups,
    describe_topic_partitions,
    features,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    partitions,
    produce,
    quorum,
    records_and_dirs,
    sasl,
    scram_credentials,
    sync_group,
    transactions,
)
from minikafka.server.api.spec import ApiSpec, Handler, Handlers
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services


async def _hot(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del services, ctx, request
    raise AssertionError("Produce and Fetch are served by the connection, without a task")


def load_handlers() -> Handlers:
    """Every supported API by its key."""
    found: tuple[tuple[ApiSpec, Handler], ...] = (
        (produce.SPEC, _hot),
        (fetch.SPEC, _hot),
        *acls.SPECS,
        *alter_configs.SPECS,
        *api_versions.SPECS,
        *client_quotas.SPECS,
        *cluster.SPECS,
        *configs.SPECS,
        *create_topics.SPECS,
        *delete_topics.SPECS,
        *create_partitions.SPECS,
        *features.SPECS,
        (offset_commit.SPEC, offset_commit.handle),
        (offset_fetch.SPEC, offset_fetch.handle),
        (find_coordinator.SPEC, find_coordinator.handle),
        (join_group.SPEC, join_group.handle),
        (heartbeat.SPEC, heartbeat.handle),
        (leave_group.SPEC, leave_group.handle),
        (sync_group.SPEC, sync_group.handle),
        (describe_groups.SPEC, describe_groups.handle),
        (list_groups.SPEC, list_groups.handle),
        (delete_groups.SPEC, delete_groups.handle),
        (offset_delete.SPEC, offset_delete.handle),
        *init_producer_id.SPECS,
        *list_config_resources.SPECS,
        *list_offsets.SPECS,
        *metadata.SPECS,
        *offset_for_leader_epoch.SPECS,
        *partitions.SPECS,
        *quorum.SPECS,
        *records_and_dirs.SPECS,
        *sasl.SPECS,
        *scram_credentials.SPECS,
        *transactions.SPECS,
        *describe_topic_partitions.SPECS,
    )
    handlers: dict[int, tuple[ApiSpec, Handler]] = {spec.key: (spec, handler) for spec, handler in found}
    assert len(handlers) == len(found), "an API has two handlers"
    return handlers
