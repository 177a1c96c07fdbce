"""DescribeQuorum, 0 to 2, by the controller only: who may be the controller, and how far each has read the metadata.

There is no Raft log here, and no ``__cluster_metadata``; every broker reads the cluster store, and any may take the controller
lease. So each registered broker is a voter, nobody is an observer, and an offset is a revision of the store: the leader's its
own, the others' what their last heartbeats said (``broker.heartbeat.interval.ms``).
"""

from __future__ import annotations

from typing import Any

from minikafka.controller.brokers import NOTHING_READ, MetadataProgress
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.api.spec import NO_DIRECTORY_IDS, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

METADATA_TOPIC = "__cluster_metadata"

_REPLICA_DIRECTORIES = {
    f"topics.partitions.{group}.replica_directory_id": NO_DIRECTORY_IDS for group in ("current_voters", "observers")
}
_NO_OBSERVERS = "any broker may be the controller, so all are voters"
SPEC = ApiSpec(
    ApiKey.DESCRIBE_QUORUM,
    0,
    2,
    controller_only=True,
    unset=_REPLICA_DIRECTORIES
    | {
        f"topics.partitions.observers.{field}": _NO_OBSERVERS
        for field in ("replica_id", "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp")
    },
)


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    asked = [(topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions]
    if asked != [(METADATA_TOPIC, 0)]:
        return _of_no_quorum(request)
    try:
        role = services.topics.require_controller()
        progress = await role.submit(lambda c: {b: session.metadata for b, session in c.brokers.sessions.items()})
    except KafkaError as error:
        return {"error_code": error.code, "error_message": str(error), "topics": [], "nodes": []}
    image, now_ms = services.metadata.image, services.context.clock.unix_ms()
    progress[services.context.broker_id] = MetadataProgress(image.revision, -1, now_ms)
    listener = services.context.config.inter_broker_listener
    quorum = {
        "partition_index": 0,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "leader_id": services.context.broker_id,
        "leader_epoch": role.controller_epoch,
        "high_watermark": image.revision,
        "current_voters": [_voter(b, progress.get(b, NOTHING_READ)) for b in sorted(image.brokers)],
        "observers": [],
    }
    nodes = [
        {"node_id": node, "listeners": [{"name": listener, "host": host, "port": port}]}
        for node, host, port, _ in services.metadata.endpoints_of(image.brokers, listener)
    ]
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "topics": [{"topic_name": METADATA_TOPIC, "partitions": [quorum]}],
        "nodes": nodes,
    }


def _voter(broker_id: int, progress: MetadataProgress) -> dict[str, Any]:
    return {
        "replica_id": broker_id,
        "log_end_offset": progress.offset,
        "last_fetch_timestamp": progress.heard_ms,
        "last_caught_up_timestamp": progress.caught_up_ms,
    }


def _of_no_quorum(request: Any) -> dict[str, Any]:
    """Kafka's answer to a question about anything but the one partition of the metadata."""
    error = {
        "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "error_message": "there is no quorum of this partition",
    }
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "topics": [
            {
                "topic_name": topic.topic_name,
                "partitions": [{"partition_index": p.partition_index, **error} for p in topic.partitions],
            }
            for topic in request.topics
        ],
        "nodes": [],
    }


SPECS = ((SPEC, handle),)
