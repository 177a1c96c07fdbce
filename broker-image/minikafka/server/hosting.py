"""Hosting: has the replicas of this broker follow the cluster image, and tells what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from minikafka.log.manager import LogManager
from minikafka.protocol.types import TopicPartition
from minikafka.replication.fetch_loop import FetcherPool
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.offline_logs import OfflineLogs
from minikafka.replication.partition import TruncationMode
from minikafka.replication.replica_host import (
    Dropped,
    Effect,
    HostSettings,
    IsrChanged,
    LeadershipLost,
    LogPutOff,
    LogRefused,
    MetadataBehind,
    MetadataCaughtUp,
    Opened,
    ReplicaHost,
    RoleChanged,
    TopicDeleted,
    TopicFailed,
    TopicSettled,
)
from minikafka.replication.replicas import ReplicaManager
from minikafka.replication.reporter import ReplicaReporter
from minikafka.server.context import BrokerContext
from minikafka.server.metadata_cache import MetadataCache
from minikafka.transport import turn

METADATA = "cluster metadata"
AHEAD_SHOWN_MAX = 3


class HostedGroups(Protocol):
    """Who is told which partitions of ``__consumer_offsets`` are led here, and what topics are no more."""

    def role_changed(self, partition: HostedPartition) -> None: ...

    def topics_deleted(self) -> None: ...


class PartitionHost:
    """Carries out what :class:`~minikafka.replication.replica_host.ReplicaHost` says is to be done and told.

    Args:
        context: see there.
        metadata: the image that the replicas follow.
        manager: the hosted replicas.
        fetchers: who follows the leaders.
        offline_logs: which logs cannot be used.
        reporter: told of what happens to a replica.
        groups: see there.
        look_again: has this reconciled with the image as it is, in the next round of events.
    """

    def __init__(
        self,
        context: BrokerContext,
        metadata: MetadataCache,
        manager: ReplicaManager,
        fetchers: FetcherPool[HostedPartition],
        offline_logs: OfflineLogs,
        reporter: ReplicaReporter,
        groups: HostedGroups,
        look_again: Callable[[], None],
    ) -> None:
        self.context = context
        self.manager = manager
        self._offline_logs = offline_logs
        self._reporter = reporter
        self._groups = groups
        config = context.config
        mode = TruncationMode.LEADER_EPOCH
        if config.minikafka_truncation_mode == "high_watermark":
            mode = TruncationMode.HIGH_WATERMARK
        self.replicas = ReplicaHost(
            context.broker_id,
            HostSettings(config.replica_lag_time_max_ms / 1000, mode),
            context.clock,
            manager,
            fetchers,
            lambda: metadata.image,
            lambda topic: config.topic(topic.configs),
            offline_logs.__contains__,
        )
        self._look_again = look_again

    def open(self, logs: LogManager) -> None:
        """The logs are open: replicas may be hosted."""
        self.context.observer.logs_opened(logs)
        self.replicas.logs = logs
        self._reporter.recovered(logs)

    @property
    def unsettled(self) -> set[str]:
        """Topics that are looked at again with the next image."""
        return self.replicas.unsettled

    @property
    def is_finished(self) -> bool:
        """Whether no replica is still to be made or dropped; else it has its turn with the next :meth:`reconcile` in slices."""
        return not self.replicas.unfinished

    @property
    def leads_in_name_only(self) -> set[TopicPartition]:
        """Replicas that gave up the term of which the image says that they lead it."""
        return self.replicas.leads_in_name_only

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """For the checkpoint."""
        return self.replicas.high_watermarks()

    # -- events -----------------------------------------------------------------------------------------------------------

    def reconcile(self, records: Mapping[str, Any], in_slices: bool = False) -> None:
        """Apply what has changed in the image. In slices: until that has taken as long as others may have to wait.

        By the broker's clock, which stands still meanwhile in a simulator.
        """
        until = self.context.clock.now() + turn.TURN_SECONDS_MAX if in_slices else math.inf
        self._carry_out(self.replicas.reconcile(records, until))

    def reset(self) -> None:
        """Our registration is gone: lead and follow nothing until there is a new one."""
        self.context.observer.registration_lost()
        self._carry_out(self.replicas.reset())

    def resign(self, topic_partition: TopicPartition) -> None:
        """Have the replica lead and follow nothing until :meth:`settle`: its log is offline."""
        self._carry_out(self.replicas.resign(topic_partition))

    def settle(self, topics: Collection[str]) -> None:
        """Have the replicas of these topics follow the image again, now or with the next one."""
        self.replicas.settle(topics)
        self._look_again()

    # -- effects ----------------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: list[Effect]) -> None:
        """What goes wrong with one must not keep the others from being carried out; its topic is looked at again."""
        failed: set[str] = set()
        for effect in effects:
            if isinstance(effect, TopicSettled):
                if effect.topic not in failed:
                    self.context.supervisor.clear(f"topic {effect.topic}")
                continue
            topic = _topic_of(effect)
            try:
                self._carry_out_one(effect)
            except Exception as error:
                failed.add(topic)
                self._topic_failed(TopicFailed(topic, error))
        self.manager.flush_ready()

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case Opened():
                self.context.observer.hosted(effect.partition)
            case RoleChanged():
                self._role_changed(effect.partition)
            case LeadershipLost():
                self._groups.role_changed(effect.partition)
            case IsrChanged():
                self._reporter.isr_changed(effect.partition, effect.before, effect.isr)
            case Dropped():
                self._dropped(effect)
            case LogPutOff():
                self.context.warn_rarely("descriptors", f"{effect.failure}; tried again later")
            case LogRefused():
                self.context.warn(f"{effect.topic_partition}: {effect.what}: {effect.failure}")
                self._offline_logs.failed(effect.topic_partition, effect.failure)
            case MetadataBehind():
                self._metadata_behind(effect)
            case MetadataCaughtUp():
                self._tell_ahead("")
            case TopicDeleted():
                self._groups.topics_deleted()
            case TopicFailed():
                self._topic_failed(effect)

    def _role_changed(self, partition: HostedPartition) -> None:
        self._reporter.role_changed(partition)
        self._groups.role_changed(partition)

    def _dropped(self, effect: Dropped) -> None:
        topic, index = effect.partition.topic_partition
        self._offline_logs.forget(effect.partition.topic_partition)
        self.context.events.emit("replica_stopped", topic=topic, partition=index, reason=effect.reason)
        self.context.observer.dropped(effect.partition)

    def _topic_failed(self, effect: TopicFailed) -> None:
        self.replicas.unsettled.add(effect.topic)
        self.context.supervisor.report(f"topic {effect.topic}", effect.error)

    def _metadata_behind(self, effect: MetadataBehind) -> None:
        context, partition = self.context, effect.partition
        context.warn(
            f"{effect.error}; it is left alone: put the newer state of the cluster store back, or see docs/decisions/012"
        )
        topic, index = partition.topic_partition
        context.events.emit(
            "metadata_behind_log",
            topic=topic,
            partition=index,
            leader_epoch=effect.leader_epoch,
            log_leader_epoch=partition.log.epochs.latest,
        )
        self._tell_ahead(str(effect.error))

    def _tell_ahead(self, last: str) -> None:
        ahead = self.replicas.ahead_of_metadata
        count = len(ahead)
        self.context.stats.partitions_ahead_of_metadata = count
        if not count:
            self.context.health.clear(METADATA)
            return
        some = ", ".join(map(str, sorted(ahead)[:AHEAD_SHOWN_MAX]))
        line = f"older than {count} log{'s' if count > 1 else ''} here ({some}), which are left alone"
        self.context.health.report(METADATA, f"{line}; {last}" if last else line, restart_helps=False)


def _topic_of(effect: Effect) -> str:
    """The topic that is looked at again when this cannot be carried out."""
    match effect:
        case TopicDeleted() | TopicFailed() | TopicSettled():
            return effect.topic
        case LogRefused() | LogPutOff():
            return effect.topic_partition.topic
        case MetadataCaughtUp():
            return ""
        case _:
            return effect.partition.topic_partition.topic
