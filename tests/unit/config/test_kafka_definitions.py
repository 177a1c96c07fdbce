"""Our keys against Apache Kafka 4.3.1's own definitions: type, default, and what may change at run time.

The table was written by Kafka itself: ``KafkaConfig.configDef()``, ``LogConfig.configDefCopy()`` and
``DynamicBrokerConfig.dynamicConfigUpdateModes()``, reduced to the keys that MiniKafka honours.
"""

from pathlib import Path

import pytest
from minikafka.config import BROKER_KEYS, TOPIC_KEYS
from minikafka.config.kafka_names import is_kafka_broker_key, is_kafka_topic_key
from minikafka.config.keys import Update, declared
from minikafka.config.security_keys import Security

from tests.forms import for_each

SECURITY = declared(Security)
"""None of these can be changed while a broker runs. The files that they name can."""

ROWS = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parent / "kafka-4.3-definitions.tsv").read_text().splitlines()
    if not line.startswith("#")
]
MODES = {Update.READ_ONLY: "read-only", Update.PER_BROKER: "per-broker", Update.CLUSTER_WIDE: "cluster-wide"}
NOT_AT_RUN_TIME = {"listeners", "listener.security.protocol.map"}
"""Kafka can change these while it runs; MiniKafka says that it cannot."""


@for_each(tuple(row[1:]) for row in ROWS if row[0] == "broker")
def test_a_broker_key_is_kafkas(name: str, type_name: str, default: str, update: str) -> None:
    key = BROKER_KEYS[name]
    assert key.type.name == type_name
    assert (key.default_text or "-") == default
    assert MODES[key.update] == ("read-only" if name in NOT_AT_RUN_TIME or name in SECURITY else update)


@pytest.mark.parametrize("row", [row for row in ROWS if row[0] == "topic"], ids=lambda row: row[1])
def test_a_topic_key_is_kafkas(row: tuple[str, ...]) -> None:
    assert TOPIC_KEYS[row[1]].type.name == row[2]


def test_every_other_key_is_said_to_be_our_own() -> None:
    kafkas = {row[1] for row in ROWS if row[0] == "broker"}
    ours = [key for key in BROKER_KEYS.values() if key.name not in kafkas]
    assert all(key.name.startswith("minikafka.") or key.note for key in ours)
    assert set(TOPIC_KEYS) == {row[1] for row in ROWS if row[0] == "topic"}


def test_no_key_is_both_honoured_and_refused() -> None:
    assert not [name for name in BROKER_KEYS if is_kafka_broker_key(name)]
    assert not [name for name in TOPIC_KEYS if is_kafka_topic_key(name)]
