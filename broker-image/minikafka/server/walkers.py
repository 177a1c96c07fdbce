"""Threads that look into what clients have compressed: that takes milliseconds, in which every other client would wait.

They are served round robin by principal, of which each has some of the threads at most: a request may hold ten thousand
batches, each of which is a second of work, and whoever sends it is not to keep all others' batches waiting.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

WALKED_BYTES_MAX = 256 * 1024
"""Decompressed bytes of a request that are walked where it is read: 0.15 (lz4) to 0.8 ms (gzip) of work. What holds more, which
only decompressing it tells, goes to a thread, whose answer takes 0.1 ms, and up to 5 while the event loop is busy (the GIL)."""
THREADS = 4
"""They bound the memory, at most 256 MiB for each."""
THREADS_OF_ONE = 2
"""Of one principal: whoever comes beside has a thread at once."""


class _Task:
    """What is to be done; nothing of it is kept once nobody waits for it any more."""

    __slots__ = ("done", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.done: Future[Any] = Future()
        self.work: Callable[[], Any] | None = work
        self.done.add_done_callback(self._forget)

    def _forget(self, done: Future[Any]) -> None:
        del done
        self.work = None


class Walkers:
    """See the module. May be used by several event loops.

    Args:
        threads: how many there are.
        of_one: how many of them one owner has at most.
    """

    def __init__(self, threads: int = THREADS, of_one: int = THREADS_OF_ONE) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="walk")
        self._free = threads
        self._of_one = of_one
        self._waiting: dict[str, deque[_Task]] = {}
        """By owner, whose turn is next first."""
        self._running: Counter[str] = Counter()
        self._lock = threading.Lock()

    def of(self, owner: str) -> Executor:
        """Return an executor for the work of one owner."""
        return _Share(self, owner)

    def submit(self, owner: str, work: Callable[[], T]) -> Future[T]:
        """Have a thread do something when it is the owner's turn."""
        task = _Task(work)
        with self._lock:
            self._waiting.setdefault(owner, deque()).append(task)
            self._begin()
        return task.done

    def _begin(self) -> None:
        while self._free:
            whose = next((each for each in self._waiting if self._running[each] < self._of_one), None)
            if whose is None:
                return
            waiting = self._waiting.pop(whose)
            task = waiting.popleft()
            if waiting:
                self._waiting[whose] = waiting  # behind all others
            self._free -= 1
            self._running[whose] += 1
            self._pool.submit(self._run, whose, task)

    def _run(self, whose: str, task: _Task) -> None:
        try:
            work = task.work
            if task.done.set_running_or_notify_cancel() and work is not None:
                try:
                    task.done.set_result(work())
                except BaseException as error:
                    task.done.set_exception(error)
        finally:
            with self._lock:
                self._free += 1
                self._running[whose] -= 1
                self._running += Counter()  # forgets who has none
                self._begin()


class _Share(Executor):
    """What an event loop takes for threads of one owner."""

    def __init__(self, walkers: Walkers, owner: str) -> None:
        self._walkers = walkers
        self._owner = owner

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._walkers.submit(self._owner, partial(fn, *args, **kwargs))


WALKERS = Walkers()
"""All brokers of a process share them, and looking up a host does not wait for them."""
