"""How far the replays of a dead-letter topic have come: the committed offsets of the group `<topic>.dlq.replay`.

A replay that sends is the one member of the group, which keeps every other away.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from minikafka.protocol.types import TopicPartition
from minikafka.reliability.confluent_dead_letters import replicas
from minikafka.reliability.confluent_reading import ANSWER_SECONDS_MAX, PartitionReader

JOIN_SECONDS_MAX = 60.0
SESSION_MS = 6000
"""The shortest that Kafka allows by default: so long a replay that was killed keeps others away."""

POLL_MS_MAX = 86_400_000
"""The longest that there is: reading what is there already may take long, and nothing is polled meanwhile."""


class ReplayRefused(Exception):
    """It cannot be, or cannot go on: one line says why."""


class LetterSpan(NamedTuple):
    """The dead letters of a partition: from `low` to `high`, and no replay has come to those from `start` on."""

    low: int
    start: int
    high: int


class ReplayGroup:
    """The group of one dead-letter topic. All methods raise KafkaException."""

    def __init__(self, connection: Mapping[str, Any], topic: str) -> None:
        self.topic = topic
        self._name = f"{topic}.replay"
        self._connection = dict(connection)
        self._assigned: list[ClientPartition] | None = None
        self._revoked = False
        self._consumer = Consumer(
            {
                **connection,
                "group.id": self._name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "max.poll.interval.ms": POLL_MS_MAX,
                "heartbeat.interval.ms": SESSION_MS // 3,
            }
        )

    def partitions(self, topic: str | None = None) -> list[TopicPartition]:
        """Return the partitions of its topic, or of another; none where it does not exist."""
        name = topic or self.topic
        return [TopicPartition(name, number) for number in range(len(replicas(self._consumer, name)))]

    def span(self, reader: PartitionReader, partition: TopicPartition) -> LetterSpan:
        """Find where the dead letters of a partition are, and how far replays have come."""
        low, high = reader.bounds(partition)
        (place,) = self._consumer.committed([ClientPartition(*partition)], timeout=ANSWER_SECONDS_MAX)
        # a place beyond the end is that of an older topic of this name
        return LetterSpan(low, place.offset if low <= place.offset <= high else low, high)

    def join(self) -> None:
        """Become the one member; raises ReplayRefused where there is another."""
        if self._has_members():
            self._raise_other()
        self._consumer.subscribe([self.topic], on_assign=self._on_assign, on_revoke=self._on_revoke)
        deadline = time.monotonic() + JOIN_SECONDS_MAX
        while self._assigned is None:
            if time.monotonic() > deadline:
                raise ReplayRefused(f"group {self._name} lets nobody in")
            self._consumer.poll(0.1)
        if len(self._assigned) < len(self.partitions()):
            self._raise_other()
        self._consumer.pause(self._assigned)

    def stay(self) -> None:
        """Look whether it is still the one member; raises ReplayRefused."""
        self._consumer.poll(0)
        if self._revoked:
            self._raise_other()

    def commit(self, partition: TopicPartition, offset: int) -> None:
        """Say that a replay has come so far."""
        for place in self._consumer.commit(offsets=[ClientPartition(*partition, offset)], asynchronous=False) or ():
            if place.error is not None:
                raise KafkaException(place.error)

    def close(self) -> None:
        """Leave it."""
        self._consumer.close()

    def _has_members(self) -> bool:
        """Asked first: joining would disturb who is in it."""
        admin = AdminClient(self._connection)
        described = admin.describe_consumer_groups([self._name], request_timeout=ANSWER_SECONDS_MAX)[self._name]
        try:
            return bool(described.result().members)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return False
            raise

    def _raise_other(self) -> None:
        raise ReplayRefused(
            f"another replay of {self.topic} runs, or was killed less than {SESSION_MS // 1000} seconds ago"
        )

    def _on_assign(self, _consumer: Any, places: list[ClientPartition]) -> None:
        self._assigned = places

    def _on_revoke(self, _consumer: Any, _places: list[ClientPartition]) -> None:
        self._revoked = True
