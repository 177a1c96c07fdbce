"""How the loads have librdkafka: what the pauses of a run say about its brokers depends on it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError
from minikafka.client.security import PLAINTEXT, ClientSecurity
from minikafka.security.sasl_client import Login
from minikafka_chaos.load.librdkafka import admin_config, member_config, outcome_of, producer_config, reader_config
from minikafka_chaos.load.load import ProducerSettings
from minikafka_chaos.record.history import FAIL, INFO

CONFIGS = {
    "producer": producer_config("b:9092", PLAINTEXT, ProducerSettings()),
    "reader": reader_config("b:9092", PLAINTEXT),
    "member": member_config("b:9092", PLAINTEXT, "g", 6000),
    "admin": admin_config("b:9092", PLAINTEXT),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_broker_that_has_just_come_back_is_tried_again_at_once(config: dict[str, Any]) -> None:
    """By default librdkafka waits up to 10 s, and the pause would be told as the brokers'."""
    assert config["reconnect.backoff.ms"] <= config["reconnect.backoff.max.ms"] == 200


def test_each_of_them_logs_in() -> None:
    login = ClientSecurity(login=Login("SCRAM-SHA-512", "alice", "p"))
    configs = (
        producer_config("b:9092", login, ProducerSettings()),
        reader_config("b:9092", login),
        member_config("b:9092", login, "g", 6000),
        admin_config("b:9092", login),
    )
    assert {(config["security.protocol"], config["sasl.password"]) for config in configs} == {("SASL_PLAINTEXT", "p")}


def test_a_report_says_that_a_record_was_never_sent_only_where_that_is_sure() -> None:
    """A record of an earlier attempt may be in the log; read back, it would be a failed one that is there."""
    found = {
        name: outcome_of(KafkaError(getattr(KafkaError, name)), ProducerSettings())[0]
        for name in ("_INVALID_ARG", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "_MSG_TIMED_OUT", "MSG_SIZE_TOO_LARGE")
    }
    assert found == {
        "_INVALID_ARG": FAIL,
        "_UNKNOWN_PARTITION": INFO,
        "_UNKNOWN_TOPIC": INFO,
        "_MSG_TIMED_OUT": INFO,
        "MSG_SIZE_TOO_LARGE": FAIL,
    }
