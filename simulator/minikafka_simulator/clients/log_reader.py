"""How every simulated reader reads: from a position, which it gives with the leader epoch of the record before (KIP-320)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import BatchHeader, Record, iterate_batches
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.clients.metadata_client import Client
from minikafka_simulator.machine.network import Handler, Reply

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker
    from minikafka_simulator.cluster.cluster import SimCluster

Parted = tuple[int, int]
"""Where the reader's log and the leader's part: (leader epoch, end offset)."""


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


class LogReader(LogPosition):
    """Fetches all the time. Subclasses say what becomes of an answer, and how long to wait after it."""

    fetch_bytes: int
    timeout_s: float
    """How long an answer is waited for."""
    unled_s: float
    """How long to wait while nobody leads."""
    down_s: float | None = None
    """How long to wait when the broker is down that was asked; None: as for an answer."""

    def __init__(self, world: SimCluster, tp: TopicPartition) -> None:
        super().__init__(world, tp)
        self.stopped = False
        self.number = 0
        """Of the last fetch."""
        self.asked = (-1, -1)
        """The leader that it went to, or -1, and in which leader epoch."""

    @property
    def done(self) -> bool:
        """It has come to where it is to end."""
        return False

    def took(self, raw: bytes) -> float:
        """Records have come, or none; seconds until the next fetch."""
        raise NotImplementedError

    def refused(self, error: ErrorCode, parted: Parted | None) -> float:
        """The leader has refused, or the reader has read what is no longer there; seconds until the next fetch."""
        raise NotImplementedError

    def poll(self) -> None:
        """Fetch, and go on fetching."""
        if self.stopped or self.done:
            return
        self.number += 1
        number = self.number
        leader, epoch = self.asked = self.leader(self.tp)

        def answered(answer: Any) -> None:
            if not self.is_current(number):
                return
            error, raw, parted = answer
            wrong = bool(error) or parted is not None
            self._later(number, self.refused(error, parted) if wrong else self.took(raw))

        if leader < 0:
            self._later(number, self.unled_s)
            return
        down_s = self.down_s
        down = None if down_s is None else lambda: self._later(number, down_s)
        self.world.network.request(leader, self.fetch(epoch, self.fetch_bytes), answered, down)
        self._later(number, self.timeout_s)

    def is_current(self, number: int) -> bool:
        """Whether no later fetch has begun."""
        return self.number == number and not self.stopped

    def _later(self, number: int, seconds: float) -> None:
        self.world.scheduler.at(seconds, lambda: self.poll() if self.number == number else None)
