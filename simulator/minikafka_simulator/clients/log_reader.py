"""How every simulated reader reads: from a position, which it gives with the leader epoch of the record before (KIP-320)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import BatchHeader, Record, iterate_batches
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.load.load import REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MS

from minikafka_simulator.clients.metadata_client import Client
from minikafka_simulator.machine.network import Handler, Reply

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker
    from minikafka_simulator.cluster.cluster import SimCluster

IDLE_S = 0.05
"""How long a reader that is at the end usually waits before it asks again."""

Parted = tuple[int, int]
"""Where the reader's log and the leader's part: (leader epoch, end offset)."""
Bounds = tuple[int, int]
"""(log start, end offset) as a leader tells them."""


class Found(NamedTuple):
    """A record that was read: the header of its batch, and its place in it."""

    header: BatchHeader
    place: int
    record: Record


class LogPosition(Client):
    """Where a reader is in one partition."""

    def __init__(self, world: SimCluster, tp: TopicPartition, offset: int = 0) -> None:
        super().__init__(world)
        self.tp = tp
        self.position = offset
        self.last_epoch = -1
        """The leader epoch of the record before the position: with it a leader can tell that the reader's log is another."""

    def put(self, offset: int) -> None:
        """Read from this offset on."""
        self.position, self.last_epoch = offset, -1

    def fetch(self, leader_epoch: int, bytes_max: int) -> Handler[SimBroker]:
        """Make the request for what comes next."""
        tp, position, last_epoch = self.tp, self.position, self.last_epoch

        def serve(broker: SimBroker, reply: Reply) -> None:
            broker.gate.serve_reader(tp, leader_epoch, position, last_epoch, bytes_max, reply)

        return serve

    def bounds(self, leader_epoch: int) -> Handler[SimBroker]:
        """Make the request for the ends of the log."""
        tp = self.tp

        def serve(broker: SimBroker, reply: Reply) -> None:
            broker.gate.serve_bounds(tp, leader_epoch, reply)

        return serve

    def given(self, header: BatchHeader) -> None:
        """A batch has come; it may begin before the position."""

    def read(self, raw: bytes) -> Iterator[Found]:
        """Yield the records from the position on, which goes on behind each once it is dealt with."""
        for whole in iterate_batches(raw):
            header = whole.header
            self.given(header)
            for index, record in enumerate(whole.records()):
                if record.offset >= self.position:
                    yield Found(header, index, record)
                    self.position, self.last_epoch = record.offset + 1, header.partition_leader_epoch


class Reading:
    """What a reader is for: what becomes of what it is given, and how long it waits, in seconds; usually as librdkafka does."""

    fetch_bytes = 1 << 20
    timeout_s = REQUEST_TIMEOUT_MS / 1000
    """How long an answer is waited for."""
    unled_s = RETRY_BACKOFF_MS / 1000
    """How long to wait while nobody leads."""
    down_s: float | None = unled_s
    """How long to wait when the broker is down that was asked; None: as for an answer."""

    def pause_s(self, raw: bytes | None) -> float:
        """How long to wait after this answer; None: a refusal."""
        return self.unled_s if raw is None else 0.0 if raw else IDLE_S

    def given(self, reader: LogReader, header: BatchHeader) -> None:
        """A batch has come; it may begin before the position."""

    def took(self, reader: LogReader, found: Found) -> None:
        """A record has come, that of the reader's position or a later one."""
        raise NotImplementedError

    def bounded(self, reader: LogReader, bounds: Bounds) -> None:
        """The leader has told the ends of the log."""

    def refused(self, reader: LogReader, error: ErrorCode, parted: Parted | None) -> None:
        """The leader has refused, or the reader has read what is no longer there."""


class LogReader(LogPosition):
    """Fetches from one partition all the time, for whatever purpose; `end`: stop there; None: follow for ever."""

    def __init__(self, world: SimCluster, tp: TopicPartition, reading: Reading) -> None:
        super().__init__(world, tp)
        self.stopped = False
        self.end: int | None = None
        self.number = 0
        """Of the last fetch."""
        self.asked = (-1, -1)
        """The leader that it went to, or -1, and in which leader epoch."""
        self._reading = reading
        self._asked_bounds = 0

    @property
    def done(self) -> bool:
        """It has come to where it is to end."""
        return self.end is not None and self.position >= self.end

    def given(self, header: BatchHeader) -> None:
        self._reading.given(self, header)

    def poll(self) -> None:
        """Fetch, and go on fetching."""
        if self.stopped or self.done:
            return
        self.number += 1
        number, reading = self.number, self._reading
        leader, epoch = self.asked = self.leader(self.tp)

        def answered(answer: Any) -> None:
            if not self.is_current(number):
                return
            error, raw, parted = answer
            if error or parted is not None:
                reading.refused(self, error, parted)
                raw = None
            else:
                for found in self.read(raw):
                    reading.took(self, found)
            self._later(number, reading.pause_s(raw))

        if leader < 0:
            self._later(number, reading.unled_s)
            return
        down_s = reading.down_s
        down = None if down_s is None else lambda: self._later(number, down_s)
        self.world.network.request(leader, self.fetch(epoch, reading.fetch_bytes), answered, down)
        self._later(number, reading.timeout_s)

    def ask_bounds(self, take: Callable[[Bounds], None], asked: tuple[int, int] | None = None) -> None:
        """Ask for the ends of the log, once; an answer that comes after the next question is none.

        `asked`: a leader and its leader epoch, when it is not to be whoever leads now.
        """
        leader, epoch = asked or self.leader(self.tp)
        self._asked_bounds += 1
        number = self._asked_bounds

        def answered(answer: Any) -> None:
            start, end, _ = answer
            if not self.stopped and self._asked_bounds == number:
                self._reading.bounded(self, (start, end))
                take((start, end))

        if leader >= 0:
            self.world.network.request(leader, self.bounds(epoch), answered)

    def is_current(self, number: int) -> bool:
        """Whether no later fetch has begun."""
        return self.number == number and not self.stopped

    def _later(self, number: int, seconds: float) -> None:
        self.world.scheduler.at(seconds, lambda: self.poll() if self.number == number else None)
