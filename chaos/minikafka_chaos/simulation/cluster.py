"""A simulated cluster without any purpose yet: brokers, their store and their network in one virtual time.

:mod:`world` puts random faults and invariants on it, the simulation ground puts scenarios on it. What differs between
the two is decided here by methods that they override: how long things take, and which settings are in force.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from minikafka.config import BrokerConfig
from minikafka.controller.workspace import ControllerConfig
from minikafka.groups.config import GroupConfig
from minikafka.groups.host import LOAD_SLICE_SECONDS
from minikafka.log.config import LogConfig
from minikafka.log.log import Log
from minikafka.replication.isr import IsrProposal

from minikafka_chaos.simulation.rules import Rules
from minikafka_chaos.simulation.scheduler import Scheduler
from minikafka_chaos.simulation.store import SimStore, SqliteStores
from minikafka_chaos.simulation.watcher import Watcher

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker
    from minikafka_chaos.simulation.network import Network
    from minikafka_chaos.simulation.processes.streams import Streams

EPOCH_MS = 1_700_000_000_000
"""Unix time in milliseconds at which every simulation begins."""


class SimCluster:
    """Times are virtual seconds."""

    network: Network
    controller_config: ControllerConfig
    lag: float
    """replica.lag.time.max.ms"""
    heartbeat: float
    session: float
    fetch_timeout = 1.0
    """How long a follower waits for the answer to a fetch (replica.socket.timeout.ms)."""
    fetch_backoff = 1.0
    """replica.fetch.backoff.ms"""
    produce_timeout = 30.0
    """The time a producer gives a broker."""
    group_config = GroupConfig()
    offsets_partitions = 50
    """Of ``__consumer_offsets``."""
    load_slice = LOAD_SLICE_SECONDS
    """How long a coordinator reads its log at a time; in virtual time it takes none, so 0 means one batch at a time."""
    data_dir = "/data"
    unflushed_dir: str | None = None
    unflushed_max_bytes = sys.maxsize
    """minikafka.unflushed.max.bytes"""

    def __init__(self, scheduler: Scheduler, rules: Rules) -> None:
        self.scheduler = scheduler
        self.random = scheduler.random
        self.rules = rules
        self.store = self.open_store()
        self.watcher = Watcher()
        self.brokers: dict[int, SimBroker] = {}
        self.whole: Random
        self.streams: Streams
        self._member_ids = 0
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

    def new_member_id(self) -> str:
        """For a new member of a group."""
        self._member_ids += 1
        return f"id{self._member_ids}"

    def note(self, line: str) -> None:
        self.scheduler.note(line)

    # -- settings -------------------------------------------------------------------------------------------------------

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """The settings of the logs of a topic with these overrides."""
        raise NotImplementedError

    def broker_config(self, broker: int) -> BrokerConfig:
        """The file of a broker that starts now."""
        raise NotImplementedError

    def controller_config_of(self, broker: int) -> ControllerConfig:
        """What a broker decides by when it is the controller: its own file."""
        del broker
        return self.controller_config

    # -- how long things take ---------------------------------------------------------------------------------------------

    def fetch_wait(self) -> float:
        """How long a leader keeps a follower's fetch when there is nothing to send."""
        raise NotImplementedError

    def reader_wait(self) -> float:
        """How long a leader keeps a reader's fetch when there is nothing to send."""
        return 0.0

    def checkpoint_pause(self, first: bool) -> float:
        """The time to the next checkpoint of a broker; ``first``: that just started."""
        raise NotImplementedError

    def flush_pause(self, first: bool) -> float:
        """The time until a broker looks again whether a flush is due."""
        raise NotImplementedError

    def load_pause(self) -> float:
        """The time between two slices of a log that a coordinator reads, in seconds."""
        return 0.0

    def gave_up(self, broker: SimBroker) -> None:
        """A broker has ended by itself, for its disk refused what it cannot do without."""
        raise NotImplementedError

    def retention_pause(self) -> float | None:
        """Seconds until replicas look for what is old, again; None: they never do."""
        raise NotImplementedError

    def flush_time(self) -> float:
        """How long a flush takes that an append waits for, in seconds."""
        return self.random.uniform(0.0005, 0.01)

    def store_time(self) -> float:
        """How long an operation of the store takes, in seconds."""
        return self.random.uniform(0.0005, 0.01)

    def flush_due(self, log: Log) -> bool:
        """Whether a log is to be flushed now."""
        raise NotImplementedError

    def read_limit(self, follower: int) -> int:
        """Bytes that a follower is given at most; one batch in any case."""
        raise NotImplementedError

    def close_at(self, source: int, other: SimBroker, event: Callable[[], None]) -> None:
        """Have a broker notice that ``source`` has closed a connection to it, unless the link is cut."""
        if other.up and (source, other.id) not in self.network.cut:
            other.later(self.random.uniform(0.0, 0.01), event)

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
