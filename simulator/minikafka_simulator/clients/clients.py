"""Clients of random schedules, whom the checker follows: what producers, readers and members do, a watcher of end offsets."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Final

from minikafka.log.producer_state import BATCHES_RETAINED
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import BatchHeader
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.checks.group_checks import Fetched
from minikafka_simulator.clients.group_member import TIMEOUT_S, Committed, Duty, GroupMember
from minikafka_simulator.clients.log_reader import Bounds, Found, LogReader, Parted, Reading
from minikafka_simulator.clients.metadata_client import Client
from minikafka_simulator.clients.producer import Lane, Outgoing, Producer, Sending, SentBatch
from minikafka_simulator.clients.wrong_batches import as_sent, spoiled
from minikafka_simulator.machine.network import Reply

if TYPE_CHECKING:
    from minikafka_simulator.checks.checker import CheckedCluster
    from minikafka_simulator.cluster.broker import SimBroker

RETRY = 0.05
TIMEOUT = 0.8
LOST_ANSWERS = 0.03
"""The share of answers that do not reach who sends in bursts, though the broker lives."""
LIFE_S = 3.0
"""Mean time until a member of a group dies while there are faults."""
HANG_CHANCE: Final = 0.04
"""That a member does nothing for a while, longer than its session perhaps, and then goes on as if nothing had been."""
VISITED: Final = "visited"
"""The name of a topic that comes and goes: what was acknowledged is of the topic that it was written to."""


class CheckedSending(Sending):
    """Unique values; the checker is told what comes of them."""

    timeout_s = TIMEOUT
    backoff_s = hurry_s = RETRY
    begins_s = 0.3, 0.6
    """The range of the time before the first batch."""

    def __init__(self, world: CheckedCluster, random: Random, prefix: str) -> None:
        self._world = world
        self._checks = world.checker.clients
        self._random = random
        self._prefix = prefix
        self._made = 0

    def begin(self, producer: Producer) -> None:
        self._producer = producer
        self._later(self.begins_s)

    def _later(self, seconds: tuple[float, float]) -> None:
        self._world.scheduler.at(self._random.uniform(*seconds), self.next)

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
        self._later((0.005, 0.15))


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
        self._later((0.02, 0.4))

    def spoiled(self, batch: SentBatch) -> Sequence[bytes]:
        return spoiled(batch.data, batch.order)

    def answered_spoiled(self, tp: TopicPartition, error: ErrorCode, offset: int) -> None:
        self._checks.refused_if_wrong(tp, error, offset)

    def answer_is_lost(self) -> bool:
        return self._random.random() < LOST_ANSWERS


class Passing(CheckedSending):
    """To whichever topic of that name there is, each batch once, until the faults are over."""

    in_flight_max = inf
    timeout_s = inf
    begins_s = 0.02, 0.2

    def __init__(self, world: CheckedCluster) -> None:
        super().__init__(world, Random(f"passing {world.scheduler.seed}"), "u")
        self._made = 1
        self._leader = -1
        self._topic_ids: dict[SentBatch, bytes | None] = {}
        """Of the topic whose partition took a batch."""

    def next(self) -> None:
        world, random = self._world, self._random
        if world.faults_are_over():
            return
        self._later(self.begins_s)
        known = [b.image.topics[VISITED] for b in world.brokers.values() if b.up and VISITED in b.image.topics]
        if not known:
            return
        topic = random.choice(known)  # as some broker knows it, that may have heard nothing for long
        index = random.randrange(len(topic.partitions))
        self._leader = topic.partitions[index].leader
        if self._leader >= 0:
            self._producer.lane(TopicPartition(VISITED, index)).make(self.new_records(random.choice((1, 1, 2, 3))))
            self._producer.pump()

    def leader(self, lane: Lane) -> int:
        del lane
        return self._leader

    def as_sent(self, batch: SentBatch) -> bytes:
        return batch.data

    def reached(self, broker: SimBroker, batch: SentBatch) -> bool:
        partition = broker.partitions.get(batch.tp)
        self._topic_ids[batch] = None if partition is None else partition.topic_id
        return True

    def gives_up(self, batch: SentBatch, error: ErrorCode) -> bool:
        del batch, error
        return True

    def taken(self, batch: SentBatch, crc: int, offset: int) -> None:
        """See below."""

    def acknowledged(self, batch: SentBatch, offset: int) -> None:
        """It counts while that topic is there."""
        topic_id = self._world.checker.topic_ids.get(VISITED)
        if topic_id is not None and topic_id.bytes == self._topic_ids.pop(batch):
            self._checks.answered(batch, batch.crc, offset)
            self._checks.promised(batch, batch.crc, offset)


class CheckedReading(Reading):
    """From the start, with the fencing of KIP-320: the checker is told what readers see."""

    fetch_bytes = 2000
    timeout_s = unled_s = 0.4
    down_s = None

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


class Committing(Duty):
    """One process after the other, each a new member of the group, that commit, hang, and now and then die without a word."""

    session_ms, rebalance_ms = 600, 800

    def __init__(self, world: CheckedCluster) -> None:
        self._world = world
        self.committed_in = -1
        """The generation of the last acknowledged commit, once there are no more faults."""
        self._fetched: dict[TopicPartition, Fetched] = {}

    def begin(self, member: GroupMember) -> None:
        super().begin(member)
        self._world.scheduler.at(self._world.random.uniform(0.1, 0.5), member.join)
        self._dies_later()

    @property
    def settled(self) -> bool:
        """It has committed after the faults, of one partition, so that others stay as they were."""
        return not self.member.assigned or self.committed_in == self.member.generation

    def _dies_later(self) -> None:
        self._world.scheduler.at(self._world.random.expovariate(1 / LIFE_S), self._die)

    def _die(self) -> None:
        """Without a word, as after kill -9; somebody else comes in its place, before or after its session is over."""
        member, world = self.member, self._world
        if member.finishing:
            return
        world.note(f"member {member.number} of {member.group} dies ({member.member_id or 'unknown'})")
        member.forget()
        member.later(world.random.uniform(0.01, 1.5), member.join)
        self._dies_later()

    def forget(self) -> None:
        self._fetched.clear()

    def assigned(self) -> None:
        self._world.checker.groups.assigned(self.member)
        self._fetched.clear()

    def committed(self, offsets: Committed, asked: float) -> None:
        for tp, found in offsets.items():
            self._fetched[tp] = Fetched(None if found is None else found.offset, asked, self._world.now)

    def go_on(self) -> None:
        member, random = self.member, self._world.random
        hangs = not member.finishing and random.random() < HANG_CHANCE
        pause = random.uniform(0.3, 2.0) if hangs else random.uniform(0.02, 0.15)
        if member.finishing and member.settled:
            member.later(pause, member.heartbeat)
        elif member.assigned and random.random() < 0.7:
            tp = member.assigned[0] if member.finishing else random.choice(member.assigned)
            member.later(pause, lambda: self._commit(tp))
        else:
            member.later(pause, member.heartbeat)

    def _commit(self, tp: TopicPartition) -> None:
        member, checks = self.member, self._world.checker.groups
        sent = checks.sent(member, tp)

        def answered(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                member.refused(error)
                return
            checks.acknowledged(member, tp, sent, self._fetched.pop(tp, None))
            if member.finishing:
                self.committed_in = member.generation
            self.go_on()

        # without an answer nobody knows what became of it: a client closes the connection, and this one its membership
        member.commit({tp: sent.offset}, answered, member.anew, TIMEOUT_S)
