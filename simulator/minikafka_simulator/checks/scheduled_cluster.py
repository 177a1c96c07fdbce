"""What invariants have to know of a random schedule beside its brokers: settings, clients and faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from minikafka.protocol.types import TopicPartition

from minikafka_simulator.cluster.cluster import SimCluster
from minikafka_simulator.machine.scheduler import Scheduler


class SendingClient(Protocol):
    """A producer, whose sends must all be answered in the end."""

    @property
    def idle(self) -> bool: ...
    @property
    def values(self) -> Sequence[str]: ...
    @property
    def tp(self) -> TopicPartition: ...


class ReadingClient(Protocol):
    """A reader of one partition, which must come to its end."""

    @property
    def tp(self) -> TopicPartition: ...
    @property
    def position(self) -> int: ...


class ScheduledCluster(SimCluster):
    """A cluster in a random schedule. Times are virtual seconds."""

    lag: float
    """replica.lag.time.max.ms"""
    session: float
    """broker.session.timeout.ms"""
    producers: Sequence[SendingClient]
    consumers: Sequence[ReadingClient]

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.served_whole: set[int] = set()
        """Followers that are given all that there is."""

    def only_minorities_are_down(self) -> bool:
        """Whether nothing else is ever wrong than that one broker is down: clients must hardly notice."""
        return False

    def faults_are_over(self) -> bool:
        """Whether everything was healed."""
        return False
