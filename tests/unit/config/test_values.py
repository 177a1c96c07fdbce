"""One refused setting is one line that names the key, the value and what is allowed."""

import pytest
from minikafka.config import BROKER_KEYS, BrokerConfig, ConfigError

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
