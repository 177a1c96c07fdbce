"""Turns on the event loop: who asks for much has it for a time, then others are served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

TURN_SECONDS_MAX = 0.005
"""After so long with the work of one client others are served."""

WOKEN_MAX = 64
"""Of those who wait for a turn, in one round of the event loop."""

ASKED_BY: ContextVar[str] = ContextVar("asked by", default="")
"""The user for whom a task works, who shares turns with nobody else."""


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
    """Those who wait for a turn, or for another one, of whom some have it in each round of the event loop.

    However many connections ask for much, whoever asks for little waits for a few turns, and not for one of each of them. Nor do
    those who ask for much wait for all who ask for little: where these take long in each round, the turns have half as long.
    Users have turns by turns (:data:`ASKED_BY`), of each the one that has waited for longest.

    Args:
        now: seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By user, whose turn is next first."""
        self._again: deque[asyncio.Future[None]] = deque()
        """Those that were woken when there was no time left for them."""
        self._is_taken = False
        """Somebody has begun in this round without waiting."""
        self._is_called = False
        """:meth:`_next` runs in the next round."""
        self._woken = self._went_on = 0
        """How many were woken in this round, and how many of them had time for a turn."""
        self._began: float | None = None
        """When the turns of this round began."""
        self._seconds = 0.0
        """How long they may take."""
        self._last = 0.0
        """When a turn was given last, or, where nobody waited, the first was asked for."""

    async def first(self) -> None:
        """Wait until nobody else begins, or goes on, in this round."""
        if self._is_taken or self._is_called:
            await self.another()
            return
        self._is_taken = True
        asyncio.get_running_loop().call_soon(self._free)

    async def another(self) -> None:
        """Have others served, and wait for a turn."""
        loop = asyncio.get_running_loop()
        waiting = self._waiting.setdefault(ASKED_BY.get(), deque())
        while True:
            turn: asyncio.Future[None] = loop.create_future()
            waiting.append(turn)
            if not self._is_called:
                self._is_called, self._last = True, self._now()
                loop.call_soon(self._next, loop)
            await turn
            if self._has_time():
                return
            waiting = self._again

    async def pass_on(self, turn: Turn) -> None:
        """Have others served where a turn is over, and begin another."""
        if turn.is_over:
            await self.another()
            turn.begin()

    def _free(self) -> None:
        self._is_taken = False

    def _has_time(self) -> bool:
        """Whether there is time for the turn of somebody who was woken."""
        now = self._now()
        if self._began is None:
            self._began, self._seconds = now, max(TURN_SECONDS_MAX, (now - self._last) / 2)
        elif now - self._began > self._seconds:
            return False
        self._last = now
        self._went_on += 1
        return True

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake some, one user after the other; for whom there is no time, it waits again.

        Twice as many as in the last round, or as many as there was time for.
        """
        woken_max = self._went_on if self._went_on < self._woken else min(2 * self._woken, WOKEN_MAX)
        self._began, self._is_called = None, False
        self._woken = self._went_on = 0
        while (self._again or self._waiting) and self._woken < max(1, woken_max):
            turn = self._again.popleft() if self._again else self._first_of_next_user()
            if not turn.done():  # who has gone needs none
                turn.set_result(None)
                self._woken += 1
        if self._again or self._waiting:
            self._is_called = True
            loop.call_soon(self._next, loop)

    def _first_of_next_user(self) -> asyncio.Future[None]:
        who = next(iter(self._waiting))
        waiting = self._waiting.pop(who)
        turn = waiting.popleft()
        if waiting:
            self._waiting[who] = waiting  # behind the others
        return turn


async def yielding(rows: Iterable[T], now: Callable[[], float], queue: TurnQueue) -> AsyncIterator[T]:
    """Give each of the rows that one client has asked for, and serve others between them."""
    turn = Turn(now)
    for row in rows:
        if turn.is_over:
            await queue.pass_on(turn)
        yield row
