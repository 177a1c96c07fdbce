"""A Fetch that waits is answered in its own time, whatever the one before it on the connection was ready to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from minikafka.replication.purgatory import DelayedFetch
from minikafka.server.api.fetch import WaitingFetch


class Timer:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call, self.is_set = at, call, True

    def cancel(self) -> None:
        self.is_set = False


class Loop:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, call: Callable[..., None], *arguments: Any) -> Timer:
        self.timers.append(Timer(self.now + seconds, lambda: call(*arguments)))
        return self.timers[-1]

    def pass_time(self, until: float) -> None:
        while due := [timer for timer in self.timers if timer.is_set and timer.at <= until]:
            first = min(due, key=lambda timer: timer.at)
            first.is_set, self.now = False, first.at
            first.call()
        self.now = until


class Fetch:
    """One that waits for data which do not come."""

    def __init__(self, deadline: float) -> None:
        self.deadline, self.is_over = deadline, False

    def end(self) -> None:
        self.is_over = True


def wait(waiting: WaitingFetch, loop: Loop, milliseconds: int) -> Fetch:
    fetch = Fetch(loop.now + milliseconds / 1000)
    waiting.wait(cast(DelayedFetch, fetch), milliseconds, cast(asyncio.AbstractEventLoop, loop))
    return fetch


def test_a_short_wait_after_a_long_one() -> None:
    loop = Loop()
    waiting = WaitingFetch(lambda: loop.now)
    wait(waiting, loop, 5_000).is_over = True  # data came
    short = wait(waiting, loop, 50)
    loop.pass_time(0.049)
    assert not short.is_over
    loop.pass_time(0.051)
    assert short.is_over


def test_one_timer_serves_waits_of_one_length() -> None:
    loop = Loop()
    waiting = WaitingFetch(lambda: loop.now)
    for _ in range(10):
        wait(waiting, loop, 500).is_over = True
        loop.pass_time(loop.now + 0.01)
    last = wait(waiting, loop, 500)
    assert len(loop.timers) == 1
    loop.pass_time(0.599)
    assert not last.is_over
    loop.pass_time(0.601)
    assert last.is_over
