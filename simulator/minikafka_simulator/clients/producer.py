"""How every simulated producer sends: several batches in flight for each partition, several partitions in a request.

It goes by the rules of Kafka's client: a batch that is sent again waits until it is the first that is unanswered, so that
sequence numbers come in order; a sequence that is out of order counts as a loss only when the batch was the first at the time
it was sent (``TransactionManager.canRetry``); then all that is unanswered gets new numbers in the next epoch (KIP-360). It is
more careful than Kafka's Java client when a leader moves: nothing goes to the new one while something is unanswered by the old
one. Else a batch could be the first that the new leader sees of the producer, which may begin at any number, and those before it
would be refused for ever. Nor does it go further ahead of the first that is unanswered than a broker remembers: others behind
that one may be acknowledged before it, and its own answer may be lost once more. Kafka's client counts only what is in flight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from minikafka.log.producer_state import BATCHES_RETAINED
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import (
    HEADER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Record,
    build_batch,
)
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.clients.metadata_client import Client
from minikafka_simulator.cluster.gate import Produced
from minikafka_simulator.machine.network import Reply, Stream

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker
    from minikafka_simulator.cluster.cluster import SimCluster


NO_OFFSET = -1
"""As a broker answers where it tells none."""
OUT_OF_SEQUENCE = frozenset((ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH))
"""The broker remembers something else of the producer, or nothing: it begins anew."""


class SequenceNumbers:
    """Of one producer in one partition. Without a producer id it is not idempotent, and numbers nothing."""

    def __init__(self, producer_id: int = NO_PRODUCER_ID) -> None:
        self.producer_id = producer_id
        self.epoch, self.sequence = NO_PRODUCER_EPOCH, NO_SEQUENCE
        if self.idempotent:
            self.epoch = self.sequence = 0

    @property
    def idempotent(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    def begin_anew(self) -> None:
        """Go on in the next epoch, from sequence 0."""
        if self.idempotent:
            self.epoch += 1
            self.sequence = 0

    def build(self, records: Sequence[Record]) -> bytes:
        """Make the next batch."""
        batch = build_batch(
            records, producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=self.sequence
        )
        if self.idempotent:
            self.sequence += len(records)
        return bytes(batch)


class Outgoing(NamedTuple):
    """A record to send."""

    value: str
    """What tells it from all others."""
    key: bytes | None
    payload: bytes


@dataclass(slots=True, eq=False)
class SentBatch:
    """Records of one partition that go out together, again and again; `order` is its place among all of them."""

    tp: TopicPartition
    acks: int
    producer_id: int
    order: int
    records: Sequence[Outgoing]
    data: bytes = b""
    crc: int = 0
    """Leaders do not change it: they stamp what lies outside, and correct what a client says wrongly."""
    attempt: int = 0
    tries: int = 0
    """How often it was to be sent, and how often somebody led who could be asked."""
    flying: bool = False
    tried: bool = False
    leader: int = -1
    """Whom it was sent to last."""
    ready_at: float = 0.0

    @property
    def values(self) -> list[str]:
        return [record.value for record in self.records]


class Sending:
    """What a producer sends, when, and who is told of it. Times are in seconds."""

    acks = -1
    in_flight_max: float = 1
    """For each partition."""
    timeout_s: float
    """How long an answer is waited for."""
    backoff_s: float
    """How soon a batch is sent again."""
    hurry_s: float
    """How soon when it had no answer in time, or has new numbers."""
    in_order = False
    """Whether there is one connection to each leader, whose answers come in the order of the requests, or it ends.

    Else each batch goes by itself, and its answer counts whenever it comes.
    """

    def begin(self, producer: Producer) -> None:
        """The producer is there."""

    def refill(self, lane: Lane) -> None:
        """Make the batches that there is room for."""

    def made(self, batch: SentBatch) -> None:
        """There is a batch, which is about to be sent."""

    def leader(self, lane: Lane) -> int:
        """Whom to send to, or -1."""
        return lane.leader(lane.tp)[0]

    def as_sent(self, batch: SentBatch) -> bytes:
        """The batch as this client sends it."""
        return batch.data

    def spoiled(self, batch: SentBatch) -> Sequence[bytes]:
        """Others that go with it, and have to be refused."""
        del batch
        return ()

    def answered_spoiled(self, tp: TopicPartition, error: ErrorCode, offset: int) -> None:
        """What became of that."""

    def reached(self, broker: SimBroker, batch: SentBatch) -> bool:
        """A batch has come to a broker; whether that is the leader by the controller's word."""
        del broker, batch
        return True

    def answer_is_lost(self) -> bool:
        """Whether this answer does not reach the client, though the broker lives."""
        return False

    def taken(self, batch: SentBatch, crc: int, offset: int) -> None:
        """A positive answer to any copy of a batch; `crc`: of the copy."""

    def begins_anew(self, unanswered: Sequence[SentBatch], error: ErrorCode, by_leader: bool) -> None:
        """A broker remembers something else of the producer; so all that is unanswered gets other numbers."""

    def acknowledged(self, batch: SentBatch, offset: int) -> None:
        """The first positive answer, with acks=0 none: it is sent."""

    def gives_up(self, batch: SentBatch, error: ErrorCode) -> bool:
        """Whether a batch is not sent again after this error."""
        del batch, error
        return False


class _Sent(NamedTuple):
    """A batch in a request."""

    lane: Lane
    batch: SentBatch
    attempt: int
    crc: int
    was_first: bool
    """All before it was acknowledged already."""

    @property
    def is_last(self) -> bool:
        """Whether this is how the batch was sent last, and it has no outcome."""
        return self.batch.attempt == self.attempt and self.batch in self.lane.unanswered


@dataclass(slots=True, eq=False)
class _Request:
    """Batches that went to a leader together."""

    batches: list[_Sent]
    led: list[bool] = field(default_factory=list)
    """Whether the controller held that broker for the leader of each, when it took the request."""
    results: list[Produced] | None = None


class _Connection(Stream):
    """To a broker."""

    __slots__ = ("leader", "requests")

    def __init__(self, leader: int) -> None:
        super().__init__()
        self.leader = leader
        self.requests: list[_Request] = []
        """Those without an answer."""


class Lane(Client):
    """What is sent to one partition."""

    def __init__(self, producer: Producer, tp: TopicPartition) -> None:
        super().__init__(producer.world)
        self.producer = producer
        self.tp = tp
        self.unanswered: list[SentBatch] = []
        self.last: SentBatch | None = None
        """The last that was made."""
        self.numbers = SequenceNumbers(producer.producer_id)

    @property
    def has_room(self) -> bool:
        """Whether one more batch may be in flight."""
        return len(self.unanswered) < self.producer.sending.in_flight_max

    def make(self, records: Sequence[Outgoing]) -> SentBatch:
        """Make the next batch."""
        order = 1 if self.last is None else self.last.order + 1
        batch = self.last = SentBatch(self.tp, self.producer.sending.acks, self.numbers.producer_id, order, records)
        self._number(batch)
        self.unanswered.append(batch)
        self.producer.sending.made(batch)
        return batch

    def _number(self, batch: SentBatch) -> None:
        now_ms = self.world.now_ms
        batch.data = self.numbers.build([Record(i, now_ms, r.key, r.payload) for i, r in enumerate(batch.records)])
        batch.crc = BatchHeader._make(HEADER.unpack_from(batch.data)).crc
        batch.tried = False

    def _begin_anew(self, error: ErrorCode, by_leader: bool) -> None:
        sending = self.producer.sending
        sending.begins_anew(self.unanswered, error, by_leader)
        self.numbers.begin_anew()
        for batch in list(self.unanswered):
            self._number(batch)
            self.again(batch, error, sending.hurry_s)

    def again(self, batch: SentBatch, error: ErrorCode, seconds: float) -> None:
        """It has no answer that counts, and is sent again in a while, or given up."""
        if self.producer.sending.gives_up(batch, error):
            self.drop(batch)
            return
        batch.flying = False
        batch.ready_at = self.world.now + seconds
        if seconds:
            self.world.scheduler.at(seconds, self.producer.pump)
        else:
            self.producer.pump()

    def drop(self, batch: SentBatch) -> None:
        """It has its outcome."""
        self.unanswered.remove(batch)
        self.producer.pump()

    def next(self) -> SentBatch | None:
        """The batch that may be sent now."""
        self.producer.sending.refill(self)
        for batch in self.unanswered:
            if not batch.flying:
                first, loose = self.unanswered[0], not self.numbers.idempotent
                may = loose or batch is first or (not batch.tried and batch.order - first.order < BATCHES_RETAINED)
                if may and batch.ready_at <= self.world.now:
                    return batch
                if not loose:
                    return None
        return None

    def may_go_to(self, leader: int) -> bool:
        """Whether all that is in flight is in flight to that broker, or needs no order."""
        return not self.numbers.idempotent or all(b.leader == leader for b in self.unanswered if b.flying)

    @property
    def in_flight(self) -> int:
        """How many batches are under way."""
        return sum(batch.flying for batch in self.unanswered)

    def answered(self, sent: _Sent, error: ErrorCode, offset: int, by_leader: bool) -> None:
        batch, sending = sent.batch, self.producer.sending
        if not error:
            sending.taken(batch, sent.crc, offset)
        if batch not in self.unanswered or batch.crc != sent.crc:
            return
        if not error:
            self.unanswered.remove(batch)
            sending.acknowledged(batch, offset)
            self.producer.pump()
        elif sent.is_last and batch.flying:
            if error in OUT_OF_SEQUENCE and sent.was_first and self.numbers.idempotent:
                self._begin_anew(error, by_leader)
            else:
                self.again(batch, error, sending.backoff_s)


class Producer:
    """Sends to partitions what `sending` makes. Without a producer id it is not idempotent."""

    def __init__(
        self,
        world: SimCluster,
        sending: Sending,
        partitions: Iterable[TopicPartition] = (),
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        self.world = world
        self.producer_id = producer_id
        self.sending = sending
        self.stopped = False
        """No more is made."""
        self.deaf = False
        """No answer reaches it."""
        self._connections: dict[int, _Connection] = {}
        """To each leader."""
        self.lanes: dict[TopicPartition, Lane] = {}
        for tp in partitions:
            self.lane(tp)
        sending.begin(self)

    def lane(self, tp: TopicPartition) -> Lane:
        """What goes to a partition, from now on if it was none of its partitions."""
        if tp not in self.lanes:
            self.lanes[tp] = Lane(self, tp)
        return self.lanes[tp]

    def hear(self) -> None:
        """Answers come again."""
        self.deaf = False

    @property
    def tp(self) -> TopicPartition:
        """The first partition."""
        return next(iter(self.lanes))

    @property
    def idle(self) -> bool:
        return not any(lane.unanswered for lane in self.lanes.values())

    @property
    def values(self) -> list[str]:
        """Those that are unanswered."""
        return [value for lane in self.lanes.values() for batch in lane.unanswered for value in batch.values]

    def pump(self) -> None:
        """Send all that may be sent: to each leader one batch of each of its partitions, then the next, and so on."""
        while True:
            requests: dict[int | Lane, list[_Sent]] = {}
            for lane in self.lanes.values():
                batch = lane.next()
                if batch is None:
                    continue
                leader = self.sending.leader(lane)
                if leader < 0:
                    self._take_off(lane, batch, leader)
                    lane.again(batch, ErrorCode.LEADER_NOT_AVAILABLE, self.sending.backoff_s)
                elif lane.may_go_to(leader):
                    batch.tries += 1
                    together = leader if self.sending.in_order else lane
                    requests.setdefault(together, []).append(self._take_off(lane, batch, leader))
            if not requests:
                return
            for request in requests.values():
                self._send(request)

    def _take_off(self, lane: Lane, batch: SentBatch, leader: int) -> _Sent:
        batch.attempt += 1
        batch.leader = leader
        batch.flying = batch.tried = True
        return _Sent(lane, batch, batch.attempt, batch.crc, batch is lane.unanswered[0])

    def _send(self, batches: list[_Sent]) -> None:
        world, sending, leader = self.world, self.sending, batches[0].batch.leader
        connection = _Connection(leader)
        if sending.in_order:
            connection = self._connections.setdefault(leader, connection)
        request = _Request(batches)
        connection.requests.append(request)
        parts = [(sent.lane.tp, sending.as_sent(sent.batch)) for sent in batches]
        wrong = [(sent.lane.tp, data) for sent in batches for data in sending.spoiled(sent.batch)]

        def serve(broker: SimBroker, reply: Reply) -> None:
            request.led = [sending.reached(broker, sent.batch) for sent in batches]
            broker.gate.produce(parts + wrong, sending.acks, reply)

        def answered(results: list[Produced]) -> None:
            for (tp, _), (error, offset) in zip(wrong, results[len(parts) :], strict=True):
                sending.answered_spoiled(tp, error, offset)
            if self.deaf or sending.answer_is_lost():
                self._disconnect(connection)
            elif not connection.closed:
                request.results = results[: len(parts)]
                self._take_answers(connection)

        def failed() -> None:
            self._disconnect(connection)

        def late() -> None:
            if not sending.in_order:
                self._give_back(batches, sending.hurry_s)  # an answer may come yet
            elif request in connection.requests:
                self._disconnect(connection)

        world.network.request(leader, serve, answered, failed, stream=connection if sending.in_order else None)
        if not sending.acks:
            connection.closed = True
            for sent in batches:
                sending.acknowledged(sent.batch, NO_OFFSET)
                sent.lane.drop(sent.batch)
        elif sending.timeout_s < inf:
            world.scheduler.at(sending.timeout_s, late)

    def _take_answers(self, connection: _Connection) -> None:
        """Those that have come, in the order of the requests."""
        while connection.requests and (results := connection.requests[0].results) is not None:
            request = connection.requests.pop(0)
            for sent, by_leader, (error, offset) in zip(request.batches, request.led, results, strict=True):
                sent.lane.answered(sent, error, offset, by_leader)

    def broker_ended(self, broker: int) -> None:
        """A process has ended, and with it its connections."""
        if (connection := self._connections.get(broker)) is not None:
            self._disconnect(connection)

    def _disconnect(self, connection: _Connection) -> None:
        """Nothing that is under way over a connection is answered any more."""
        connection.closed = True
        if self._connections.get(connection.leader) is connection:
            del self._connections[connection.leader]
        requests, connection.requests = connection.requests, []
        for request in requests:
            self._give_back([sent for sent in request.batches if sent.batch.flying], self.sending.backoff_s)

    def _give_back(self, batches: Iterable[_Sent], seconds: float) -> None:
        for sent in batches:
            if sent.is_last:
                sent.lane.again(sent.batch, ErrorCode.NETWORK_EXCEPTION, seconds)
