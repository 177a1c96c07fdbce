"""Flushes in a simulation: by the clock, and where an append waits for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.log.errors import LogError
from minikafka.protocol.types import TopicPartition
from minikafka.replication.hosted import HostedPartition

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker


class Flushing:
    """One incarnation's flushes; mirrors ``minikafka.server.housekeeping``.

    What is flushed by the clock is flushed within one event. A flush that flush.messages wants takes its time, so that power may
    be lost before it is done.
    """

    def __init__(self, broker: SimBroker) -> None:
        self.broker = broker
        self._under_way: set[TopicPartition] = set()

    def look(self) -> None:
        """By the clock: flush what is due, now and again in a while."""
        world = self.broker.world
        for partition in self.broker.partitions.values():
            if partition.log.failure is None and world.flush_due(partition.log):
                somebody_waits = partition.log.owes_flush
                try:
                    partition.log.flush()
                except LogError as error:
                    self.broker.log_dir.log_failed(partition, error)
                    continue
                if somebody_waits:
                    self._flushed(partition)
        self.broker.later(world.flush_pause(first=False), self.look)

    def soon(self, partition: HostedPartition) -> None:
        """Begin a flush unless one is under way (R17)."""
        tp = partition.topic_partition
        if tp in self._under_way or partition.log.failure is not None:
            return
        self._under_way.add(tp)
        log = partition.log
        job = log.start_flush()

        def done() -> None:
            self._under_way.discard(tp)
            if self.broker.partitions.get(tp) is not partition or log.failure is not None:
                return
            job.run()
            try:
                log.complete_flush(job)
            except LogError as error:
                self.broker.log_dir.log_failed(partition, error)
                return
            self._flushed(partition)
            if log.owes_flush:
                self.soon(partition)

        self.broker.later(self.broker.world.flush_time(), done)

    def _flushed(self, partition: HostedPartition) -> None:
        self.broker.leading.replicas.flushed(partition)
        self.broker.fetchers.flushed(partition)
