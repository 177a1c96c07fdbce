"""What a store has to know of the simulated brokers that ask it, and of the cluster around them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any, Protocol

from minikafka.metadata.image import ClusterImage

from minikafka_simulator.machine.scheduler import Scheduler


class StoreBroker(Protocol):
    """A broker over all its incarnations."""

    @property
    def id(self) -> int: ...
    @property
    def up(self) -> bool: ...
    @property
    def incarnation(self) -> int: ...
    @property
    def image(self) -> ClusterImage: ...

    def run(self, incarnation: int, event: Callable[[], None]) -> None:
        """Run an event of this incarnation now, or when a pause is over, or never."""

    def later(self, delay: float, event: Callable[[], None], given_up: Callable[[], bool] = ..., /) -> None:
        """Run an event of this incarnation after some seconds."""

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in this process."""

    def begin(self) -> None:
        """Begin to work: the store is open."""

    def sync(self) -> None:
        """Look what is new in the store."""

    def cannot_open_store(self, why: str) -> None:
        """End by itself."""


class LeaseWatcher(Protocol):
    """Hears of leases."""

    def lease_taken(self, broker: int, held: int, expected: int) -> None:
        """A broker has taken the lease from the controller epoch ``held``; it had seen ``expected``."""


class StoreCluster(Protocol):
    """The cluster whose store it is. Times are virtual seconds."""

    @property
    def scheduler(self) -> Scheduler: ...
    @property
    def random(self) -> Random: ...
    @property
    def now(self) -> float: ...
    @property
    def now_ms(self) -> int: ...
    @property
    def brokers(self) -> Mapping[int, StoreBroker]: ...
    @property
    def watcher(self) -> LeaseWatcher: ...

    def note(self, line: str) -> None:
        """Write a line of the trace."""

    def store_time(self) -> float:
        """How long an operation of the store takes."""

    def outcome_is_lost(self) -> bool:
        """Whether the controller is not told that its commit, which was taken, was taken."""
