"""The cluster's own APIs: DescribeCluster 0 to 2, BrokerRegistration 0 to 4, BrokerHeartbeat 0 to 1, AlterPartition 2 to 3.

The last three are for brokers: they are served on the inter-broker listener only, and only the controller answers them.
Version 2 of AlterPartition carries no broker epochs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.controller.brokers import Registration
from minikafka.controller.heartbeats import Heartbeats
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import IsrProposal
from minikafka.server.api.spec import ApiSpec

if TYPE_CHECKING:
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

BROKERS, CONTROLLERS = 1, 2
"""``endpoint_type`` of DescribeCluster (KIP-919)."""


async def describe_cluster(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    fenced_too = getattr(request, "include_fenced_brokers", False)
    endpoint_type = getattr(request, "endpoint_type", BROKERS)
    if endpoint_type != BROKERS:
        known = endpoint_type == CONTROLLERS
        return {
            "error_code": ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            "error_message": "this is a broker, not a controller listener",
            "cluster_id": broker.metadata.image.cluster_id,
            "brokers": [],
        }
    return {
        "error_code": ErrorCode.NONE,
        "cluster_id": broker.metadata.image.cluster_id,
        "controller_id": broker.membership.controller_id,
        "brokers": [
            {"broker_id": b.broker_id, "host": a[0], "port": a[1], "rack": b.rack, "is_fenced": b.fenced}
            for _, b in sorted(broker.metadata.image.brokers.items())
            if (fenced_too or not b.fenced) and (a := b.endpoint(ctx.listener)) is not None
        ],
    }


async def register(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    registration = Registration(
        request.broker_id,
        request.cluster_id,
        str(request.incarnation_id),
        tuple((e.name, e.host, e.port) for e in request.listeners),
        request.rack,
        getattr(request, "previous_broker_epoch", -1),
    )
    try:
        role = broker.topics.require_controller()
        error, epoch = await role.submit(lambda c: c.brokers.register(registration, broker.clock.now()))
    except KafkaError as refused:
        return {"error_code": refused.code, "broker_epoch": -1}
    return {"error_code": error, "broker_epoch": epoch}


async def heartbeat(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    broker_id, epoch = request.broker_id, request.broker_epoch
    fence, shut_down = request.want_fence, request.want_shut_down
    try:
        role = broker.topics.require_controller()
        if role.has_registered(broker_id, epoch):  # before anything moves: who says so may be of the past, or nobody
            broker.connections.heard_from(ctx.connection, Heartbeats(broker_id, epoch, role.controller_epoch))
        answer = await role.submit(
            lambda c: c.brokers.heartbeat(broker_id, epoch, fence, shut_down, broker.clock.now())
        )
    except KafkaError as refused:
        return {"error_code": refused.code, "should_shut_down": False}
    return {
        "error_code": answer.error,
        "is_caught_up": True,
        "is_fenced": answer.fenced,
        "should_shut_down": answer.should_shut_down,
    }


async def alter_partition(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    proposals = [_proposal(broker, t.topic_id.bytes, p) for t in request.topics for p in t.partitions]
    broker_id, epoch = request.broker_id, request.broker_epoch
    try:
        role = broker.topics.require_controller()
        answers = await role.submit(lambda c: [c.partitions.alter(broker_id, epoch, p) for p in proposals])
    except KafkaError as refused:
        return {"error_code": refused.code, "topics": []}
    given = iter(answers)
    topics = []
    for topic in request.topics:
        rows = []
        for part in topic.partitions:
            answer = next(given)
            rows.append(
                {
                    "partition_index": part.partition_index,
                    "error_code": answer.error,
                    "leader_id": broker_id,
                    "leader_epoch": answer.leader_epoch,
                    "isr": answer.isr,
                    "partition_epoch": answer.partition_epoch,
                }
            )
        topics.append({"topic_id": topic.topic_id, "partitions": rows})
    return {"error_code": ErrorCode.NONE, "topics": topics}


def _proposal(broker: Broker, topic_id: bytes, part: Any) -> IsrProposal:
    topic = broker.metadata.image.topics_by_id.get(topic_id)
    members = getattr(part, "new_isr_with_epochs", None)
    isr = (
        tuple((m.broker_id, m.broker_epoch) for m in members)
        if members is not None
        else tuple((m, -1) for m in part.new_isr)
    )
    return IsrProposal(
        TopicPartition(topic.name if topic else "", part.partition_index),
        topic_id,
        part.leader_epoch,
        part.partition_epoch,
        isr,
        part.leader_recovery_state,
    )


SPECS = (
    (ApiSpec(60, "DescribeCluster", 0, 2), describe_cluster),
    (ApiSpec(62, "BrokerRegistration", 0, 4, inter_broker=True), register),
    (ApiSpec(63, "BrokerHeartbeat", 0, 1, inter_broker=True), heartbeat),
    (ApiSpec(56, "AlterPartition", 2, 3, inter_broker=True), alter_partition),
)
