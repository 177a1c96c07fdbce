"""How often a record is tried again, and how long after."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off.

    Args:
        attempts_max: how often a record is tried before it is a dead letter; None: until it is processed, so that only
            `PoisonRecord` makes a dead letter.
        backoff_seconds: before the second attempt; twice as long before each further one.
        backoff_seconds_max: never longer than this.

    Raises:
        ValueError: names the field and what is allowed.
    """

    attempts_max: int | None = 5
    backoff_seconds: float = 0.1
    backoff_seconds_max: float = 30.0

    def __post_init__(self) -> None:
        if self.attempts_max is not None and (type(self.attempts_max) is not int or self.attempts_max < 1):
            raise ValueError(f"attempts_max: {self.attempts_max!r} is not a whole number from 1 on, nor None")
        for name in ("backoff_seconds", "backoff_seconds_max"):
            if not isinstance(value := getattr(self, name), int | float):
                raise ValueError(f"{name}: {value!r} is not a number of seconds")
        if not 0 <= self.backoff_seconds < float("inf"):
            raise ValueError(f"backoff_seconds: {self.backoff_seconds:g} is not a number of seconds from 0 on")
        if not self.backoff_seconds <= self.backoff_seconds_max < float("inf"):
            raise ValueError(
                f"backoff_seconds_max: {self.backoff_seconds_max:g} is not at least backoff_seconds"
                f" ({self.backoff_seconds:g})"
            )

    def after(self, failures: int) -> float:
        """Return how many seconds to wait after so many failures of a record."""
        doublings = min(failures - 1, 60)  # beyond, floats overflow, and every maximum is long reached
        return min(self.backoff_seconds_max, self.backoff_seconds * 2.0**doublings)

    def exhausted(self, failures: int) -> bool:
        """Tell whether a record that has failed so often is not tried again."""
        return self.attempts_max is not None and failures >= self.attempts_max
