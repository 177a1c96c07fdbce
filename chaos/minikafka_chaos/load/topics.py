"""Topics of a run: create them, wait until they are led, delete them; over the Kafka protocol, on any cluster."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load.clients import TopicPlan
from minikafka_chaos.load.librdkafka import admin_config

REQUEST_TIMEOUT_S = 5.0
POLL_S = 0.05


def create_topic(bootstrap: str, plan: TopicPlan, deadline_s: float) -> None:
    """Create a topic and wait until every partition has a leader and a full ISR.

    Raises ToolTrouble when the cluster refuses it or is not so far in `deadline_s` seconds.
    """
    admin = AdminClient(admin_config(bootstrap))
    deadline = time.monotonic() + deadline_s
    if plan.assignment:
        topic = NewTopic(
            plan.name,
            num_partitions=len(plan.assignment),
            replica_assignment=[list(replicas) for replicas in plan.assignment],
            config=dict(plan.config),
        )
    else:
        topic = NewTopic(plan.name, plan.partitions, plan.replication_factor, config=dict(plan.config))
    while True:
        try:
            admin.create_topics([topic], operation_timeout=REQUEST_TIMEOUT_S)[plan.name].result(REQUEST_TIMEOUT_S)
            break
        except (KafkaException, TimeoutError) as error:
            cause = error.args[0] if error.args else error
            if isinstance(cause, KafkaError) and cause.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                break  # an earlier attempt whose answer was lost: topics of a run have names of their own
            if time.monotonic() > deadline or not _may_pass(cause):
                raise ToolTrouble(f"topic {plan.name} could not be created: {_words(cause)}") from error
            time.sleep(POLL_S)
    _wait_for_leaders(admin, plan, deadline)


def _may_pass(cause: object) -> bool:
    return not isinstance(cause, KafkaError) or cause.retriable() or cause.code() in _TRANSIENT


_TRANSIENT = frozenset(
    (
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.INVALID_REPLICATION_FACTOR,  # brokers that are still registering
        KafkaError.BROKER_NOT_AVAILABLE,
    )
)


def _wait_for_leaders(admin: AdminClient, plan: TopicPlan, deadline: float) -> None:
    seen = "nothing"
    while True:
        try:
            topic = admin.list_topics(plan.name, timeout=REQUEST_TIMEOUT_S).topics[plan.name]
            partitions = list(topic.partitions.values())
            seen = ", ".join(f"{p.id}: leader {p.leader} ISR {sorted(p.isrs)}" for p in partitions) or str(topic.error)
            led = all(p.leader >= 0 and len(p.isrs) == len(p.replicas) for p in partitions)
            if len(partitions) == len(plan.topic_partitions) and led:
                return
        except (KafkaException, KeyError) as error:
            seen = _words(error.args[0] if error.args else error)
        if time.monotonic() > deadline:
            raise ToolTrouble(f"topic {plan.name} has no leaders and full ISR yet ({seen})")
        time.sleep(POLL_S)


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic. Raises ToolTrouble."""
    admin = AdminClient(admin_config(bootstrap))
    try:
        admin.delete_topics([name], operation_timeout=REQUEST_TIMEOUT_S)[name].result(REQUEST_TIMEOUT_S)
    except (KafkaException, TimeoutError) as error:
        raise ToolTrouble(f"topic {name} could not be deleted: {_words(error)}") from error


def _words(cause: object) -> str:
    if isinstance(cause, KafkaError):
        return f"{cause.name()}: {cause.str()}"
    return " ".join(str(cause).split()) or type(cause).__name__
