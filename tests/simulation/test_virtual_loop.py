"""asyncio in virtual time: as the real one, but for the time it takes and for how a process dies."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Any

import pytest
from minikafka_simulator.machine.virtual_loop import VirtualLoop


class Time:
    """Events in virtual time, and a process that may die."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._made = 0
        self.loop = VirtualLoop(lambda: self.now, self.later)  # type: ignore[abstract]

    def later(self, seconds: float, event: Callable[[], None], given_up: Callable[[], bool] = lambda: False, /) -> None:
        self._made += 1
        heapq.heappush(self._events, (self.now + seconds, self._made, lambda: None if given_up() else event()))

    def pass_by(self, seconds: float = 1000.0) -> None:
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = end

    @property
    def events(self) -> int:
        return len(self._events)


@pytest.fixture
def time() -> Time:
    return Time()


def test_sleeping_takes_virtual_time_only(time: Time) -> None:
    woke: list[float] = []

    async def sleeper(seconds: float) -> None:
        await asyncio.sleep(seconds)
        woke.append(asyncio.get_running_loop().time())

    for seconds in (500.0, 0.0, 2.5):
        time.loop.create_task(sleeper(seconds))
    time.pass_by()
    assert woke == [0.0, 2.5, 500.0]


def test_locks_conditions_groups_and_timeouts(time: Time) -> None:
    """What the Kubernetes store is made of."""
    told: list[Any] = []

    async def worker(name: str, work: asyncio.Condition, lock: asyncio.Lock) -> None:
        async with work:
            await work.wait()
        async with lock:
            await asyncio.sleep(1.0)
            told.append((name, asyncio.get_running_loop().time()))

    async def main() -> None:
        work, lock = asyncio.Condition(), asyncio.Lock()
        async with asyncio.TaskGroup() as group:
            for name in "ab":
                group.create_task(worker(name, work, lock))
            await asyncio.sleep(10.0)
            async with work:
                work.notify_all()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3.0):
                await asyncio.Event().wait()
        told.append(asyncio.get_running_loop().time())

    time.loop.create_task(main())
    time.pass_by()
    assert told == [("a", 11.0), ("b", 12.0), 15.0]


def test_a_process_that_has_died_does_nothing_more(time: Time) -> None:
    did: list[str] = []

    async def lives() -> None:
        try:
            await asyncio.sleep(5.0)
            did.append("woke")
        finally:
            await asyncio.sleep(1.0)
            did.append("cleaned up")

    task = time.loop.create_task(lives())
    time.pass_by(1.0)
    time.loop.end()
    left = time.events
    time.pass_by()
    assert did == [] and not task.done()
    assert left == 1, "the timer that it had set; nothing of its end"
    time.loop.call_soon(did.append, "late")
    time.loop.call_later(1.0, did.append, "later")
    time.pass_by()
    assert did == []


def test_a_cancelled_timer_rings_for_nobody(time: Time) -> None:
    rang: list[float] = []
    time.loop.call_later(1.0, rang.append, 1.0).cancel()
    time.loop.call_soon(rang.append, 0.0).cancel()
    time.pass_by()
    assert rang == []


def test_what_nobody_takes_ends_the_run(time: Time) -> None:
    def mistake() -> None:
        raise ZeroDivisionError

    time.loop.call_soon(mistake)
    with pytest.raises(ZeroDivisionError):
        time.pass_by()


async def test_inside_a_loop_that_runs(time: Time) -> None:
    """A simulation that a coroutine starts leaves it its own loop."""
    outer = asyncio.get_running_loop()
    seen: list[object] = []

    async def look() -> None:
        seen.append(asyncio.get_running_loop())

    time.loop.create_task(look())
    time.pass_by()
    assert seen == [time.loop] and asyncio.get_running_loop() is outer
