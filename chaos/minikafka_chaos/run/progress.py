"""Progress of a run on a terminal: lines that stay, and one status line; plain lines with times elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.status import Status

PLAIN_WIDTH = 160
"""Columns when the output is no terminal: nothing there has to fit a window."""


def new_console(*, stderr: bool = False) -> Console:
    """A console that neither colours nor wraps narrowly when it is not a terminal."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=PLAIN_WIDTH)


class ConsoleReporter:
    """A `minikafka_chaos.run.reporter.ProgressReporter` on a rich console; use it as a context manager.

    `clock` tells monotonic seconds: those of the ground, if it has a time of its own.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self._clock = clock
        self._began = clock()
        self._status: Status | None = None

    def __enter__(self) -> ConsoleReporter:
        if self.console.is_terminal:
            self._status = self.console.status("")
            self._status.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, text: str) -> None:
        self.console.print(f"[dim]{self._clock() - self._began:6.1f} s[/]  {text}")

    def status(self, text: str) -> None:
        if self._status is not None:
            self._status.update(text)
