"""Flushes in a simulation: by the clock, and where an append waits for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.replication.flushes import Flushes
from minikafka.replication.hosted import HostedPartition

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker


class Flushing:
    """One incarnation's flushes: runs what :class:`~minikafka.replication.flushes.Flushes` says.

    What is flushed by the clock is flushed within one event. A flush that flush.messages wants takes its time, so that power may
    be lost before it is done.
    """

    def __init__(self, broker: SimBroker) -> None:
        self.broker = broker
        self._flushes: Flushes | None = None

    @property
    def flushes(self) -> Flushes:
        """Made when the replicas are there."""
        if self._flushes is None:
            broker = self.broker
            self._flushes = Flushes(broker.leading.replicas, broker.fetchers.flushed, broker.log_dir.log_failed)
        return self._flushes

    def look(self) -> None:
        """By the clock: flush what is due, now and again in a while."""
        world = self.broker.world
        for partition in self.broker.partitions.values():
            if partition.log.failure is None and world.flush_due(partition.log) and self.flushes.claim(partition):
                self._run(partition)
        self.broker.later(world.flush_pause(first=False), self.look)

    def empty_unflushed_volume(self) -> None:
        """Flush all that lies on it. Raises LogDirFailure when that was refused."""
        partitions = [p for p in self.broker.partitions.values() if p.log.failure is None and p.log.unflushed_bytes]
        for partition in partitions:
            if self.flushes.claim(partition):
                self._run(partition)
        for partition in partitions:
            partition.log.check_online()

    def _run(self, partition: HostedPartition) -> None:
        while (job := self.flushes.next(partition)) is not None:
            job.run()
            self.flushes.done(partition, job)

    def soon(self, partition: HostedPartition) -> None:
        """Begin a flush unless one is under way (R17)."""
        if self.flushes.claim(partition):
            self._go_on(partition)

    def _go_on(self, partition: HostedPartition) -> None:
        job = self.flushes.next(partition)
        if job is None:
            return

        def ran() -> None:
            job.run()
            self.flushes.done(partition, job)
            self._go_on(partition)

        self.broker.later(self.broker.world.flush_time(), ran)
