"""Having a client wait: not reading its connection for a time (KIP-219), and measuring what its request took."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Generator
from time import perf_counter
from typing import Any, Protocol

from minikafka.quotas.rates import milliseconds

_REASON = "throttled"


class Mutable(Protocol):
    """What is looked at of a connection."""

    loop: asyncio.AbstractEventLoop | None

    def hold_frames(self, reason: str) -> None: ...

    def release_frames(self, reason: str) -> None: ...


class Muting:
    """Of one connection. What has come is not handed on and nothing more is read, until the time is over; answers go out.

    Args:
        connection: see there.
        now: seconds.
    """

    __slots__ = ("_connection", "_now", "_timer", "_until", "_waited")

    def __init__(self, connection: Mutable, now: Callable[[], float]) -> None:
        self._connection = weakref.proxy(
            connection
        )  # a circle would keep it long after it is closed, until cycles are collected
        self._now = now
        self._until = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._waited = False

    def mute(self, ms: int) -> None:
        """Mute for so long from now on. Who is muted already stays so for the longer time."""
        if ms <= 0 or (loop := self._connection.loop) is None:
            return
        self._waited = True
        self._until = max(self._until, self._now() + ms / 1000)
        if self._timer is None:
            self._connection.hold_frames(_REASON)
            self._timer = loop.call_later(ms / 1000, self._due, loop)

    def _due(self, loop: asyncio.AbstractEventLoop) -> None:
        left = self._until - self._now()
        if left > 0:
            self._timer = loop.call_later(left, self._due, loop)
            return
        self._timer = None
        self._connection.release_frames(_REASON)

    @property
    def left_ms(self) -> int:
        """For how long it is muted from now on."""
        return milliseconds(max(self._until - self._now(), 0.0))

    def take_waited(self) -> bool:
        """Whether it was muted since this was asked before."""
        waited, self._waited = self._waited, False
        return waited

    async def wait(self) -> None:
        """Wait until it is over: for those requests that had been handed on before it began."""
        if (left := self._until - self._now()) > 0:
            await asyncio.sleep(left)

    def stop(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()


class LoopTime:
    """Awaits something and measures the seconds for which it has the event loop; those for which it waits are not counted."""

    __slots__ = ("_awaited", "seconds")

    def __init__(self, awaited: Awaitable[Any]) -> None:
        self._awaited = awaited
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, value = self._awaited.__await__(), None
        thrown: BaseException | None = None
        while True:
            began = perf_counter()
            try:
                waits_for = coroutine.send(value) if thrown is None else coroutine.throw(thrown)
            except StopIteration as done:
                return done.value
            finally:
                self.seconds += perf_counter() - began
            try:
                value, thrown = (yield waits_for), None
            except BaseException as error:  # a cancellation, too: what is awaited has to deal with
                value, thrown = None, error
