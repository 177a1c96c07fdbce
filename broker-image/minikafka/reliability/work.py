"""Decide what to do with the records that a consumer has fetched: no I/O, no clock, no client library.

Of each partition one record is in hand at most, the oldest. It is processed, tried again after a back-off, or made a dead letter;
only then the next one is looked at, and only then its offset may be committed:

    fetched -> Attempt -> succeeded -------------------------------> its offset may be committed
                  |
                  +-----> failed: again after the back-off
                  |
                  +-----> failed for the last time -> WriteDeadLetter -> succeeded -> its offset may be committed

So whenever the process dies, what is committed was processed or is a dead letter, and all that is not committed comes again.
While one partition waits, others go on. Times are seconds of any clock that only goes forward.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from minikafka.protocol.types import TopicPartition
from minikafka.reliability.record import ConsumedRecord, PoisonRecord
from minikafka.reliability.retries import RetryPolicy

HELD_MAX = 500
"""Records of a partition that are held; then its fetching is paused until half of them are done."""
DEAD_LETTER_ATTEMPTS_MAX = 10
"""How often the writing of one dead letter is tried before the consumer ends."""
ERROR_CHARACTERS_MAX = 1000


class DeadLetterNotWritten(Exception):
    """Ends a consumer: a record can be neither processed nor made a dead letter. Its offset is not committed."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Have the handler process this record."""

    record: ConsumedRecord
    attempt: int


@dataclass(frozen=True, slots=True)
class WriteDeadLetter:
    """Write this record to the dead-letter topic, and wait until it is acknowledged."""

    record: ConsumedRecord
    attempts: int
    error: str


Step = Attempt | WriteDeadLetter


@dataclass(eq=False, slots=True)
class _Held:
    """The records of one partition, from its assignment to its end."""

    records: deque[ConsumedRecord] = field(default_factory=deque)
    done: int | None = None
    """The offset after the last record that is done."""
    committed: int | None = None
    failures: int = 0
    """Of the oldest record."""
    error: str = ""
    dead: bool = False
    """The oldest record will not be tried again."""
    unwritten: int = 0
    """How often the writing of its dead letter has failed."""
    not_before: float = 0.0
    in_hand: Step | None = None
    released: bool = False
    """Somebody else gets the partition: nothing new is begun."""
    paused: bool = False

    def next_step(self) -> Step:
        record = self.records[0]
        if self.dead:
            return WriteDeadLetter(record, self.failures, self.error)
        return Attempt(record, self.failures + 1)


class Work:
    """The records of one consumer. Not thread-safe: who uses threads has a lock."""

    def __init__(self, retries: RetryPolicy, held_max: int = HELD_MAX) -> None:
        self._retries = retries
        self._held_max = held_max
        self._partitions: dict[TopicPartition, _Held] = {}

    # -- what the group says -------------------------------------------------------------------------------------------

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Take these partitions; what was held of them before is forgotten."""
        for partition in partitions:
            self._partitions[partition] = _Held()

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin nothing new of these: they are about to be revoked."""
        for partition in partitions:
            if partition in self._partitions:
                self._partitions[partition].released = True

    def revoked(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Give these up: drop what is held of them, and what becomes of the record in hand; those whose fetching is paused.

        Who gets one of them again, this consumer too, fetches it from the start.
        """
        paused = [partition for partition in partitions if self._partitions.get(partition, _Held()).paused]
        for partition in partitions:
            self._partitions.pop(partition, None)
        return paused

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are ours."""
        return frozenset(self._partitions)

    # -- what is to be done --------------------------------------------------------------------------------------------

    def fetched(self, record: ConsumedRecord) -> None:
        """Take a record, the next of its partition; one of a partition that is not ours is left to who has it."""
        held = self._partitions.get(record.partition)
        if held is not None:
            held.records.append(record)

    def next(self, now: float) -> Step | None:
        """Return what to do now, if anything. Its end comes by `succeeded` or `failed`."""
        for partition, held in self._partitions.items():
            if held.records and held.in_hand is None and not held.released and held.not_before <= now:
                self._partitions[partition] = self._partitions.pop(partition)  # to the end: all get their turn
                held.in_hand = held.next_step()
                return held.in_hand
        return None

    def wait_seconds(self, now: float) -> float | None:
        """Return how long until a back-off ends; None while none runs."""
        waits = [
            held.not_before - now
            for held in self._partitions.values()
            if held.records and held.in_hand is None and not held.released
        ]
        return max(0.0, min(waits)) if waits else None

    def holds(self, partitions: Iterable[TopicPartition]) -> bool:
        """Tell whether a record of these is in hand."""
        return any(held.in_hand is not None for p in partitions if (held := self._partitions.get(p)) is not None)

    # -- how it went ---------------------------------------------------------------------------------------------------

    def succeeded(self, step: Step) -> None:
        """Take note that the record was processed, or its dead letter is acknowledged: it is done."""
        held = self._of(step)
        if held is None:
            return
        held.records.popleft()
        held.done = step.record.offset + 1
        held.failures, held.error, held.dead, held.unwritten, held.not_before = 0, "", False, 0, 0.0

    def failed(self, step: Step, error: BaseException, now: float) -> None:
        """Take note that it was not; raises `DeadLetterNotWritten` when nothing more can be done about it."""
        held = self._of(step)
        if held is None:
            return
        if isinstance(step, WriteDeadLetter):
            held.unwritten += 1
            if held.unwritten >= DEAD_LETTER_ATTEMPTS_MAX:
                raise DeadLetterNotWritten(
                    f"{step.record.place} can be neither processed ({step.error}) nor made a dead letter"
                    f" ({described(error)})"
                ) from error
            held.not_before = now + self._retries.after(held.unwritten)
            return
        held.failures += 1
        held.error = described(error)
        held.dead = isinstance(error, PoisonRecord) or self._retries.exhausted(held.failures)
        held.not_before = now if held.dead else now + self._retries.after(held.failures)

    def _of(self, step: Step) -> _Held | None:
        """Where the step comes from; None when its partition was revoked since, even if it has come back."""
        held = self._partitions.get(step.record.partition)
        if held is None or held.in_hand is not step:
            return None
        held.in_hand = None
        return held

    # -- what the client is to do --------------------------------------------------------------------------------------

    def commits(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Find the offsets that may be committed and are not yet, of these partitions or all."""
        return {
            partition: held.done
            for partition in (self.assignment() if partitions is None else partitions)
            if (held := self._partitions.get(partition)) is not None and held.done is not None
            if held.done != held.committed
        }

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Take note that the coordinator has taken these."""
        for partition, offset in offsets.items():
            if partition in self._partitions:
                self._partitions[partition].committed = offset

    def to_pause(self) -> list[TopicPartition]:
        """Find the partitions that hold enough; the client stops fetching them."""
        full = [p for p, held in self._partitions.items() if not held.paused and len(held.records) >= self._held_max]
        for partition in full:
            self._partitions[partition].paused = True
        return full

    def to_resume(self) -> list[TopicPartition]:
        """Find the partitions that have room again; the client goes on fetching them."""
        freed = [p for p, held in self._partitions.items() if held.paused and len(held.records) <= self._held_max // 2]
        for partition in freed:
            self._partitions[partition].paused = False
        return freed


def described(error: BaseException) -> str:
    """Write an error as one line that fits into a header."""
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except Exception as reason:
        text = f"(its text cannot be had: {type(reason).__name__})"
    text = text.encode(errors="backslashreplace").decode()  # a lone surrogate fits into no header
    return (f"{name}: {text}" if text else name)[:ERROR_CHARACTERS_MAX]


def failure_line(step: Step, error: BaseException) -> str:
    """Write a step that failed as one line for a log."""
    what = f"attempt {step.attempt}" if isinstance(step, Attempt) else "dead letter"
    return f"{step.record.place}: {what}: {described(error)}"
