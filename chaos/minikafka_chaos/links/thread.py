"""The proxy between brokers that are threads of this process: the same as in a process of its own, in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.links.proxy import Links, serve
from minikafka_chaos.links.registry import LinkFaults

ANSWER_SECONDS_MAX = 60.0


class LinkThread:
    """See `minikafka_chaos.links.control.LinkControl`, whose methods it has."""

    def __init__(self, ports: Iterable[tuple[int, int, int, bool]], seed: int) -> None:
        self._lock = threading.Lock()
        self._faults = LinkFaults()
        self._links = Links(seed)
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda _loop, _context: None)  # brokers die here on purpose
        self._thread = threading.Thread(target=self._serve, name="links", daemon=True)
        self._thread.start()
        try:
            self._ports = self._run(serve(self._links, list(ports)))
        except OSError as error:
            self._stop()
            raise ToolTrouble(f"the proxy between the brokers: {error}") from error

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_SECONDS_MAX)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_SECONDS_MAX)

    def change(self, change: Callable[[LinkFaults], bool]) -> bool:
        """Make or end faults of the network; in force when this returns. Whether there was anything to change."""
        with self._lock:
            changed = change(self._faults)
            if changed:
                self._run(self._links.set(self._faults.rules))
            return changed

    def close(self) -> None:
        """End the proxy. Safe to call twice."""
        if self._thread.is_alive():
            self._run(self._end())
            self._stop()

    async def _end(self) -> None:
        for port in self._ports:
            port.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
