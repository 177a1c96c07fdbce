"""Turns on the event loop: who asks for much has it for a time, then others are served."""

from __future__ import annotations

import asyncio
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

    async def pass_on(self) -> None:
        """Serve others, where it is over, and begin another."""
        if self.is_over:
            await asyncio.sleep(0)
            self.begin()


async def yielding(rows: Iterable[T], now: Callable[[], float]) -> AsyncIterator[T]:
    """Give each of the rows that one client has asked for, and serve others between them."""
    turn = Turn(now)
    for row in rows:
        if turn.is_over:
            await turn.pass_on()
        yield row
