"""The cluster's own APIs: DescribeCluster 0 to 2, UnregisterBroker 0, BrokerRegistration 0 to 4, BrokerHeartbeat 0 to 1,
AlterPartition 2 to 3.

The last three are for brokers: they are served on the inter-broker listener only, and only the controller answers them.
Version 2 of AlterPartition carries no broker epochs.
"""

from __future__ import annotations

from typing import Any

from minikafka.controller.brokers import HeartbeatAnswer, Registration
from minikafka.controller.controller import Controller
from minikafka.controller.heartbeats import Heartbeats
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import IsrProposal
from minikafka.server.api.spec import NO_DIRECTORY_IDS, NO_ZOOKEEPER, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

BROKERS, CONTROLLERS = 1, 2
"""``endpoint_type`` of DescribeCluster (KIP-919)."""


async def describe_cluster(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    fenced_too = getattr(request, "include_fenced_brokers", False)
    endpoint_type = getattr(request, "endpoint_type", BROKERS)
    if endpoint_type != BROKERS:
        known = endpoint_type == CONTROLLERS
        return {
            "error_code": ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            "error_message": "this is a broker, not a controller listener",
            "endpoint_type": BROKERS,
            "cluster_id": services.metadata.image.cluster_id,
            "brokers": [],
        }
    operations = {}
    if request.include_cluster_authorized_operations:
        operations = {"cluster_authorized_operations": services.authorization.cluster_operations(ctx)}
    return {
        **operations,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "endpoint_type": BROKERS,
        "cluster_id": services.metadata.image.cluster_id,
        "controller_id": services.membership.controller_id,
        "brokers": [
            {"broker_id": b.broker_id, "host": a[0], "port": a[1], "rack": b.rack, "is_fenced": b.fenced}
            for _, b in sorted(services.metadata.image.brokers.items())
            if (fenced_too or not b.fenced) and (a := b.endpoint(ctx.listener)) is not None
        ],
    }


async def register(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
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
        role = services.topics.require_controller()
        error, epoch = await role.submit(lambda c: c.brokers.register(registration, services.context.clock.now()))
    except KafkaError as refused:
        return {"error_code": refused.code, "broker_epoch": -1}
    return {"error_code": error, "broker_epoch": epoch}


async def heartbeat(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    broker_id, epoch = request.broker_id, request.broker_epoch
    fence, shut_down = request.want_fence, request.want_shut_down
    try:
        role = services.topics.require_controller()
        if role.has_registered(broker_id, epoch):  # before anything moves: who says so may be of the past, or nobody
            services.connections.heard_from(ctx.connection, Heartbeats(broker_id, epoch, role.controller_epoch))

        def decide(controller: Controller) -> HeartbeatAnswer:
            answer = controller.brokers.heartbeat(broker_id, epoch, fence, shut_down, services.context.clock.now())
            if not answer.error:
                controller.brokers.note_metadata(
                    broker_id,
                    request.current_metadata_offset,
                    services.metadata.image.revision,
                    services.context.clock.unix_ms(),
                )
            return answer

        answer = await role.submit(decide)
    except KafkaError as refused:
        return {"error_code": refused.code, "should_shut_down": False}
    return {
        "error_code": answer.error,
        "is_caught_up": True,
        "is_fenced": answer.fenced,
        "should_shut_down": answer.should_shut_down,
    }


async def unregister(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    broker_id = request.broker_id
    try:
        role = services.topics.require_controller()
        error = await role.submit(lambda c: c.brokers.unregister(broker_id))
    except KafkaError as refused:
        return {"error_code": refused.code, "error_message": str(refused)}
    await services.metadata.caught_up()
    message = f"Broker ID {broker_id} is not currently registered" if error else None
    return {"error_code": error, "error_message": message}


async def alter_partition(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    proposals = [_proposal(services, t.topic_id.bytes, p) for t in request.topics for p in t.partitions]
    broker_id, epoch = request.broker_id, request.broker_epoch
    try:
        role = services.topics.require_controller()
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
                    "leader_recovery_state": answer.recovery_state,
                    "partition_epoch": answer.partition_epoch,
                }
            )
        topics.append({"topic_id": topic.topic_id, "partitions": rows})
    return {"error_code": ErrorCode.NONE, "topics": topics}


def _proposal(services: Services, topic_id: bytes, part: Any) -> IsrProposal:
    topic = services.metadata.image.topics_by_id.get(topic_id)
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
    (
        ApiSpec(
            ApiKey.DESCRIBE_CLUSTER,
            0,
            2,
        ),
        describe_cluster,
    ),
    (
        ApiSpec(
            ApiKey.BROKER_REGISTRATION,
            0,
            4,
            inter_broker=True,
            unread={
                "listeners.security_protocol": "each broker knows the protocols of listeners from its own settings",
                "features": "every broker of a cluster has the same",
                "is_migrating_zk_broker": NO_ZOOKEEPER,
                "log_dirs": NO_DIRECTORY_IDS,
            },
        ),
        register,
    ),
    (
        ApiSpec(ApiKey.BROKER_HEARTBEAT, 0, 1, inter_broker=True, unread={"offline_log_dirs": NO_DIRECTORY_IDS}),
        heartbeat,
    ),
    (ApiSpec(ApiKey.UNREGISTER_BROKER, 0, 0, controller_only=True), unregister),
    (ApiSpec(ApiKey.ALTER_PARTITION, 2, 3, inter_broker=True), alter_partition),
)
