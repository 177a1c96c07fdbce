"""What a dead letter is: the record as it was, and headers after its own that say where it came from and why it is here.

The topic `orders.dlq` has the dead letters of `orders`, of all its groups. Those of one partition are in one partition, in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from minikafka.protocol.records import OFFSET_MAX
from minikafka.protocol.types import TopicPartition
from minikafka.reliability.record import ConsumedRecord, Headers

SUFFIX = ".dlq"
TOPIC = "dlq.topic"
PARTITION = "dlq.partition"
OFFSET = "dlq.offset"
TIMESTAMP = "dlq.timestamp"
GROUP = "dlq.group"
ERROR = "dlq.error"
ATTEMPTS = "dlq.attempts"
NAMES = (TOPIC, PARTITION, OFFSET, TIMESTAMP, GROUP, ERROR, ATTEMPTS)
"""Of the last headers of a dead letter, in this order; values are text."""
PARTITION_MAX = 2**31 - 1
REPLAYED = "dlq.replayed"
"""The last header of a record that was replayed: topic, partition and offset of its dead letter, the offset that the record had
and the timestamp of the dead letter, with slashes between."""


def identity(record: ConsumedRecord) -> tuple[TopicPartition, int, int, int]:
    """Tell a record from every other, also from one that has its offset since its topic was made anew or its log was cut."""
    return record.partition, record.offset, record.timestamp_ms, hash((record.key, record.value))


class NotADeadLetter(ValueError):
    """A record of a dead-letter topic that somebody else has written."""


def dead_letter_topic(topic: str) -> str:
    """Name the topic that has the dead letters of another."""
    return topic + SUFFIX


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be processed, and why."""

    record: ConsumedRecord
    """As it was where it came from."""
    group: str
    error: str
    attempts: int

    def headers(self) -> list[tuple[str, bytes | None]]:
        """The record's own, then those that make it a dead letter."""
        record = self.record
        values = (
            record.partition.topic,
            record.partition.partition,
            record.offset,
            record.timestamp_ms,
            self.group,
            self.error,
            self.attempts,
        )
        return [*record.headers, *zip(NAMES, (str(value).encode() for value in values), strict=True)]

    @classmethod
    def parse(cls, letter: ConsumedRecord) -> DeadLetter:
        """Read a record of a dead-letter topic; raises `NotADeadLetter`."""
        headers, added = letter.headers[: -len(NAMES)], letter.headers[-len(NAMES) :]
        if tuple(name for name, _ in added) != NAMES:
            raise NotADeadLetter(f"its last headers are not {', '.join(NAMES)}")
        try:
            topic, partition, offset, timestamp, group, error, attempts = (
                (value or b"").decode() for _, value in added
            )
            origin = TopicPartition(topic, int(partition))
            if dead_letter_topic(topic) != letter.topic:
                raise ValueError(f"the dead letters of {topic!r} are in {dead_letter_topic(topic)!r}")
            if not (0 <= int(partition) <= PARTITION_MAX and 0 <= int(offset) <= OFFSET_MAX):
                raise ValueError("no partition or offset has such a number")
            record = ConsumedRecord(origin, int(offset), int(timestamp), letter.key, letter.value, headers)
            return cls(record, group, error, int(attempts))
        except ValueError as reason:
            raise NotADeadLetter(f"its headers do not say where it came from: {reason}") from reason


def home(partition: TopicPartition, partitions: int) -> TopicPartition:
    """Find where the dead letters of a partition go, in a dead-letter topic of so many partitions."""
    return TopicPartition(dead_letter_topic(partition.topic), partition.partition % partitions)


class KnownLetters:
    """The dead letters of one group, as far as their topics were read: who died between writing and commit has left one."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._read: dict[TopicPartition, int] = {}
        self._identities: set[tuple[TopicPartition, int, int, int]] = set()

    def read_from(self, place: TopicPartition, low: int) -> int:
        """Find the offset of what is new in a partition of dead letters that begins at `low`."""
        return max(low, self._read.get(place, 0))

    def take(self, record: ConsumedRecord) -> None:
        """Take note of a record of a dead-letter topic."""
        try:
            letter = DeadLetter.parse(record)
        except NotADeadLetter:
            return
        if letter.group == self._group:
            self._identities.add(identity(letter.record))

    def has_read(self, place: TopicPartition, high: int) -> None:
        """Take note that a partition was read up to `high`."""
        self._read[place] = high

    def __contains__(self, record: ConsumedRecord) -> bool:
        return identity(record) in self._identities


class Replayed(NamedTuple):
    """Which dead letter a record in its old topic is."""

    partition: TopicPartition
    offset: int
    origin: int
    """The offset that the record had; this and the next tell it from what the topic had there before it was made anew."""
    written_ms: int
    """The timestamp of the dead letter."""


def replayed_headers(letter: ConsumedRecord, record: ConsumedRecord) -> Headers:
    """Make the headers of a replayed record: its own, and which dead letter it is. An earlier replay's is left out."""
    headers = record.headers
    if headers and headers[-1][0] == REPLAYED:
        headers = headers[:-1]
    identity = (letter.topic, letter.partition.partition, letter.offset, record.offset, letter.timestamp_ms)
    return *headers, (REPLAYED, "/".join(map(str, identity)).encode())


def replayed(record: ConsumedRecord) -> Replayed | None:
    """Tell which dead letter a record is, if it was replayed."""
    name, value = record.headers[-1] if record.headers else ("", None)
    if name != REPLAYED or value is None:
        return None
    try:
        topic, partition, offset, origin, written_ms = value.decode().rsplit("/", 4)
        return Replayed(TopicPartition(topic, int(partition)), int(offset), int(origin), int(written_ms))
    except ValueError:
        return None
