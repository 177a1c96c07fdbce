"""Time as the coordinator sees it: handed in with every call, never read from a clock."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple


class Now(NamedTuple):
    """One moment on both clocks."""

    monotonic: float
    """Seconds; only differences mean anything. Timeouts use it."""
    unix_ms: int
    """Wall clock, milliseconds since 1970. Goes into records."""

    def after_ms(self, milliseconds: int) -> float:
        """The monotonic time that much later."""
        return self.monotonic + milliseconds / 1000


class Timer:
    """One thing that happens at a deadline which may move. Moving it later is free: a heartbeat does no heap work."""

    __slots__ = ("_deadline", "_fire", "_queue", "_queued")

    def __init__(self, queue: TimerQueue, fire: Callable[[Now], None]) -> None:
        self._queue = queue
        self._fire = fire
        self._deadline: float | None = None
        self._queued: float | None = None

    @property
    def deadline(self) -> float | None:
        """Monotonic seconds, None when it is not running."""
        return self._deadline

    def set(self, deadline: float) -> None:
        """Start it, or move it."""
        self._deadline = deadline
        if self._queued is None or deadline < self._queued:
            self._queue._push(self, deadline)
            self._queued = deadline

    def cancel(self) -> None:
        """Stop it; cancelling a timer that does not run is fine."""
        self._deadline = None


class TimerQueue:
    """All timers of one coordinator."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()

    def timer(self, fire: Callable[[Now], None]) -> Timer:
        """A stopped timer that calls `fire` with the time of the tick when its deadline has passed."""
        return Timer(self, fire)

    def next_deadline(self) -> float | None:
        """The earliest deadline, in monotonic seconds."""
        heap = self._heap
        while heap:
            queued, _, timer = heap[0]
            if timer._queued == queued and timer._deadline == queued:
                return queued
            heappop(heap)
            self._requeue(timer, queued)
        return None

    def run(self, now: Now) -> None:
        """Fire what is due, earliest first. A timer set meanwhile waits for the next run, so a run always ends."""
        due: list[Timer] = []
        heap = self._heap
        while heap and heap[0][0] <= now.monotonic:
            queued, _, timer = heappop(heap)
            if timer._queued != queued:
                continue
            timer._queued = None
            if timer._deadline is not None and timer._deadline <= now.monotonic:
                due.append(timer)
            elif timer._deadline is not None:
                timer.set(timer._deadline)
        for timer in due:
            if timer._deadline is not None and timer._deadline <= now.monotonic and timer._queued is None:
                timer._deadline = None
                timer._fire(now)

    def _requeue(self, timer: Timer, queued: float) -> None:
        if timer._queued == queued:
            timer._queued = None
            if timer._deadline is not None:
                timer.set(timer._deadline)

    def _push(self, timer: Timer, deadline: float) -> None:
        heappush(self._heap, (deadline, next(self._order), timer))
