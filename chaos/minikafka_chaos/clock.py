"""What time it is on a ground: that of this machine, or a simulation's own."""

from __future__ import annotations

import threading
import time as _time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """Something that will happen, unless it is cancelled before."""

    def cancel(self) -> None:
        """Safe to call at any moment, and twice."""
        ...


class Clock(Protocol):
    """All times in seconds."""

    def time(self) -> float:
        """Unix time, for files."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only grow, to measure how long something took."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let the ground go on for so long."""
        ...

    def call_later(self, seconds: float, event: Callable[[], None]) -> Timer:
        """Have `event` called when so much time has gone by, in the background of whatever goes on then."""
        ...


class MachineClock:
    """The time of this machine, as it was when this program began, and what has gone by since.

    Runs are judged by times (the steps of claims, gaps): a wall clock that is set back meanwhile would put records before a
    fault that came after it.
    """

    _zero = _time.time() - _time.monotonic()

    def time(self) -> float:
        return self._zero + _time.monotonic()

    def monotonic(self) -> float:
        return _time.monotonic()

    def sleep(self, seconds: float) -> None:
        _time.sleep(seconds)

    def call_later(self, seconds: float, event: Callable[[], None]) -> Timer:
        """In a thread of its own, which does not keep the process alive."""
        timer = threading.Timer(seconds, event)
        timer.daemon = True
        timer.start()
        return timer


MACHINE_CLOCK = MachineClock()
