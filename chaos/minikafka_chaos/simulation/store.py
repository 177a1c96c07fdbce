"""The cluster store of a simulation: the production memory store, behind delays and outages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from minikafka.metadata.memory import MemoryStore
from minikafka.metadata.store import FencedControllerError, StoreError

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker
    from minikafka_chaos.simulation.cluster import SimCluster

T = TypeVar("T")

CLUSTER_ID = "simulated"


class SimStore:
    """Says whether it can be reached, and tells brokers of commits after a while."""

    def __init__(self, world: SimCluster) -> None:
        self.world = world
        self.inner = MemoryStore()
        self.inner.cluster_id = CLUSTER_ID
        self.down = False
        self.unreachable: set[int] = set()
        self.slow: dict[int, float] = {}
        self.failed_at: dict[int, float] = {}
        """When the store was last out of reach of each broker, or its answer was lost."""

    def check(self, broker_id: int) -> None:
        """Raises StoreError during an outage."""
        if self.down or broker_id in self.unreachable:
            raise StoreError("store outage")

    def ask(
        self,
        broker: SimBroker,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[StoreError], None],
    ) -> None:
        """Have something done at the store after a while, even if the broker has died by then, and tell its incarnation."""
        incarnation = broker.incarnation

        def arrive() -> None:
            try:
                self.check(broker.id)
                value = work()
                if self.world.outcome_is_lost():
                    raise StoreError("the answer of the store was lost")
            except StoreError as error:
                if not isinstance(error, FencedControllerError):
                    self.failed_at[broker.id] = self.world.now
                broker.run(incarnation, partial(failed, error))
            else:
                broker.run(incarnation, partial(done, value))

        self.world.scheduler.at(self.world.store_time(), arrive)

    def on_time(self, broker_id: int) -> None:
        """The broker hears of commits as soon as the others again."""
        self.slow.pop(broker_id, None)

    def committed(self) -> None:
        """Ring every broker's bell, each at its own time."""
        for broker in self.world.brokers.values():
            if broker.up:
                late = self.slow.get(broker.id, 0.0)
                broker.later(late + self.world.random.uniform(0.0005, 0.02), broker.sync)
