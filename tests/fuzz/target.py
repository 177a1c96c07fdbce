"""What a target is, and the limits that hold for each of its inputs."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOUND: Final = Path(__file__).parent / "found"
"""Inputs that were findings once: a folder for each target."""
SECONDS_MAX: Final = 1.0
MEGABYTES_MAX: Final = 200
INPUT_BYTES_MAX: Final = 4096
ODD_WORDS: Final = (
    "Infinity",
    "-Infinity",
    "NaN",
    "1e999",
    "null",
    "true",
    "-1",
    "9" * 30,
    "9" * 5000,
    "\N{SUPERSCRIPT TWO}",
    "\\ud800",
    "[" * 2000,
)
"""What texts of JSON, YAML and numbers may hold that a reader does not think of; put into the inputs of every target."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Refuted(AssertionError):
    """What a target claims of every input does not hold for this one."""


class TooSlow(AssertionError):
    """An input took more processor time than an input may."""


class TooLarge(AssertionError):
    """An input took more memory than an input may."""


@dataclass(frozen=True)
class Target:
    """A reader of bytes that may raise the declared errors, and no others.

    Args:
        name: of the target, on the command line.
        run: reads one input.
        seeds: makes inputs to begin with, by our own encoders.
        allowed: errors that ``run`` may raise.
        megabytes_max: how much memory an input may take.
        words: texts that the search puts into inputs.
        tested: how many of the seeds `make test` runs, the first ones; found inputs it always runs.
    """

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    allowed: tuple[type[Exception], ...] = ()
    megabytes_max: int = MEGABYTES_MAX
    bytes_max: int = INPUT_BYTES_MAX
    words: Callable[[], Iterable[str]] = tuple
    tested: int = 1000

    def check(self, data: bytes) -> None:
        """Read one input within its limits.

        Raises Refuted, TooSlow, TooLarge, and whatever the reader raises that is not declared.
        """
        before, peak = resident_bytes(), peak_bytes()
        began = time.thread_time()
        try:
            self.run(data)
        except self.allowed:
            pass
        seconds = time.thread_time() - began
        if seconds > SECONDS_MAX:
            raise TooSlow(f"{self.name}: {seconds:.1f} s for {len(data)} bytes; {SECONDS_MAX:.0f} s is allowed")
        highest = peak_bytes()
        if highest > peak and (taken := (highest - before) >> 20) > self.megabytes_max:
            raise TooLarge(f"{self.name}: {taken} MB for {len(data)} bytes; {self.megabytes_max} MB are allowed")

    def found(self) -> list[Path]:
        """Inputs that were findings once."""
        return sorted((FOUND / self.name).glob("*"))


def resident_bytes() -> int:
    """Return the memory that this process has now."""
    with open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read().split()[1]) * _PAGE


def peak_bytes() -> int:
    """Return the most that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
