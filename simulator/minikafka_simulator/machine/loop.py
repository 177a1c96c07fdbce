"""The event loop of a simulated process: virtual time, TCP between processes, and threads whose work takes a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from minikafka_simulator.machine.streams import Listener, Process, ProtocolFactory, Streams
from minikafka_simulator.machine.virtual_loop import Later, VirtualLoop

CLIENTS_PORT, BROKERS_PORT = 1000, 2000
"""A broker's listeners have these ports and its id more."""


class ProcessLoop(VirtualLoop):
    """See :class:`VirtualLoop`.

    Args:
        process: whose loop it is.
        disk_seconds: how long the work of a disk thread takes.
    """

    def __init__(
        self,
        now: Callable[[], float],
        later: Later,
        streams: Streams,
        process: Process,
        disk_seconds: Callable[[], float],
    ) -> None:
        super().__init__(now, later)
        self._streams = streams
        self._process = process
        self._disk_seconds = disk_seconds

    async def create_server(  # type: ignore[override]
        self, protocol_factory: ProtocolFactory, host: Any, port: int, *, start_serving: bool = True, **_: Any
    ) -> Listener:
        del host
        listener = Listener(self._streams, self._process, protocol_factory, port)
        if start_serving:
            await listener.start_serving()
        return listener

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: ProtocolFactory, host: str, port: int, **_: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        del host
        return await self._streams.connect(self._process, protocol_factory, port % CLIENTS_PORT, port)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """All of it is done at one moment, some time later; never, when the process has died by then."""
        del executor
        done = self.create_future()

        def work() -> None:
            try:
                found = func(*args)
            except Exception as error:
                if not done.done():
                    done.set_exception(error)
            else:
                if not done.done():
                    done.set_result(found)

        self._later(self._disk_seconds(), work)
        return done
