"""The cluster store of a simulation: the transactions of production's SQLite store, behind delays and outages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from minikafka.metadata.database import IN_MEMORY, Database
from minikafka.metadata.store import Changes, FencedControllerError, Lease, Snapshot, StoreError

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker
    from minikafka_chaos.simulation.cluster import SimCluster

T = TypeVar("T")

CLUSTER_ID = "simulated"


class SimStore:
    """Says whether it can be reached, and tells brokers of commits after a while."""

    def __init__(self, world: SimCluster) -> None:
        self.world = world
        self._database = Database(IN_MEMORY)
        self._database.open(CLUSTER_ID)
        self._read: dict[int, Changes] = {}
        """What brokers have read since the last commit: most of them ask for the same."""
        self.held: Lease | None = None
        """As the database has it."""
        self.down = False
        self.unreachable: set[int] = set()
        self.slow: dict[int, float] = {}
        self.failed_at: dict[int, float] = {}
        """When the store was last out of reach of each broker, or its answer was lost."""

    # -- at the store, at once ----------------------------------------------------------------------------------------------

    def changes(self, since: int) -> Changes:
        """What was written after a revision."""
        found = self._read.get(since)
        if found is None:
            found = self._read[since] = self._database.changes(since)
        return found

    def snapshot(self) -> Snapshot:
        """All that is written."""
        return self._database.snapshot()

    def commit(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        """Raises FencedControllerError."""
        self._read.clear()
        return self._database.commit(controller_epoch, records)

    def lease(self) -> Lease | None:
        """Who is the controller."""
        return self._database.lease()

    def acquire(self, holder: int, host: str, port: int, expected_epoch: int) -> Lease | None:
        """None when somebody else was faster."""
        taken = self._database.acquire(holder, host, port, expected_epoch)
        self.held = taken or self.held
        return taken

    def renew(self, lease: Lease) -> Lease:
        """Raises FencedControllerError."""
        self.held = self._database.renew(lease)
        return self.held

    def close(self) -> None:
        """The run is over."""
        self._database.close()

    # -- the way there ------------------------------------------------------------------------------------------------------

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
