"""Says what a crash may leave of a broker's logs: what it had acknowledged as flushed, and no more than it had written."""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from minikafka.protocol.records import BatchHeader, read_header
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.crashes.operations import Operation

NOT_CLEAN = None


class WrittenBatch:
    """A batch as it was written, and its header."""

    __slots__ = ("data", "header")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.header: BatchHeader = read_header(data)


@dataclass(frozen=True, slots=True)
class ExpectedLog:
    """One log: its batches from the first that was ever written or the last new beginning, and how much of them must be there."""

    topic_id: uuid.UUID
    batches: tuple[WrittenBatch, ...] = ()
    flushed: int = 0
    """Whatever happens, the log ends here or later."""
    start: int = 0
    start_max: int = 0
    """The log starts in between."""
    begins: int = 0
    """Where the first batch begins, or would."""

    @property
    def end(self) -> int:
        return self.batches[-1].header.next_offset if self.batches else self.begins

    def appended(self, *batches: bytes) -> ExpectedLog:
        return replace(self, batches=(*self.batches, *map(WrittenBatch, batches)))

    def cut(self, end: int) -> ExpectedLog:
        """Back to an end between two batches."""
        kept = tuple(batch for batch in self.batches if batch.header.next_offset <= end)
        start = min(self.start, end)
        return replace(self, batches=kept, flushed=min(self.flushed, end), start=start, start_max=start)

    def starting(self, start: int) -> ExpectedLog:
        return replace(self, start=start, start_max=start, flushed=max(self.flushed, start))

    def flushed_to(self, offset: int) -> ExpectedLog:
        return replace(self, flushed=max(self.flushed, offset))


Alternatives = tuple[ExpectedLog | None, ...]
"""What may be there of one log; None: nothing of it."""


@dataclass(slots=True)
class Expected:
    """What may be there of a broker's data at one moment."""

    logs: dict[TopicPartition, Alternatives] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, frozenset[int]] = field(default_factory=dict)
    clean: frozenset[int | None] = frozenset({NOT_CLEAN})
    """The broker epochs of a clean stop that may be found; NOT_CLEAN: there was none."""

    def copy(self) -> Expected:
        return Expected(dict(self.logs), dict(self.high_watermarks), self.clean)

    def or_either(self, other: Expected) -> Expected:
        """What this or the other one allows."""
        logs = {
            tp: tuple(dict.fromkeys((*self.logs.get(tp, (None,)), *other.logs.get(tp, (None,)))))
            for tp in self.logs | other.logs
        }
        zero = frozenset({0})
        high = {
            tp: self.high_watermarks.get(tp, zero) | other.high_watermarks.get(tp, zero)
            for tp in self.high_watermarks | other.high_watermarks
        }
        return Expected(logs, high, self.clean | other.clean)


@dataclass(frozen=True, slots=True)
class LivedStep:
    """One thing that the broker did: what is allowed while it did it, and from then on."""

    name: str
    first: int
    last: int
    """How many operations the record had before and after it."""
    during: Expected
    after: Expected


class Expectations:
    """The steps of a life, and what each prefix of its record may leave."""

    def __init__(self) -> None:
        self.now = Expected()
        self.steps: list[LivedStep] = []

    @contextmanager
    def step(self, name: str, operations: Sequence[Operation]) -> Iterator[list[Expected]]:
        """Run the block, which changes `now`; what it puts into the list is allowed too while it runs."""
        before, first = self.now.copy(), len(operations)
        others: list[Expected] = []
        yield others
        during = before.or_either(self.now)
        for other in others:
            during = during.or_either(other)
        self.steps.append(LivedStep(name, first, len(operations), during, self.now.copy()))

    def at(self, length: int) -> tuple[str, Expected]:
        """In which step the record had this length, and what is allowed then."""
        n = bisect_right(self.steps, length, key=lambda step: step.first)
        while n and self.steps[n - 1].first == length and self.steps[n - 1].last > length:
            n -= 1  # begun with the next operation
        if not n:
            return "before the first step", Expected()
        step = self.steps[n - 1]
        return (step.name, step.during) if length < step.last else (f"after {step.name}", step.after)
