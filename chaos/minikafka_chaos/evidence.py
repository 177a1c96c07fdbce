"""A history, joined and indexed: sends with their outcomes, and what each reader saw of each partition."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from minikafka.protocol.types import TopicPartition

from minikafka_chaos.history import (
    ASSIGN,
    END_OFFSET,
    INFO,
    INVOKE,
    OK,
    POLL,
    READ,
    SEND,
    HistoryError,
    Op,
    WorkloadSettings,
)


@dataclass(slots=True)
class Send:
    """One send: its invocation joined with its outcome (`info` while there is none)."""

    value: str
    process: int
    index: int
    """Line of the invocation: what came before it in the file happened before the send began."""
    invoked_at: float
    topic: str
    partition: int | None
    outcome: str = INFO
    offset: int | None = None
    completed_at: float | None = None
    error: str | None = None

    @property
    def topic_partition(self) -> TopicPartition | None:
        return None if self.partition is None else TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Seen:
    """One record as one reader got it."""

    index: int
    time: float
    process: int
    batch: int | None
    offset: int
    value: str


@dataclass(slots=True)
class Sitting:
    """What one reader read of one partition from one placement on, in the order it came."""

    process: int
    assigned_at: float
    start: int | None
    """Offset that the reader was placed at; None when the history does not tell."""
    index: int
    records: list[Seen] = field(default_factory=list)
    end: int | None = None
    """The end offset that the reader reached, for a final reader that did."""

    @property
    def complete(self) -> bool:
        return self.end is not None


@dataclass(slots=True)
class PartitionView:
    """Everything a history tells of one partition."""

    sittings: list[Sitting] = field(default_factory=list)
    ends: dict[int, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    """End offsets told to each process: (time, offset) in order."""
    known: list[tuple[int, int]] = field(default_factory=list)
    """(line, highest offset known to be taken by then): grows in both."""
    values_at: dict[int, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """offset -> value -> who told of it first."""
    offsets_of: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """value -> offsets that readers found it at."""

    @property
    def final(self) -> Sitting | None:
        """The last sitting that reached the end of the partition."""
        return next((sitting for sitting in reversed(self.sittings) if sitting.complete), None)

    def learn(self, index: int, offset: int) -> None:
        if not self.known or offset > self.known[-1][1]:
            self.known.append((index, offset))

    def known_before(self, index: int) -> int:
        """The highest offset that was known to be taken before that line; -1 when none was."""
        at = bisect_left(self.known, (index, -1))
        return self.known[at - 1][1] if at else -1


@dataclass(slots=True)
class Evidence:
    """A history, joined and indexed for the checks."""

    settings: WorkloadSettings
    sends: dict[str, Send] = field(default_factory=dict)
    sends_of: dict[TopicPartition, list[Send]] = field(default_factory=lambda: defaultdict(list))
    """The sends whose partition is known, in the order they were invoked."""
    partitions: dict[TopicPartition, PartitionView] = field(default_factory=dict)
    accepted: list[Send] = field(default_factory=list)
    """Acknowledged, gone, and declared beforehand to be beyond what can be kept."""

    def acked(self, topic_partition: TopicPartition) -> Iterator[Send]:
        """The acknowledged sends of one partition, in the order they were invoked."""
        return (send for send in self.sends_of.get(topic_partition, ()) if send.outcome == OK)

    def view(self, topic_partition: TopicPartition) -> PartitionView:
        view = self.partitions.get(topic_partition)
        if view is None:
            view = self.partitions[topic_partition] = PartitionView()
        return view


def collect(
    history: Sequence[Op], settings: WorkloadSettings | None = None, accept_loss_before: float | None = None
) -> Evidence:
    """Join and index a history.

    `accept_loss_before` (unix seconds): records that were acknowledged before that time and are gone count as unknown,
    and what clients saw before it is left out. It is for scenarios that destroy every copy on purpose, and then ask
    what happens *next*.

    Raises HistoryError when the history contradicts itself: a value sent twice, an outcome without a send.
    """
    evidence = Evidence(settings or WorkloadSettings.from_history(history))
    _join_sends(history, evidence)
    _join_reads(history, evidence, accept_loss_before)
    if accept_loss_before is not None:
        _accept(evidence, accept_loss_before)
    _index_offsets(history, evidence)
    return evidence


def _join_sends(history: Sequence[Op], evidence: Evidence) -> None:
    for index, op in enumerate(history):
        if op.op != SEND:
            continue
        value = op.value or ""
        if op.type == INVOKE:
            if value in evidence.sends:
                raise HistoryError(f"value {value!r} is sent twice: unique values are what every check rests on")
            evidence.sends[value] = Send(value, op.process, index, op.time, op.topic or "", op.partition)
            continue
        send = evidence.sends.get(value)
        if send is None:
            raise HistoryError(f"an outcome ({op.type}) of value {value!r}, which was never sent")
        send.outcome, send.offset, send.completed_at, send.error = op.type, op.offset, op.time, op.error
        if op.partition is not None:
            send.partition = op.partition
    for send in evidence.sends.values():
        topic_partition = send.topic_partition
        if topic_partition is not None:
            evidence.sends_of[topic_partition].append(send)
            evidence.view(topic_partition)


def _join_reads(history: Sequence[Op], evidence: Evidence, not_before: float | None) -> None:
    sitting_of: dict[tuple[int, TopicPartition], Sitting] = {}
    for index, op in enumerate(history):
        if not_before is not None and op.time < not_before:
            continue
        topic_partition = op.topic_partition
        if topic_partition is None or op.offset is None or op.type not in (OK, INFO):
            continue
        key = (op.process, topic_partition)
        if op.op == ASSIGN:
            sitting_of[key] = Sitting(op.process, op.time, op.offset, index)
            evidence.view(topic_partition).sittings.append(sitting_of[key])
        elif op.op == POLL and op.value is not None:
            sitting = sitting_of.get(key)
            if sitting is None:
                sitting = sitting_of[key] = Sitting(op.process, op.time, None, index)
                evidence.view(topic_partition).sittings.append(sitting)
            sitting.records.append(Seen(index, op.time, op.process, op.batch, op.offset, op.value))
        elif op.op == READ and op.type == OK and key in sitting_of:
            sitting_of[key].end = op.offset
        elif op.op == END_OFFSET:
            evidence.view(topic_partition).ends[op.process].append((op.time, op.offset))


def _accept(evidence: Evidence, before: float) -> None:
    for send in evidence.sends.values():
        topic_partition = send.topic_partition
        if send.outcome != OK or topic_partition is None or send.completed_at is None or send.completed_at >= before:
            continue
        final = evidence.view(topic_partition).final
        if final is not None and all(seen.value != send.value for seen in final.records):
            evidence.accepted.append(send)
            send.outcome, send.offset = INFO, None


def _index_offsets(history: Sequence[Op], evidence: Evidence) -> None:
    acked = {send.value for send in evidence.sends.values() if send.outcome == OK and send.offset is not None}
    for index, op in enumerate(history):
        if op.op == SEND and op.type == OK and op.value in acked and op.offset is not None:
            topic_partition = evidence.sends[op.value].topic_partition
            if topic_partition is not None:
                view = evidence.view(topic_partition)
                view.learn(index, op.offset)
                view.values_at[op.offset].setdefault(op.value, f"acknowledged to producer {op.process}")
    for view in evidence.partitions.values():
        read = [seen for sitting in view.sittings for seen in sitting.records]
        for seen in read:
            view.values_at[seen.offset].setdefault(seen.value, f"read by reader {seen.process}")
            view.offsets_of[seen.value].add(seen.offset)
        _merge_known(view, read)


def _merge_known(view: PartitionView, read: list[Seen]) -> None:
    events = sorted([*view.known, *((seen.index, seen.offset) for seen in read)])
    view.known = []
    for index, offset in events:
        view.learn(index, offset)
