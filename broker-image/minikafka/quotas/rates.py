"""Rates over a window of samples, and token buckets, as Kafka measures them (``Rate``, ``SampledStat``, ``TokenBucket``)."""

from __future__ import annotations

import math
from collections import deque

_THROTTLE_MS_MAX = 2**31 - 1
"""What the field of an answer holds."""


def milliseconds(seconds: float) -> int:
    """Of a throttle time, rounded as Kafka does. By a tiny quota it is longer than any number says (infinite)."""
    return math.floor(min(seconds * 1000 + 0.5, _THROTTLE_MS_MAX))


class Rate:
    """What was recorded in the last samples, a second.

    Args:
        samples: how many there are (``quota.window.num``).
        window: seconds that one lasts (``quota.window.size.seconds``).
    """

    __slots__ = ("_retained", "_samples", "_window")

    def __init__(self, samples: int, window: float) -> None:
        self._samples = samples
        self._window = window
        self._retained: deque[list[float]] = deque(maxlen=samples + 1)
        """Start, time of the last event, and sum of each, in order. One more than there are: it may overlap the window."""

    def record(self, amount: float, now: float) -> None:
        """Count an amount; a negative one takes it back."""
        retained = self._retained
        if not retained or now - retained[-1][0] >= self._window:
            retained.append([now, now, amount])
            return
        newest = retained[-1]
        newest[1] = now
        newest[2] += amount

    def total(self, now: float) -> float:
        """All that counts now."""
        age = self._samples * self._window
        while self._retained and now - self._retained[0][1] >= age:
            self._retained.popleft()
        return sum(sample[2] for sample in self._retained)

    def excess(self, limit: float, now: float) -> float:
        """Seconds of silence that bring the rate back to the limit; 0: it is not above."""
        total, seconds = self.total(now), self._seconds(now)
        above = total / seconds - limit
        return above / limit * seconds if above > 0 else 0.0

    def _seconds(self, now: float) -> float:
        """Of which the rate is taken: what has passed, and at least all but one of the samples, of which one is not over."""
        elapsed = now - self._retained[0][0] if self._retained else 0.0
        missing = self._samples - 1 - int(elapsed / self._window)
        return max(elapsed + max(missing, 0) * self._window, 0.001)


class TokenBucket:
    """Tokens that come at a rate and may be spent at once, beyond what is there (KIP-599).

    Args:
        seconds: for how long they gather; of so many may be spent at once.
    """

    __slots__ = ("_seconds", "_tokens", "_updated")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._tokens = 0.0
        self._updated = -math.inf

    def spend(self, tokens: float, rate: float, now: float) -> None:
        """Take tokens, whether they are there or not."""
        self._refill(rate, now)
        self._tokens = min(self._tokens - tokens, rate * self._seconds)

    def wait(self, rate: float, now: float) -> float:
        """Seconds until what was spent beyond is paid back; 0: nothing was."""
        self._refill(rate, now)
        return max(-self._tokens / rate, 0.0)

    def _refill(self, rate: float, now: float) -> None:
        full = rate * self._seconds
        self._tokens = full if self._updated == -math.inf else min(full, self._tokens + rate * (now - self._updated))
        self._updated = now
