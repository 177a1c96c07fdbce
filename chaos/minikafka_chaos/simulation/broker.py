"""A broker of the simulation: production's logs, replicas and fetches in a shell made of virtual-time events.

Membership, flushes and checkpoints repeat ``minikafka.server``. A broker dies between two events, never inside one; what it had
not flushed may die with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from minikafka import __version__
from minikafka.log.manager import LogManager
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.metadata.image import ClusterImage, TopicState
from minikafka.metadata.store import StoreError
from minikafka.protocol.types import TopicPartition
from minikafka.replication.hosted import HostedPartition

from minikafka_chaos.simulation import reports
from minikafka_chaos.simulation.announcing import IsrAnnouncer
from minikafka_chaos.simulation.flushing import Flushing
from minikafka_chaos.simulation.following import fetchers
from minikafka_chaos.simulation.hosting import Hosting
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
        self.flushing = Flushing(self)
        self.isr = IsrAnnouncer(self)
        self.leading = Leading(self)
        self.fetchers = fetchers(self)
        self.hosting = Hosting(self)
        self.membership = Membership(self)
        self.ready = False
        self.started_at = self.world.now
        self.logs: LogManager | None = None

    @property
    def partitions(self) -> dict[TopicPartition, HostedPartition]:
        """What it hosts."""
        return {partition.topic_partition: partition for partition in self.leading.replicas.all()}

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
        self.hosting.host.logs = self.logs
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
        self.logs.checkpoint_high_watermarks(self.hosting.host.high_watermarks())
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
        self.hosting.reconcile(records)
        if not me.fenced and not self.ready:
            self.ready = True
            seconds = round(self.world.now - self.started_at, 4)
            self.world.event(self, "broker_ready", listeners=[], seconds=seconds)
        if self.membership.want_fence and not self.hosting.host.leads_in_name_only:
            self.membership.want_fence = False
            self.membership.step_now()

    def image_partitions(self, index: int) -> Iterator[TopicState]:
        """The topics of the cluster, as far as this broker knows, that have a partition of this number."""
        return (topic for topic in self.image.topics.values() if 0 <= index < len(topic.partitions))

    def epoch_led(self, topic_id: bytes, index: int) -> int:
        """The leader epoch in which this broker leads a partition now, -1 when it does not."""
        partition = self.leading.replicas.by_id.get(topic_id, {}).get(index)
        return -1 if partition is None or partition.leader is None else partition.leader.epoch

    # -- checkpoints ------------------------------------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        assert self.logs is not None
        self.logs.checkpoint_high_watermarks(self.hosting.host.high_watermarks())
        self.logs.checkpoint_recovery_points()
        self.world.watcher.checkpointed(self)
        self.later(self.world.checkpoint_pause(first=False), self._checkpoint)
