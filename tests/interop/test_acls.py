"""ACLs with clients that nobody here wrote: an admin makes them, and others may do what they say (31 item 2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError
from minikafka.client.security import ClientSecurity
from minikafka.security.sasl_client import Login
from minikafka_chaos.controller.admission import scenario_of
from minikafka_chaos.controller.credentials import acls_of_experiment
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load.clients import GroupSettings, TopicPlan
from minikafka_chaos.load.kafka_clients import KafkaClients
from minikafka_chaos.load.load import LoadSettings, ProducerSettings, Tally
from minikafka_chaos.load.topics import create_new_topic
from minikafka_chaos.record.history import FILE_NAME, OK, HistoryWriter
from minikafka_chaos.verdict.verdict import Outcome, judge
from minikafka_operator.api.user import AclRule

from tests.interop.kafka_jars import run_tool
from tests.interop.secured import ADMIN, PASSWORD, PLAIN, Secured, SecuredThread
from tests.waiting import until_now

SECONDS_MAX = 60.0
USERS = {ADMIN: PASSWORD, "alice": "hers", "bob": "his"}
LISTENER = "PLAINSASL"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN}",
    "offsets.topic.replication.factor": "3",
    f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": f"{PLAIN} required "
    + " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    + ";",
}


@pytest.fixture(scope="module")
def thread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredThread]:
    made = SecuredThread(tmp_path_factory.mktemp("acls"), 3, SETTINGS)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def secured(thread: SecuredThread) -> Secured:
    """Three brokers, of which the inter-broker user is no super user."""
    return thread.start()


def as_user(secured: Secured, user: str, **more: Any) -> dict[str, Any]:
    """Of librdkafka."""
    return {
        "bootstrap.servers": secured.at(LISTENER),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
        "log_level": 0,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def binding(
    operation: AclOperation,
    name: str,
    user: str = "alice",
    kind: ResourceType = ResourceType.TOPIC,
    how: ResourcePatternType = ResourcePatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(kind, name, how, f"User:{user}", "*", operation, permission)


def make(admin: AdminClient, *acls: AclBinding) -> None:
    for done in admin.create_acls(list(acls)).values():
        done.result(SECONDS_MAX)


def produced(secured: Secured, topic: str, user: str = "alice") -> str:
    """The name of the error of a record, empty when it was acknowledged."""
    errors: list[Any] = []
    producer = Producer(as_user(secured, user, acks="all", message_timeout_ms="60000"))
    producer.produce(topic, b"value", on_delivery=lambda error, _message: errors.append(error))
    assert producer.flush(SECONDS_MAX) == 0
    return "" if errors[0] is None else errors[0].name()


def consumed(secured: Secured, topic: str, group: str, user: str = "alice") -> str:
    """The name of the first error, empty when a record came."""
    consumer = Consumer(as_user(secured, user, group_id=group, auto_offset_reset="earliest"))
    with closing(consumer):
        consumer.subscribe([topic])
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        error = message.error()
        return "" if error is None else error.name()


def test_what_users_may_do(thread: SecuredThread, secured: Secured, topic: str, group: str) -> None:
    admin = AdminClient(as_user(secured, ADMIN))
    for done in admin.create_topics([NewTopic(topic, 1, 3), NewTopic(f"other-{topic}", 1, 3)]).values():
        done.result(SECONDS_MAX)
    assert produced(secured, topic) == "TOPIC_AUTHORIZATION_FAILED"

    make(admin, binding(AclOperation.WRITE, topic[:10], how=ResourcePatternType.PREFIXED))
    assert produced(secured, topic) == ""
    assert produced(secured, f"other-{topic}") == "TOPIC_AUTHORIZATION_FAILED", "the prefix is another"
    assert produced(secured, topic, "bob") == "TOPIC_AUTHORIZATION_FAILED", "who is somebody else"
    with closing(KafkaProducer(
        bootstrap_servers=secured.at(LISTENER), security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN",
        sasl_plain_username="bob", sasl_plain_password=USERS["bob"],
    )) as python, pytest.raises(TopicAuthorizationFailedError):  # fmt: skip
        python.send(topic, b"value").get(SECONDS_MAX)

    assert consumed(secured, topic, group) == "GROUP_AUTHORIZATION_FAILED"
    make(admin, binding(AclOperation.READ, group, kind=ResourceType.GROUP))
    assert consumed(secured, topic, group) == "TOPIC_AUTHORIZATION_FAILED"
    make(admin, binding(AclOperation.READ, topic))
    assert consumed(secured, topic, group) == ""

    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        make(AdminClient(as_user(secured, "alice")), binding(AclOperation.ALL, "*"))

    partition = admin.list_topics(topic, SECONDS_MAX).topics[topic].partitions[0]
    thread.kill(partition.leader)
    assert produced(secured, topic) == "", "whoever leads now knows the ACLs"
    assert produced(secured, topic, "bob") == "TOPIC_AUTHORIZATION_FAILED"
    admin = AdminClient(as_user(secured, ADMIN))
    make(admin, binding(AclOperation.WRITE, topic, permission=AclPermissionType.DENY))
    until_now(lambda: all(len(b.metadata.image.acls) == 4 for b in secured.cluster.brokers.values()))
    assert produced(secured, topic) == "TOPIC_AUTHORIZATION_FAILED"

    denied = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.DENY
    )
    (done,) = admin.delete_acls([denied]).values()
    assert [(acl.name, acl.principal) for acl in done.result(SECONDS_MAX)] == [(topic, "User:alice")]
    told = [
        event["fields"]["principal"]
        for path in secured.folder.glob("events-*.jsonl")
        for line in path.read_text().splitlines()
        if (event := json.loads(line))["event"] == "authorization_denied"
    ]
    assert set(told) == {"User:alice", "User:bob"}


@pytest.mark.usefixtures("kafka_tools")
def test_kafkas_own_tool(secured: Secured, topic: str) -> None:
    """kafka-acls, with its shorthand for producers, in one run of Java."""
    jaas = f'{PLAIN} required username="{ADMIN}" password="{PASSWORD}";'
    config = secured.properties(
        "admin", security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=jaas
    )
    where = ("--bootstrap-server", secured.at(LISTENER), "--command-config", config)
    wish = ("--add", "--allow-principal", "User:bob", "--producer", "--topic", topic)
    printed = run_tool("org.apache.kafka.tools.AclCommand", *where, *wish)
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        assert f"(principal=User:bob, host=*, operation={operation}, permissionType=ALLOW)" in printed
    assert produced(secured, topic, "bob") == "", "which has made it"


def test_what_the_user_of_an_experiment_may_do_is_enough(secured: Secured, topic: str, tmp_path: Path) -> None:
    """For the load, the readers and a consumer group of an experiment, and not for anything else (31 item 3)."""
    group = {"workload": {"topic": topic, "groupMembers": 1}, "topics": [{"name": topic}], "steps": []}
    document = {
        "apiVersion": "minikafka.dev/v1alpha1",
        "kind": "ChaosExperiment",
        "metadata": {"name": "x"},
        "spec": group,
    }
    rules = [AclRule.model_validate(rule) for rule in acls_of_experiment(scenario_of(document), "readers-x")]
    make(AdminClient(as_user(secured, ADMIN)), *(
        binding(AclOperation[operation.name], rule.resource.name or "", "bob", ResourceType[rule.resource.type.name],
                ResourcePatternType.LITERAL if rule.resource.pattern_type == "literal" else ResourcePatternType.PREFIXED)
        for rule in rules for operation in rule.operations
    ))  # fmt: skip
    login = ClientSecurity(login=Login("PLAIN", "bob", USERS["bob"]))
    clients = KafkaClients(lambda: secured.at(LISTENER), lambda: secured.at(LISTENER), lambda: login)
    plan = TopicPlan(topic, 2, 2)  # one of the three is dead by now, or will be
    clients.create_topic(plan, SECONDS_MAX)
    assert clients.view().partitions(topic), "who leads is told"
    tally = Tally()
    with HistoryWriter(tmp_path / FILE_NAME) as history:
        load = clients.load(LoadSettings(topic, 2, 1, 500, client=ProducerSettings(idempotence=True)), history, tally)
        tail = clients.tail(plan.topic_partitions, history)
        members = clients.group(GroupSettings("readers-x", topic, 1, reset="earliest"), plan.topic_partitions, history)
        try:
            tail.start()
            load.start()
            members.start()
            until_now(lambda: tally.total(OK) > 50 and members.state() == "Stable", seconds=SECONDS_MAX)
        finally:
            load.stop(SECONDS_MAX)
            tail.stop()
        until_now(lambda: members.lag() == 0, seconds=SECONDS_MAX)
        members.stop()
        assert (load.failure, tail.failure, members.failure) == (None, None, None)
        assert clients.read_back(plan.topic_partitions, history, SECONDS_MAX).complete
    assert judge(tmp_path / FILE_NAME).outcome is Outcome.PASSED
    assert len(clients.committed_records(plan.topic_partitions, SECONDS_MAX)) == tally.total(OK)
    with pytest.raises(ToolTrouble, match="TOPIC_AUTHORIZATION_FAILED"):
        create_new_topic(secured.at(LISTENER), login, TopicPlan(f"{topic}-2", 1, 2), SECONDS_MAX)
