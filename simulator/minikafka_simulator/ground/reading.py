"""Simulated readers that write a history: one that follows the log while it is broken, one that reads all at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.reliability.record import ConsumedRecord
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load.clients import ReadBack, ReadProgress
from minikafka_chaos.load.load import (
    COMMIT_WAIT_S,
    FINAL_PROCESS,
    REQUEST_TIMEOUT_MS,
    RETRY_BACKOFF_MS,
    SAMPLE_INTERVAL_S,
    TAIL_PROCESS,
    unique_part,
)
from minikafka_chaos.record.history import HistoryWriter

from minikafka_simulator.clients.log_reader import LogReader, Parted

if TYPE_CHECKING:
    from minikafka_simulator.ground.configured import ConfiguredCluster

FETCH_BYTES = 1 << 20
IDLE_S = 0.05
"""How long a reader that is at the end waits before it asks again."""

REQUEST_TIMEOUT_S = REQUEST_TIMEOUT_MS / 1000
RETRY_BACKOFF_S = RETRY_BACKOFF_MS / 1000
PARTED = "_LOG_TRUNCATION"
"""librdkafka's name for what KIP-320 finds: the reader has read what is no longer there."""

Bounds = tuple[int, int]
"""(log start, end offset) as a leader tells them."""


class _ToTheEnd(LogReader):
    """Reads one partition. `end`: stop there; None: follow for ever."""

    world: ConfiguredCluster
    fetch_bytes = FETCH_BYTES
    timeout_s = REQUEST_TIMEOUT_S
    unled_s = down_s = RETRY_BACKOFF_S

    def __init__(self, cluster: ConfiguredCluster, tp: TopicPartition) -> None:
        super().__init__(cluster, tp)
        self.end: int | None = None

    @property
    def done(self) -> bool:
        return self.end is not None and self.position >= self.end


class _Collector(_ToTheEnd):
    """Keeps the records that a partition has when its leader is asked; writes no history."""

    def __init__(self, cluster: ConfiguredCluster, tp: TopicPartition) -> None:
        super().__init__(cluster, tp)
        self.records: list[ConsumedRecord] = []

    def begin(self) -> None:
        """Ask for the end until somebody tells, and read up to it."""
        leader, epoch = self.leader(self.tp)

        def answered(answer: Any) -> None:
            if self.end is None:
                start, self.end, _ = answer
                self.put(start)
                self.poll()

        if self.end is None and not self.stopped:
            if leader >= 0:
                self.world.network.request(leader, self.bounds(epoch), answered)
            self.world.scheduler.at(RETRY_BACKOFF_S, self.begin)

    def refused(self, error: ErrorCode, parted: Parted | None) -> float:
        del error, parted  # another leader, or the same one later, has it
        return RETRY_BACKOFF_S

    def took(self, raw: bytes) -> float:
        for _, _, record in self.read(raw):
            timestamp, headers = record.timestamp, tuple(record.headers)
            self.records.append(ConsumedRecord(self.tp, record.offset, timestamp, record.key, record.value, headers))
        return 0.0 if raw else IDLE_S


def committed_records(
    cluster: ConfiguredCluster, partitions: Sequence[TopicPartition], deadline_s: float
) -> list[ConsumedRecord]:
    """See `minikafka_chaos.load.clients.Clients`."""
    readers = [_Collector(cluster, tp) for tp in partitions]
    for reader in readers:
        reader.begin()
    read = cluster.run_until(lambda: all(reader.done for reader in readers), deadline_s)
    for reader in readers:
        reader.stopped = True
    if not read:
        behind = ", ".join(str(reader.tp) for reader in readers if not reader.done)
        raise ToolTrouble(f"the end of {behind} was not reached in {deadline_s:g} s")
    return [record for reader in readers for record in reader.records]


class _Reader(_ToTheEnd):
    """Writes what it reads into a history."""

    def __init__(self, cluster: ConfiguredCluster, process: int, tp: TopicPartition, history: HistoryWriter) -> None:
        super().__init__(cluster, tp)
        self.process = process
        self.history = history
        self._batch = 0
        self._asked_bounds = 0

    def place(self, offset: int) -> None:
        """Read from this offset on."""
        self.put(offset)
        self.history.assign(self.process, *self.tp, offset)

    def ask_bounds(self, on_answer: Callable[[Bounds], None]) -> None:
        """Ask the leader for the ends of the log, once; an answer that comes after the next question is none."""
        leader, epoch = self.leader(self.tp)
        self._asked_bounds += 1
        number = self._asked_bounds

        def answered(answer: Any) -> None:
            start, end, _ = answer
            if not self.stopped and self._asked_bounds == number:
                self.history.log_bounds(self.process, *self.tp, start, end)
                on_answer((start, end))

        if leader >= 0:
            self.world.network.request(leader, self.bounds(epoch), answered)

    def refused(self, error: ErrorCode, parted: Parted | None) -> float:
        """Go on at the end of what is there now where the position is wrong; whatever was lost, the final reader will tell."""
        if parted is not None or error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.history.poll_failed(self.process, *self.tp, PARTED if parted is not None else error.name)
            self.ask_bounds(lambda bounds: self.place(bounds[1]))
        return RETRY_BACKOFF_S

    def took(self, raw: bytes) -> float:
        if not raw:
            return IDLE_S
        self._batch += 1
        for header, _, record in self.read(raw):
            value = unique_part(record.value)
            epoch = header.partition_leader_epoch
            self.history.poll(self.process, self._batch, *self.tp, record.offset, value, epoch)
        return 0.0


class SimTailReader:
    """Follows all partitions from the beginning, and samples their end offsets."""

    failure: BaseException | None = None

    def __init__(
        self, cluster: ConfiguredCluster, partitions: Sequence[TopicPartition], history: HistoryWriter
    ) -> None:
        self._cluster = cluster
        self._readers = [_Reader(cluster, TAIL_PROCESS, tp, history) for tp in partitions]
        self._stopped = False

    def start(self) -> None:
        for reader in self._readers:
            reader.place(0)
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
    readers = [_Reader(cluster, FINAL_PROCESS, tp, history) for tp in partitions]
    starts = _bounds(cluster, readers, deadline, history.acknowledged_to)
    for reader in readers:
        if reader.tp in starts:
            reader.place(starts[reader.tp])
            reader.poll()
    cluster.run_until(lambda: all(reader.done for reader in readers), max(0.0, deadline - cluster.now))
    result = ReadBack()
    for reader in readers:
        reader.stopped = True
        if reader.done:
            history.read_done(reader.process, *reader.tp, reader.position)
        else:
            history.read_done(reader.process, *reader.tp, -1, "deadline")
        result.records += reader.position - starts.get(reader.tp, 0)
    result.missing = tuple(reader.tp for reader in readers if not reader.done)
    result.complete = not result.missing
    if progress is not None:
        progress(result.records, sum((reader.end or 0) - starts.get(reader.tp, 0) for reader in readers))
    return result


def _bounds(
    cluster: ConfiguredCluster,
    readers: Sequence[_Reader],
    deadline: float,
    acknowledged_to: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Ask for the ends of each partition until they are known, and above what was acknowledged or not so for `COMMIT_WAIT_S`.

    Sets the readers' ends, answers the starts.
    """
    starts: dict[TopicPartition, int] = {}
    settled: set[TopicPartition] = set()
    waited_by = min(cluster.now + COMMIT_WAIT_S, deadline)

    def learn(reader: _Reader) -> Callable[[Bounds], None]:
        def answered(bounds: Bounds) -> None:
            if reader.tp in settled:
                return
            starts[reader.tp], reader.end = bounds
            if bounds[1] > acknowledged_to.get(reader.tp, -1) or cluster.now > waited_by:
                settled.add(reader.tp)

        return answered

    while len(settled) < len(readers) and cluster.now < deadline:
        for reader in readers:
            if reader.tp not in settled:
                reader.ask_bounds(learn(reader))
        cluster.run_until(lambda: len(settled) == len(readers), RETRY_BACKOFF_S)
    return starts
