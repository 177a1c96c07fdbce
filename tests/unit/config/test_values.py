"""One refused setting is one line that names the key, the value and what is allowed."""

from collections.abc import Callable

import pytest
from minikafka.config import BROKER_KEYS, BrokerConfig, ConfigError
from minikafka.config.alter import Alteration, AlterOperation, altered
from minikafka.config.broker import validate_dynamic
from minikafka.config.client_properties import client_security
from minikafka.config.properties import expand_environment

from tests.forms import for_each

GOOD = {"node.id": "1", "minikafka.metadata.store": "memory"}


def problems_of(settings: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties({**GOOD, **settings})
    return caught.value.problems


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("num.partitions", "0", "whole number from 1 to 2147483647"),
        ("num.partitions", "2147483648", "whole number from 1 to 2147483647"),
        ("num.partitions", "3.5", "whole number from 1"),
        ("num.partitions", "1_000", "whole number from 1"),
        ("num.partitions", "٣", "whole number from 1"),
        ("num.partitions", "", "whole number from 1"),
        ("node.id", "-1", "whole number from 0"),
        ("log.retention.bytes", "-2", "whole number from -1 to 9223372036854775807"),
        ("log.retention.bytes", "9223372036854775808", "whole number from -1"),
        ("offsets.topic.replication.factor", "40000", "whole number from 1 to 32767"),
        ("auto.create.topics.enable", "yes", "true, false"),
        ("log.message.timestamp.type", "createtime", "CreateTime, LogAppendTime"),
        ("compression.type", "lz4", "producer"),
        ("log.cleanup.policy", "delete,shred", "comma-separated list of delete, compact"),
        ("log.cleanup.policy", "delete,delete", "comma-separated list of delete, compact"),
        ("log.cleanup.policy", "", "comma-separated list of delete, compact"),
        ("minikafka.metadata.store", "zookeeper", "sqlite:PATH, kubernetes, memory"),
        ("minikafka.metadata.store", "sqlite:", "sqlite:PATH, kubernetes, memory"),
        ("minikafka.truncation.mode", "leader-epoch", "leader_epoch, high_watermark"),
        ("minikafka.unclean.shutdown.policy", "trust", "fence, trust_isr"),
        ("minikafka.metrics.port", "65536", "whole number from 0 to 65535"),
        ("minikafka.metrics.host", "local host", "text"),
        ("cluster.id", "a b", "1 to 64 of"),
        ("listeners", "PLAINTEXT:9092", "NAME://HOST:PORT"),
    ],
)
def test_a_bad_value_is_refused_in_one_line(key: str, value: str, allowed: str) -> None:
    (line,) = problems_of({key: value})
    assert line.startswith(f"{key}={value}:")
    assert f"allowed: {allowed}" in line or allowed in line.partition("allowed: ")[2]
    assert "\n" not in line


def test_an_unknown_key_gets_a_suggestion() -> None:
    (line,) = problems_of({"min.insync.replica": "2"})
    assert line == "min.insync.replica=2: unknown key; did you mean min.insync.replicas?"


def test_an_unknown_key_like_no_other_points_to_the_list() -> None:
    (line,) = problems_of({"zzz": "2"})
    assert line.startswith("zzz=2: unknown key; allowed: ")


@pytest.mark.parametrize(
    "key",
    ["num.io.threads", "sasl.kerberos.service.name", "ssl.provider", "process.roles", "zookeeper.connect",
     "controller.quorum.voters", "log.cleaner.threads", "listener.name.client.ssl.provider", "port",
     "group.consumer.session.timeout.ms", "metadata.max.idle.interval.ms"],
)  # fmt: skip
def test_a_key_of_kafka_that_is_not_honoured_is_refused_as_such(key: str) -> None:
    (line,) = problems_of({key: "1"})
    assert line == f"{key}=1: known to Kafka, not supported by MiniKafka; allowed: leave it out"


@pytest.mark.parametrize("key", ["ssl.keystore.password", "sasl.jaas.config", "delegation.token.secret.key"])
def test_a_secret_is_not_shown(key: str) -> None:
    (line,) = problems_of({key: "hunter2"})
    assert "hunter2" not in line


def test_all_problems_are_told_at_once() -> None:
    lines = problems_of({"num.partitions": "x", "foo": "1", "min.insync.replicas": "0"})
    assert len(lines) == 3


def test_required_keys() -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties({})
    assert [line.partition(":")[0] for line in caught.value.problems] == ["node.id", "minikafka.metadata.store"]


def test_values_are_trimmed_and_typed() -> None:
    config = BrokerConfig.from_properties({**GOOD, "num.partitions": " 3 ", "delete.topic.enable": "FALSE"})
    assert config.num_partitions == 3
    assert config.delete_topic_enable is False


def test_every_default_is_allowed_and_every_key_says_what_it_means() -> None:
    for key in BROKER_KEYS.values():
        assert key.default is None or key.parse(key.default_text or "") == key.default_value()
        assert key.doc.endswith("."), key.name
        assert key.allowed, key.name
        assert key.required <= (key.default is None)


def test_reading_an_attribute_costs_a_plain_lookup() -> None:
    config = BrokerConfig.from_properties(GOOD)
    assert all(key.attribute in vars(config) for key in BROKER_KEYS.values())


KEY = "-----BEGIN PRIVATE KEY----- SECRET -----END PRIVATE KEY-----"
LINE = "SECRETABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123"
"""Of a PEM text in a properties file, where it is taken for a key of its own."""


@for_each(
    [
        {"ssl.client.auth": KEY},
        {"sasl.mechanism.inter.broker.protocol": 'x.PlainLoginModule required password="SECRET";'},
        {"minikafka.metadata.store": 'username="a" password = "SECRET";'},
        {"sasl.oauthbearer.token.endpoint.url": "https://user:SECRET@host/token"},
        {"sasl.oauthbearer.token.endpoint.url": "user:SECRET@host/token"},
        {"sasl.oauthbearer.jwks.endpoint.url": "ftp://user:SEC/SECRET@host/keys"},
        {"sasl.oauthbearer.jwks.endpoint.uri": "user:SECRET@host"},
        {"listeners": "CLIENTS://user:SECRET@host:9092"},
        {"sasl.oauthbearer.token.endpoint.url": "https://host/token?key=SECRET"},
        {"ssl.client.auth": "clientSecret = SECRET"},
        {"listener.security.protocol.map": "x.LoginModule:PLAINTEXT,SECRET"},
        {"listener.name.a\nb.ssl.client.auth": "SECRET"},
        {"user_alice": "SECRET"},
        {"ssl.keystore.pasword": "SECRET"},
        {LINE: ""},
        {f"{LINE}+/": ""},
        {"ssl.key.password": "SECRET\udcff"},
        {"node.id": "1\n2\x1b[31m"},
        {"node.id": "1" * 100_000},
        {"listeners": "x" * 100_000},
        {"x" * 100_000: "1"},
    ]
)
def test_a_refusal_is_one_short_line_without_secrets(settings: dict[str, str]) -> None:
    """It stands on terminals and in logs, and in the status of custom resources."""
    for read in (lambda: BrokerConfig.from_properties({**GOOD, **settings}), lambda: client_security(settings)):
        with pytest.raises(ConfigError) as refused:
            read()
        for line in refused.value.problems:
            assert "SECRET" not in line and line.isprintable() and len(line) < 5000
            assert "; allowed" in line or ": allowed" in line or "did you mean" in line


@for_each(
    [
        lambda: validate_dynamic({"ssl.key.password": "SECRET"}, per_broker=True),
        lambda: validate_dynamic({"sasl.oauthbearer.jwks.endpoint.url": "https://u:SECRET@host/"}, per_broker=True),
        lambda: altered({}, [Alteration("sasl.jaas.config", AlterOperation.APPEND, "SECRET")], BROKER_KEYS, {}),
        lambda: expand_environment({"sasl.jaas.config": 'user_bob="SECRET" user_alice="${env:ALICE}"'}, {}),
        lambda: expand_environment({"sasl.jaas.config": 'user_alice="${env:ALICE" user_bob="SECRET}"'}, {}),
    ]
)
def test_no_other_refusal_tells_a_secret(refused: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match="allowed: ") as caught:
        refused()
    assert "SECRET" not in str(caught.value)
