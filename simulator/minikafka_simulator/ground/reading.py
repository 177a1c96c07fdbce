"""Simulated readers that write a history: one that follows the log while it is broken, one that reads all at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import Record
from minikafka.protocol.types import TopicPartition
from minikafka.reliability.record import ConsumedRecord
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load.clients import ReadBack, ReadProgress
from minikafka_chaos.load.load import (
    COMMIT_WAIT_S,
    FINAL_PROCESS,
    RETRY_BACKOFF_MS,
    SAMPLE_INTERVAL_S,
    TAIL_PROCESS,
    unique_part,
)
from minikafka_chaos.record.history import HistoryWriter

from minikafka_simulator.clients.log_reader import Bounds, Found, LogReader, Parted, Reading

if TYPE_CHECKING:
    from minikafka_simulator.ground.configured import ConfiguredCluster

RETRY_BACKOFF_S = RETRY_BACKOFF_MS / 1000
PARTED = "_LOG_TRUNCATION"
"""librdkafka's name for what KIP-320 finds: the reader has read what is no longer there."""


class _Collecting(Reading):
    """Keeps the records, and writes no history. What is refused, another leader has, or the same one later."""

    def __init__(self) -> None:
        self.records: list[ConsumedRecord] = []

    def took(self, reader: LogReader, found: Found) -> None:
        self.records.append(consumed(reader.tp, found.record))


def consumed(tp: TopicPartition, record: Record) -> ConsumedRecord:
    """Make of a record what programs are given."""
    return ConsumedRecord(tp, record.offset, record.timestamp, record.key, record.value, tuple(record.headers))


def committed_records(
    cluster: ConfiguredCluster, partitions: Sequence[TopicPartition], deadline_s: float
) -> list[ConsumedRecord]:
    """See `minikafka_chaos.load.clients.Clients`."""
    collecting = [_Collecting() for _ in partitions]
    readers = [LogReader(cluster, tp, each) for tp, each in zip(partitions, collecting, strict=True)]
    deadline = cluster.now + deadline_s
    for reader, start in _bounds(cluster, readers, deadline, {}).items():
        reader.put(start)
    if not _read(cluster, readers, deadline):
        behind = ", ".join(str(reader.tp) for reader in readers if not reader.done)
        raise ToolTrouble(f"the end of {behind} was not reached in {deadline_s:g} s")
    return [record for each in collecting for record in each.records]


def _read(cluster: ConfiguredCluster, readers: Sequence[LogReader], deadline: float) -> bool:
    """Have those read that know where to end; whether all have come there."""
    for reader in readers:
        if reader.end is not None:
            reader.poll()
    read = cluster.run_until(lambda: all(reader.done for reader in readers), max(0.0, deadline - cluster.now))
    for reader in readers:
        reader.stopped = True
    return read


class _Recording(Reading):
    """Writes what is read into a history, as of one process."""

    def __init__(self, process: int, history: HistoryWriter) -> None:
        self._process = process
        self._history = history

    def place(self, reader: LogReader, offset: int) -> None:
        """Read from this offset on."""
        reader.put(offset)
        self._history.assign(self._process, *reader.tp, offset)

    def bounded(self, reader: LogReader, bounds: Bounds) -> None:
        self._history.log_bounds(self._process, *reader.tp, *bounds)

    def refused(self, reader: LogReader, error: ErrorCode, parted: Parted | None) -> None:
        """Go on at the end of what is there now where the position is wrong; whatever was lost, the final reader will tell."""
        if parted is not None or error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._history.poll_failed(self._process, *reader.tp, PARTED if parted is not None else error.name)
            reader.ask_bounds(lambda bounds: self.place(reader, bounds[1]))

    def took(self, reader: LogReader, found: Found) -> None:
        record, epoch = found.record, found.header.partition_leader_epoch
        value = unique_part(record.value)
        self._history.poll(self._process, reader.number, *reader.tp, record.offset, value, epoch)


class SimTailReader:
    """Follows all partitions from the beginning, and samples their end offsets."""

    failure: BaseException | None = None

    def __init__(
        self, cluster: ConfiguredCluster, partitions: Sequence[TopicPartition], history: HistoryWriter
    ) -> None:
        self._cluster = cluster
        self._recording = _Recording(TAIL_PROCESS, history)
        self._readers = [LogReader(cluster, tp, self._recording) for tp in partitions]
        self._stopped = False

    def start(self) -> None:
        for reader in self._readers:
            self._recording.place(reader, 0)
            self._cluster.scheduler.at(0.0, reader.poll)
        self._cluster.scheduler.at(SAMPLE_INTERVAL_S, self._sample)

    def _sample(self) -> None:
        if self._stopped:
            return
        for reader in self._readers:
            reader.ask_bounds(lambda _: None)
        self._cluster.scheduler.at(SAMPLE_INTERVAL_S, self._sample)

    def stop(self) -> None:
        self._stopped = True
        for reader in self._readers:
            reader.stopped = True


def read_back(
    cluster: ConfiguredCluster,
    partitions: Sequence[TopicPartition],
    history: HistoryWriter,
    deadline_s: float,
    progress: ReadProgress | None = None,
) -> ReadBack:
    """See `minikafka_chaos.load.clients.Clients`."""
    deadline = cluster.now + deadline_s
    recording = _Recording(FINAL_PROCESS, history)
    readers = [LogReader(cluster, tp, recording) for tp in partitions]
    starts = _bounds(cluster, readers, deadline, history.acknowledged_to)
    for reader, start in starts.items():
        recording.place(reader, start)
    _read(cluster, readers, deadline)
    result = ReadBack()
    for reader in readers:
        to, error = (reader.position, None) if reader.done else (-1, "deadline")
        history.read_done(FINAL_PROCESS, *reader.tp, to, error)
        result.records += reader.position - starts.get(reader, 0)
    result.missing = tuple(reader.tp for reader in readers if not reader.done)
    result.complete = not result.missing
    if progress is not None:
        progress(result.records, sum((reader.end or 0) - starts.get(reader, 0) for reader in readers))
    return result


def _bounds(
    cluster: ConfiguredCluster,
    readers: Sequence[LogReader],
    deadline: float,
    acknowledged_to: Mapping[TopicPartition, int],
) -> dict[LogReader, int]:
    """Ask for the ends of each partition until they are known, and above what was acknowledged or not so for `COMMIT_WAIT_S`.

    Sets the readers' ends, answers the starts.
    """
    starts: dict[LogReader, int] = {}
    settled: set[LogReader] = set()
    waited_by = min(cluster.now + COMMIT_WAIT_S, deadline)

    def learn(reader: LogReader) -> Callable[[Bounds], None]:
        def answered(bounds: Bounds) -> None:
            if reader in settled:
                return
            starts[reader], reader.end = bounds
            if bounds[1] > acknowledged_to.get(reader.tp, -1) or cluster.now > waited_by:
                settled.add(reader)

        return answered

    while len(settled) < len(readers) and cluster.now < deadline:
        for reader in readers:
            if reader not in settled:
                reader.ask_bounds(learn(reader))
        cluster.run_until(lambda: len(settled) == len(readers), RETRY_BACKOFF_S)
    return starts
