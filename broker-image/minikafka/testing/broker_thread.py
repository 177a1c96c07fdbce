"""A broker in a thread of this process: production's, on a disk in memory and a store that the threads share.

Its event loop is its own, so what befalls a process can befall it: killed, the loop runs nothing more, and its sockets close;
paused, it stands still with its connections open. A disk in memory has what a real one has: what was written outlives a crash,
and what was fsynced a power loss (`minikafka.log.simulated_disk`).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar, cast

import uvloop

from minikafka.config import BrokerConfig
from minikafka.log.filesystem import FileSystem, MemoryFileSystem
from minikafka.metadata.database import IN_MEMORY, Database
from minikafka.metadata.memory import MemoryStore
from minikafka.metadata.store import StoreError
from minikafka.server.broker import Broker
from minikafka.server.machine import Machine
from minikafka.server.main import live
from minikafka.transport.framing import FrameProtocol

T = TypeVar("T")
ANSWER_SECONDS_MAX = 60.0
SEND_BYTES_MAX = 1 << 18
LAST_ROUNDS = 3
"""Rounds of a dead broker's loop, in which its transports close and nothing else can be done."""


class SharedDatabase:
    """The cluster store's one database, for the brokers of all threads."""

    def __init__(self) -> None:
        self.database = Database(IN_MEMORY)
        self.lock = threading.RLock()
        self.stores: weakref.WeakSet[ThreadStore] = weakref.WeakSet()


class _LockedDatabase:
    """The database as one broker sees it while it lives."""

    def __init__(self, shared: SharedDatabase) -> None:
        self._shared = shared
        self.dead = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._shared.database, name)

        def locked(*arguments: Any) -> Any:
            with self._shared.lock:
                if self.dead:
                    raise StoreError("this broker is dead")
                return method(*arguments)

        return locked


class ThreadStore(MemoryStore):
    """The cluster store of one broker."""

    def __init__(self, shared: SharedDatabase) -> None:
        super().__init__()
        self._shared = shared
        self.view = _LockedDatabase(shared)
        self._database = cast("Database", self.view)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self, cluster_id: str | None) -> str:
        self._loop = asyncio.get_running_loop()
        self._shared.stores.add(self)
        return await super().open(cluster_id)

    def commit_now(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        revision = super().commit_now(controller_epoch, records)
        for store in list(self._shared.stores):
            store.ring()
        return revision

    def ring(self) -> None:
        """Wake who waits here for a change; from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # that broker's loop is closed
                self._loop.call_soon_threadsafe(self._rung)

    def _rung(self) -> None:
        if self._changed is not None:
            self._changed.set()


class LivingDisk:
    """A disk as one run of a broker sees it: whatever a dead one still does reaches nothing."""

    def __init__(self, disk: MemoryFileSystem) -> None:
        self._disk = disk
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        if self.dead:
            raise OSError(f"{name}: this broker is dead")
        return getattr(self._disk, name)


class ThreadMachine(Machine):
    """What a broker in a thread has of its machine."""

    def __init__(self, disk: MemoryFileSystem, log_path: Path) -> None:
        self.view = LivingDisk(disk)
        self._log_path = log_path
        self._lock = threading.Lock()

    def disk(self, config: BrokerConfig, warn: Callable[[str], None]) -> FileSystem:
        del config, warn
        return cast("FileSystem", self.view)

    def tell(self, broker_id: int, line: str) -> None:
        """A line for the operator goes to the broker's log."""
        del broker_id
        self.say(line)

    def say(self, line: str) -> None:
        """What a process would say on standard error."""
        with self._lock, self._log_path.open("a", encoding="utf-8") as log:
            log.write(line + "\n")


def _send_from_memory(sock: Any, file: Any, position: int, length: int) -> int:
    return int(sock.send(file.pread(min(length, SEND_BYTES_MAX), position)))


class BrokerLoop(uvloop.Loop):
    """Knows what is connected through it, and sends ranges of files that have no descriptor."""

    def __init__(self) -> None:
        super().__init__()
        self.protocols: weakref.WeakSet[Any] = weakref.WeakSet()
        self.servers: weakref.WeakSet[Any] = weakref.WeakSet()

    def _known(self, factory: Callable[[], Any]) -> Callable[[], Any]:
        def make() -> Any:
            protocol = factory()
            if isinstance(protocol, FrameProtocol):
                protocol.send_file = _send_from_memory
            self.protocols.add(protocol)
            return protocol

        return make

    async def create_connection(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        return await super().create_connection(self._known(protocol_factory), *args, **options)

    async def create_server(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        server = await super().create_server(self._known(protocol_factory), *args, **options)
        self.servers.add(server)
        return server


class BrokerThread:
    """One run of a broker, from its start to its end; starts at once."""

    def __init__(self, config: BrokerConfig, shared: SharedDatabase, disk: MemoryFileSystem, log_path: Path) -> None:
        self.config = config
        self.paused = False
        self.last_words = ""
        self._shared = shared
        self._disk = disk
        self._machine = ThreadMachine(disk, log_path)
        self._store = ThreadStore(shared)
        self._loop = BrokerLoop()
        self._loop.set_exception_handler(lambda _loop, context: self._machine.say(str(context.get("message"))))
        self._stop: asyncio.Event | None = None
        self._broker: Broker | None = None
        self._go_on = threading.Event()
        self._dead = False
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"broker-{config.node_id}", daemon=True)
        self._thread.start()

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        life = self._loop.create_task(self._live())
        life.add_done_callback(lambda _task: self._loop.stop())
        try:
            self._loop.run_forever()
        finally:
            self._end_of(life)

    async def _live(self) -> None:
        self._broker = Broker(self.config, self._store, self._machine)
        self._stop = asyncio.Event()
        code = await live(self._broker, self._stop, self._ready.set, self._say)
        if code:
            self._machine.say(f"ended with exit code {code}")

    def _say(self, line: str) -> None:
        self.last_words = line
        self._machine.say(line)

    def _end_of(self, life: asyncio.Task[None]) -> None:
        """Nothing of this run goes on: not what hangs in the air of its loop, nor its sockets, files and locks."""
        if life.done() and not life.cancelled() and (error := life.exception()) is not None:
            self._say(f"{type(error).__name__}: {error}")
        self._die_inside()
        for protocol in list(self._loop.protocols):
            if isinstance(protocol, FrameProtocol) and protocol.socket is not None:
                protocol.socket.close()
                protocol.socket = None
        self._loop.set_exception_handler(lambda _loop, _about: None)
        self._loop.close()
        self._disk.kill()

    def _die_inside(self) -> None:
        """From now on it changes nothing, and tells nobody anything."""
        self._machine.view.dead = self._store.view.dead = True
        self._shared.stores.discard(self._store)
        if self._broker is not None:
            self._broker.events.close()

    def _crash(self) -> None:
        self._die_inside()
        self._dead = True
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        for server in self._loop.servers:
            server.close()
        self._last_rounds(LAST_ROUNDS)

    def _last_rounds(self, left: int) -> None:
        for protocol in list(self._loop.protocols):  # in each round: some were accepted just before the end
            transport = getattr(protocol, "transport", None) or getattr(protocol, "_transport", None)
            if transport is not None:
                transport.abort()
        if left:
            self._loop.call_soon(self._last_rounds, left - 1)
        else:
            self._loop.stop()

    def _stand_still(self, standing: Future[None]) -> None:
        standing.set_result(None)
        self._go_on.wait()
        self._go_on.clear()
        if self._dead:
            self._crash()

    # -- from outside --------------------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def wait_started(self, deadline: float) -> bool:
        """Return whether it serves; waits until it does, or has ended, or the time (monotonic) is over."""
        while self.alive and not self._ready.wait(min(0.05, max(0.0, deadline - time.monotonic()))):
            if time.monotonic() > deadline:
                return False
        return self.alive and self._ready.is_set()

    def call(self, work: Callable[[], T]) -> T:
        """Do something in the thread, between two of its events; here when it stands still or has ended."""
        if self.paused or not self.alive:
            return work()
        answer: Future[T] = Future()

        def do() -> None:
            try:
                answer.set_result(work())
            except BaseException as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(do)
        return answer.result(ANSWER_SECONDS_MAX)

    def kill(self) -> None:
        """As by kill -9. Returns when it is gone."""
        if self.paused:
            self._dead = True
            self._go_on.set()
        else:
            self._loop.call_soon_threadsafe(self._crash)
        self._thread.join(ANSWER_SECONDS_MAX)
        self.paused = False

    def terminate(self, seconds: float) -> bool:
        """As by SIGTERM: a clean shutdown. Whether it was over in time."""
        if self.paused:
            self.resume()
        self._ready.clear()  # whoever waits for it from now on waits for its end
        if self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(seconds)
        return not self.alive

    def pause(self) -> None:
        """As by SIGSTOP. Returns when it stands still."""
        standing: Future[None] = Future()
        self._loop.call_soon_threadsafe(self._stand_still, standing)
        standing.result(ANSWER_SECONDS_MAX)
        self.paused = True

    def resume(self) -> None:
        """As by SIGCONT."""
        self.paused = False
        self._go_on.set()
