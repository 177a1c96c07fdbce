"""What is known of a cluster, piece by piece: who has seen what, and when. Times are unix seconds. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minikafka.protocol.types import TopicPartition

from minikafka_chaos.record.observe import Sample


@dataclass(frozen=True, slots=True)
class EventLine:
    """An event of a broker (docs/reference/events.md)."""

    time: float
    broker: int
    event: str
    topic: str | None
    partition: int | None
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JournalLine:
    """A line of the journal of a run or a session."""

    time: float
    line: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scrape:
    """A broker's metrics; None where it did not answer."""

    time: float
    broker: int
    samples: Sequence[Sample] | None


@dataclass(frozen=True, slots=True)
class Acknowledgements:
    """Clients were told that the records below `end` are acknowledged; `by_all` by every in-sync replica."""

    time: float
    topic_partition: TopicPartition
    end: int
    by_all: bool
    values: Mapping[int, str]
    """Of some of them, by offset."""
    records: int = 1
    broker: int | None = None
    """The leader that told it; None: a client did."""


@dataclass(frozen=True, slots=True)
class LogGrowth:
    """A replica's log has grown up to an offset, as the simulation's trace tells."""

    time: float
    broker: int
    topic_partition: TopicPartition
    end: int


@dataclass(frozen=True, slots=True)
class ProcessCondition:
    """A broker's process is in this condition (`WatchedCondition`)."""

    time: float
    broker: int
    condition: str
    text: str = ""
    """What a person is to read of it."""


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody has written down, and changes nothing that is watched."""

    time: float
    text: str


Evidence = EventLine | JournalLine | Scrape | Acknowledgements | LogGrowth | ProcessCondition | Note
