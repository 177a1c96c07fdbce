"""A simulated cluster with the settings of a scenario: production's own configuration, parsed by production's code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from minikafka.config import BrokerConfig, ConfigError
from minikafka.controller_settings import controller_config
from minikafka.groups.config import GroupConfig
from minikafka.local.layout import ClusterRecord, properties
from minikafka.log.config import FOREVER, LogConfig
from minikafka.log.log import Log
from minikafka.replication.partition import TruncationMode
from minikafka.telemetry.events import EventLog

from minikafka_chaos.clock import Timer
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.scenario.document import ConfigEntry, UnflushedVolume, as_config
from minikafka_chaos.scenario.scenario import ClusterSpec, ScenarioSpec
from minikafka_chaos.simulation.broker import SimBroker
from minikafka_chaos.simulation.cluster import EPOCH_MS, SimCluster
from minikafka_chaos.simulation.connections import Connections
from minikafka_chaos.simulation.processes.broker import WholeBroker
from minikafka_chaos.simulation.processes.configuration import listeners
from minikafka_chaos.simulation.processes.streams import Streams
from minikafka_chaos.simulation.rules import Rules
from minikafka_chaos.simulation.scheduler import Scheduler
from minikafka_chaos.simulation.store import CLUSTER_ID

EVENTS_MAX = 20_000_000
"""More than a day of a lab's cluster makes under load: a run with more has run wild."""

FLUSH_CHECK_S, FLUSH_CHECK_IDLE_S = 0.1, 1.0
"""As in the broker's housekeeping: with settings that ask for flushes, and without."""

FETCH_PATIENCE_S = 5.0
"""Beyond replica.fetch.wait.max.ms. A leader that has died or is cut off is noticed by other means."""

STORE_S = 0.003
"""An operation of the store, in one data centre."""

BASE_PORT = 9092

UNFLUSHED_DIR = "/unflushed"

BROKER_SETTINGS = frozenset(
    (
        "auto.leader.rebalance.enable",
        "broker.heartbeat.interval.ms",
        "broker.session.timeout.ms",
        "default.replication.factor",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "leader.imbalance.check.interval.seconds",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.retention.bytes",
        "log.retention.check.interval.ms",
        "log.retention.hours",
        "log.retention.minutes",
        "log.retention.ms",
        "log.roll.hours",
        "log.roll.ms",
        "log.segment.bytes",
        "message.max.bytes",
        "min.insync.replicas",
        "minikafka.truncation.mode",
        "minikafka.unclean.shutdown.policy",
        "num.partitions",
        "offset.metadata.max.bytes",
        "offsets.commit.timeout.ms",
        "offsets.retention.check.interval.ms",
        "offsets.retention.minutes",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        "producer.id.expiration.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.high.watermark.checkpoint.interval.ms",
        "replica.lag.time.max.ms",
        "unclean.leader.election.enable",
    )
)
"""What a scenario may set: what production's replication, controller and log do with it here, they do there."""

TOPIC_SETTINGS = frozenset(
    (
        "flush.messages",
        "flush.ms",
        "index.interval.bytes",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.ms",
        "unclean.leader.election.enable",
    )
)


def refusals(spec: ScenarioSpec) -> Iterator[str]:
    """What a scenario sets that means nothing here, or is no setting at all; a line each that names the field."""
    try:
        config = broker_config(spec.cluster)
    except ConfigError as error:
        yield from (f"cluster.config {problem}" for problem in error.problems)
        return
    yield from _strange("cluster.config", spec.cluster.config, BROKER_SETTINGS)
    for topic in spec.topics:
        try:
            config.validate_topic_overrides(as_config(topic.config))
        except ConfigError as error:
            yield from (f"topic {topic.name}: config {problem}" for problem in error.problems)
            continue
        yield from _strange(f"topic {topic.name}: config", topic.config, TOPIC_SETTINGS)


def _strange(field: str, entries: list[ConfigEntry], known: frozenset[str]) -> Iterator[str]:
    for entry in entries:
        if entry.name not in known:
            yield f"{field} {entry.name}: not simulated; allowed: {', '.join(sorted(known))}"


def broker_config(cluster: ClusterSpec) -> BrokerConfig:
    """The settings that a broker of this cluster would have on one machine, a lab's defaults included.

    Raises ConfigError.
    """
    return BrokerConfig.from_properties(_properties(cluster))


def _properties(cluster: ClusterSpec, broker: int = 0) -> dict[str, str]:
    found = properties(Path("/"), _record(cluster), broker) | {"minikafka.metadata.store": "memory"}
    for real in ("advertised.listeners", "minikafka.metrics.port", "minikafka.events.path"):
        del found[real]
    found |= listeners(broker) | {"log.dirs": SimCluster.data_dir}
    if "minikafka.unflushed.dir" in found:
        found["minikafka.unflushed.dir"] = UNFLUSHED_DIR
    return found


def _record(cluster: ClusterSpec) -> ClusterRecord:
    unflushed = cluster.unflushed_volume is UnflushedVolume.SEPARATE
    config = as_config(cluster.config)
    return ClusterRecord(CLUSTER_ID, cluster.brokers, BASE_PORT, cluster.racks or None, unflushed, config, first_id=0)


class RanWild(ToolTrouble):
    """More events than any cluster makes."""


class ConfiguredCluster(SimCluster):
    """Brokers 0 to N-1, with event logs in ``folder``; ``rules`` may have a mistake put in. Raises ConfigError."""

    def __init__(self, cluster: ClusterSpec, seed: int, folder: Path, rules: Rules | None = None) -> None:
        super().__init__(Scheduler(seed), rules or Rules())
        self.config = broker_config(cluster)
        record = _record(cluster)
        self._racks = {broker: record.rack(broker) for broker in record.ids}
        config = self.config
        self.controller_config = controller_config(config)
        self.group_config = GroupConfig.of(config)
        self.offsets_partitions = config.offsets_topic_num_partitions
        self.lag = config.replica_lag_time_max_ms / 1000
        self.heartbeat = config.broker_heartbeat_interval_ms / 1000
        self.session = config.broker_session_timeout_ms / 1000
        if config.minikafka_truncation_mode == "high_watermark":
            self.truncation_mode = TruncationMode.HIGH_WATERMARK
        self.fetch_timeout = config.replica_fetch_wait_max_ms / 1000 + FETCH_PATIENCE_S
        if config.minikafka_unflushed_dir:
            self.unflushed_dir = UNFLUSHED_DIR
        self.connections = self.network = Connections(self)
        self.events_paths = {broker: folder / f"broker-{broker}" / "events.jsonl" for broker in self._racks}
        self._events = {
            broker: EventLog(path, broker, clock=self.unix_time) for broker, path in self.events_paths.items()
        }
        self._files = {broker: BrokerConfig.from_properties(_properties(cluster, broker)) for broker in self._racks}
        self.whole = Random(f"whole {seed}")
        self.streams = Streams(self, seed)
        self.brokers = {broker: WholeBroker(self, broker) for broker in self._racks}

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

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        return self.config.topic(overrides).log_config()

    def broker_config(self, broker: int) -> BrokerConfig:
        return self._files[broker]

    def rack(self, broker: int) -> str | None:
        return self._racks[broker]

    def fetch_wait(self) -> float:
        return self.config.replica_fetch_wait_max_ms / 1000

    def checkpoint_pause(self, first: bool) -> float:
        del first
        return self.config.replica_high_watermark_checkpoint_interval_ms / 1000

    def flush_pause(self, first: bool) -> float:
        del first
        asked = any(
            min(log.config.flush_interval_messages, log.config.flush_interval_ms) < FOREVER
            for broker in self.brokers.values()
            if broker.up and broker.logs is not None
            for log in broker.logs.logs.values()
        )
        return FLUSH_CHECK_S if asked else FLUSH_CHECK_IDLE_S

    def gave_up(self, broker: SimBroker) -> None:
        """It stays down, as a process without a supervisor does."""

    def retention_pause(self) -> float:
        return self.config.log_retention_check_interval_ms / 1000

    def flush_due(self, log: Log) -> bool:
        return log.needs_flush(self.now)

    def store_time(self) -> float:
        """The same for all: the first broker of a cluster that starts is its controller, for scenarios that name brokers."""
        return STORE_S

    def read_limit(self, follower: int) -> int:
        del follower
        return self.config.replica_fetch_max_bytes

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
