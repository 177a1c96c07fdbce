"""Read a part of a partition by confluent-kafka, without a group."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from minikafka.client.watermarks import watermark_offsets
from minikafka.protocol.types import TopicPartition
from minikafka.reliability.record import ConsumedRecord

ANSWER_SECONDS_MAX = 30.0
"""How long nothing may come."""
POLL_SECONDS = 0.5


def as_record(message: Any) -> ConsumedRecord:
    """Make a record of a message of confluent-kafka."""
    _, timestamp_ms = message.timestamp()
    return ConsumedRecord(
        TopicPartition(message.topic(), message.partition()),
        message.offset(),
        timestamp_ms,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


class PartitionReader:
    """Reads partitions from any offset, one after the other."""

    def __init__(self, connection: Mapping[str, Any]) -> None:
        self._consumer = Consumer(
            {
                **connection,
                "group.id": "minikafka-partition-reader",  # librdkafka wants a name; it joins no group, and commits nothing
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # dead letters and replays are in no transaction, and one that somebody has open must not hide them
                "isolation.level": "read_uncommitted",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
            }
        )

    def topics(self) -> dict[str, int]:
        """Return all topics, and how many partitions each has; raises KafkaException."""
        described = self._consumer.list_topics(timeout=ANSWER_SECONDS_MAX).topics
        return {name: len(topic.partitions) for name, topic in described.items()}

    def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """Ask for the first offset, and the one after the last; raises KafkaException."""
        return watermark_offsets(self._consumer, *partition, ANSWER_SECONDS_MAX)

    def first_since(self, partition: TopicPartition, time_ms: int) -> int | None:
        """Ask for the first offset of a record that is as old as this, or younger; None where there is none."""
        place = ClientPartition(*partition, max(time_ms, 0))
        [found] = self._consumer.offsets_for_times([place], timeout=ANSWER_SECONDS_MAX)
        if found.error is not None:
            raise KafkaException(found.error)
        return found.offset if found.offset >= 0 else None

    def records(self, partition: TopicPartition, start: int, end: int) -> Iterator[ConsumedRecord]:
        """Read all records of these offsets, `end` not among them, that are still there; raises KafkaException."""
        if start >= end:
            return
        self._consumer.assign([ClientPartition(*partition, start)])
        try:
            deadline = time.monotonic() + ANSWER_SECONDS_MAX
            while start < end:
                message: Any = self._consumer.poll(POLL_SECONDS)
                error = None if message is None else message.error()
                if message is not None and error is None:
                    deadline = time.monotonic() + ANSWER_SECONDS_MAX
                    start = message.offset() + 1
                    if message.offset() < end:
                        yield as_record(message)
                elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                    start = max(start, message.offset())
                elif error is not None and not error.retriable():
                    raise KafkaException(error)
                elif time.monotonic() > deadline:
                    words = f"{partition.topic}-{partition.partition}: nothing came for {ANSWER_SECONDS_MAX:g} s"
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, words))
        finally:
            self._consumer.unassign()

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
