"""Hosting: brings the replicas of this broker in line with the cluster image."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from minikafka.log.errors import FencedLeaderEpoch, LogDirFailure
from minikafka.metadata.image import BROKER, CLUSTER_CONFIG, TOPIC, PartitionState, TopicState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.partition import ReplicationConfig, Role, TruncationMode
from minikafka.telemetry.metrics import ReplicaStatus

if TYPE_CHECKING:
    from minikafka.server.broker import Broker

OFFSETS_TOPIC = "__consumer_offsets"

METADATA = "cluster metadata"
AHEAD_SHOWN_MAX = 3


class PartitionHost:
    """Creates, changes and drops hosted partitions as the image says. Level-triggered: looks at the state, not at the change."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._applied_once = False
        self.unsettled: set[str] = set()
        """Topics of which something failed that nobody expected to; they are looked at again at each reconciliation."""
        self.leads_in_name_only: set[TopicPartition] = set()
        """Replicas that gave up the term of which the image says that they lead it. Nobody else can, until it is ended."""
        self.ahead_of_metadata: set[TopicPartition] = set()
        """Replicas with a later leader epoch in the log than in the image. They are left alone: see :meth:`_metadata_is_old`."""

    # -- Peers (what a leader must know of other brokers) -----------------------------------------------------------------

    def eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """KIP-841, KIP-903: active, and of the incarnation that fetched."""
        peer = self.broker.image.brokers.get(broker_id)
        return peer is not None and peer.active and broker_epoch in (-1, peer.epoch)

    def alive_epoch(self, broker_id: int) -> int:
        peer = self.broker.image.brokers.get(broker_id)
        return -1 if peer is None else peer.epoch

    # -- reconcile --------------------------------------------------------------------------------------------------------

    def reconcile(self, records: Mapping[str, Any]) -> None:
        """Apply the topics among ``records`` (all the first time, and with new defaults), then what changed about brokers."""
        image = self.broker.image
        if self._applied_once and CLUSTER_CONFIG not in records:
            names = [key.removeprefix(TOPIC) for key in records if key.startswith(TOPIC)]
        else:
            names = list({*image.topics, *(tp.topic for tp in self.broker.logs.logs)})
            self._applied_once = True
        for name in dict.fromkeys((*names, *self.unsettled)):
            self.unsettled.discard(name)
            self._reconcile_topic(name, image.topics.get(name))
            if name not in self.unsettled:
                self.broker.supervisor.clear(f"topic {name}")
        if any(key.startswith(BROKER) for key in records):
            self._peers_changed()
        self.broker.replicas.flush_ready()

    def reset(self) -> None:
        """Our registration is gone: lead and follow nothing until there is a new one."""
        self._applied_once = False
        self.leads_in_name_only.clear()
        self.ahead_of_metadata.clear()
        self._tell_ahead("")
        for partition in self.broker.replicas.all():
            self.broker.fetchers.unfollow(partition)
            was_leader = partition.leader is not None
            partition.forget_state()
            if was_leader:
                self._stopped_leading(partition)
            self._wake(partition)
        self.broker.replicas.flush_ready()

    def resign(self, topic_partition: TopicPartition) -> None:
        """Have the replica lead and follow nothing until :meth:`settle`: its log is offline."""
        partition = self.broker.replicas.get(*topic_partition)
        if partition is None:
            return
        self.broker.fetchers.unfollow(partition)
        was_leader = partition.leader is not None
        partition.resign()
        if was_leader:
            self._stopped_leading(partition)
        self._wake(partition)
        self.broker.replicas.flush_ready()

    def settle(self, topics: Collection[str]) -> None:
        """Have the replicas of these topics follow the image again, now or with the next one."""
        self.unsettled.update(topics)
        self.broker.look_again()

    def _attempt(self, topic: str, work: Callable[..., None], *args: Any) -> None:
        """One step for a topic. Its failure must not keep this broker from following the rest of the image."""
        try:
            work(*args)
        except Exception as error:
            self.unsettled.add(topic)
            self.broker.supervisor.report(f"topic {topic}", error)

    def _reconcile_topic(self, name: str, topic: TopicState | None) -> None:
        hosted = self.broker.replicas.by_name.get(name, {})
        for index, partition in list(hosted.items()):
            gone = topic is None or topic.topic_id.bytes != partition.topic_id or index >= len(topic.partitions)
            if gone or (topic is not None and self.broker.broker_id not in topic.partitions[index].replicas):
                self._attempt(name, self._drop, partition, "topic deleted" if gone else "reassigned")
        for tp in [tp for tp in self.broker.logs.logs if tp.topic == name]:
            self._attempt(name, self._drop_stray, tp, topic)
        if topic is None:
            self._attempt(name, self.broker.groups.topics_deleted, [name])
            return
        for index, state in enumerate(topic.partitions):
            if self.broker.broker_id in state.replicas:
                self._attempt(name, self._apply, topic, index, state)

    def _drop_stray(self, tp: TopicPartition, topic: TopicState | None) -> None:
        """A log found at start of a topic that was deleted, or re-created under another id, while this broker was away."""
        logs = self.broker.logs
        known = topic is not None and tp.partition < len(topic.partitions)
        same = known and topic is not None and logs.topic_ids.get(tp) in (None, topic.topic_id)
        wanted = same and topic is not None and self.broker.broker_id in topic.partitions[tp.partition].replicas
        if not wanted and self.broker.replicas.get(tp.topic, tp.partition) is None:
            logs.delete(tp, now_ms=int(time.time() * 1000))

    def _drop(self, partition: HostedPartition, reason: str) -> None:
        broker = self.broker
        broker.fetchers.unfollow(partition)
        was_leader = partition.leader is not None
        partition.resign()
        broker.replicas.remove(partition)
        self.leads_in_name_only.discard(partition.topic_partition)
        self._not_ahead(partition.topic_partition)
        if was_leader:
            self._stopped_leading(partition)
        self._wake(partition)
        topic, index = partition.topic_partition
        broker.logs.delete(partition.topic_partition, now_ms=int(time.time() * 1000))
        broker.offline_logs.forget(partition.topic_partition)
        broker.events.emit("replica_stopped", topic=topic, partition=index, reason=reason)

    def _apply(self, topic: TopicState, index: int, state: PartitionState) -> None:
        broker = self.broker
        tp = TopicPartition(topic.name, index)
        if tp in broker.offline_logs:
            return  # it is applied when the log is back
        partition = broker.replicas.get(topic.name, index)
        config = broker.config.topic(topic.configs)
        if partition is None:
            try:
                partition = self._create(topic, index, config)
            except LogDirFailure as failure:
                broker.warn(f"{tp}: cannot open its log: {failure}")
                broker.offline_logs.failed(tp, failure)
                return
        elif partition.topic_config is not config:
            partition.topic_config = config
            partition.config.min_insync_replicas = config.min_insync_replicas
            partition.log.configure(config.log_config())
        was = partition.role
        known = partition.leader.isr.committed if partition.leader is not None else None
        before = partition.high_watermark
        try:
            changed = partition.apply_state(state, time.monotonic())
        except LogDirFailure as failure:
            broker.warn(f"{tp}: cannot take leader epoch {state.leader_epoch}: {failure}")
            if was is Role.LEADER:
                self._stopped_leading(partition)
            broker.offline_logs.failed(tp, failure)
            return
        except FencedLeaderEpoch as error:
            self._metadata_is_old(partition, state, error)
            return
        self._not_ahead(tp)
        if partition.leader is None and partition.leader_id == broker.broker_id:
            self.leads_in_name_only.add(tp)
        else:
            self.leads_in_name_only.discard(tp)
        if changed:
            self._role_changed(partition, was)
        elif known is not None and partition.leader is not None and partition.leader.isr.committed != known:
            self.note_isr(partition, known, partition.leader.isr.committed)
        if partition.high_watermark != before:
            broker.replicas.high_watermark_moved(partition)

    def _metadata_is_old(self, partition: HostedPartition, state: PartitionState, error: FencedLeaderEpoch) -> None:
        """Somebody has put an older state of the cluster store in its place (proposal 012).

        The replica takes no part until the metadata has caught up with its log. The broker does not ask to be fenced for it:
        the controller would elect others from the ISR of then, term by term, until one of them may cut off what was
        acknowledged since. A partition without a leader can still be put right.
        """
        broker, tp = self.broker, partition.topic_partition
        broker.fetchers.unfollow(partition)
        self._stopped_leading(partition)
        self._wake(partition)
        if tp in self.ahead_of_metadata:
            return
        self.ahead_of_metadata.add(tp)
        latest = partition.log.epochs.latest
        broker.warn(
            f"{error}; it is left alone: put the newer state of the cluster store back, or see docs/proposals/012"
        )
        broker.events.emit(
            "metadata_behind_log",
            topic=tp.topic,
            partition=tp.partition,
            leader_epoch=state.leader_epoch,
            log_leader_epoch=latest,
        )
        self._tell_ahead(str(error))

    def _not_ahead(self, tp: TopicPartition) -> None:
        if tp in self.ahead_of_metadata:
            self.ahead_of_metadata.discard(tp)
            self._tell_ahead("")

    def _tell_ahead(self, last: str) -> None:
        count = len(self.ahead_of_metadata)
        self.broker.stats.partitions_ahead_of_metadata = count
        if not count:
            self.broker.health.clear(METADATA)
            return
        some = ", ".join(map(str, sorted(self.ahead_of_metadata)[:AHEAD_SHOWN_MAX]))
        line = f"older than {count} log{'s' if count > 1 else ''} here ({some}), which are left alone"
        self.broker.health.report(METADATA, f"{line}; {last}" if last else line, restart_helps=False)

    def _create(self, topic: TopicState, index: int, config: Any) -> HostedPartition:
        broker = self.broker
        tp = TopicPartition(topic.name, index)
        log = broker.logs.create(tp, topic.topic_id, config.log_config(), now_ms=int(time.time() * 1000))
        log.configure(config.log_config())
        partition = HostedPartition(
            tp,
            topic.topic_id.bytes,
            broker.broker_id,
            log,
            ReplicationConfig(
                config.min_insync_replicas,
                broker.config.replica_lag_time_max_ms / 1000,
                TruncationMode.HIGH_WATERMARK
                if broker.config.minikafka_truncation_mode == "high_watermark"
                else TruncationMode.LEADER_EPOCH,
            ),
            self,
            broker.logs.high_watermarks.get(tp, 0),
            topic_config=config,
        )
        broker.replicas.add(partition)
        return partition

    def _role_changed(self, partition: HostedPartition, was: Role) -> None:
        broker = self.broker
        topic, index = partition.topic_partition
        if was is Role.LEADER and partition.role is not Role.LEADER:
            self._stopped_leading(partition)
        broker.fetchers.unfollow(partition)
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
            broker.fetchers.follow(partition, partition.leader_id)
        self._wake(partition)
        if topic == OFFSETS_TOPIC:
            broker.groups.on_leadership_change(index, partition.leader is not None, partition.leader_epoch)

    def _stopped_leading(self, partition: HostedPartition) -> None:
        partition.fail_producers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        topic, index = partition.topic_partition
        if topic == OFFSETS_TOPIC and partition.leader is None:
            self.broker.groups.on_leadership_change(index, False, partition.leader_epoch)

    def _wake(self, partition: HostedPartition) -> None:
        """Nobody waits at a replica whose role has changed."""
        self.broker.replicas.wake(partition.followers)
        self.broker.replicas.wake(partition.consumers)

    def _peers_changed(self) -> None:
        """A broker that is active again may be let into ISRs now, not at its next fetch."""
        now = time.monotonic()
        for partition in self.broker.replicas.all():
            leader = partition.leader
            if leader is None or len(leader.isr.maximal) == len(leader.remotes) + 1:
                continue
            for replica, remote in leader.remotes.items():
                if replica not in leader.isr.maximal and remote.leo >= 0:
                    proposal = leader.maybe_expand(replica, remote, now)
                    if proposal is not None:
                        self.broker.replicas.propose(proposal)

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
            stats.record_isr_shrink(time.time())
            events.emit("isr_shrunk", topic=topic, partition=index, removed=removed, **common)
        if added:
            stats.record_isr_expand(time.time())
            events.emit("isr_expanded", topic=topic, partition=index, added=added, **common)

    def note_log_start(self, partition: HostedPartition, before: int, reason: str) -> None:
        """Report that old records were deleted, if they were."""
        after = partition.log.log_start_offset
        if after > before:
            topic, index = partition.topic_partition
            self.broker.events.emit(
                "log_start_advanced", topic=topic, partition=index, from_offset=before, to_offset=after, reason=reason
            )

    def note_recovery(self) -> None:
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

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """For the checkpoint: hosted replicas, and what the checkpoint said of logs that are not hosted yet (KAFKA-1647)."""
        found = {tp: hw for tp, hw in self.broker.logs.high_watermarks.items() if tp in self.broker.logs.logs}
        found.update((p.topic_partition, p.high_watermark) for p in self.broker.replicas.all())
        return found

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
                    leader is not None and isr < leader.effective_min_isr(),
                    is_controller and state is not None and state.leader < 0,
                    log.size_bytes,
                    partition.partition_epoch,
                    leader.follower_lags() if leader is not None else (),
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
