"""What time it is on a ground: that of this machine, or a simulation's own."""

from __future__ import annotations

import time as _time
from typing import Protocol


class Clock(Protocol):
    """All times in seconds."""

    def time(self) -> float:
        """Unix time, for files."""
        ...

    def monotonic(self) -> float:
        """For measuring how long something took."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let the ground go on for so long."""
        ...


class MachineClock:
    """The time of this machine."""

    def time(self) -> float:
        return _time.time()

    def monotonic(self) -> float:
        return _time.monotonic()

    def sleep(self, seconds: float) -> None:
        _time.sleep(seconds)


MACHINE_CLOCK = MachineClock()
