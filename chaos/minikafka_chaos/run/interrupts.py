"""Ctrl-C and SIGTERM during a run: the first one ends the story, none can end the clearing up."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Turns the first SIGINT or SIGTERM into a KeyboardInterrupt, unless it is held; later ones do nothing.

    Outside the main thread, where Python delivers no signals, it does nothing at all.
    """

    def __init__(self) -> None:
        self._armed = True
        self.came = False
        """Whether a signal came, raised or held."""
        self.raised = False
        """Whether a KeyboardInterrupt was raised. From a callback of a C extension it may come out as any other error, or not
        at all."""

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Handle signals here while the body runs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let the body run to its end, whatever comes."""
        armed, self._armed = self._armed, False
        try:
            yield
        finally:
            self._armed = armed

    @contextlib.contextmanager
    def let_through(self) -> Iterator[None]:
        """Within `held`: the first signal is raised in the body, at once where it came before."""
        try:
            self._armed = not self.came
            if self.came:
                raise KeyboardInterrupt
            yield
        finally:
            self._armed = False

    def check(self) -> None:
        """Raise the KeyboardInterrupt once more if the first one was swallowed; for loops that wait."""
        if self.raised:
            raise KeyboardInterrupt

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.came = True
        if self._armed:
            self._armed = False
            self.raised = True
            raise KeyboardInterrupt
