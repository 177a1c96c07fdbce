"""Topics of a run: create them, wait until they are led, delete them; over the Kafka protocol, on any cluster."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from minikafka.client.connection import BrokerConnection, NoAnswer, endpoints
from minikafka.client.security import ClientSecurity
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load.clients import TopicPlan
from minikafka_chaos.load.cluster_view import described_topic
from minikafka_chaos.load.librdkafka import admin_config

REQUEST_TIMEOUT_S = 5.0
LAST_TRY_S = 0.1
"""At least so long brokers are waited for, also where the time is over."""
POLL_S = 0.05
CREATE_TOPICS_VERSION = 7
"""The first version whose answer tells the topic's id (KIP-516)."""


class TopicNotMade(ToolTrouble):
    """Brokers have refused to make a topic, or were not asked: whatever there is of this name is somebody else's."""


def create_topic(bootstrap: str, security: ClientSecurity, plan: TopicPlan, deadline_s: float) -> None:
    """Create a topic and wait until every partition has a leader and a full ISR.

    Raises TopicNotMade when the cluster refuses it, ToolTrouble when it is not so far in `deadline_s` seconds.
    """
    admin = AdminClient(admin_config(bootstrap, security))
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
            asked = admin.create_topics([topic], operation_timeout=REQUEST_TIMEOUT_S)
            asked[plan.name].result(_patience(deadline))
            break
        except (KafkaException, TimeoutError) as error:
            cause = error.args[0] if error.args else error
            if isinstance(cause, KafkaError) and cause.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                break  # an earlier attempt whose answer was lost: topics of a run have names of their own
            if not _may_pass(cause):
                raise TopicNotMade(f"topic {plan.name} could not be created: {_words(cause)}") from error
            if time.monotonic() > deadline:
                raise ToolTrouble(f"topic {plan.name} could not be created: {_words(cause)}") from error
            time.sleep(POLL_S)
    _wait_for_leaders(admin, plan, deadline)


def create_new_topic(bootstrap: str, security: ClientSecurity, plan: TopicPlan, deadline_s: float) -> str:
    """Create a topic that must not be there yet; the id that brokers gave it, by which it is told from any other of its name.

    librdkafka does not tell the id, so this asks by itself. Raises TopicNotMade, and ToolTrouble when it may have been made: an
    answer was lost, and now there is a topic of that name.
    """
    values = {
        "topics": [_as_request(plan)],
        "timeout": int(REQUEST_TIMEOUT_S * 1000),
        "validate_only": False,
    }
    deadline = time.monotonic() + deadline_s
    answer_lost, seen = False, "no broker took a connection"
    while True:
        for host, port in endpoints(bootstrap):
            try:
                with BrokerConnection(host, port, 2 * REQUEST_TIMEOUT_S, security) as connection:
                    try:
                        (created,) = connection.request(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, values).topics
                    except (NoAnswer, ValueError) as error:
                        answer_lost, seen = True, f"{host}:{port}: {error}"
                        continue
            except NoAnswer as error:
                seen = f"{host}:{port}: {error}"
                continue
            code = ErrorCode(created.error_code)
            if code is ErrorCode.NONE:
                return str(created.topic_id)
            seen = f"{code.name}: {created.error_message or ''}".rstrip(": ")
            if code is ErrorCode.REQUEST_TIMED_OUT:
                answer_lost = True
            elif code is ErrorCode.TOPIC_ALREADY_EXISTS and answer_lost:
                raise ToolTrouble(
                    f"topic {plan.name} is there, and whether this run has made it is not known: an answer was lost"
                )
            elif code not in _TRANSIENT_CODES:
                raise TopicNotMade(f"topic {plan.name} could not be created: {seen}")
        if time.monotonic() > deadline:
            said = f"topic {plan.name} could not be created: {seen}"
            raise ToolTrouble(said) if answer_lost else TopicNotMade(said)
        time.sleep(POLL_S)


_TRANSIENT_CODES = frozenset(
    (
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.INVALID_REPLICATION_FACTOR,  # brokers that are still registering
        ErrorCode.BROKER_NOT_AVAILABLE,
    )
)


def _as_request(plan: TopicPlan) -> dict[str, object]:
    assigned = plan.assignment or ()
    return {
        "name": plan.name,
        "num_partitions": -1 if assigned else plan.partitions,
        "replication_factor": -1 if assigned else plan.replication_factor,
        "assignments": [{"partition_index": n, "broker_ids": tuple(row)} for n, row in enumerate(assigned)],
        "configs": [{"name": name, "value": value} for name, value in plan.config.items()],
    }


def wait_for_leaders(bootstrap: str, security: ClientSecurity, plan: TopicPlan, deadline_s: float) -> None:
    """Wait until every partition has a leader and a full ISR. Raises ToolTrouble when that takes too long."""
    _wait_for_leaders(AdminClient(admin_config(bootstrap, security)), plan, time.monotonic() + deadline_s)


def _patience(deadline: float) -> float:
    """Seconds for one request."""
    return min(REQUEST_TIMEOUT_S, max(LAST_TRY_S, deadline - time.monotonic()))


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
            topic = described_topic(admin, plan.name, _patience(deadline))
            partitions = [] if topic is None else list(topic.partitions.values())
            seen = ", ".join(f"{p.id}: leader {p.leader} ISR {sorted(p.isrs)}" for p in partitions) or "no partitions"
            led = all(p.leader >= 0 and len(p.isrs) == len(p.replicas) for p in partitions)
            if len(partitions) == len(plan.topic_partitions) and led:
                return
        except KafkaException as error:
            seen = _words(error.args[0] if error.args else error)
        if time.monotonic() > deadline:
            raise ToolTrouble(f"topic {plan.name} has no leaders and full ISR yet ({seen})")
        time.sleep(POLL_S)


def delete_topic(bootstrap: str, security: ClientSecurity, name: str) -> None:
    """Delete a topic. Raises ToolTrouble."""
    admin = AdminClient(admin_config(bootstrap, security))
    try:
        admin.delete_topics([name], operation_timeout=REQUEST_TIMEOUT_S)[name].result(REQUEST_TIMEOUT_S)
    except (KafkaException, TimeoutError) as error:
        raise ToolTrouble(f"topic {name} could not be deleted: {_words(error)}") from error


def _words(cause: object) -> str:
    if isinstance(cause, KafkaError):
        return f"{cause.name()}: {cause.str()}"
    return " ".join(str(cause).split()) or type(cause).__name__
