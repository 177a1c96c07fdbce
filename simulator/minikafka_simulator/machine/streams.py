"""TCP between simulated processes: bytes arrive in order and none is lost, however long that takes.

A cut link lets nothing through, and nobody is told; what was sent meanwhile is sent again until the link is mended. A process
that ends closes its connections, as its kernel does; what comes for a connection that nobody has any more is answered with a
reset.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from minikafka_simulator.machine.scheduler import Scheduler
from minikafka_simulator.machine.transport import MemoryTransport, feed

RETRANSMIT_SECONDS = 0.2
"""Linux's least retransmission time-out."""

SegmentSeconds = Callable[[int, int, Random], float | None]
"""How long a segment takes from one node to another; None: it is lost."""
ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Process(Protocol):
    """One incarnation of a broker, as the network sees it."""

    ends: dict[End, None]
    """Of its connections."""

    @property
    def broker_id(self) -> int: ...

    @property
    def lives(self) -> bool: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def run(self, event: Callable[[], None]) -> None:
        """Run an event in it, now or when it is no longer paused."""
        ...


class Streams:
    """All connections of one cluster."""

    def __init__(self, scheduler: Scheduler, segment_seconds: SegmentSeconds, seed: int) -> None:
        self._scheduler = scheduler
        self._segment_seconds = segment_seconds
        self._random = Random(f"streams {seed}")
        self._listeners: dict[int, Listener] = {}

    # -- the network ----------------------------------------------------------------------------------------------------

    def send(self, source: int, target: int, arrive: Callable[[], None]) -> None:
        """Have a segment arrive, sent again as often as it takes."""
        seconds = self._segment_seconds(source, target, self._random)
        if seconds is not None:
            self._scheduler.at(seconds, arrive)
        else:
            self._scheduler.at(RETRANSMIT_SECONDS, lambda: self.send(source, target, arrive))

    # -- connections ----------------------------------------------------------------------------------------------------

    def listen(self, listener: Listener) -> None:
        self._listeners[listener.port] = listener

    def unlisten(self, listener: Listener) -> None:
        if self._listeners.get(listener.port) is listener:
            del self._listeners[listener.port]

    async def connect(
        self, process: Process, factory: ProtocolFactory, target: int, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Raises ConnectionRefusedError: nobody listens there. Tries for ever: who connects has a time-out."""
        source = process.broker_id
        connected: asyncio.Future[tuple[asyncio.Transport, asyncio.BaseProtocol]] = process.loop.create_future()

        def arrive() -> None:
            if connected.done() or not process.lives:
                return
            listener = self._listeners.get(port)
            if listener is None:
                self.send(target, source, lambda: process.run(refuse))
                return
            here, there = End(self, process), End(self, listener.process)
            here.join(there)
            listener.process.run(lambda: there.open(listener.factory()))
            self.send(target, source, lambda: process.run(lambda: accept(here)))

        def refuse() -> None:
            if not connected.done():
                connected.set_exception(ConnectionRefusedError(111, "Connection refused"))

        def accept(here: End) -> None:
            if connected.done():
                here.abort()
                return
            protocol = factory()
            here.open(protocol)
            connected.set_result((here, protocol))

        self.send(source, target, arrive)
        return await connected

    def ended(self, process: Process) -> None:
        """A process is no more: its kernel closes what it had open."""
        for port, listener in list(self._listeners.items()):
            if listener.process is process:
                del self._listeners[port]
        for end in list(process.ends):
            end.orphan()


class Listener:
    """What ``loop.create_server`` gives."""

    def __init__(self, streams: Streams, process: Process, factory: ProtocolFactory, port: int) -> None:
        self._streams = streams
        self.process = process
        self.factory = factory
        self.port = port
        self.sockets = (self,)

    async def start_serving(self) -> None:
        self._streams.listen(self)

    def getsockname(self) -> tuple[str, int]:
        return "sim", self.port

    def close(self) -> None:
        self._streams.unlisten(self)


class _Fin:
    """The end of what is sent."""


FIN = _Fin()


class End(MemoryTransport):
    """One end of a connection."""

    def __init__(self, streams: Streams, process: Process) -> None:
        super().__init__()
        self._streams = streams
        self.process = process
        self._protocol: asyncio.BaseProtocol | None = None
        self._other: End
        self._under_way: deque[bytes | _Fin] = deque()
        """Sent, and not arrived at the other end."""
        self._moves = False
        self._unread: list[bytes] | None = None
        """Arrived while nothing was to be read."""
        self._closed = False

    def join(self, other: End) -> None:
        self._other, other._other = other, self
        self.process.ends[self] = None
        other.process.ends[other] = None

    def open(self, protocol: asyncio.BaseProtocol) -> None:
        """The protocol takes it over."""
        if self._closed:
            return
        self._protocol = protocol
        protocol.connection_made(self)

    # -- asyncio.Transport ----------------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return f"broker-{self._other.process.broker_id}", 0
        return default

    def is_closing(self) -> bool:
        return self._closed

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.send(data)

    def pause_reading(self) -> None:
        if self._unread is None:
            self._unread = []

    def resume_reading(self) -> None:
        unread, self._unread = self._unread, None
        for data in unread or ():
            self.process.loop.call_soon(self._received, data)

    def abort(self) -> None:
        if not self._closed:
            self._lose(None)
            self._put(FIN)

    # -- as a socket ------------------------------------------------------------------------------------------------------

    def send(self, data: bytes | bytearray | memoryview[Any], flags: int = 0) -> int:
        del flags
        if not self._closed:
            self._put(bytes(data))
        return len(data)

    # -- on the way -------------------------------------------------------------------------------------------------------

    def _put(self, what: bytes | _Fin) -> None:
        self._under_way.append(what)
        if not self._moves:
            self._moves = True
            self._streams.send(self.process.broker_id, self._other.process.broker_id, self._arrived)

    def _arrived(self) -> None:
        """All that has been sent by now."""
        self._moves = False
        under_way, self._under_way = self._under_way, deque()
        other = self._other
        if not other.process.lives:
            self._reset()
            return
        for what in under_way:
            if isinstance(what, _Fin):
                other.process.run(other._closed_there)
            else:
                other.process.run(lambda data=what: other._received(data))  # type: ignore[misc]

    def _reset(self) -> None:
        """The other end is gone: that is told when something is sent there."""
        if self.process.lives and not self._closed:
            here, there = self.process.broker_id, self._other.process.broker_id
            self._streams.send(there, here, lambda: self.process.run(lambda: self._lose(_RESET)))

    def _received(self, data: bytes) -> None:
        if self._closed or self._protocol is None:
            return
        if self._unread is not None:
            self._unread.append(data)
        elif isinstance(self._protocol, asyncio.BufferedProtocol):
            feed(self._protocol, data, lambda: not self._closed)
        else:
            assert isinstance(self._protocol, asyncio.Protocol)
            self._protocol.data_received(data)

    def _closed_there(self) -> None:
        self.abort()

    def _lose(self, error: Exception | None) -> None:
        if self._closed:
            return
        self._closed = True
        self.process.ends.pop(self, None)
        if self._protocol is not None:
            self.process.loop.call_soon(self._protocol.connection_lost, error)

    def orphan(self) -> None:
        """The process is no more."""
        if not self._closed:
            self._closed = True
            self._put(FIN)
        self.process.ends.pop(self, None)


_RESET = ConnectionResetError(104, "Connection reset by peer")
