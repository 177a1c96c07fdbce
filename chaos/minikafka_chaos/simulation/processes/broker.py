"""A simulated broker whose process is production's, from its sockets to its disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from minikafka.controller.controller import Controller
from minikafka.controller.term import Commit, ControllerTerm
from minikafka.groups.host import GroupHost
from minikafka.log.errors import LogError
from minikafka.metadata.image import ClusterImage
from minikafka.protocol.errors import KafkaError
from minikafka.replication.hosted import HostedPartition
from minikafka.server.controller_role import ControllerRole
from minikafka.server.main import live

from minikafka_chaos.simulation.broker import SimBroker
from minikafka_chaos.simulation.processes.gate import Gate
from minikafka_chaos.simulation.processes.group_gate import WireCoordinator
from minikafka_chaos.simulation.processes.loop import ProcessLoop
from minikafka_chaos.simulation.processes.store import ProcessStore
from minikafka_chaos.simulation.processes.streams import End
from minikafka_chaos.simulation.processes.watched import WatchedBroker
from minikafka_chaos.simulation.store import CLUSTER_ID

APART_SHARE = 0.1
"""The share of events that do not run at once what gets ready by them: a process may die in between."""


class _Process:
    """One incarnation, for the network."""

    def __init__(self, broker: WholeBroker) -> None:
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


class _Role:
    """A term as those see it who have no coroutines."""

    def __init__(self, broker: WholeBroker, role: ControllerRole) -> None:
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


class WholeBroker(SimBroker):
    """One broker over all its incarnations; the disk outlives them."""

    def _forget(self) -> None:
        self.server: WatchedBroker | None = None
        self.leading = Gate(self)  # type: ignore[assignment]
        self.coordinator = WireCoordinator(self.leading)  # type: ignore[assignment, arg-type]
        self.log_dir = _LogDir(self)  # type: ignore[assignment]
        self.logs = None
        self.started_at = self.world.now
        self.committing: Commit | None = None
        """What the controller here writes to the store."""
        self.deciding: ClusterImage | None = None
        self._broke: BaseException | None = None
        self._stop: asyncio.Event | None = None
        self._store: ProcessStore | None = None
        self._role: _Role | None = None
        self._process = _Process(self)
        self.loop = ProcessLoop(  # type: ignore[abstract]
            lambda: self.world.now, self.later, self.world.streams, self._process, self.world.flush_time
        )

    # -- as others see it -----------------------------------------------------------------------------------------------

    @property
    def image(self) -> ClusterImage:  # type: ignore[override]
        return ClusterImage(CLUSTER_ID) if self.server is None else self.server.metadata.image

    @property
    def role(self) -> _Role | None:  # type: ignore[override]
        role = None if self.server is None or not self.up else self.server.membership.role
        return None if role is None else self.role_of(role)

    def role_of(self, role: ControllerRole) -> _Role:
        """The same for the same term."""
        if self._role is None or self._role.of is not role:
            self._role = _Role(self, role)
        return self._role

    @property
    def broker_epoch(self) -> int:
        return -1 if self.server is None else self.server.broker_epoch

    @property
    def stopping(self) -> bool:  # type: ignore[override]
        return self._stop is not None and self._stop.is_set()

    @property
    def groups(self) -> GroupHost:  # type: ignore[override]
        """For the checker."""
        assert self.server is not None
        return self.server.groups.host

    # -- events ---------------------------------------------------------------------------------------------------------

    def broke(self, error: BaseException) -> None:
        """Something failed that nobody expected to: the run ends after this event, unless a disk may refuse here."""
        if isinstance(error, (LogError, OSError)) and self.disk_may_refuse:
            return
        self._broke = self._broke or error

    def tolerate(self, error: Exception) -> None:
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
        self.loop.run_event(event, at_once=self.world.whole.random() >= APART_SHARE)
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
        self.server = self.world.rules.process(self, self.world.broker_config(self.id), self._store)
        self._stop = asyncio.Event()
        self.world.store.connect(self)
        self.do(self._live(self.server, self._stop))

    def begin(self) -> None:
        assert self._store is not None
        self._store.opened()

    def sync(self) -> None:
        assert self._store is not None
        self._store.ring()

    async def _live(self, server: WatchedBroker, stop: asyncio.Event) -> None:
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
        self.loop.end()

    def shut_down(self) -> None:
        if self.up and not self.paused and self.broker_epoch >= 0 and self._stop is not None:
            self.world.note(f"b{self.id} shuts down")
            self.later(0.0, self._stop.set)

    def stop(self) -> None:
        """It stops by itself."""

    def _connections_close(self) -> None:
        self.world.connections_closed(self)
        self.world.streams.ended(self._process)
        self.world.store.disconnect(self)
        self.loop.end()


class _LogDir:
    """What others ask of its logs."""

    def __init__(self, broker: WholeBroker) -> None:
        self._broker = broker

    @property
    def policy(self) -> Any:
        """Which logs are offline."""
        return () if self._broker.server is None else self._broker.server.offline_logs

    def log_failed(self, partition: HostedPartition, error: LogError) -> None:
        assert self._broker.server is not None
        self._broker.server.reporter.log_failed(partition, error)
