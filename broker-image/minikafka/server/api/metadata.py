"""Metadata, 0 to 13: brokers, controller, topics with leaders and ISR; creates topics on demand when that is allowed.

Topics may be asked for by id from version 12 on. Authorized operations are not reported (no ACLs yet).

A broker that was fenced a moment ago is still listed, other than in KRaft: librdkafka takes a broker that vanishes from the
list apart, and its partitions then have no leader for it until its next refresh, one to two seconds later (measured: the gap
after kill -9 falls from up to 1.9 s to 0.2 s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.controller.topics import NewTopic, check_topic_name
from minikafka.metadata.image import NO_LEADER, TopicState
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.replication.replicas import INTERNAL_TOPICS
from minikafka.server.api.spec import NO_ACLS, ApiSpec

if TYPE_CHECKING:
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

SPEC = ApiSpec(
    ApiKey.METADATA,
    0,
    13,
    unread={"include_cluster_authorized_operations": NO_ACLS, "include_topic_authorized_operations": NO_ACLS},
    unset={"cluster_authorized_operations": NO_ACLS, "topics.topic_authorized_operations": NO_ACLS},
)


async def handle(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    version = ctx.api_version
    asked = request.topics
    await broker.metadata.wait_for_successors(_leaders(broker, asked))
    topics: list[dict[str, Any]] = []
    if asked is None or (version == 0 and not asked):
        topics = [describe(broker, ctx.listener, topic) for _, topic in sorted(broker.metadata.image.topics.items())]
    else:
        create = getattr(request, "allow_auto_topic_creation", True) and broker.config.auto_create_topics_enable
        for wanted in asked:
            topics.append(await _one(broker, ctx.listener, wanted, create))
    return {
        "brokers": [
            {"node_id": b.broker_id, "host": address[0], "port": address[1], "rack": b.rack}
            for b in sorted(broker.metadata.image.brokers.values(), key=lambda b: b.broker_id)
            if (not b.fenced or broker.metadata.recently_fenced(b.broker_id))
            and (address := b.endpoint(ctx.listener)) is not None
        ],
        "cluster_id": broker.metadata.image.cluster_id,
        "controller_id": broker.membership.controller_id,
        "topics": topics,
        "error_code": ErrorCode.NONE,
    }


def _leaders(broker: Broker, asked: Any) -> set[int]:
    """Who leads what is asked about."""
    image = broker.metadata.image
    if asked is None:
        return {p.leader for t in image.topics.values() for p in t.partitions}
    topics = [image.topics.get(t.name or "") for t in asked]
    return {p.leader for t in topics if t is not None for p in t.partitions}


async def _one(broker: Broker, listener: str, wanted: Any, create: bool) -> dict[str, Any]:
    topic_id = getattr(wanted, "topic_id", None)
    if topic_id is not None:
        topic = broker.metadata.image.topics_by_id.get(topic_id.bytes)
        if topic is None:
            return {"error_code": ErrorCode.UNKNOWN_TOPIC_ID, "name": None, "topic_id": topic_id, "partitions": []}
        return describe(broker, listener, topic)
    name = wanted.name or ""
    topic = broker.metadata.image.topics.get(name)
    if topic is not None:
        return describe(broker, listener, topic)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
        if create and name not in INTERNAL_TOPICS:
            await broker.topics.create_anywhere(NewTopic(name))
            error = ErrorCode.LEADER_NOT_AVAILABLE
    except KafkaError as refused:
        error = refused.code
        if error in (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NOT_CONTROLLER):  # somebody else's, or soon
            error = ErrorCode.LEADER_NOT_AVAILABLE
    topic = broker.metadata.image.topics.get(name)
    if topic is not None:
        return describe(broker, listener, topic)
    return {"error_code": error, "name": name, "partitions": []}


def describe(broker: Broker, listener: str, topic: TopicState) -> dict[str, Any]:
    """One topic as Metadata and DescribeTopicPartitions show it."""
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.name in INTERNAL_TOPICS,
        "partitions": [partition(broker, listener, topic, index) for index in range(len(topic.partitions))],
    }


def partition(broker: Broker, listener: str, topic: TopicState, index: int) -> dict[str, Any]:
    """One partition; its error is LEADER_NOT_AVAILABLE while nobody leads (R14)."""
    state = topic.partitions[index]
    brokers = broker.metadata.image.brokers
    error = ErrorCode.NONE
    if state.leader == NO_LEADER:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    elif state.leader not in brokers or brokers[state.leader].endpoint(listener) is None:
        error = ErrorCode.LISTENER_NOT_FOUND
    return {
        "error_code": error,
        "partition_index": index,
        "leader_id": state.leader,
        "leader_epoch": state.leader_epoch,
        "replica_nodes": state.replicas,
        "isr_nodes": state.isr,
        "offline_replicas": tuple(r for r in state.replicas if r not in brokers or brokers[r].fenced),
    }


SPECS = ((SPEC, handle),)
