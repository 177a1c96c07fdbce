"""Virtual time: a heap of events, and one seeded source of every choice."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from hashlib import blake2b
from itertools import islice

from minikafka.log.simulated_disk import RANDOM_IN_A_NAME

KEEP_LINES = 400
"""How much of the past a failing run can show."""


class Scheduler:
    """Runs events in the order of their times; events of one time in the order they were made."""

    def __init__(self, seed: int, trace: bool = False) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = 0.0
        self.events = 0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._made = 0
        self._hash = blake2b(digest_size=8)
        self._trace_all = trace
        self.lines: list[str] = []
        self._closed = False

    def at(self, delay: float, event: Callable[[], None]) -> None:
        """Run ``event`` in ``delay`` virtual seconds."""
        self._made += 1
        heapq.heappush(self._heap, (self.now + delay, self._made, event))

    def step(self) -> bool:
        """Run the next event; False when there is none."""
        if not self._heap:
            return False
        when, _, event = heapq.heappop(self._heap)
        self.now = when
        self.events += 1
        event()
        return True

    @property
    def next_time(self) -> float:
        return self._heap[0][0] if self._heap else float("inf")

    def note(self, line: str) -> None:
        """A line of the trace; part of the trace's hash, and shown when the run fails."""
        if self._closed:
            return
        if "-delete" in line:  # a seed is to have one trace
            line = RANDOM_IN_A_NAME.sub("*", line)
        text = f"{self.now:8.3f} {line}"
        self._hash.update(text.encode())
        self.lines.append(text)
        if not self._trace_all and len(self.lines) > 2 * KEEP_LINES:
            del self.lines[:KEEP_LINES]

    def note_last(self, line: str) -> None:
        """The last line of the trace: what the brokers make of a violation that is raised in them is not in it."""
        self.note(line)
        self._closed = True

    def tail(self, count: int) -> list[str]:
        """The last lines of the trace."""
        return list(islice(self.lines, max(0, len(self.lines) - count), None))

    def digest(self) -> str:
        """Equal for equal runs."""
        return self._hash.hexdigest()
