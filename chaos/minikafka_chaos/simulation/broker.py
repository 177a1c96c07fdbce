"""A broker of the simulation: production's logs, replicas and fetches in a shell made of virtual-time events.

Flushes and checkpoints repeat ``minikafka.server``. A broker dies between two events, never inside one; what it had
not flushed may die with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from minikafka import __version__
from minikafka.controller.controller import Controller
from minikafka.controller.heartbeats import HeartbeatConnections, Heartbeats
from minikafka.log.errors import LogError
from minikafka.log.manager import LogManager
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.metadata.image import ClusterImage, TopicState
from minikafka.metadata.store import Changes, StoreError
from minikafka.protocol.types import TopicPartition
from minikafka.replication.hosted import HostedPartition

from minikafka_chaos.simulation import groups
from minikafka_chaos.simulation.announcing import IsrAnnouncer
from minikafka_chaos.simulation.flushing import Flushing
from minikafka_chaos.simulation.following import fetchers
from minikafka_chaos.simulation.hosting import Hosting
from minikafka_chaos.simulation.leading import Leading
from minikafka_chaos.simulation.log_dir import SimLogDir
from minikafka_chaos.simulation.membership import NOT_CONTROLLER, ControllerConnection, Membership
from minikafka_chaos.simulation.network import Reply
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
        self.incarnation = 0
        self.disk_may_refuse = False
        """Its disk has refused something in this run, or may; otherwise an error of the disk is a mistake."""
        self.clock_off_ms = 0
        """How far the machine's wall clock is off."""
        self._backlog: list[Callable[[], None]] = []
        self.paused_at = 0.0
        """When it paused last."""
        self.awake_since = 0.0
        """When its last pause was over."""
        self._forget()

    def _forget(self) -> None:
        self.image = ClusterImage(CLUSTER_ID)
        self.flushing = Flushing(self)
        self.isr = IsrAnnouncer(self)
        self.leading = Leading(self)
        self.log_dir = SimLogDir(self)
        self.leading.replicas.log_failed = self.log_dir.log_failed
        self.groups = groups.host(self)
        self.coordinator = groups.Coordinator(self.groups)
        self.fetchers = fetchers(self)
        self.hosting = Hosting(self)
        self.membership = Membership(self)
        self.stopping = False
        self.heartbeats = HeartbeatConnections[ControllerConnection]()
        self.ready = False
        self.started_at = self.world.now
        self._applies = False
        """What was read from the store is under way to it."""
        self._rung = False
        self.logs: LogManager | None = None

    @property
    def partitions(self) -> dict[TopicPartition, HostedPartition]:
        """What it hosts."""
        return {partition.topic_partition: partition for partition in self.leading.replicas.all()}

    @property
    def role(self) -> SimRole | None:
        """Its term as the controller."""
        return self.membership.role if self.up else None

    @property
    def broker_epoch(self) -> int:
        return self.membership.lifecycle.broker_epoch

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
        self._do(event)

    def _do(self, event: Callable[[], None]) -> None:
        event()
        self.leading.replicas.flush_ready()
        self.world.watcher.after(self)

    def tolerate(self, error: Exception) -> None:
        """Go on after an error of the disk. Raises it where the disk takes everything: then it is a mistake."""
        if not self.disk_may_refuse:
            raise error

    def later(self, delay: float, event: Callable[[], None], given_up: Callable[[], bool] = lambda: False, /) -> None:
        """Run an event of this incarnation after some seconds, unless it is given up by then."""
        incarnation = self.incarnation
        self.world.scheduler.at(delay, lambda: None if given_up() else self.run(incarnation, event))

    # -- life -----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        world = self.world
        self.incarnation += 1
        self._forget()
        self.up, self.paused = True, False
        try:
            self.logs = world.rules.log_manager.open(
                [world.data_dir],
                self.disk,
                cluster_id=CLUSTER_ID,
                node_id=self.id,
                config_for=lambda _: world.log_config({}),
                now_ms=self.now_ms,
                unflushed_dir=world.unflushed_dir,
                unflushed_max_bytes=world.unflushed_max_bytes,
            )
        except (LogError, OSError) as error:
            self.tolerate(error)
            world.note(f"b{self.id} cannot start: {error}")
            self.up = False
            self.disk.kill()
            world.gave_up(self)
            return
        self.hosting.host.logs = self.log_dir.policy.logs = self.logs
        self.leading.reporter.watch_volume(self.logs.unflushed_volume)
        world.note(f"b{self.id} starts clean={self.logs.clean} " + self._ends())
        world.watcher.started(self)
        world.event(self, "broker_starting", version=__version__, cluster_id=CLUSTER_ID)
        self.leading.reporter.recovered(self.logs)
        world.store.connect(self)
        self.later(world.lag / 2, self.isr.tick)
        self.later(world.checkpoint_pause(first=True), self._checkpoint)
        self.later(world.flush_pause(first=True), self.flushing.look)
        if (pause := world.retention_pause()) is not None:
            self.later(pause, self._retain)

    def cannot_open_store(self, why: str) -> None:
        """Exit code 2."""
        self.world.note(f"b{self.id} cannot open the store: {why}")
        self.world.store.could_not_open(why)
        self.crash(False, False)
        self.world.gave_up(self)

    def begin(self) -> None:
        """The store is open."""
        self.later(0.0, self.sync)
        self.later(0.0, self.membership.start)

    def _ends(self) -> str:
        assert self.logs is not None
        return " ".join(f"{tp}:{log.log_end_offset}" for tp, log in sorted(self.logs.logs.items()))

    def close(self) -> None:
        """The run is over."""

    def crash(self, lossy: bool, torn: bool) -> None:
        """The process dies; with ``lossy`` the machine does, and what was not flushed is gone (``torn``: in part)."""
        if not self.up:
            return
        self.world.note(f"b{self.id} {'loses power' if lossy else 'is killed'}{' torn' if lossy and torn else ''}")
        self.up = self.paused = False
        self._backlog.clear()
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
        """Who has a connection to this broker sees it close, as far as the links let that through."""
        self.world.connections_closed(self)
        self.world.store.disconnect(self)
        self.membership.hang_up()
        for other in self.world.brokers.values():
            connection = other.membership.connection
            if other.up and connection is not None and connection.controller == self.id:
                self.world.close_at(self.id, other, lambda o=other, c=connection: o.membership.connection_closed(c))  # type: ignore[misc]

    # -- what others ask of the controller ------------------------------------------------------------------------------------

    def serve_broker(
        self,
        connection: ControllerConnection,
        heard: Heartbeats | None,
        decide: Callable[[Controller], Any],
        reply: Reply,
    ) -> None:
        """A request of another broker; ``heard``: it is a heartbeat, of this incarnation."""
        role = self.role
        if role is None:
            reply(NOT_CONTROLLER)
            return
        if heard is not None and role.term.has_registered(heard.broker_id, heard.broker_epoch):
            # before anything moves: who says so may be of the past, or nobody
            self.heartbeats.heard_from(connection, heard._replace(controller_epoch=role.term.epoch))
        role.submit(decide, reply)

    def connection_closed(self, connection: ControllerConnection) -> None:
        """Another broker's connection has ended."""
        lost = self.heartbeats.closed(connection)
        if lost is not None and self.role is not None:
            self.role.ask(self.role.term.connection_lost(lost, self.world.now))

    def pause(self) -> None:
        if self.up and not self.paused:
            self.world.note(f"b{self.id} pauses")
            self.paused = True
            self.paused_at = self.world.now

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
            self.membership.shut_down()

    def stop(self) -> None:
        """Close everything; cleanly when the cluster knows this incarnation, so that it may trust what is on the disk."""
        if not self.up:
            return
        assert self.logs is not None
        self.groups.stop()
        clean = self.broker_epoch >= 0
        self.log_dir.policy.stop()
        try:
            self._write_high_watermarks()
            self.logs.close(clean=clean, broker_epoch=self.broker_epoch)
        except (LogError, OSError) as error:
            self.tolerate(error)
            clean = False
            self.world.note(f"b{self.id} data directory: {error}")
        self.world.note(f"b{self.id} stopped {'cleanly' if clean else 'without a registration'}")
        self.world.event(self, "broker_stopped", clean=clean)
        self.up = False
        self.disk.kill()
        self._connections_close()

    # -- the cluster image -------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Read what changed in the store."""
        world = self.world
        if self._applies:
            self._rung = True
            return
        try:
            changes = world.store.changes_for(self)
        except StoreError:
            self.later(0.1, self.sync)
            return
        late = world.applies_late.get(self.id)
        if late is None:
            self._take(changes)
            return
        self._applies = True

        def arrived() -> None:
            self._applies = False
            self._take(changes)
            if self._rung:
                self._rung = False
                self.later(0.0, self.sync)  # in production the event loop comes in between

        self.later(late, arrived)

    def _take(self, changes: Changes) -> None:
        if changes.revision != self.image.revision:
            for key, value in changes.records.items():
                self.image.apply(key, value)
            self.image.revision = changes.revision
        self.follow_image(changes.records)

    def follow_image(self, records: Mapping[str, Any]) -> None:
        """Make the replicas what the image says, of which these records have changed."""
        me = self.membership.lifecycle.in_image(self.image)
        if me is None:
            return
        self.hosting.reconcile(records)
        self.world.watcher.settled(self)
        if not me.fenced and not self.ready:
            self.ready = True
            seconds = round(self.world.now - self.started_at, 4)
            self.world.event(self, "broker_ready", listeners=[], seconds=seconds)
        self.membership.replicas_settled()

    def image_partitions(self, index: int) -> Iterator[TopicState]:
        """The topics of the cluster, as far as this broker knows, that have a partition of this number."""
        return (topic for topic in self.image.topics.values() if 0 <= index < len(topic.partitions))

    def epoch_led(self, topic_id: bytes, index: int) -> int:
        """The leader epoch in which this broker leads a partition now, -1 when it does not."""
        partition = self.leading.replicas.by_id.get(topic_id, {}).get(index)
        return -1 if partition is None or partition.leader is None else partition.leader.epoch

    # -- checkpoints ------------------------------------------------------------------------------------------------------

    def write_checkpoints(self) -> None:
        """All of them, now. Raises LogDirFailure or OSError: the disk takes no writes."""
        assert self.logs is not None
        self._write_high_watermarks()
        self.logs.checkpoint_recovery_points()

    def _write_high_watermarks(self) -> None:
        assert self.logs is not None
        try:
            self.logs.checkpoint_high_watermarks(self.hosting.host.high_watermarks())
        except (LogError, OSError):
            self.world.watcher.checkpointed(self, perhaps=True)
            raise
        self.world.watcher.checkpointed(self)

    def _checkpoint(self) -> None:
        try:
            self.write_checkpoints()
        except (LogError, OSError) as error:
            self.tolerate(error)
            self.world.note(f"b{self.id} cannot write its checkpoints: {error}")
        self.later(self.world.checkpoint_pause(first=False), self._checkpoint)

    def _retain(self) -> None:
        """Delete what is old, of every replica, and the files of logs that were deleted."""
        world = self.world
        assert self.logs is not None
        for partition in self.leading.replicas.all():
            log, before = partition.log, partition.log.log_start_offset
            if log.failure is not None:
                continue
            try:
                world.rules.retain(partition, self.now_ms)
            except LogError as error:
                if log.failure is not None:  # left half done: how much of it is gone nobody knows
                    world.watcher.retained(self, partition, min(partition.high_watermark, log.segments[-1].base_offset))
                self.log_dir.log_failed(partition, error)
            if log.log_start_offset > before:
                world.note(f"b{self.id} {partition.topic_partition} log start {before} -> {log.log_start_offset}: old")
                world.watcher.retained(self, partition, log.log_start_offset)
                self.leading.reporter.log_start_moved(partition, before, "retention")
        for work in self.logs.prepare_purge(self.now_ms):
            try:
                work()
            except (LogError, OSError) as error:
                self.tolerate(error)
                world.note(f"b{self.id} cannot remove what was deleted: {error}")
        pause = world.retention_pause()
        assert pause is not None
        self.later(pause, self._retain)
