"""A record as a handler gets it, whichever client library has read it."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.protocol.types import TopicPartition

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """One record of a partition; `timestamp_ms` is -1 where it has none."""

    partition: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def topic(self) -> str:
        """The topic it was read from."""
        return self.partition.topic

    @property
    def place(self) -> str:
        """Where it is, as people write it."""
        return f"{self.partition} offset {self.offset}"


class PoisonRecord(Exception):
    """Raised by a handler: no retry will help, the record is a dead letter at once."""
