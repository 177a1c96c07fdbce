"""A producer for a topic that comes and goes under one name: what was acknowledged is of the topic that it was written to."""

from __future__ import annotations

from math import inf
from random import Random
from typing import TYPE_CHECKING, Final

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.clients.clients import CheckedSending
from minikafka_simulator.clients.producer import Lane, Producer, SentBatch

if TYPE_CHECKING:
    from minikafka_simulator.checks.checker import CheckedCluster
    from minikafka_simulator.cluster.broker import SimBroker

VISITED: Final = "visited"
"""The name of the topic."""


class Passing(CheckedSending):
    """To whichever topic of that name there is, each batch once, until the faults are over."""

    in_flight_max = inf
    timeout_s = inf

    def __init__(self, world: CheckedCluster) -> None:
        super().__init__(world, Random(f"passing {world.scheduler.seed}"), "u")
        self._made = 1
        self._leader = -1
        self._topic_ids: dict[SentBatch, bytes | None] = {}
        """Of the topic whose partition took a batch."""

    def begin(self, producer: Producer) -> None:
        self._producer = producer
        self._later()

    def _later(self) -> None:
        self._world.scheduler.at(self._random.uniform(0.02, 0.2), self.next)

    def next(self) -> None:
        world, random = self._world, self._random
        if world.faults_are_over():
            return
        self._later()
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
