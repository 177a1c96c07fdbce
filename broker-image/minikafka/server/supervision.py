"""Background work of a broker: whatever it raises is told and tried again. No task, loop or timer ends unseen.

Every task of a broker that nobody awaits is started here. Work handles by itself what it expects to go wrong (a store or a
peer that is away, a log that refuses); what is left is a mistake of this program or of the machine, and is reported to
:class:`~minikafka.server.health.Health` until the same work has succeeded.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from minikafka.server.health import Health

PAUSE_SECONDS_FIRST, PAUSE_SECONDS_MAX = 0.1, 10.0
"""Between tries of work that failed; doubled each time."""

Work = Callable[[], object]
"""A function, or one that returns an awaitable."""


class Supervisor:
    """Runs work in the background.

    Args:
        health: told of what does not work, by the work's name.
        tell: gets each exception that work did not handle, with a line for the operator in mind.
    """

    def __init__(self, health: Health, tell: Callable[[Exception], None]) -> None:
        self._health = health
        self._tell = tell

    def repeat(
        self, component: str, work: Work, every: float = 0.0, failed: Callable[[], None] | None = None
    ) -> asyncio.Task[None]:
        """Do `work` again and again until the task is cancelled.

        Args:
            component: the name under which a failure is known.
            work: one round.
            every: seconds before each round; 0 when a round waits by itself for what there is to do.
            failed: called after each round that failed: gives up what this broker cannot do without the work.
        """
        return asyncio.ensure_future(self._repeat(component, work, every, failed))

    async def _repeat(self, component: str, work: Work, every: float, failed: Callable[[], None] | None) -> None:
        pause, backoff = every, PAUSE_SECONDS_FIRST
        while True:
            await asyncio.sleep(pause)  # of 0 seconds too: a round that never waits must not hold up all other work
            if await self._try(component, work):
                pause, backoff = every, PAUSE_SECONDS_FIRST
                continue
            if failed is not None:
                self.call(f"{component}, giving up", failed)
            pause, backoff = backoff, min(backoff * 2, PAUSE_SECONDS_MAX)

    async def _try(self, component: str, work: Work) -> bool:
        try:
            result = work()
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            self.report(component, error)
            return False
        self._health.clear(component)
        return True

    def once(self, component: str, work: Callable[..., object], *args: Any) -> asyncio.Task[bool]:
        """Do `work` one time; the task's result is whether it succeeded."""
        return asyncio.ensure_future(self._try(component, partial(work, *args)))

    def call(self, component: str, work: Callable[[], object]) -> bool:
        """Do `work` now, in the callback of a timer or of a socket; whether it succeeded."""
        try:
            work()
        except Exception as error:
            self.report(component, error)
            return False
        self._health.clear(component)
        return True

    def report(self, component: str, error: Exception) -> None:
        """Tell of an exception that nobody handled."""
        self._health.report(component, f"{type(error).__name__}: {error}")
        self._tell(error)

    def clear(self, component: str) -> None:
        """The work of this name succeeded."""
        self._health.clear(component)
