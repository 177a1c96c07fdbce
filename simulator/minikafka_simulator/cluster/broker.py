"""A simulated broker: production's, from its sockets to its disk, on an event loop in virtual time.

It dies between two of its events, never inside one; what it had not flushed may die with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minikafka.controller.controller import Controller
from minikafka.controller.term import Commit, ControllerTerm
from minikafka.groups.host import GroupHost
from minikafka.log.errors import LogError
from minikafka.log.manager import LogManager
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.metadata.image import ClusterImage
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.types import TopicPartition
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.offline_logs import OfflineLogs
from minikafka.server.broker import Broker
from minikafka.server.controller_role import ControllerRole
from minikafka.server.main import live

from minikafka_simulator.cluster.gate import Gate
from minikafka_simulator.cluster.group_gate import Coordinator
from minikafka_simulator.cluster.machine import SimMachine
from minikafka_simulator.cluster.observer import SimObserver
from minikafka_simulator.cluster.process_store import ProcessStore
from minikafka_simulator.machine.loop import ProcessLoop
from minikafka_simulator.machine.streams import End
from minikafka_simulator.stores.store import CLUSTER_ID

if TYPE_CHECKING:
    from minikafka_simulator.cluster.cluster import SimCluster

APART_SHARE = 0.1
"""The share of events that do not run at once what gets ready by them: a process may die in between."""


class _Process:
    """One incarnation, for the network."""

    def __init__(self, broker: SimBroker) -> None:
        self._broker = broker
        self._incarnation = broker.incarnation
        self.ends: dict[End, None] = {}

    @property
    def broker_id(self) -> int:
        return self._broker.id

    @property
    def lives(self) -> bool:
        return self._broker.up and self._broker.incarnation == self._incarnation

    @property
    def loop(self) -> ProcessLoop:
        return self._broker.loop

    def run(self, event: Callable[[], None]) -> None:
        self._broker.run(self._incarnation, event)


class Term:
    """A term of a controller, as those see it who have no coroutines."""

    def __init__(self, broker: SimBroker, role: ControllerRole) -> None:
        self.broker = broker
        self.of = role

    @property
    def controller(self) -> Controller:
        return self.of.controller

    @property
    def term(self) -> ControllerTerm:
        return self.of.term

    def submit(self, decide: Callable[[Controller], Any], reply: Callable[[Any], None]) -> None:
        async def ask() -> None:
            try:
                reply(await self.of.submit(decide))
            except KafkaError as refused:
                reply(refused)

        self.broker.do(ask())


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
        self.server: Broker | None = None
        self.gate = Gate(self)
        self.coordinator = Coordinator(self.gate)
        self.logs: LogManager | None = None
        self.started_at = self.world.now
        self.committing: Commit | None = None
        """What the controller here writes to the store."""
        self.deciding: ClusterImage | None = None
        self._broke: BaseException | None = None
        self._stop: asyncio.Event | None = None
        self.stopping = False
        """Whether it has been asked to shut down."""
        self._store: ProcessStore | None = None
        self._term: Term | None = None
        self._process = _Process(self)
        self.loop = ProcessLoop(  # type: ignore[abstract]
            lambda: self.world.now, self.later, self.world.streams, self._process, self.world.flush_time
        )

    # -- as others see it -----------------------------------------------------------------------------------------------

    @property
    def image(self) -> ClusterImage:
        return ClusterImage(CLUSTER_ID) if self.server is None else self.server.metadata.image

    @property
    def role(self) -> Term | None:
        role = None if self.server is None or not self.up else self.server.membership.role
        if role is None:
            return None
        if self._term is None or self._term.of is not role:
            self._term = Term(self, role)
        return self._term

    @property
    def broker_epoch(self) -> int:
        return -1 if self.server is None else self.server.broker_epoch

    @property
    def groups(self) -> GroupHost:
        """For the checker."""
        assert self.server is not None
        return self.server.groups.host

    @property
    def partitions(self) -> dict[TopicPartition, HostedPartition]:
        """What it hosts."""
        return {partition.topic_partition: partition for partition in self.gate.replicas.all()}

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """What a checkpoint has to hold now, for the checker."""
        return {partition.topic_partition: partition.high_watermark for partition in self.gate.replicas.all()}

    @property
    def offline_logs(self) -> OfflineLogs | None:
        """Which logs are out of use."""
        return None if self.server is None else self.server.offline_logs

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

    def later(self, delay: float, event: Callable[[], None], given_up: Callable[[], bool] = lambda: False, /) -> None:
        """Run an event of this incarnation after some seconds, unless it is given up by then."""
        incarnation = self.incarnation
        self.world.scheduler.at(delay, lambda: None if given_up() else self.run(incarnation, event))

    def broke(self, error: BaseException) -> None:
        """Something failed that nobody expected to: the run ends after this event, unless a disk may refuse here."""
        if isinstance(error, (LogError, OSError)) and self.disk_may_refuse:
            return
        self._broke = self._broke or error

    def tolerate(self, error: Exception) -> None:
        """Go on after an error of the disk; where the disk takes everything it is a mistake."""
        if not self.disk_may_refuse:
            self.broke(error)

    def look(self) -> None:
        """In the middle of an event, before roles are left: what a leader committed in it would be nobody's after it."""
        try:
            self.world.watcher.after(self)
        except Exception as error:
            self.broke(error)
            raise

    def _do(self, event: Callable[[], None]) -> None:
        self.loop.run_event(event, at_once=self.world.server_random.random() >= APART_SHARE)
        if self._broke is not None:
            raise self._broke
        self.world.watcher.after(self)

    def do(self, work: Any) -> None:
        """Run a coroutine in this process."""
        self.loop.create_task(work).add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broke(error)

    # -- life -----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.incarnation += 1
        self._forget()
        self.up, self.paused = True, False
        self._store = ProcessStore(self)
        config = self.world.broker_config(self.id)
        self.server = Broker(
            config, self._store, SimMachine(self), SimObserver(self), self.world.store.reconcile_of(self)
        )
        self._stop = asyncio.Event()
        self.stopping = False
        self.world.store.connect(self)
        self.do(self._live(self.server, self._stop))

    def begin(self) -> None:
        """The store is open."""
        assert self._store is not None
        self._store.opened()

    def sync(self) -> None:
        """There may be something new in the store."""
        assert self._store is not None
        self._store.ring()

    async def _live(self, server: Broker, stop: asyncio.Event) -> None:
        code = await live(server, stop, lambda: None, lambda line: self.world.note(f"b{self.id} {line}"))
        self.world.note(f"b{self.id} exits with {code}")
        self.loop.call_soon(self._exited, code)

    def _exited(self, code: int) -> None:
        if not self.up:
            return
        self.up = False
        self.disk.kill()
        self._connections_close()
        if code:
            self.world.gave_up(self)

    def close(self) -> None:
        """The run is over."""
        self.loop.end()

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

    def cannot_open_store(self, why: str) -> None:
        """Exit code 2."""
        self.world.note(f"b{self.id} cannot open the store: {why}")
        self.world.store.could_not_open(why)
        self.crash(False, False)
        self.world.gave_up(self)

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
        """Ask for a controlled shutdown."""
        if self.up and not self.paused and self.broker_epoch >= 0 and self._stop is not None:
            self.world.note(f"b{self.id} shuts down")
            self.stopping = True
            self.later(0.0, self._stop.set)

    def _connections_close(self) -> None:
        self.world.connections_closed(self)
        self.world.streams.ended(self._process)
        self.world.store.disconnect(self)
        self.loop.end()
