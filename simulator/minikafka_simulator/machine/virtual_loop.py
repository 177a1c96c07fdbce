"""asyncio in virtual time: what production wrote as coroutines runs in the simulator as it is.

A loop has the life of one process. Its callbacks are events of the scheduler, which are dropped when the process has died and
kept while it is paused; so a kill ends every coroutine where it is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

TASKS_FORGOTTEN_MIN = 64
"""Ended tasks are forgotten together, once there are as many tasks as this and twice as many as went on the last time."""

_set_running, _get_running = asyncio._set_running_loop, asyncio._get_running_loop


class _Handle:
    """A callback that is to run: what of `asyncio.Handle` tasks and futures use, without its reports of what went wrong."""

    __slots__ = ("_args", "_callback", "_context", "_when")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context, when: float) -> None:
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._context = context
        self._when = when

    def cancel(self) -> None:
        self._callback, self._args = None, ()

    def cancelled(self) -> bool:
        return self._callback is None

    def when(self) -> float:
        return self._when

    def run(self) -> None:
        if self._callback is not None:
            self._context.run(self._callback, *self._args)


class Later(Protocol):
    """Runs an event of a process after some seconds, if the process is still alive then and the event is not given up."""

    def __call__(self, delay: float, event: Callable[[], None], given_up: Callable[[], bool] = ..., /) -> None: ...


class VirtualLoop(asyncio.AbstractEventLoop):
    """Tasks, futures, locks, events and timeouts; no files and no sockets.

    Args:
        now: virtual seconds.
        later: makes an event of the process.
    """

    def __init__(self, now: Callable[[], float], later: Later) -> None:
        self._now = now
        self._later = later
        self._ready: deque[_Handle] = deque()
        self._due = False
        """An event will come that runs what is ready."""
        self.ended = False
        """The process is no more: nothing is run any later."""
        self._tasks: list[asyncio.Task[Any]] = []
        """The loop's own hold on them: whoever waits for a dead process may be the only one that knows them."""
        self._tasks_max = TASKS_FORGOTTEN_MIN

    def time(self) -> float:
        return self._now()

    def get_debug(self) -> bool:
        return False

    # -- callbacks ------------------------------------------------------------------------------------------------------

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        handle = _Handle(callback, args, context or copy_context(), 0.0)
        self._ready.append(handle)
        if not self._due and not self.ended:
            self._due = True
            self._later(0.0, self._run)
        return handle  # type: ignore[return-value]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Handle(callback, args, context or copy_context(), when)

        def ring() -> None:
            self._ready.append(timer)
            self._run()

        if not self.ended:
            self._later(max(when - self._now(), 0.0), ring, timer.cancelled)
        return timer  # type: ignore[return-value]

    def _run(self) -> None:
        self._due = False
        self.run_event(self.run_ready, at_once=True)

    def run_ready(self) -> None:
        """Run what is ready, and what gets ready by that."""
        ready = self._ready
        while ready:
            ready.popleft().run()

    def run_event(self, event: Callable[[], None], at_once: bool) -> None:
        """Run something that happens to the process; with ``at_once`` what gets ready by it, too; else in a later event."""
        outer, due = _get_running(), self._due
        _set_running(self)
        try:
            if at_once:
                self._due = True
                event()
                self.run_ready()
                self._due = due
            else:
                event()
        finally:
            _set_running(outer)

    def end(self) -> None:
        """The process has died. Python wants coroutines to be told, else it complains when it forgets them: nobody else hears of
        it, and whoever still waits is left behind.
        """
        self.ended = True
        for task in self._tasks:
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
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_max:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._tasks_max = max(TASKS_FORGOTTEN_MIN, 2 * len(self._tasks))
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error that nobody took is a mistake, and ends the run. A task that is left behind is none."""
        error = context.get("exception")
        if error is not None:
            raise error
