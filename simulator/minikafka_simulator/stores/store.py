"""The cluster store of a simulation, behind delays, outages and lost answers: the transactions of production's SQLite store.

:mod:`kubernetes_store` is the other one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from minikafka.metadata.database import IN_MEMORY, Database
from minikafka.metadata.store import Changes, FencedControllerError, Lease, Snapshot, StoreError
from minikafka.server.controller_role import Reconcile

from minikafka_simulator.stores.brokers import StoreBroker, StoreCluster

if TYPE_CHECKING:
    from minikafka.controller.term import Commit

Done = Callable[[], None]
Failed = Callable[[StoreError], None]

CLUSTER_ID = "simulated"


class LeaseBid(NamedTuple):
    """What a broker asks for that wants the lease, as :meth:`ClusterStore.acquire` has it."""

    holder: int
    host: str
    port: int
    expected_epoch: int


class SimStore:
    """What brokers ask of the store, and whether they reach it. Answers come after a while, to the incarnation that asked."""

    def __init__(self, world: StoreCluster) -> None:
        self.world = world
        self.down = False
        self.unreachable: set[int] = set()
        self.slow: dict[int, float] = {}
        self.failed_at: dict[int, float] = {}
        """When the store was last out of reach of each broker, or its answer was lost."""
        self.held: Lease | None = None
        """As the store has it."""

    def check(self, broker_id: int) -> None:
        """Raises StoreError during an outage."""
        if self.down or broker_id in self.unreachable:
            raise StoreError("store outage")

    def heal(self) -> None:
        """Everybody reaches it, in time."""
        self.down = False
        self.unreachable.clear()
        self.slow.clear()

    def on_time(self, broker_id: int) -> None:
        """The broker hears of commits as soon as the others again."""
        self.slow.pop(broker_id, None)

    def noted(self, broker: StoreBroker, error: StoreError) -> None:
        """An operation has failed."""
        if not isinstance(error, FencedControllerError):
            self.failed_at[broker.id] = self.world.now

    # -- what brokers ask -----------------------------------------------------------------------------------------------

    def could_not_open(self, why: str) -> None:
        """A broker has ended, for its store could not be opened."""

    def connect(self, broker: StoreBroker) -> None:
        """A new incarnation opens the store; then it begins (:meth:`StoreBroker.begin`)."""
        raise NotImplementedError

    def disconnect(self, broker: StoreBroker) -> None:
        """An incarnation is gone."""

    def changes_for(self, broker: StoreBroker, since: int) -> Changes:
        """What was written after a revision, as far as the broker can know by now. Raises StoreError."""
        raise NotImplementedError

    def read_lease(self, broker: StoreBroker, done: Callable[[Lease | None], None], failed: Failed) -> None:
        self._ask(broker, lambda store: store.lease(), done, failed)

    def take_lease(
        self, broker: StoreBroker, bid: LeaseBid, done: Callable[[Lease | None], None], failed: Failed
    ) -> None:
        self._ask(broker, lambda store: store.acquire(*bid), done, failed)

    def renew_lease(self, broker: StoreBroker, lease: Lease, done: Callable[[Lease], None], failed: Failed) -> None:
        self._ask(broker, lambda store: store.renew(lease), done, failed)

    def read_snapshot(self, broker: StoreBroker, done: Callable[[Snapshot], None], failed: Failed) -> None:
        self._ask(broker, lambda store: store.snapshot(), done, failed)

    def commit(
        self, broker: StoreBroker, commit: Commit, written: Callable[[], None], done: Done, failed: Failed
    ) -> None:
        """``written`` is called at the moment when the records are in the store, whatever the broker hears of it."""
        self._ask(broker, lambda store: self._write(broker, store, commit, written), lambda _: done(), failed)

    def _ask(
        self, broker: StoreBroker, work: Callable[[Any], Any], done: Callable[[Any], None], failed: Failed
    ) -> None:
        """Have something done with the broker's store, and tell the incarnation that asked what came of it."""
        raise NotImplementedError

    def _write(self, broker: StoreBroker, store: Any, commit: Commit, written: Callable[[], None]) -> Any:
        """Work for :meth:`_ask`."""
        raise NotImplementedError

    def reconcile_of(self, broker: StoreBroker) -> Reconcile | None:
        """What that broker does beside for as long as it is the controller, as ``server.main.open_store`` has it."""
        del broker
        return None

    def out_of_line(self) -> str | None:
        """What the store shows to people that is not so; None when all is as it should be in the end."""
        return None

    def close(self) -> None:
        """The run is over."""


class SqliteStores(SimStore):
    """One database, in memory."""

    def __init__(self, world: StoreCluster) -> None:
        super().__init__(world)
        self._database = Database(IN_MEMORY)
        self._database.open(CLUSTER_ID)
        self._read: dict[int, Changes] = {}
        """What brokers have read since the last commit: most of them ask for the same."""

    def close(self) -> None:
        self._database.close()

    def changes(self, since: int) -> Changes:
        """What was written after a revision."""
        found = self._read.get(since)
        if found is None:
            found = self._read[since] = self._database.changes(since)
        return found

    def _ask(
        self, broker: StoreBroker, work: Callable[[Any], Any], done: Callable[[Any], None], failed: Failed
    ) -> None:
        """It is done after a while, even if the broker has died by then."""
        incarnation = broker.incarnation

        def arrive() -> None:
            try:
                self.check(broker.id)
                value = work(self._database)
                self.held = self._database.lease()
                if self.world.outcome_is_lost():
                    raise StoreError("the answer of the store was lost")
            except StoreError as error:
                self.noted(broker, error)
                broker.run(incarnation, partial(failed, error))
            else:
                broker.run(incarnation, partial(done, value))

        self.world.scheduler.at(self.world.store_time(), arrive)

    def take_lease(
        self, broker: StoreBroker, bid: LeaseBid, done: Callable[[Lease | None], None], failed: Failed
    ) -> None:
        def take(store: Any) -> Lease | None:
            held = store.lease()
            taken: Lease | None = store.acquire(*bid)
            if taken is not None:
                self.world.watcher.lease_taken(broker.id, 0 if held is None else held.epoch, bid.expected_epoch)
            return taken

        self._ask(broker, take, done, failed)

    def _write(self, broker: StoreBroker, store: Any, commit: Commit, written: Callable[[], None]) -> None:
        del broker
        self._read.clear()
        store.commit(commit.controller_epoch, commit.records)
        self._ring()
        written()

    # -- what brokers ask -----------------------------------------------------------------------------------------------

    def connect(self, broker: StoreBroker) -> None:
        broker.begin()

    def changes_for(self, broker: StoreBroker, since: int) -> Changes:
        self.check(broker.id)
        return self.changes(since)

    def _ring(self) -> None:
        """Every broker's bell, each at its own time."""
        for broker in self.world.brokers.values():
            if broker.up:
                late = self.slow.get(broker.id, 0.0)
                broker.later(late + self.world.random.uniform(0.0005, 0.02), broker.sync)
