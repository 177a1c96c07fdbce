"""A cluster in this process whose clients need TLS and a password: who is let in, and what cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from minikafka.local.clients_listener import LISTENER, PROTOCOLS, listener_settings, own_security, with_listener
from minikafka.testing import MiniKafkaCluster, Outcome, VerbRefused

from tests.forms import in_full

SECONDS = 60.0
USERS = {"alice": 'a "quoted\\\\" secret', "bob": ";"}


@pytest.fixture(scope="module", params=["TLS and users", *in_full(["TLS", "users"])])
def cluster(request: pytest.FixtureRequest) -> Iterator[MiniKafkaCluster]:
    users = USERS if "users" in request.param else {}
    with MiniKafkaCluster(2, tls="TLS" in request.param, users=users, in_process=True) as made:
        yield made


@pytest.mark.slow
def test_verbs_and_clients_are_let_in(cluster: MiniKafkaCluster) -> None:
    topic = cluster.create_topic(replication_factor=2, config={"min.insync.replicas": 1})
    config = cluster.client_config()
    for user in (None, "bob") if "sasl.username" in config else (None,):
        producer = Producer({**cluster.client_config(user), "log_level": 0})
        producer.produce(topic, "a")
        assert producer.flush(SECONDS) == 0
    cluster.move_leader(topic)
    cluster.kill_leader(topic)
    cluster.heal()
    assert {record.value for record in cluster.records(topic)} == {b"a"}
    assert cluster.groups() == {}
    assert cluster.verdict().outcome is Outcome.PASSED
    cluster.delete_topics()


@pytest.mark.slow
def test_nobody_else_is_let_in(cluster: MiniKafkaCluster) -> None:
    config = cluster.client_config()
    strangers: list[dict[str, Any]] = [{"bootstrap.servers": cluster.bootstrap}]
    if cluster.ca_path is not None:
        strangers.append({name: value for name, value in config.items() if name != "ssl.ca.pem"})
        assert cluster.ca_path.read_text() == config["ssl.ca.pem"]
    if "sasl.username" in config:
        strangers.append({**config, "sasl.password": "guessed"})
    for stranger in strangers:
        with pytest.raises(KafkaException):
            AdminClient({**stranger, "log_level": 0}).list_topics(timeout=0.3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tls": 1}, "tls: 1 is not True or False"),
        ({"users": ["alice"]}, "users: list is not a dictionary of passwords by name"),
        ({"users": {"alice": " x"}}, "users: the password of alice begins with a space"),
        ({"users": {"a b": "x"}}, "users: 'a b' is not a name of letters, digits"),
        ({"users": {"minikafka-testing": "x"}}, "users: 'minikafka-testing' is not a name"),
        ({"users": {"alice": ""}}, "users: the password of alice is not text"),
        ({"users": {"alice": "${env:HOME}"}}, r"users: the password of alice has \$\{env:"),
        ({"users": {"alice": "x\ny"}}, "users: the password of alice is not text"),
        (
            {"users": {"alice": "x"}, "settings": {f"{LISTENER}plain.sasl.jaas.config": "x"}},
            f"config: {LISTENER}plain.sasl.jaas.config is what `tls` and `users` set",
        ),
    ],
)
def test_what_cannot_be(given: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(VerbRefused, match=words):
        MiniKafkaCluster(1, in_process=True, folder=tmp_path, **given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_user_that_is_not_there(cluster: MiniKafkaCluster) -> None:
    with pytest.raises(VerbRefused, match=r"user: 'carol' is not one of this cluster, which has (alice, bob|none)"):
        cluster.client_config("carol")


@pytest.mark.slow
def test_one_that_is_open_needs_an_address_only() -> None:
    with MiniKafkaCluster(1, in_process=True) as cluster:
        assert (cluster.client_config(), cluster.ca_path) == ({"bootstrap.servers": cluster.bootstrap}, None)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_brokers_are_asked_as_their_listener_is_now(protocol: str) -> None:
    """Certificate and passwords stay among the settings where `up --config` has changed the protocol since."""
    made = with_listener({}, listener_settings(tls=True, users={"alice": "secret"}))
    assert own_security(made | {PROTOCOLS: f"REPLICATION:PLAINTEXT,plaintext:{protocol}"}).protocol == protocol
