"""Waiting for what should become true, with a deadline."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

SOON = 90.0
"""Seconds within which what should happen at once does, on a busy machine."""

ANSWER_SECONDS_MAX = 90.0
"""For a client's own request. Longer than its library waits for brokers (socket.timeout.ms, 60 s): that says more."""

_PAUSE_SECONDS_FIRST, _PAUSE_SECONDS_MAX = 0.001, 0.05
_LOOK_SECONDS_MAX = 0.5
"""A pause is as long as the look before it was, up to this: who looks takes no more than half of the time from who works."""


async def until(
    look: Callable[[], T | Awaitable[T]],
    satisfied: Callable[[T], object] = bool,
    seconds: float = SOON,
    what: str | Callable[[], object] = "",
) -> T:
    """Look again until satisfied; what was seen. Fails with `what` was waited for, and what was seen last."""
    for began, pause in _pauses(seconds):
        found = look()
        seen: T = await found if inspect.isawaitable(found) else found
        if satisfied(seen):
            return seen
        await asyncio.sleep(_after(began, pause))
    raise AssertionError(_not_after(seconds, what, seen))


def until_now(
    look: Callable[[], T],
    satisfied: Callable[[T], object] = bool,
    seconds: float = SOON,
    what: str | Callable[[], object] = "",
) -> T:
    """The same for tests without an event loop."""
    for began, pause in _pauses(seconds):
        if satisfied(seen := look()):
            return seen
        time.sleep(_after(began, pause))
    raise AssertionError(_not_after(seconds, what, seen))


def _pauses(seconds: float) -> Iterator[tuple[float, float]]:
    """When each look begins, and how long to pause after it, each time longer, until it is too late; there is one at least."""
    now, pause = time.monotonic(), _PAUSE_SECONDS_FIRST
    deadline = now + seconds
    yield now, pause
    while (now := time.monotonic()) < deadline:
        pause = min(2 * pause, _PAUSE_SECONDS_MAX)
        yield now, pause


def _after(began: float, pause: float) -> float:
    return max(pause, min(time.monotonic() - began, _LOOK_SECONDS_MAX))


def _not_after(seconds: float, what: str | Callable[[], object], seen: object) -> str:
    return (
        f"not after {seconds:g} s: {what() if callable(what) else what or 'what was waited for'}; seen last: {seen!r}"
    )
