"""Waiting for what should become true, with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SOON = 60.0
"""Seconds within which what should happen at once does, on a busy machine."""

ANSWER_SECONDS_MAX = 90.0
"""For a client's own request. Longer than its library waits for brokers (socket.timeout.ms, 60 s): that says more."""

_LOOK_SECONDS = 0.02


async def until(look: Callable[[], T], satisfied: Callable[[T], object] = bool, seconds: float = SOON) -> T:
    """Look again until satisfied; what was seen. Fails with what was seen last."""
    deadline = time.monotonic() + seconds
    while not satisfied(seen := look()):
        assert time.monotonic() < deadline, f"not after {seconds} s: {seen!r}"
        await asyncio.sleep(_LOOK_SECONDS)
    return seen


def until_now(look: Callable[[], T], satisfied: Callable[[T], object] = bool, seconds: float = SOON) -> T:
    """The same for tests without an event loop."""
    deadline = time.monotonic() + seconds
    while not satisfied(seen := look()):
        assert time.monotonic() < deadline, f"not after {seconds} s: {seen!r}"
        time.sleep(5 * _LOOK_SECONDS)
    return seen
