"""Clients of the simulation: idempotent producers, a consumer that follows the log, a watcher of end offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import BatchHeader
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.clients.log_reader import Bounds, Found, LogReader, Parted, Reading
from minikafka_simulator.clients.metadata_client import Client
from minikafka_simulator.clients.sequence_numbers import OUT_OF_SEQUENCE, SequenceNumbers
from minikafka_simulator.clients.wrong_batches import as_sent
from minikafka_simulator.machine.network import Reply

if TYPE_CHECKING:
    from minikafka_simulator.checks.checker import CheckedCluster
    from minikafka_simulator.cluster.broker import SimBroker

RETRY = 0.05
TIMEOUT = 0.8


class Producer(Client):
    """Sends unique values to one partition, one batch in flight, with sequence numbers; retries until it is answered."""

    world: CheckedCluster

    def __init__(self, world: CheckedCluster, producer_id: int, tp: TopicPartition, acks: int) -> None:
        super().__init__(world)
        self.producer_id = producer_id
        self.tp = tp
        self.acks = acks
        self.numbers = SequenceNumbers(producer_id)
        self.made = 0
        self.order = 0
        """The number of the last batch."""
        self.stopped = False
        self.batch: bytes | None = None
        self.crc = 0
        """Of the last batch."""
        self.values: list[str] = []
        self._attempt = 0
        world.scheduler.at(world.random.uniform(0.3, 0.6), self.next)

    @property
    def idle(self) -> bool:
        return self.batch is None

    def next(self) -> None:
        """Begin the next batch."""
        if self.stopped:
            return
        count = 1 if self.world.random.random() < 0.8 else self.world.random.randint(2, 4)
        self.values = [f"p{self.producer_id}-{self.made + i}" for i in range(count)]
        self.made += count
        self.order += 1
        self._build()
        self.world.checker.clients.sent(self)
        self._send()

    def _build(self) -> None:
        self.batch, self.crc = self.numbers.build_of(self.values, self.world.now_ms)

    def _begin_anew(self, error: ErrorCode, by_leader: bool) -> None:
        """After a gap in the broker's memory of this producer: the next epoch, from sequence 0 (KIP-360)."""
        self.world.checker.clients.begins_anew(self, error.name, by_leader)
        self.numbers.begin_anew()
        self._build()
        self._send()

    def _send(self) -> None:
        if self.batch is None:
            return
        self._attempt += 1
        attempt, batch, crc = self._attempt, self.batch, self.crc
        leader, _ = self.leader(self.tp)
        by_leader = True

        def again() -> None:
            if self._attempt == attempt and self.batch is batch:
                self._send()

        def answered(answer: Any) -> None:
            ((error, offset),) = answer
            if not error:
                self.world.checker.clients.answered(self, crc, offset)
            if self.batch is not batch:
                return  # another copy of it was answered before
            if error in OUT_OF_SEQUENCE:
                if self._attempt == attempt:
                    self._begin_anew(error, by_leader)
                return
            if error:
                if self._attempt == attempt:
                    self.world.scheduler.at(RETRY, again)
                return
            self.world.checker.clients.acknowledged(self, crc, offset)
            self.batch = None
            self.world.scheduler.at(self.world.random.uniform(0.005, 0.15), self.next)

        def refused() -> None:
            self.world.scheduler.at(RETRY, again)

        if leader < 0:
            self.world.scheduler.at(RETRY, again)
            return
        tp, acks, sent = self.tp, self.acks, as_sent(batch, self.order)

        def serve(broker: SimBroker, reply: Reply) -> None:
            nonlocal by_leader
            by_leader = self.world.checker.leads(broker.id, tp)
            broker.gate.produce([(tp, sent)], acks, reply)

        self.world.network.request(leader, serve, answered, refused)
        self.world.scheduler.at(TIMEOUT, again)


class CheckedReading(Reading):
    """From the start, with the fencing of KIP-320: the checker is told what readers see."""

    fetch_bytes = 2000
    timeout_s = unled_s = 0.4

    def __init__(self, world: CheckedCluster) -> None:
        self._random = world.random
        self._checks = world.checker.clients

    def pause_s(self, raw: bytes | None) -> float:
        del raw
        return self._random.uniform(0.02, 0.2)

    def given(self, reader: LogReader, header: BatchHeader) -> None:
        self._checks.given(reader.tp, reader.position, header.last_offset)

    def took(self, reader: LogReader, found: Found) -> None:
        header, record = found.header, found.record
        identity = (header.partition_leader_epoch, header.crc, found.place)
        self._checks.consumed(reader.tp, reader.position, record.offset, (record.value or b"").decode(), identity)

    def refused(self, reader: LogReader, error: ErrorCode, parted: Parted | None) -> None:
        number, position = reader.number, reader.position

        def take(bounds: Bounds) -> None:
            if reader.is_current(number):
                reader.put(self._checks.out_of_range(reader.tp, position, bounds[0]))

        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            reader.ask_bounds(take, reader.asked)
        elif parted is not None:
            reader.position, reader.last_epoch = self._checks.parted(reader.tp, position, *parted)


class EndOffsetWatcher(Client):
    """Asks for the end offset now and then: it must never go back (A14)."""

    world: CheckedCluster

    def __init__(self, world: CheckedCluster, tp: TopicPartition) -> None:
        super().__init__(world)
        self.tp = tp
        world.scheduler.at(0.5, self.ask)

    def ask(self) -> None:
        tp = self.tp
        leader, epoch = self.leader(tp)
        asked = self.world.now

        def serve(broker: SimBroker, reply: Reply) -> None:
            broker.gate.serve_end(tp, epoch, reply)

        def answered(answer: Any) -> None:
            end, of_epoch = answer
            self.world.checker.clients.end_offset(tp, asked, end, of_epoch)

        if leader >= 0:
            self.world.network.request(leader, serve, answered)
        self.world.scheduler.at(self.world.random.uniform(0.03, 0.15), self.ask)
