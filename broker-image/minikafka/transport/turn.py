"""Turns on the event loop: who asks for much has it for a time, then others are served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

TURN_SECONDS_MAX = 0.005
"""After so long with the work of one client others are served."""


class Turn:
    """The time for which one client has had the event loop.

    Args:
        now: seconds.
    """

    __slots__ = ("_now", "_since")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._since = now, now()

    def begin(self) -> None:
        """It begins now."""
        self._since = self._now()

    @property
    def is_over(self) -> bool:
        """Whether it has taken longer than :data:`TURN_SECONDS_MAX`."""
        return self._now() - self._since > TURN_SECONDS_MAX


class TurnQueue:
    """Those who wait for a turn, or for another one, of which one has it in each round of the event loop.

    However many connections ask for much, whoever asks for little waits for one turn, and not for one of each of them.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_taken = False
        """Somebody has begun in this round."""

    async def first(self) -> None:
        """Wait until nobody else begins, or goes on, in this round."""
        if self._is_taken or self._waiting:
            await self.another()
            return
        self._is_taken = True
        asyncio.get_running_loop().call_soon(self._free)

    async def another(self) -> None:
        """Have others served, and wait for a turn."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._next, loop)
        await turn

    async def pass_on(self, turn: Turn) -> None:
        """Have others served where a turn is over, and begin another."""
        if turn.is_over:
            await self.another()
            turn.begin()

    def _free(self) -> None:
        self._is_taken = False

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # who has gone needs none
                turn.set_result(None)
                break
        if self._waiting:
            loop.call_soon(self._next, loop)


async def yielding(rows: Iterable[T], now: Callable[[], float], queue: TurnQueue) -> AsyncIterator[T]:
    """Give each of the rows that one client has asked for, and serve others between them."""
    turn = Turn(now)
    for row in rows:
        if turn.is_over:
            await queue.pass_on(turn)
        yield row
