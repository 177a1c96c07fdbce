"""A simulated cluster without any purpose yet: brokers, their store and their network in one virtual time.

Random schedules put faults and invariants on it, the simulation ground puts scenarios on it. What differs between the two is
decided here by methods that they override: how long things take, and which settings are in force.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from minikafka.config import BrokerConfig
from minikafka.groups.host import LOAD_SLICE_SECONDS
from minikafka.replication.isr import IsrProposal

from minikafka_simulator.cluster.answers import LeaderEpochs
from minikafka_simulator.cluster.watcher import Watcher
from minikafka_simulator.machine.scheduler import Scheduler
from minikafka_simulator.stores.store import SimStore, SqliteStores

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker
    from minikafka_simulator.machine.network import Network
    from minikafka_simulator.machine.streams import Streams

EPOCH_MS = 1_700_000_000_000
"""Unix time in milliseconds at which every simulation begins."""


class SimCluster:
    """Times are virtual seconds."""

    network: Network[SimBroker]
    produce_timeout = 30.0
    """The time a producer gives a broker."""
    offsets_partitions = 50
    """Of ``__consumer_offsets``."""
    load_slice = LOAD_SLICE_SECONDS
    """How long a coordinator reads its log at a time; in virtual time it takes none, so 0 means one batch at a time."""
    data_dir = "/data"
    unflushed_dir: str | None = None

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.random = scheduler.random
        self.store = self.open_store()
        self.watcher = Watcher()
        self.brokers: dict[int, SimBroker] = {}
        self.server_random: Random
        self.streams: Streams
        self.answers = LeaderEpochs()
        self.applies_late: dict[int, float] = {}
        """Seconds from what a broker reads in the store to its replicas, of those that are slow."""

    def open_store(self) -> SimStore:
        """The cluster store of this run."""
        return SqliteStores(self)

    @property
    def now(self) -> float:
        return self.scheduler.now

    @property
    def now_ms(self) -> int:
        return EPOCH_MS + int(self.scheduler.now * 1000)

    def note(self, line: str) -> None:
        self.scheduler.note(line)

    # -- settings -------------------------------------------------------------------------------------------------------

    def broker_config(self, broker: int) -> BrokerConfig:
        """The file of a broker that starts now."""
        raise NotImplementedError

    # -- how long things take ---------------------------------------------------------------------------------------------

    def next_turn(self) -> float:
        """Seconds until a broker goes on with what it has put off to the next turn of its loop."""
        return 0.0

    def reader_wait(self) -> float:
        """How long a leader keeps a reader's fetch when there is nothing to send."""
        return 0.0

    def gave_up(self, broker: SimBroker) -> None:
        """A broker has ended by itself, for its disk refused what it cannot do without."""
        raise NotImplementedError

    def flush_time(self) -> float:
        """How long the work of a disk thread takes, in seconds."""
        return self.random.uniform(0.0005, 0.01)

    def store_time(self) -> float:
        """How long an operation of the store takes, in seconds."""
        return self.random.uniform(0.0005, 0.01)

    def read_limit(self, follower: int, asked: int) -> int:
        """Bytes of a partition that a follower is given at most, which has asked for so many; one batch in any case."""
        del follower
        return asked

    # -- what happens -------------------------------------------------------------------------------------------------------

    def outcome_is_lost(self) -> bool:
        """Whether the controller is not told that its commit, which was taken, was taken."""
        return False

    def isr_proposed(self, broker: SimBroker, proposal: IsrProposal) -> None:
        """A leader asks for another ISR."""
        self.watcher.proposed(broker, proposal)

    def connections_closed(self, broker: SimBroker) -> None:
        """A broker's process has ended."""

    def event(
        self, broker: SimBroker, name: str, topic: str | None = None, partition: int | None = None, **fields: Any
    ) -> None:
        """Something for a broker's event log happened."""
