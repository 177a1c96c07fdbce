"""A producer as most are: several batches in flight for each partition, several partitions in a request, answers that get lost.

It goes by the rules of Kafka's client: a batch that is sent again waits until it is the first that is unanswered, so that
sequence numbers come in order; a sequence that is out of order counts as a loss only when the batch was the first at the time
it was sent (``TransactionManager.canRetry``); then all that is unanswered gets new numbers in the next epoch (KIP-360). It is
more careful than Kafka's Java client when a leader moves: nothing goes to the new one while something is unanswered by the old
one. Else a batch could be the first that the new leader sees of the producer, which may begin at any number, and those before it
would be refused for ever. Nor does it go further ahead of the first that is unanswered than a broker remembers: others behind
that one may be acknowledged before it, and its own answer may be lost once more. Kafka's client counts only what is in flight.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from minikafka.log.producer_state import BATCHES_RETAINED
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.clients.clients import RETRY, TIMEOUT
from minikafka_simulator.clients.metadata_client import Client
from minikafka_simulator.clients.sequence_numbers import OUT_OF_SEQUENCE, SequenceNumbers
from minikafka_simulator.clients.wrong_batches import as_sent, spoiled
from minikafka_simulator.cluster.gate import Produced
from minikafka_simulator.machine.network import Reply, Stream

if TYPE_CHECKING:
    from minikafka_simulator.checks.checker import CheckedCluster
    from minikafka_simulator.cluster.broker import SimBroker

IN_FLIGHT_MAX = BATCHES_RETAINED
"""For each partition: so many are remembered by a broker."""
LOST_ANSWERS = 0.03
"""The share of answers that do not reach the client, though the broker lives."""


class _Batch:
    """Of one partition; ``order`` is its place among all of them."""

    __slots__ = (
        "acks", "attempt", "crc", "data", "flying", "leader", "order", "producer_id", "ready_at", "tp", "tried", "values",
    )  # fmt: skip

    def __init__(self, lane: _Lane, order: int, values: list[str]) -> None:
        self.tp = lane.tp
        self.acks = lane.acks
        self.producer_id = lane.producer_id
        self.order = order
        self.values = values
        self.data = b""
        self.crc = 0
        self.attempt = 0
        """Of the last time it was sent; answers to earlier ones say nothing but that it is written."""
        self.flying = False
        self.leader = -1
        """Whom it was sent to last."""
        self.tried = False
        self.ready_at = 0.0


class _Sent(NamedTuple):
    """A batch in a request."""

    lane: _Lane
    batch: _Batch
    attempt: int
    crc: int
    was_first: bool
    """All before it was acknowledged already."""


class _Request:
    """Batches that went to a leader together."""

    __slots__ = ("batches", "led", "results")

    def __init__(self, batches: list[_Sent]) -> None:
        self.batches = batches
        self.led: list[bool] = []
        """Whether the controller held that broker for the leader of each, when it took the request."""
        self.results: list[Produced] | None = None


class _Connection(Stream):
    """To a broker. Answers come in the order of the requests, or the connection ends."""

    __slots__ = ("leader", "requests")

    def __init__(self, leader: int) -> None:
        super().__init__()
        self.leader = leader
        self.requests: list[_Request] = []
        """Those without an answer."""


class _Lane(Client):
    """What is sent to one partition."""

    world: CheckedCluster

    def __init__(self, producer: PipelinedProducer, tp: TopicPartition) -> None:
        super().__init__(producer.world)
        self.producer = producer
        self.tp = tp
        self.acks = producer.acks
        self.producer_id = producer.producer_id
        self.unanswered: list[_Batch] = []
        self._numbers = SequenceNumbers(producer.producer_id)
        self._orders = 0

    def make(self) -> None:
        """Batches all at once, as many as may be in flight at most."""
        producer, random = self.producer, self.producer.random
        for _ in range(random.randint(1, IN_FLIGHT_MAX)):
            if len(self.unanswered) < IN_FLIGHT_MAX:
                self._orders += 1
                batch = _Batch(self, self._orders, producer.new_values(random.choice((1, 1, 2, 3))))
                self._number(batch)
                self.unanswered.append(batch)
                self.world.checker.clients.sent(batch)

    def _number(self, batch: _Batch) -> None:
        batch.data, batch.crc = self._numbers.build_of(batch.values, self.world.now_ms)
        batch.tried = False

    def _begin_anew(self, error: ErrorCode, by_leader: bool) -> None:
        self.world.checker.clients.begins_anew(self.unanswered[0], error.name, by_leader)
        self._numbers.begin_anew()
        for batch in self.unanswered:
            self.world.checker.clients.sent_again.update(batch.values)
            self._number(batch)
            self.wait(batch)

    def wait(self, batch: _Batch) -> None:
        """It has no answer that counts, and is sent again in a while."""
        batch.flying = False
        batch.attempt += 1
        batch.ready_at = self.world.now + RETRY
        self.world.scheduler.at(RETRY, self.producer.pump)

    def next(self) -> _Batch | None:
        """The batch that may be sent now."""
        for batch in self.unanswered:
            if not batch.flying:
                first = self.unanswered[0]
                may = batch.ready_at <= self.world.now and not (batch.tried and batch is not first)
                return batch if may and batch.order - first.order < IN_FLIGHT_MAX else None
        return None

    @property
    def in_flight_to(self) -> set[int]:
        """The brokers that have not answered yet."""
        return {batch.leader for batch in self.unanswered if batch.flying}

    def answered(self, sent: _Sent, error: ErrorCode, offset: int, by_leader: bool) -> None:
        batch, checks = sent.batch, self.world.checker.clients
        if not error:
            checks.answered(batch, sent.crc, offset)
        if batch not in self.unanswered or batch.crc != sent.crc:
            return
        if not error:
            checks.acknowledged(batch, sent.crc, offset)
            self.unanswered.remove(batch)
            self.producer.pump()
        elif batch.attempt == sent.attempt:
            if error in OUT_OF_SEQUENCE and sent.was_first:
                self._begin_anew(error, by_leader)
            else:
                self.wait(batch)


class PipelinedProducer:
    """Sends unique values to several partitions until it is stopped, and then until all are answered."""

    def __init__(self, world: CheckedCluster, producer_id: int, partitions: Sequence[TopicPartition]) -> None:
        self.world = world
        self.producer_id = producer_id
        self.random = Random(f"pipelined {world.scheduler.seed}")
        self.acks = self.random.choice((-1, -1, -1, 1))
        self.tp = partitions[0]
        self.stopped = False
        self.deaf = False
        """No answer reaches it."""
        self._made = 0
        self._connections: dict[int, _Connection] = {}
        """To each leader."""
        self._lanes = {tp: _Lane(self, tp) for tp in partitions}
        world.scheduler.at(self.random.uniform(0.3, 0.6), self._make)

    def _make(self) -> None:
        """The next batches, mostly of all partitions at once."""
        if self.stopped:
            return
        for lane in self._lanes.values():
            if self.random.random() < 0.8:
                lane.make()
        self.pump()
        self.world.scheduler.at(self.random.uniform(0.02, 0.4), self._make)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Those that it sends to."""
        return list(self._lanes)

    def in_flight(self, tp: TopicPartition) -> int:
        """How many batches of a partition are under way."""
        return sum(batch.flying for batch in self._lanes[tp].unanswered)

    def hear(self) -> None:
        """Answers come again."""
        self.deaf = False

    @property
    def idle(self) -> bool:
        return not self.values

    @property
    def values(self) -> list[str]:
        """Those that are unanswered."""
        return [value for lane in self._lanes.values() for batch in lane.unanswered for value in batch.values]

    def new_values(self, count: int) -> list[str]:
        self._made += count
        return [f"q{self.producer_id}-{self._made - count + i}" for i in range(count)]

    def pump(self) -> None:
        """Send all that may be sent: to each leader one batch of each of its partitions, then the next, and so on."""
        while True:
            requests: dict[int, list[_Sent]] = {}
            for lane in self._lanes.values():
                batch = lane.next()
                if batch is None:
                    continue
                leader, _ = lane.leader(lane.tp)
                if leader < 0:
                    lane.wait(self._take_off(lane, batch, leader).batch)
                elif lane.in_flight_to <= {leader}:
                    requests.setdefault(leader, []).append(self._take_off(lane, batch, leader))
            if not requests:
                return
            for leader, request in requests.items():
                self._send(leader, request)

    def _take_off(self, lane: _Lane, batch: _Batch, leader: int) -> _Sent:
        batch.attempt += 1
        batch.leader = leader
        batch.flying = batch.tried = True
        return _Sent(lane, batch, batch.attempt, batch.crc, batch is lane.unanswered[0])

    def _send(self, leader: int, batches: list[_Sent]) -> None:
        world, acks = self.world, self.acks
        connection = self._connections.setdefault(leader, _Connection(leader))
        request = _Request(batches)
        connection.requests.append(request)
        parts = [(sent.lane.tp, as_sent(sent.batch.data, sent.batch.order)) for sent in batches]
        wrong = [
            (sent.lane.tp, data) for sent in batches if (data := spoiled(sent.batch.data, sent.batch.order)) is not None
        ]

        def serve(broker: SimBroker, reply: Reply) -> None:
            request.led = [world.checker.leads(broker.id, tp) for tp, _ in parts]
            broker.gate.produce(parts + wrong, acks, reply)

        def answered(results: list[Produced]) -> None:
            for (tp, _), (error, offset) in zip(wrong, results[len(parts) :], strict=True):
                world.checker.clients.refused_if_wrong(tp, error, offset)
            del results[len(parts) :]
            if self.deaf or self.random.random() < LOST_ANSWERS:
                self._disconnect(connection)
            elif not connection.closed:
                request.results = results
                self._take_answers(connection)

        def failed() -> None:
            self._disconnect(connection)

        def late() -> None:
            if request in connection.requests:
                self._disconnect(connection)

        world.network.request(leader, serve, answered, failed, stream=connection)
        world.scheduler.at(TIMEOUT, late)

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
            for sent in request.batches:
                if sent.batch.attempt == sent.attempt:
                    sent.lane.wait(sent.batch)
