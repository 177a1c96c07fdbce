"""Lines on the process' standard output, for callers that may not wait for whoever reads it: events come from the event loop.

A line is written at once where the pipe takes it: one that poll(2) calls writable takes PIPE_BUF bytes (pipe(7)). A broker that
starts tells of each partition within milliseconds, which is more than a pipe holds. What does not fit waits in memory, and a
thread writes it that lives as long as something waits. The descriptor stays blocking, for others may hold the same open file;
nobody else in the process writes to it.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from typing import Final

STDOUT: Final = 1
WAITING_BYTES_MAX: Final = 8 << 20
"""Some 40,000 events. Beyond it lines are refused: a reader that stands still must not take the broker's memory."""
CLOSE_SECONDS_MAX: Final = 1.0


class StandardOutput:
    """Whole lines, in order. Who is killed takes with it what waits; that is nothing while the reader keeps up."""

    __slots__ = ("_lock", "_ready", "_thread", "_waiting", "_waiting_bytes")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready = _poll()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._thread: threading.Thread | None = None

    def write(self, line: bytes) -> bool:
        """Return whether the line was written, or waits to be. Never waits itself."""
        with self._lock:
            if self._waiting:
                if self._waiting_bytes + len(line) > WAITING_BYTES_MAX:
                    return False
            else:
                try:
                    while line and self._ready.poll(0):
                        line = line[os.write(STDOUT, line[: select.PIPE_BUF]) :]
                except OSError:
                    return False  # nobody reads any more
                if not line:
                    return True
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._drain, name="events-to-stdout", daemon=True)
                self._thread.start()
            return True

    def close(self) -> None:
        """Give what waits a second to get out."""
        thread = self._thread
        if thread is not None:
            thread.join(CLOSE_SECONDS_MAX)

    def _drain(self) -> None:
        """Write what waits, as its reader takes it."""
        ready = _poll()
        while True:
            ready.poll()
            with self._lock:
                first = self._waiting.popleft()
                try:
                    written = os.write(STDOUT, first[: select.PIPE_BUF])
                except OSError:
                    self._waiting.clear()
                    self._waiting_bytes = 0
                else:
                    self._waiting_bytes -= written
                    if written < len(first):
                        self._waiting.appendleft(first[written:])
                if not self._waiting:
                    self._thread = None
                    return


def _poll() -> select.poll:
    made = select.poll()
    made.register(STDOUT, select.POLLOUT)
    return made
