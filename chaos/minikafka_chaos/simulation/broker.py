"""A broker of the simulation: production logs and partitions in a shell made of virtual-time events.

Mirrors ``minikafka.server``: hosting, fetchers, ISR proposals, membership, checkpoints. A broker dies between two events,
never inside one; what it had not flushed may die with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from minikafka import __version__
from minikafka.log.config import LogConfig
from minikafka.log.manager import LogManager
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.metadata.image import CLUSTER_CONFIG, TOPIC, ClusterImage, PartitionState, TopicState
from minikafka.metadata.store import StoreError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.partition import ReplicationConfig, Role

from minikafka_chaos.simulation import reports
from minikafka_chaos.simulation.announcing import IsrAnnouncer
from minikafka_chaos.simulation.flushing import Flushing
from minikafka_chaos.simulation.following import fetchers, note_truncations
from minikafka_chaos.simulation.leading import Leading
from minikafka_chaos.simulation.membership import Membership
from minikafka_chaos.simulation.role import SimRole
from minikafka_chaos.simulation.store import CLUSTER_ID

if TYPE_CHECKING:
    from minikafka_chaos.simulation.cluster import SimCluster


class SimBroker:
    """One broker over all its incarnations; the disk outlives them."""

    def __init__(self, world: SimCluster, broker_id: int) -> None:
        self.world = world
        self.id = broker_id
        self.disk = MemoryFileSystem()
        self.up = False
        self.paused = False
        self.stopping = False
        self.incarnation = 0
        self.clock_off_ms = 0
        """How far the machine's wall clock is off."""
        self._backlog: list[Callable[[], None]] = []
        self.awake_since = 0.0
        """When its last pause was over."""
        self._forget()

    def _forget(self) -> None:
        self.image = ClusterImage(CLUSTER_ID)
        self.partitions: dict[TopicPartition, HostedPartition] = {}
        self.flushing = Flushing(self)
        self.isr = IsrAnnouncer(self)
        self.leading = Leading(self)
        self.fetchers = fetchers(self)
        self.membership = Membership(self)
        self.hosted_once = False
        self.ready = False
        self.started_at = self.world.now
        self.logs: LogManager | None = None

    @property
    def role(self) -> SimRole | None:
        """Its term as the controller."""
        return self.membership.role

    @property
    def broker_epoch(self) -> int:
        return self.membership.epoch

    @property
    def now_ms(self) -> int:
        """Unix time as this machine has it, in milliseconds."""
        return self.world.now_ms + self.clock_off_ms

    # -- events ---------------------------------------------------------------------------------------------------------

    def run(self, incarnation: int, event: Callable[[], None]) -> None:
        """Run an event of this incarnation now, or when a pause is over, or never."""
        if not self.up or incarnation != self.incarnation:
            return
        if self.paused:
            self._backlog.append(lambda: self.run(incarnation, event))
            return
        event()
        self.leading.replicas.flush_ready()
        self.world.watcher.after(self)

    def later(self, delay: float, event: Callable[[], None]) -> None:
        incarnation = self.incarnation
        self.world.scheduler.at(delay, lambda: self.run(incarnation, event))

    # -- life -----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        world = self.world
        self._forget()
        self.up, self.paused, self.stopping = True, False, False
        self.incarnation += 1
        self.logs = world.rules.log_manager.open(
            [world.data_dir],
            self.disk,
            cluster_id=CLUSTER_ID,
            node_id=self.id,
            config_for=lambda _: world.log_config({}),
            now_ms=self.now_ms,
            unflushed_dir=world.unflushed_dir,
        )
        world.note(f"b{self.id} starts clean={self.logs.clean} " + self._ends())
        world.watcher.started(self)
        world.event(self, "broker_starting", version=__version__, cluster_id=CLUSTER_ID)
        reports.recovered(self)
        self.later(0.0, self.sync)
        self.later(0.0, self.membership.step)
        self.later(world.lag / 2, self.isr.tick)
        self.later(world.checkpoint_pause(first=True), self._checkpoint)
        self.later(world.flush_pause(first=True), self.flushing.look)

    def _ends(self) -> str:
        assert self.logs is not None
        return " ".join(f"{tp}:{log.log_end_offset}" for tp, log in sorted(self.logs.logs.items()))

    def crash(self, lossy: bool, torn: bool) -> None:
        """The process dies; with ``lossy`` the machine does, and what was not flushed is gone (``torn``: in part)."""
        if not self.up:
            return
        self.world.note(f"b{self.id} {'loses power' if lossy else 'is killed'}{' torn' if lossy and torn else ''}")
        self.up = self.paused = False
        self._backlog.clear()
        self.membership.leave()
        if not lossy:
            self.disk.kill()
        elif torn:
            self.disk.crash(self.world.random)
        else:
            self.disk.power_loss()
        if lossy:
            self.world.watcher.lost_power(self)
        self._connections_close()

    def _connections_close(self) -> None:
        """The controller, and those who had this broker as their controller, see their connections close."""
        epoch = self.broker_epoch
        self.world.connections_closed(self)
        for other in self.world.brokers.values():
            if not other.up or other is self or (self.id, other.id) in self.world.network.cut:
                continue
            if other.role is not None and epoch >= 0:
                role = other.role
                other.later(
                    self.world.random.uniform(0.0, 0.01),
                    lambda r=role: r.submit(lambda c: c.brokers.connection_lost(self.id, epoch), lambda _: None),  # type: ignore[misc]
                )
            other.later(self.world.random.uniform(0.0, 0.01), other.membership.step_now)

    def pause(self) -> None:
        if self.up and not self.paused:
            self.world.note(f"b{self.id} pauses")
            self.paused = True

    def resume(self) -> None:
        if self.up and self.paused:
            self.world.note(f"b{self.id} resumes")
            self.paused = False
            self.awake_since = self.world.now
            backlog, self._backlog = self._backlog, []
            for event in backlog:
                event()

    def shut_down(self) -> None:
        """Controlled shutdown: asked for here, carried out by :meth:`step` once the controller agrees."""
        if self.up and not self.paused and self.broker_epoch >= 0:
            self.world.note(f"b{self.id} shuts down")
            self.world.event(self, "broker_stopping", reason="asked to stop")
            self.stopping = True
            self.membership.step_now()

    def stop(self) -> None:
        """Close everything; cleanly when the cluster knows this incarnation, so that it may trust what is on the disk."""
        assert self.logs is not None
        clean = self.broker_epoch >= 0
        self.logs.checkpoint_high_watermarks(self._high_watermarks())
        self.world.watcher.checkpointed(self)
        self.logs.close(clean=clean, broker_epoch=self.broker_epoch)
        self.world.note(f"b{self.id} stopped {'cleanly' if clean else 'without a registration'}")
        self.world.event(self, "broker_stopped", clean=clean)
        self.up = False
        self.membership.leave()
        self.disk.kill()
        self._connections_close()

    # -- the cluster image -------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Read what changed in the store."""
        world = self.world
        try:
            world.store.check(self.id)
        except StoreError:
            self.later(0.1, self.sync)
            return
        changes = world.store.inner.changes_now(self.image.revision)
        if changes.revision != self.image.revision:
            for key, value in changes.records.items():
                self.image.apply(key, value)
            self.image.revision = changes.revision
        self._apply(changes.records)

    def _apply(self, records: Any) -> None:
        me = self.image.brokers.get(self.id)
        if me is None or self.broker_epoch < 0 or me.epoch != self.broker_epoch:
            return
        if self.hosted_once and CLUSTER_CONFIG not in records:
            topics = [self.image.topics.get(k.removeprefix(TOPIC)) for k in records if k.startswith(TOPIC)]
        else:
            topics = list(self.image.topics.values())
            self.hosted_once = True
        for topic in topics:
            if topic is not None:
                for index, state in enumerate(topic.partitions):
                    self._host(topic, index, state)
        now = self.world.now
        if not me.fenced and not self.ready:
            self.ready = True
            self.world.event(self, "broker_ready", listeners=[], seconds=round(now - self.started_at, 4))
        for partition in self.partitions.values():
            if partition.leader is not None:
                for replica, remote in partition.leader.remotes.items():
                    if replica not in partition.leader.isr.maximal and remote.leo >= 0:
                        proposal = partition.leader.maybe_expand(replica, remote, now)
                        if proposal is not None:
                            self.isr.propose(proposal)
        if self.membership.want_fence:
            self.membership.want_fence = False
            self.membership.step_now()

    def eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Peers of the partitions."""
        return self.world.rules.eligible(self.image.brokers.get(broker_id), broker_epoch)

    def alive_epoch(self, broker_id: int) -> int:
        peer = self.image.brokers.get(broker_id)
        return -1 if peer is None else peer.epoch

    def image_partitions(self, index: int) -> Iterator[TopicState]:
        """The topics of the cluster, as far as this broker knows, that have a partition of this number."""
        return (topic for topic in self.image.topics.values() if 0 <= index < len(topic.partitions))

    def epoch_led(self, topic_id: bytes, index: int) -> int:
        """The leader epoch in which this broker leads a partition now, -1 when it does not."""
        partition = self.leading.replicas.by_id.get(topic_id, {}).get(index)
        return -1 if partition is None or partition.leader is None else partition.leader.epoch

    def _host(self, topic: TopicState, index: int, state: PartitionState) -> None:
        tp = TopicPartition(topic.name, index)
        partition = self.partitions.get(tp)
        if self.id not in state.replicas:
            if partition is not None:
                self._drop(tp, partition)
            return
        if partition is None:
            partition = self._create(topic, tp)
        partition.config.min_insync_replicas = self._min_isr(topic)
        was, was_leader = partition.role, partition.leader
        isr = None if was_leader is None else was_leader.isr.committed
        before = partition.high_watermark
        changed = partition.apply_state(state, self.world.now)
        if changed:
            self.world.note(
                f"b{self.id} {tp} {was.name.lower()} -> {partition.role.name.lower()} "
                f"epoch {state.leader_epoch}.{state.partition_epoch} leader {state.leader} "
                f"isr {list(state.isr)} leo {partition.log.log_end_offset} hw {partition.high_watermark}"
            )
            reports.role_changed(self, partition)
            note_truncations(self, partition)
            if was is Role.LEADER and partition.role is not Role.LEADER:
                partition.fail_producers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._wake(partition)
            if partition.follower is not None:
                self.fetchers.follow(partition, partition.leader_id)
            else:
                self.fetchers.unfollow(partition)
        elif isr is not None:
            reports.isr_changed(self, tp, isr)
        if partition.high_watermark != before:
            self.leading.replicas.high_watermark_moved(partition)

    def left_role(self, partition: HostedPartition) -> None:
        """It leads and follows no more; whoever waits at it is told."""
        self.fetchers.unfollow(partition)
        partition.fail_producers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._wake(partition)

    def _wake(self, partition: HostedPartition) -> None:
        self.leading.replicas.wake(partition.followers)
        self.leading.replicas.wake(partition.consumers)

    def _min_isr(self, topic: TopicState) -> int:
        own = self.world.controller_config_of(self.id).min_insync_replicas
        return self.world.rules.min_insync_replicas(self.image, topic, own)

    def _drop(self, tp: TopicPartition, partition: HostedPartition) -> None:
        """Reassigned to others."""
        assert self.logs is not None
        partition.resign()
        del self.partitions[tp]
        self.leading.replicas.remove(partition)
        self.left_role(partition)
        self.logs.delete(tp, now_ms=self.now_ms)
        self.world.note(f"b{self.id} {tp} is dropped")
        self.world.watcher.dropped(self, tp)
        self.world.event(self, "replica_stopped", tp.topic, tp.partition, reason="reassigned")

    def _create(self, topic: TopicState, tp: TopicPartition) -> HostedPartition:
        assert self.logs is not None
        world = self.world
        log = self.logs.create(tp, topic.topic_id, LogConfig(), now_ms=self.now_ms)
        log.configure(world.log_config(topic.configs))
        config = ReplicationConfig(self._min_isr(topic), world.lag, world.truncation_mode)
        partition = world.rules.partition(
            tp,
            topic.topic_id.bytes,
            self.id,
            log,
            config,
            self,
            self.logs.high_watermarks.get(tp, 0),
            topic_config=None,
        )
        self.partitions[tp] = partition
        self.leading.replicas.add(partition)
        world.watcher.hosted(self, partition)
        return partition

    # -- checkpoints ------------------------------------------------------------------------------------------------------

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {tp: p.high_watermark for tp, p in self.partitions.items()}

    def _checkpoint(self) -> None:
        assert self.logs is not None
        marks = self.world.rules.checkpointed(self)
        self.logs.checkpoint_high_watermarks(marks)
        self.logs.checkpoint_recovery_points()
        self.world.watcher.checkpointed(self)
        self.later(self.world.checkpoint_pause(first=False), self._checkpoint)
