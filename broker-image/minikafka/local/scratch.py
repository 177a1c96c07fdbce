"""Temporary folders that do not outlive their program for long: what one left that was killed, the next one removes."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_LOCK = ".in-use"
"""In each folder; locked while its program lives, which the kernel ends with the program."""


class ScratchFolder:
    """`minikafka-KIND-...` among the temporary folders of this machine, from now until `close`.

    Folders of the same kind whose programs are gone are removed first.
    """

    def __init__(self, kind: str) -> None:
        prefix = f"minikafka-{kind}-"
        for other in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            _remove_abandoned(other)
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self._lock = os.open(self.path / f"{_LOCK}.new", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(self.path / f"{_LOCK}.new", self.path / _LOCK)  # only now others look at it, and it is locked already

    def close(self) -> None:
        """Remove it. Safe to call twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _remove_abandoned(folder: Path) -> None:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:  # of somebody else, or gone, or only just made
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        pass
    finally:
        os.close(lock)
