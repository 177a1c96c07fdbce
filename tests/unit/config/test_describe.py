"""Entries of DescribeConfigs as Kafka gives them (KIP-226, KIP-569)."""

from pathlib import Path

import pytest
from minikafka.config import BROKER_KEYS, TOPIC_KEYS, BrokerConfig, ConfigEntry, ConfigSource, ConfigSynonym, ConfigType

STATIC = {"node.id": "1", "minikafka.metadata.store": "memory", "log.retention.hours": "2", "message.max.bytes": "2000"}
DEFAULT, FILE, CLUSTER, OWN, TOPIC = (
    ConfigSource.DEFAULT_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.TOPIC_CONFIG,
)


@pytest.fixture
def config() -> BrokerConfig:
    config = BrokerConfig.from_properties(STATIC)
    config.apply_dynamic({"message.max.bytes": "3000", "num.replica.fetchers": "2"}, {"message.max.bytes": "4000"})
    return config


def only(entries: list[ConfigEntry]) -> ConfigEntry:
    (entry,) = entries
    return entry


def test_the_numbers_on_the_wire() -> None:
    assert [source.value for source in (TOPIC, OWN, CLUSTER, FILE, DEFAULT)] == [1, 2, 3, 4, 5]
    assert [t.name for t in sorted(ConfigType)] == [
        "UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD",
    ]  # fmt: skip


def test_all_keys_are_described(config: BrokerConfig) -> None:
    assert [entry.name for entry in config.describe()] == list(BROKER_KEYS)
    assert [entry.name for entry in config.describe_topic({})] == list(TOPIC_KEYS)
    assert all(entry.documentation for entry in config.describe())


def test_unknown_names_are_left_out(config: BrokerConfig) -> None:
    assert config.describe(["foo"]) == []
    assert config.describe_topic({}, ["foo"]) == []


def test_synonyms_in_order_of_precedence(config: BrokerConfig) -> None:
    entry = only(config.describe(["message.max.bytes"]))
    assert (entry.value, entry.source, entry.read_only, entry.config_type) == ("4000", OWN, False, ConfigType.INT)
    assert entry.synonyms == (
        ConfigSynonym("message.max.bytes", "4000", OWN),
        ConfigSynonym("message.max.bytes", "3000", CLUSTER),
        ConfigSynonym("message.max.bytes", "2000", FILE),
        ConfigSynonym("message.max.bytes", "1048588", DEFAULT),
    )


def test_a_default(config: BrokerConfig) -> None:
    entry = only(config.describe(["num.partitions"]))
    assert (entry.value, entry.source, entry.read_only, entry.is_default) == ("1", DEFAULT, True, True)


def test_a_key_whose_stand_in_is_set_is_null_as_in_kafka(config: BrokerConfig) -> None:
    entry = only(config.describe(["log.retention.ms"]))
    assert (entry.value, entry.source, entry.synonyms) == (None, DEFAULT, ())


def test_stand_ins_follow_the_key_itself(config: BrokerConfig) -> None:
    config.apply_dynamic({"log.retention.ms": "5"}, {})
    entry = only(config.describe(["log.retention.ms"]))
    assert [(s.name, s.value) for s in entry.synonyms] == [
        ("log.retention.ms", "5"),
        ("log.retention.hours", "2"),
        ("log.retention.hours", "168"),
    ]


def test_the_cluster_wide_default_resource_has_only_what_was_set_there(config: BrokerConfig) -> None:
    entries = config.describe(cluster_default=True)
    assert {(e.name, e.value, e.source) for e in entries} == {
        ("message.max.bytes", "3000", CLUSTER),
        ("num.replica.fetchers", "2", CLUSTER),
    }


def test_a_topic_override_comes_first(config: BrokerConfig) -> None:
    entry = only(config.describe_topic({"max.message.bytes": "9000"}, ["max.message.bytes"]))
    assert (entry.value, entry.source, entry.read_only) == ("9000", TOPIC, False)
    assert [(s.name, s.value, s.source) for s in entry.synonyms[:3]] == [
        ("max.message.bytes", "9000", TOPIC),
        ("message.max.bytes", "4000", OWN),
        ("message.max.bytes", "3000", CLUSTER),
    ]


def test_a_topic_shows_the_value_in_force(config: BrokerConfig) -> None:
    entry = only(config.describe_topic({}, ["retention.ms"]))
    assert (entry.value, entry.source) == (str(2 * 3_600_000), DEFAULT)


def kafkas_answers() -> list[tuple[str, ...]]:
    lines = (Path(__file__).parent / "kafka-4.3-describe.tsv").read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines if not line.startswith("#")]


def test_the_answers_are_kafkas() -> None:
    """Settings and answers of Kafka 4.3.1's own ``ConfigHelper``, for a broker, all brokers' defaults, and a topic."""
    config = BrokerConfig.from_properties(
        {
            "node.id": "1",
            "minikafka.metadata.store": "memory",
            "listener.security.protocol.map": "C:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "log.dirs": "/data/a",
            "log.retention.hours": "2",
            "message.max.bytes": "2000",
            "log.cleanup.policy": "compact, delete",
            "log.roll.ms": "77777777",
        }
    )
    config.apply_dynamic({"message.max.bytes": "3000", "min.insync.replicas": "2"}, {"message.max.bytes": "4000"})
    resources = {
        "broker": config.describe(),
        "brokers": config.describe(cluster_default=True),
        "topic": config.describe_topic({"max.message.bytes": "9000", "retention.ms": "5"}),
    }
    ours = {
        (resource, entry.name): (
            "null" if entry.value is None else entry.value,
            str(entry.read_only).lower(),
            str(int(entry.source)),
            str(entry.is_sensitive).lower(),
            "".join(f"{s.name}={s.value}@{int(s.source)};" for s in entry.synonyms),
            str(int(entry.config_type)),
        )
        for resource, entries in resources.items()
        for entry in entries
    }
    compared = 0
    for resource, name, *answer in kafkas_answers():
        if name in ("listeners", "listener.security.protocol.map"):
            answer[1] = "true"  # Kafka can change these while it runs, MiniKafka cannot
        assert ours[resource, name] == tuple(answer), name
        compared += 1
    assert compared > 100


def test_a_lists_text_and_type(config: BrokerConfig) -> None:
    entry = only(config.describe_topic({"cleanup.policy": "compact,delete"}, ["cleanup.policy"]))
    assert (entry.value, entry.config_type) == ("compact,delete", ConfigType.LIST)
    assert only(config.describe(["delete.topic.enable"])).value == "true"
