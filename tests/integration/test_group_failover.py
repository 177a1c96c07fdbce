"""A17: committed group offsets survive the death of their coordinator, never go back, and never pass the high watermark."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from minikafka.local.cluster import LocalCluster

KILLS = 3
RECORDS = 60
GROUP = "survivors"
SECONDS_MAX = 120.0


@pytest.mark.full
def test_committed_offsets_survive_their_coordinator(
    cluster: LocalCluster, call_cli: Callable[..., Any], until: Callable[..., Any]
) -> None:
    """A17."""
    bootstrap = cluster.bootstrap
    topic = "committed"
    assert call_cli("topic", "create", topic, "--partitions", 1, "--bootstrap", bootstrap).returncode == 0
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, str(number))
    assert producer.flush(SECONDS_MAX) == 0

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 45_000,  # a member that is put out could not commit
        }
    )
    where = TopicPartition(topic, 0)
    promised = 0
    try:
        consumer.subscribe([topic])
        for step in range(KILLS):
            upto = (step + 1) * RECORDS // KILLS
            while promised < upto:
                message = consumer.poll(90)
                assert message is not None, f"nothing to read after offset {promised}"
                assert message.error() is None, message.error()
                assert message.offset() == promised, "a record was read twice or left out"
                promised = _commit(consumer, topic, message.offset() + 1)
            dead = until(lambda: _coordinator(bootstrap), lambda broker: broker != -1, SECONDS_MAX)
            cluster.kill(dead)
            try:
                kept = until(lambda: _committed(consumer, where), lambda offset: offset is not None, SECONDS_MAX)
                # librdkafka asks the dead leader again before it asks who leads now.
                end = until(lambda: _end(consumer, where), lambda offset: offset is not None, SECONDS_MAX)
                assert promised <= kept <= end
                until(lambda: _coordinator(bootstrap), lambda broker, dead=dead: broker not in (-1, dead), SECONDS_MAX)
            finally:
                cluster.start(dead)
                cluster.wait_ready(SECONDS_MAX, [dead])
        assert promised == RECORDS
    finally:
        consumer.close()


def _commit(consumer: Consumer, topic: str, offset: int, seconds: float = SECONDS_MAX) -> int:
    """Commit until it is acknowledged; the offset."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
            return offset
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _committed(consumer: Consumer, where: TopicPartition) -> int | None:
    try:
        return int(consumer.committed([where], timeout=20)[0].offset)
    except KafkaException:
        return None


def _end(consumer: Consumer, where: TopicPartition) -> int | None:
    try:
        return int(consumer.get_watermark_offsets(where, timeout=20)[1])
    except KafkaException:
        return None


def _coordinator(bootstrap: str) -> int:
    """The group's coordinator, as a client that has just come finds it; -1 where there is none at the moment."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        described = admin.describe_consumer_groups([GROUP], request_timeout=20)[GROUP].result(60)
        return int(described.coordinator.id)
    except KafkaException:
        return -1
