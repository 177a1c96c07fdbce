"""Metadata, 0 to 13: brokers, controller, topics with leaders and ISR.

Where topics are created on demand, one that is not there is answered UNKNOWN_TOPIC_OR_PARTITION at once, and its creation
begins: other topics of the request need not wait for the store. Topics may be asked for by id from version 12 on.

A broker that was fenced a moment ago is still listed, other than in KRaft: librdkafka takes a broker that vanishes from the
list apart, and its partitions then have no leader for it until its next refresh, one to two seconds later (measured: the gap
after kill -9 falls from up to 1.9 s to 0.2 s).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from minikafka.controller.topics import NewTopic, check_topic_name
from minikafka.metadata.image import NO_LEADER, TopicState
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.metadata_rows import BY_ID, NULLABLE_NAME, is_malformed
from minikafka.replication.replicas import INTERNAL_TOPICS
from minikafka.security.acls import ResourceType
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.METADATA, 0, 13)


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    version = ctx.api_version
    asked = request.topics
    await services.metadata.wait_for_successors(_leaders(services, asked))
    if services.had_much(ctx.connection.asked_by, SPEC.key):  # all that waited with this one would go on in one round
        await services.turn_queue.first()
    if asked is None or (version == 0 and not asked):
        every = sorted(services.metadata.image.topics.items())
        topics = [describe(services, ctx.listener, topic) async for _, topic in services.yielding(every)]
    elif version >= NULLABLE_NAME and any(is_malformed(topic, version) for topic in asked):
        return {"brokers": [], "controller_id": -1, "topics": [_refused(topic, version) for topic in asked]}
    else:
        create = (
            getattr(request, "allow_auto_topic_creation", True) and services.context.config.auto_create_topics_enable
        )
        topics = await _found(services, ctx, asked, create)
    if getattr(request, "include_topic_authorized_operations", False):
        async for topic in services.yielding(topics):
            if topic["name"] is not None:
                operations = services.authorization.operations(ctx, ResourceType.TOPIC, topic["name"])
                topic["topic_authorized_operations"] = operations
    answer = {**cluster(services, ctx.listener), "topics": topics, "error_code": ErrorCode.NONE}
    if getattr(request, "include_cluster_authorized_operations", False):
        answer["cluster_authorized_operations"] = services.authorization.cluster_operations(ctx)
    return answer


def cluster(services: Services, listener: str) -> dict[str, Any]:
    """What an answer says of the cluster, whichever topics it is about."""
    return {
        "brokers": [
            {"node_id": b.broker_id, "host": address[0], "port": address[1], "rack": b.rack}
            for b in sorted(services.metadata.image.brokers.values(), key=lambda b: b.broker_id)
            if (not b.fenced or services.metadata.recently_fenced(b.broker_id))
            and (address := b.endpoint(listener)) is not None
        ],
        "cluster_id": services.metadata.image.cluster_id,
        "controller_id": services.membership.controller_id,
    }


def _leaders(services: Services, asked: Any) -> set[int]:
    """Who leads what is asked about."""
    image = services.metadata.image
    if asked is None:
        return {p.leader for t in image.topics.values() for p in t.partitions}
    ids = (getattr(t, "topic_id", None) for t in asked)
    topics = [image.topics.get(t.name or "") for t in asked]
    topics += [image.topics_by_id.get(i.bytes) for i in ids if i is not None]
    return {p.leader for t in topics if t is not None for p in t.partitions}


def _refused(topic: Any, version: int) -> dict[str, Any]:
    name = topic.name or "" if version < BY_ID else topic.name
    return {"error_code": ErrorCode.INVALID_REQUEST, "name": name, "topic_id": topic.topic_id, "partitions": []}


async def _found(services: Services, ctx: RequestContext, asked: Any, create: bool) -> list[dict[str, Any]]:
    """Each topic once, however often it is named; where one is named by its id, only ids count, as in Kafka."""
    ids = dict.fromkeys(i for t in asked if (i := getattr(t, "topic_id", None)) is not None)
    if ids:
        return [_by_id(services, ctx.listener, topic_id) async for topic_id in services.yielding(ids)]
    names = dict.fromkeys(t.name for t in asked)
    return [_by_name(services, ctx, name, create) async for name in services.yielding(names)]


def _by_id(services: Services, listener: str, topic_id: UUID) -> dict[str, Any]:
    topic = services.metadata.image.topics_by_id.get(topic_id.bytes)
    if topic is None:
        return {"error_code": ErrorCode.UNKNOWN_TOPIC_ID, "name": None, "topic_id": topic_id, "partitions": []}
    return describe(services, listener, topic)


def _by_name(services: Services, ctx: RequestContext, name: str, create: bool) -> dict[str, Any]:
    topic = services.metadata.image.topics.get(name)
    if topic is not None:
        return describe(services, ctx.listener, topic)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
        if create and name not in INTERNAL_TOPICS:
            services.topics.create_soon(NewTopic(name), ctx.principal)  # the client asks again, as one of Kafka does
    except KafkaError as refused:
        error = refused.code
    return {"error_code": error, "name": name, "partitions": []}


def describe(services: Services, listener: str, topic: TopicState, only: slice = slice(None)) -> dict[str, Any]:
    """One topic as Metadata and DescribeTopicPartitions show it; ``only`` chooses among its partitions."""
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.name in INTERNAL_TOPICS,
        "partitions": [partition(services, listener, topic, index) for index in range(len(topic.partitions))[only]],
    }


def partition(services: Services, listener: str, topic: TopicState, index: int) -> dict[str, Any]:
    """One partition; its error is LEADER_NOT_AVAILABLE while nobody leads (R14)."""
    state = topic.partitions[index]
    brokers = services.metadata.image.brokers
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
