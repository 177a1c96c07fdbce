"""asyncio in virtual time: what production wrote as coroutines runs in the simulator as it is.

A loop has the life of one process. Its callbacks are events of the scheduler, which are dropped when the process has died and
kept while it is paused; so a kill ends every coroutine where it is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.AbstractEventLoop):
    """Tasks, futures, locks, events and timeouts; no files and no sockets.

    Args:
        now: virtual seconds.
        later: runs an event after some seconds if the process is still alive then.
    """

    def __init__(self, now: Callable[[], float], later: Callable[[float, Callable[[], None]], None]) -> None:
        self._now = now
        self._later = later
        self._ready: deque[asyncio.Handle] = deque()
        self._due = False
        self.ended = False
        """The process is no more: nothing is run any later."""
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """The loop's own hold on them: whoever waits for a dead process may be the only one that knows them."""

    def time(self) -> float:
        return self._now()

    def get_debug(self) -> bool:
        return False

    # -- callbacks ------------------------------------------------------------------------------------------------------

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if not self._due and not self.ended:
            self._due = True
            self._later(0.0, self._run)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)

        def ring() -> None:
            if not timer.cancelled():
                self._ready.append(timer)
                self._run()

        if not self.ended:
            self._later(max(when - self._now(), 0.0), ring)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It rings for nobody."""

    def _run(self) -> None:
        self._due = False
        with running(self):
            while self._ready:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()

    def end(self) -> None:
        """The process has died. Python wants coroutines to be told, else it complains when it forgets them: nobody else hears of
        it, and whoever still waits is left behind.
        """
        self.ended = True
        for task in list(self._tasks):
            task.cancel()
        self._run()

    # -- tasks and futures ------------------------------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        with running(self):
            task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error that nobody took is a mistake, and ends the run. A task that is left behind is none."""
        error = context.get("exception")
        if error is not None:
            raise error


@contextmanager
def running(loop: asyncio.AbstractEventLoop) -> Generator[None, None, None]:
    """What is done here is done on this loop. A simulation may itself run inside a coroutine, of a test."""
    outer = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(outer)
