"""A simulated cluster with the settings of a scenario: production's own configuration, parsed by production's code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from minikafka.config import BrokerConfig, ConfigError
from minikafka.local.layout import KEYS_SET_PER_BROKER, ClusterRecord, properties
from minikafka.telemetry.events import EventLog
from minikafka_chaos.clock import Timer
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.scenario.document import UnflushedVolume, as_config
from minikafka_chaos.scenario.scenario import ClusterSpec, ScenarioSpec

from minikafka_simulator.cluster.broker import SimBroker
from minikafka_simulator.cluster.cluster import EPOCH_MS, SimCluster
from minikafka_simulator.cluster.listeners import listeners
from minikafka_simulator.ground.connections import Connections
from minikafka_simulator.machine.scheduler import Scheduler
from minikafka_simulator.machine.streams import Streams
from minikafka_simulator.stores.store import CLUSTER_ID

EVENTS_MAX = 20_000_000
"""More than a day of a lab's cluster makes under load: a run with more has run wild."""

STORE_S = 0.003
"""An operation of the store, in one data centre."""

BASE_PORT, FIRST_ID = 9092, 0

UNFLUSHED_DIR = "/unflushed"

NOT_HERE = (
    "listener.",
    "sasl.",
    "security.",
    "ssl.",
    "minikafka.metadata.",
    "minikafka.kubernetes.",
    "minikafka.metrics.",
    "minikafka.events.",
    "minikafka.test.",
)
"""How settings begin of what a simulated broker does not have."""


def refusals(spec: ScenarioSpec) -> Iterator[str]:
    """What a scenario sets that means nothing here, or is no setting at all; a line each that names the field."""
    try:
        _file(spec.cluster, FIRST_ID)
    except ConfigError as error:
        yield from (f"cluster.config {problem}" for problem in error.problems)
        return
    for entry in spec.cluster.config:
        if entry.name in KEYS_SET_PER_BROKER or entry.name.startswith(NOT_HERE):
            yield f"cluster.config {entry.name}: not simulated; a scenario may set anything else of a broker's file"


def _file(cluster: ClusterSpec, broker: int) -> BrokerConfig:
    """The settings that a broker of this cluster would have on one machine, a lab's defaults included.

    Raises ConfigError.
    """
    found = properties(Path("/"), _record(cluster), broker) | {"minikafka.metadata.store": "memory"}
    for real in ("advertised.listeners", "minikafka.metrics.port", "minikafka.events.path"):
        del found[real]
    found |= listeners(broker) | {"log.dirs": SimCluster.data_dir}
    if "minikafka.unflushed.dir" in found:
        found["minikafka.unflushed.dir"] = UNFLUSHED_DIR
    return BrokerConfig.from_properties(found)


def _record(cluster: ClusterSpec) -> ClusterRecord:
    unflushed = cluster.unflushed_volume is UnflushedVolume.SEPARATE
    config = as_config(cluster.config)
    return ClusterRecord(
        CLUSTER_ID, cluster.brokers, BASE_PORT, cluster.racks or None, unflushed, config, first_id=FIRST_ID
    )


class RanWild(ToolTrouble):
    """More events than any cluster makes."""


class ConfiguredCluster(SimCluster):
    """Brokers 0 to N-1, with event logs in ``folder``. Raises ConfigError."""

    def __init__(self, cluster: ClusterSpec, seed: int, folder: Path) -> None:
        super().__init__(Scheduler(seed))
        ids = _record(cluster).ids
        self._files = {broker: _file(cluster, broker) for broker in ids}
        self.config = self._files[FIRST_ID]
        """What all brokers have alike."""
        self.offsets_partitions = self.config.offsets_topic_num_partitions
        if self.config.minikafka_unflushed_dir:
            self.unflushed_dir = UNFLUSHED_DIR
        self.connections = self.network = Connections(self.scheduler, self.brokers)
        self.events_paths = {broker: folder / f"broker-{broker}" / "events.jsonl" for broker in ids}
        self._events = {
            broker: EventLog(path, broker, clock=self.unix_time) for broker, path in self.events_paths.items()
        }
        self.server_random = Random(f"whole {seed}")
        self.streams = Streams(self.scheduler, self.network.segment_seconds, seed)
        self.brokers.update((broker, SimBroker(self, broker)) for broker in ids)
        self._producer_ids = 0

    def new_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def unix_time(self) -> float:
        return EPOCH_MS / 1000 + self.now

    def close(self) -> None:
        """Close the event logs."""
        for events in self._events.values():
            events.close()

    # -- settings and how long things take --------------------------------------------------------------------------------

    def broker_config(self, broker: int) -> BrokerConfig:
        return self._files[broker]

    def gave_up(self, broker: SimBroker) -> None:
        """It stays down, as a process without a supervisor does."""

    def store_time(self) -> float:
        """The same for all: the first broker of a cluster that starts is its controller, for scenarios that name brokers."""
        return STORE_S

    # -- what happens -------------------------------------------------------------------------------------------------------

    def connections_closed(self, broker: SimBroker) -> None:
        self.connections.closed(broker.id)

    def event(
        self, broker: SimBroker, name: str, topic: str | None = None, partition: int | None = None, **fields: Any
    ) -> None:
        self._events[broker.id].emit(name, topic=topic, partition=partition, **fields)

    # -- time -----------------------------------------------------------------------------------------------------------------

    def run_for(self, seconds: float) -> None:
        """Let so much time go by. Raises RanWild."""
        self.run_until(lambda: False, seconds)

    def run_until(self, holds: Callable[[], bool], deadline_s: float) -> bool:
        """Let time go by until it holds or so many seconds are over; whether it holds. Raises RanWild."""
        scheduler = self.scheduler
        end = scheduler.now + deadline_s
        while not holds():
            if scheduler.next_time > end:
                scheduler.now = end
                return holds()
            scheduler.step()
            if scheduler.events > EVENTS_MAX:
                raise RanWild(f"{EVENTS_MAX:,} events in {self.now:.1f} virtual seconds: the cluster runs wild")
        return True


class VirtualClock:
    """The time of a simulated cluster; before there is one it stands still."""

    def __init__(self) -> None:
        self.cluster: ConfiguredCluster | None = None

    def time(self) -> float:
        return EPOCH_MS / 1000 + self.monotonic()

    def monotonic(self) -> float:
        return 0.0 if self.cluster is None else self.cluster.now

    def sleep(self, seconds: float) -> None:
        if self.cluster is not None:
            self.cluster.run_for(seconds)

    def call_later(self, seconds: float, event: Callable[[], None]) -> Timer:
        """An event of the simulation, between two of its others."""
        assert self.cluster is not None, "there is no time before there is a cluster"
        timer = _VirtualTimer(event)
        self.cluster.scheduler.at(seconds, timer.fire)
        return timer


class _VirtualTimer:
    """Stays in the heap when it is cancelled, and does nothing."""

    def __init__(self, event: Callable[[], None]) -> None:
        self._event: Callable[[], None] | None = event

    def cancel(self) -> None:
        self._event = None

    def fire(self) -> None:
        if self._event is not None:
            self._event()
