"""How long a verb may wait: for all that it waits for, one after the other."""

from __future__ import annotations

import math
import time

from minikafka_chaos.session.errors import VerbRefused

SECONDS_MAX = 86_400.0
LAST_TRY_S = 0.1
"""Whoever is asked when the time is over, or nearly, still has so long: what is there is told, also with a deadline of 0."""


class Deadline:
    """So many seconds from now on. Raises VerbRefused for what is no such number."""

    def __init__(self, seconds: float) -> None:
        number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not (number and math.isfinite(seconds) and 0 <= seconds <= SECONDS_MAX):
            raise VerbRefused(f"deadline_s: {seconds!r} is not a number of seconds from 0 to {SECONDS_MAX:g}")
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._end

    def at_most(self, seconds: float) -> float:
        """Return how long one attempt may take that has up to `seconds` otherwise."""
        return min(seconds, max(self.left, LAST_TRY_S))
