"""Hosting: has the replicas of this broker follow the cluster image, and tells what came of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from minikafka.log.manager import LogManager
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
    MetadataCaughtUp,
    RoleChanged,
    TopicDeleted,
    TopicFailed,
    TopicSettled,
)
from minikafka.telemetry.stats import ReplicaStatus

if TYPE_CHECKING:
    from minikafka.server.broker import Broker

METADATA = "cluster metadata"
AHEAD_SHOWN_MAX = 3


class PartitionHost:
    """Carries out what :class:`~minikafka.replication.replica_host.ReplicaHost` says is to be done and told."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        config = broker.config
        mode = TruncationMode.LEADER_EPOCH
        if config.minikafka_truncation_mode == "high_watermark":
            mode = TruncationMode.HIGH_WATERMARK
        self.replicas = broker.parts.replica_host(
            broker.broker_id,
            HostSettings(config.replica_lag_time_max_ms / 1000, mode),
            broker.clock,
            broker.replicas,
            broker.fetchers,
            lambda: broker.image,
            lambda topic: config.topic(topic.configs),
            broker.offline_logs.__contains__,
        )
        self.replicas.partition_class = broker.parts.partition

    def open(self, logs: LogManager) -> None:
        """The logs are open: replicas may be hosted."""
        self.replicas.logs = logs
        self._note_recovery()

    @property
    def unsettled(self) -> set[str]:
        """Topics that are looked at again with the next image."""
        return self.replicas.unsettled

    @property
    def leads_in_name_only(self) -> set[TopicPartition]:
        """Replicas that gave up the term of which the image says that they lead it."""
        return self.replicas.leads_in_name_only

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """For the checkpoint."""
        return self.replicas.high_watermarks()

    # -- events -----------------------------------------------------------------------------------------------------------

    def reconcile(self, records: Mapping[str, Any]) -> None:
        """Apply what has changed in the image."""
        self._carry_out(self.replicas.reconcile(records))

    def reset(self) -> None:
        """Our registration is gone: lead and follow nothing until there is a new one."""
        self._carry_out(self.replicas.reset())

    def resign(self, topic_partition: TopicPartition) -> None:
        """Have the replica lead and follow nothing until :meth:`settle`: its log is offline."""
        self._carry_out(self.replicas.resign(topic_partition))

    def settle(self, topics: Collection[str]) -> None:
        """Have the replicas of these topics follow the image again, now or with the next one."""
        self.replicas.settle(topics)
        self.broker.look_again()

    # -- effects ----------------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: list[Effect]) -> None:
        """What goes wrong with one must not keep the others from being carried out; its topic is looked at again."""
        failed: set[str] = set()
        for effect in effects:
            if isinstance(effect, TopicSettled):
                if effect.topic not in failed:
                    self.broker.supervisor.clear(f"topic {effect.topic}")
                continue
            topic = _topic_of(effect)
            try:
                self._carry_out_one(effect)
            except Exception as error:
                failed.add(topic)
                self._topic_failed(TopicFailed(topic, error))
        self.broker.replicas.flush_ready()

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case RoleChanged():
                self._role_changed(effect.partition)
            case LeadershipLost():
                self.broker.groups.role_changed(effect.partition)
            case IsrChanged():
                self.note_isr(effect.partition, effect.before, effect.isr)
            case Dropped():
                self._dropped(effect)
            case LogRefused():
                self.broker.warn(f"{effect.topic_partition}: {effect.what}: {effect.failure}")
                self.broker.offline_logs.failed(effect.topic_partition, effect.failure)
            case MetadataBehind():
                self._metadata_behind(effect)
            case MetadataCaughtUp():
                self._tell_ahead("")
            case TopicDeleted():
                self.broker.groups.topics_deleted([effect.topic])
            case TopicFailed():
                self._topic_failed(effect)

    def _role_changed(self, partition: HostedPartition) -> None:
        broker = self.broker
        topic, index = partition.topic_partition
        if partition.leader is not None:
            broker.events.emit(
                "became_leader",
                topic=topic,
                partition=index,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                start_offset=partition.leader.start_offset,
                isr=list(partition.leader.isr.committed),
                high_watermark=partition.high_watermark,
            )
        elif partition.follower is not None:
            broker.events.emit(
                "became_follower",
                topic=topic,
                partition=index,
                leader=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                log_end_offset=partition.log.log_end_offset,
                high_watermark=partition.high_watermark,
            )
            broker.note_truncations(partition)
        broker.groups.role_changed(partition)

    def _dropped(self, effect: Dropped) -> None:
        topic, index = effect.partition.topic_partition
        self.broker.offline_logs.forget(effect.partition.topic_partition)
        self.broker.events.emit("replica_stopped", topic=topic, partition=index, reason=effect.reason)

    def _topic_failed(self, effect: TopicFailed) -> None:
        self.replicas.unsettled.add(effect.topic)
        self.broker.supervisor.report(f"topic {effect.topic}", effect.error)

    def _metadata_behind(self, effect: MetadataBehind) -> None:
        broker, partition = self.broker, effect.partition
        broker.warn(
            f"{effect.error}; it is left alone: put the newer state of the cluster store back, or see docs/proposals/012"
        )
        topic, index = partition.topic_partition
        broker.events.emit(
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
        self.broker.stats.partitions_ahead_of_metadata = count
        if not count:
            self.broker.health.clear(METADATA)
            return
        some = ", ".join(map(str, sorted(ahead)[:AHEAD_SHOWN_MAX]))
        line = f"older than {count} log{'s' if count > 1 else ''} here ({some}), which are left alone"
        self.broker.health.report(METADATA, f"{line}; {last}" if last else line, restart_helps=False)

    # -- reports ----------------------------------------------------------------------------------------------------------

    def note_isr(self, partition: HostedPartition, old: tuple[int, ...], new: tuple[int, ...]) -> None:
        """Count and report a change of the ISR that the controller has written."""
        topic, index = partition.topic_partition
        stats, events = self.broker.stats, self.broker.events
        common = {
            "isr": list(new),
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.leader.partition_epoch if partition.leader else partition.partition_epoch,
            "high_watermark": partition.high_watermark,
            "log_end_offset": partition.log.log_end_offset,
        }
        removed = [r for r in old if r not in new]
        added = [r for r in new if r not in old]
        if removed:
            stats.record_isr_shrink(self.broker.clock.unix_ms() / 1000)
            events.emit("isr_shrunk", topic=topic, partition=index, removed=removed, **common)
        if added:
            stats.record_isr_expand(self.broker.clock.unix_ms() / 1000)
            events.emit("isr_expanded", topic=topic, partition=index, added=added, **common)

    def note_log_start(self, partition: HostedPartition, before: int, reason: str) -> None:
        """Report that old records were deleted, if they were."""
        after = partition.log.log_start_offset
        if after > before:
            topic, index = partition.topic_partition
            self.broker.events.emit(
                "log_start_advanced", topic=topic, partition=index, from_offset=before, to_offset=after, reason=reason
            )

    def _note_recovery(self) -> None:
        """Report how each log was found at start."""
        for tp, log in self.broker.logs.logs.items():
            found = log.recovery
            self.broker.events.emit(
                "log_recovered",
                topic=tp.topic,
                partition=tp.partition,
                clean=found.clean,
                recovery_point=found.recovery_point,
                log_end_offset=found.log_end_offset,
                truncated_bytes=found.truncated_bytes,
            )
            if found.unflushed_lost:
                self.broker.events.emit(
                    "unflushed_lost",
                    topic=tp.topic,
                    partition=tp.partition,
                    log_end_offset=found.log_end_offset,
                    high_watermark=self.broker.logs.high_watermarks.get(tp, 0),
                )

    def statuses(self) -> list[ReplicaStatus]:
        """For /metrics: hosted replicas, and on the controller the leaderless partitions that have none here."""
        broker = self.broker
        is_controller = bool(broker.stats.active_controller)
        found = []
        for partition in broker.replicas.all():
            log, leader = partition.log, partition.leader
            state = partition.state
            replicas = len(state.replicas) if state is not None else 0
            isr = len(leader.isr.committed) if leader else len(state.isr) if state is not None else 0
            min_isr = leader.effective_min_isr() if leader is not None else 0
            led_by = state.leader if state is not None else -1
            found.append(
                ReplicaStatus(
                    partition.topic_partition.topic,
                    partition.topic_partition.partition,
                    int(partition.role),
                    partition.leader_epoch,
                    log.log_start_offset,
                    log.log_end_offset,
                    partition.high_watermark,
                    log.flushed_offset,
                    isr,
                    replicas,
                    leader is not None and isr < replicas,
                    leader is not None and isr < min_isr,
                    is_controller and state is not None and state.leader < 0,
                    log.size_bytes,
                    partition.partition_epoch,
                    leader.follower_lags() if leader is not None else (),
                    leader is not None and isr == min_isr,
                    led_by,
                    state is not None and led_by >= 0 and led_by == state.replicas[0],
                )
            )
        if is_controller:
            for topic in broker.image.topics.values():
                for index, state in enumerate(topic.partitions):
                    if state.leader < 0 and broker.replicas.get(topic.name, index) is None:
                        found.append(
                            ReplicaStatus(
                                topic.name,
                                index,
                                0,
                                state.leader_epoch,
                                0,
                                0,
                                0,
                                0,
                                len(state.isr),
                                len(state.replicas),
                                False,
                                False,
                                True,
                            )
                        )
        return found


def _topic_of(effect: Effect) -> str:
    """The topic that is looked at again when this cannot be carried out."""
    match effect:
        case TopicDeleted() | TopicFailed() | TopicSettled():
            return effect.topic
        case LogRefused():
            return effect.topic_partition.topic
        case MetadataCaughtUp():
            return ""
        case _:
            return effect.partition.topic_partition.topic
