"""The time, and what is to happen later: a parameter of whatever waits, so that a simulator can bring its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Clock(NamedTuple):
    """Where the time comes from."""

    now: Callable[[], float]
    """Seconds that only grow."""
    unix_ms: Callable[[], int]
    """The wall clock, in milliseconds."""
    later: Callable[[float, Callable[[], None]], object]
    """Have something called in so many seconds, on the same thread of control."""
