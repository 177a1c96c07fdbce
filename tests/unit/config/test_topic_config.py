"""Topic settings: overrides over the broker's values, and what a log gets of them."""

import pytest
from minikafka.config import TOPIC_KEYS, BrokerConfig, ConfigError

CONFIG = BrokerConfig.from_properties(
    {"node.id": "1", "minikafka.metadata.store": "memory", "log.segment.bytes": "2048", "min.insync.replicas": "2"}
)


def test_a_topic_takes_the_brokers_values() -> None:
    topic = CONFIG.topic({})
    assert (topic.segment_bytes, topic.min_insync_replicas, topic.retention_ms) == (2048, 2, 604_800_000)
    assert topic.unclean_leader_election_enable is False


def test_overrides_win() -> None:
    topic = CONFIG.topic({"segment.bytes": "4096", "cleanup.policy": "compact,delete", "flush.messages": "1"})
    log = topic.log_config()
    assert (log.segment_bytes, log.cleanup_policy, log.flush_interval_messages) == (4096, "compact,delete", 1)
    assert log.producer_id_expiration_ms == CONFIG.producer_id_expiration_ms


def test_equal_overrides_give_the_same_object() -> None:
    one = CONFIG.topic({"retention.ms": "5", "segment.bytes": "4096"})
    assert one is CONFIG.topic({"segment.bytes": "4096", "retention.ms": "5"})


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("retention.ms", "-2", "retention.ms=-2: too small; allowed: whole number from -1 to 9223372036854775807"),
        ("retentions.ms", "5", "retentions.ms=5: unknown key; did you mean retention.ms?"),
        ("min.compaction.lag.ms", "5",
         "min.compaction.lag.ms=5: known to Kafka, not supported by MiniKafka; allowed: leave it out"),
        ("compression.type", "zstd", "compression.type=zstd: allowed: producer"),
        ("log.retention.ms", "5", "log.retention.ms=5: unknown key; did you mean retention.ms?"),
    ],
)  # fmt: skip
def test_a_refused_override(name: str, value: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        CONFIG.validate_topic_overrides({name: value})
    assert caught.value.problems == (line,)


def test_all_refused_overrides_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        CONFIG.topic({"retention.ms": "x", "segment.bytes": "y", "min.insync.replicas": "2"})
    assert len(caught.value.problems) == 2


def test_every_topic_key_has_its_broker_twin() -> None:
    for key in TOPIC_KEYS.values():
        assert getattr(CONFIG.topic({}), key.attribute) == getattr(CONFIG, key.twin.attribute)
