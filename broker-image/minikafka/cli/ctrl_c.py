"""Ctrl-C, which ends a command wherever it lands.

Python raises ``KeyboardInterrupt`` in whatever the main thread runs at that moment. Where C code has called that, and has nobody
to pass an exception on to (the callback of a weak reference, of which every import has one; a finalizer), Python prints the
exception, forgets it and goes on. Such a Ctrl-C is sent once more, a moment later.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Self

AGAIN_SECONDS = 0.05
"""Until a Ctrl-C that was swallowed is sent again: by then the callback is over, and people do not notice."""


class CtrlC:
    """Watches Ctrl-C while a command runs, in the main thread and where nobody else watches it."""

    def __init__(self) -> None:
        self.came = False
        """Whether there was a Ctrl-C."""
        self._again: threading.Timer | None = None
        self._watching = False
        self._report = sys.unraisablehook

    def __enter__(self) -> Self:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._watching = True
            sys.unraisablehook = self._swallowed
            signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._watching:
            return
        if self._again is not None:
            self._again.cancel()
        sys.unraisablehook = self._report
        if signal.getsignal(signal.SIGINT) == self._interrupted:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        signal.default_int_handler(number, frame)

    def _swallowed(self, what: sys.UnraisableHookArgs) -> None:
        """Send Ctrl-C again, if that is what was swallowed; report anything else as Python does.

        Who has put a handler of its own in our place (`up`, a run of chaos) looks by itself whether a signal came.
        """
        if not issubclass(what.exc_type, KeyboardInterrupt):
            self._report(what)
        elif signal.getsignal(signal.SIGINT) == self._interrupted:
            try:
                self._send_again()
            except KeyboardInterrupt:  # another one, just now
                self._send_again()

    def _send_again(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        self._again = threading.Timer(AGAIN_SECONDS, signal.pthread_kill, (main, signal.SIGINT))
        self._again.daemon = True  # it keeps nobody from ending
        self._again.start()
