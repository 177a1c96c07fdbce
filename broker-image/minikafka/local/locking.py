"""Locks on files between programs of one machine; the kernel lets them go with the program."""

from __future__ import annotations

import fcntl
import time
from typing import IO, Any

_POLL_SECONDS = 0.02


def lock_within(file: IO[Any], seconds: float) -> bool:
    """Lock an open file for this program alone; False when another one still has it after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True
