"""A producer for a topic that comes and goes under one name: what was acknowledged is of the topic that it was written to."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from minikafka.protocol.records import NO_PRODUCER_ID
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.clients.sequence_numbers import SequenceNumbers
from minikafka_simulator.cluster.gate import Produced
from minikafka_simulator.machine.network import Reply

if TYPE_CHECKING:
    from minikafka_simulator.checks.checker import CheckedCluster
    from minikafka_simulator.cluster.broker import SimBroker

VISITED: Final = "visited"
"""The name of the topic."""


class _Sent:
    """A batch that is sent once, by a producer that is not idempotent."""

    __slots__ = ("crc", "data", "order", "topic_id", "tp", "values")
    acks: Final = -1
    producer_id: Final = NO_PRODUCER_ID

    def __init__(self, tp: TopicPartition, order: int, values: list[str], now_ms: int) -> None:
        self.tp = tp
        self.order = order
        self.values = values
        self.data, self.crc = SequenceNumbers().build_of(values, now_ms)
        self.topic_id: bytes | None = None
        """Of the topic whose partition took it."""


class PassingProducer:
    """Sends to whichever topic of that name there is, until the faults are over."""

    def __init__(self, world: CheckedCluster) -> None:
        self.world = world
        self._random = Random(f"passing {world.scheduler.seed}")
        self._made = 0
        self._next()

    def _next(self) -> None:
        self.world.scheduler.at(self._random.uniform(0.02, 0.2), self._send)

    def _send(self) -> None:
        world, random = self.world, self._random
        if world.faults_are_over():
            return
        self._next()
        known = [b.image.topics[VISITED] for b in world.brokers.values() if b.up and VISITED in b.image.topics]
        if not known:
            return
        topic = random.choice(known)  # as some broker knows it, that may have heard nothing for long
        tp = TopicPartition(VISITED, random.randrange(len(topic.partitions)))
        leader = topic.partitions[tp.partition].leader
        if leader < 0:
            return
        count = random.choice((1, 1, 2, 3))
        self._made += count
        sent = _Sent(tp, self._made, [f"u{self._made - i}" for i in range(count)], world.now_ms)
        world.checker.clients.sent(sent)

        def serve(broker: SimBroker, reply: Reply) -> None:
            partition = broker.partitions.get(tp)
            sent.topic_id = None if partition is None else partition.topic_id
            broker.gate.produce([(tp, sent.data)], sent.acks, reply)

        def answered(results: list[Produced]) -> None:
            ((error, offset),) = results
            if not error:
                self._acknowledged(sent, offset)

        world.network.request(leader, serve, answered)

    def _acknowledged(self, sent: _Sent, offset: int) -> None:
        """It counts while that topic is there."""
        topic_id, checks = self.world.checker.topic_ids.get(VISITED), self.world.checker.clients
        if topic_id is not None and topic_id.bytes == sent.topic_id:
            checks.answered(sent, sent.crc, offset)
            checks.promised(sent, sent.crc, offset)
