"""Clients of random schedules: what producers send and when, readers whom the checker follows, a watcher of end offsets."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from minikafka.log.producer_state import BATCHES_RETAINED
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import BatchHeader
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.clients.log_reader import Bounds, Found, LogReader, Parted, Reading
from minikafka_simulator.clients.metadata_client import Client
from minikafka_simulator.clients.producer import Outgoing, Producer, Sending, SentBatch
from minikafka_simulator.clients.wrong_batches import as_sent, spoiled
from minikafka_simulator.machine.network import Reply

if TYPE_CHECKING:
    from minikafka_simulator.checks.checker import CheckedCluster
    from minikafka_simulator.cluster.broker import SimBroker

RETRY = 0.05
TIMEOUT = 0.8
LOST_ANSWERS = 0.03
"""The share of answers that do not reach who sends in bursts, though the broker lives."""


class CheckedSending(Sending):
    """Unique values; the checker is told what comes of them."""

    timeout_s = TIMEOUT
    backoff_s = hurry_s = RETRY

    def __init__(self, world: CheckedCluster, random: Random, prefix: str) -> None:
        self._world = world
        self._checks = world.checker.clients
        self._random = random
        self._prefix = prefix
        self._made = 0

    def begin(self, producer: Producer) -> None:
        self._producer = producer
        self._world.scheduler.at(self._random.uniform(0.3, 0.6), self.next)

    def next(self) -> None:
        """Make what is sent next."""
        raise NotImplementedError

    def new_records(self, count: int) -> list[Outgoing]:
        values = [f"{self._prefix}{self._made + i}" for i in range(count)]
        self._made += count
        return [Outgoing(value, None, value.encode()) for value in values]

    def made(self, batch: SentBatch) -> None:
        self._checks.sent(batch)

    def as_sent(self, batch: SentBatch) -> bytes:
        return as_sent(batch.data, batch.order)

    def reached(self, broker: SimBroker, batch: SentBatch) -> bool:
        return self._world.checker.leads(broker.id, batch.tp)

    def taken(self, batch: SentBatch, crc: int, offset: int) -> None:
        self._checks.answered(batch, crc, offset)

    def begins_anew(self, unanswered: Sequence[SentBatch], error: ErrorCode, by_leader: bool) -> None:
        self._checks.begins_anew(unanswered[0], error.name, by_leader)
        for batch in unanswered:
            self._checks.sent_again.update(batch.values)

    def acknowledged(self, batch: SentBatch, offset: int) -> None:
        self._checks.acknowledged(batch, batch.crc, offset)


class OneByOne(CheckedSending):
    """To one partition, the next batch some time after the one before was acknowledged."""

    hurry_s = 0.0

    def __init__(self, world: CheckedCluster, number: int, acks: int) -> None:
        super().__init__(world, world.random, f"p{number}-")
        self.acks = acks

    def next(self) -> None:
        producer = self._producer
        if not producer.stopped:
            count = 1 if self._random.random() < 0.8 else self._random.randint(2, 4)
            producer.lanes[producer.tp].make(self.new_records(count))
            producer.pump()

    def acknowledged(self, batch: SentBatch, offset: int) -> None:
        super().acknowledged(batch, offset)
        self._world.scheduler.at(self._random.uniform(0.005, 0.15), self.next)


class Bursts(CheckedSending):
    """Many batches at once, to mostly all partitions, some of them spoiled; answers get lost."""

    in_flight_max = BATCHES_RETAINED
    """So many are remembered by a broker."""
    in_order = True

    def __init__(self, world: CheckedCluster, number: int) -> None:
        super().__init__(world, Random(f"pipelined {world.scheduler.seed}"), f"q{number}-")
        self.acks = self._random.choice((-1, -1, -1, 1))

    def next(self) -> None:
        producer, random = self._producer, self._random
        if producer.stopped:
            return
        for lane in producer.lanes.values():
            if random.random() < 0.8:
                for _ in range(random.randint(1, BATCHES_RETAINED)):
                    if lane.has_room:
                        lane.make(self.new_records(random.choice((1, 1, 2, 3))))
        producer.pump()
        self._world.scheduler.at(random.uniform(0.02, 0.4), self.next)

    def spoiled(self, batch: SentBatch) -> Sequence[bytes]:
        return spoiled(batch.data, batch.order)

    def answered_spoiled(self, tp: TopicPartition, error: ErrorCode, offset: int) -> None:
        self._checks.refused_if_wrong(tp, error, offset)

    def answer_is_lost(self) -> bool:
        return self._random.random() < LOST_ANSWERS


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
