"""How the loads have librdkafka: what the pauses of a run say about its brokers depends on it."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_chaos.load.librdkafka import admin_config, member_config, producer_config, reader_config
from minikafka_chaos.load.load import ProducerSettings

CONFIGS = {
    "producer": producer_config("b:9092", ProducerSettings()),
    "reader": reader_config("b:9092"),
    "member": member_config("b:9092", "g", 6000),
    "admin": admin_config("b:9092"),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_broker_that_has_just_come_back_is_tried_again_at_once(config: dict[str, Any]) -> None:
    """By default librdkafka waits up to 10 s, and the pause would be told as the brokers'."""
    assert config["reconnect.backoff.ms"] <= config["reconnect.backoff.max.ms"] == 200
