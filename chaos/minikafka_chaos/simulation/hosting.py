"""Has the replicas of a simulated broker follow the cluster image, as production's host says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from minikafka.log.config import LogConfig
from minikafka.log.errors import LogError
from minikafka.metadata.image import TopicState
from minikafka.protocol.types import TopicPartition
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.partition import TruncationMode
from minikafka.replication.replica_host import (
    Dropped,
    Effect,
    HostSettings,
    IsrChanged,
    LeadershipLost,
    LogRefused,
    MetadataBehind,
    Opened,
    RoleChanged,
    TopicDeleted,
    TopicFailed,
)

from minikafka_chaos.simulation.following import note_truncations

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker


class Settings:
    """Those of a topic, on one broker."""

    def __init__(self, min_insync_replicas: int, log: LogConfig) -> None:
        self.min_insync_replicas = min_insync_replicas
        self._log = log

    def log_config(self) -> LogConfig:
        return self._log


class Hosting:
    """One incarnation's replicas."""

    def __init__(self, broker: SimBroker) -> None:
        world = broker.world
        self.broker = broker
        self._settings: dict[tuple[int, frozenset[tuple[str, str]]], Settings] = {}
        self.host = world.rules.replica_host(
            broker.id,
            HostSettings(world.lag, TruncationMode.LEADER_EPOCH),
            broker.leading.clock,
            broker.leading.replicas,
            broker.fetchers,
            lambda: broker.image,
            self._settings_of,
            broker.log_dir.policy.__contains__,
        )
        self.host.partition_class = world.rules.partition

    def _settings_of(self, topic: TopicState) -> Settings:
        """The same object as long as the settings are the same."""
        world, broker = self.broker.world, self.broker
        own = world.controller_config_of(broker.id).min_insync_replicas
        min_isr = world.rules.min_insync_replicas(broker.image, topic, own)
        key = (min_isr, frozenset(topic.configs.items()))
        if key not in self._settings:
            self._settings[key] = Settings(min_isr, world.log_config(topic.configs))
        return self._settings[key]

    def reconcile(self, records: Mapping[str, Any]) -> None:
        """Apply what has changed in the image."""
        self._carry_out(self.host.reconcile(records))

    def reset(self) -> None:
        """The registration is gone."""
        for partition in self.broker.partitions.values():
            self.broker.world.watcher.reset(self.broker, partition.topic_partition)
        self._carry_out(self.host.reset())

    def resign(self, topic_partition: TopicPartition) -> None:
        """Have a replica lead and follow nothing until :meth:`settle`: its log is offline."""
        self._carry_out(self.host.resign(topic_partition))

    def settle(self, topics: Collection[str]) -> None:
        """Have the replicas of these topics follow the image again, in the next round of events."""
        self.host.settle(topics)
        self.broker.later(0.0, lambda: self.broker.follow_image({}))

    def _carry_out(self, effects: list[Effect]) -> None:
        """Errors of the code end the run, and those of a disk that takes everything; the store never goes back."""
        broker, world = self.broker, self.broker.world
        for effect in effects:
            match effect:
                case Opened():
                    world.watcher.hosted(broker, effect.partition)
                case RoleChanged():
                    self._role_changed(effect)
                case IsrChanged():
                    broker.leading.reporter.isr_changed(effect.partition, effect.before, effect.isr)
                case Dropped():
                    self._dropped(effect.partition, effect.reason)
                case LeadershipLost():
                    broker.groups.role_changed(effect.partition)
                case TopicDeleted():
                    broker.groups.topics_deleted([effect.topic])
                case TopicFailed():
                    if not isinstance(effect.error, (LogError, OSError)):
                        raise effect.error
                    broker.tolerate(effect.error)
                    world.note(f"b{broker.id} topic {effect.topic} is looked at again: {effect.error}")
                case MetadataBehind():
                    raise effect.error
                case LogRefused():
                    broker.tolerate(effect.failure)
                    world.note(f"b{broker.id} {effect.topic_partition}: {effect.what}: {effect.failure}")
                    broker.log_dir.policy.failed(effect.topic_partition, effect.failure)

    def _role_changed(self, effect: RoleChanged) -> None:
        partition = effect.partition
        state = partition.state
        assert state is not None
        self.broker.world.note(
            f"b{self.broker.id} {partition.topic_partition} {effect.was.name.lower()} -> {partition.role.name.lower()} "
            f"epoch {state.leader_epoch}.{state.partition_epoch} leader {state.leader} "
            f"isr {list(state.isr)} leo {partition.log.log_end_offset} hw {partition.high_watermark}"
        )
        note_truncations(self.broker, partition)
        self.broker.leading.reporter.role_changed(partition)
        self.broker.groups.role_changed(partition)

    def _dropped(self, partition: HostedPartition, reason: str) -> None:
        world, tp = self.broker.world, partition.topic_partition
        world.note(f"b{self.broker.id} {tp} is dropped: {reason}")
        self.broker.log_dir.policy.forget(tp)
        world.watcher.dropped(self.broker, tp)
        world.event(self.broker, "replica_stopped", tp.topic, tp.partition, reason=reason)
