"""Folders of what only one program needs. Each is removed at its end; what a killed one has left, by the next beside it.

Whose process lives is told by a lock on a file in its folder (flock), which ends with the process however that ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO

ATTEMPTS_MAX = 20
LOCK = ".in-use"  # Spark and Hadoop read no file whose name begins so


class ScratchFolder:
    """A folder in `parent` with a name of its own that begins with `prefix`. Raises OSError where it cannot be made."""

    def __init__(self, parent: Path, prefix: str) -> None:
        sweep(parent, prefix)
        self._lock: IO[str] | None
        for attempt in range(ATTEMPTS_MAX):
            try:
                self.path, self._lock = _made(parent, prefix)
            except (BlockingIOError, FileNotFoundError):  # another's sweep has met it before it was locked
                if attempt + 1 == ATTEMPTS_MAX:
                    raise
            else:
                return

    def remove(self) -> None:
        """Remove it with all that is in it. Raises nothing: what cannot be removed is left to the next."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _made(parent: Path, prefix: str) -> tuple[Path, IO[str]]:
    """Make a folder, and rename it once it is locked, so that nobody takes it for one that was left."""
    name = f"{prefix}{uuid.uuid4().hex[:12]}"
    new = parent / f".{name}"
    new.mkdir(mode=0o700, parents=True)
    lock = (new / LOCK).open("w")
    try:
        _lock(lock)
        return new.rename(parent / name), lock
    except BaseException:
        lock.close()
        raise


def _lock(file: IO[str]) -> None:
    """Raises BlockingIOError when another has it. A file system without locks is no failure: nobody will sweep there."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        pass


def sweep(parent: Path, prefix: str) -> None:
    """Remove this user's folders of processes that are gone."""
    for left in (*parent.glob(f"{prefix}*"), *parent.glob(f".{prefix}*")):
        with suppress(OSError):
            if left.is_symlink() or left.stat().st_uid != os.getuid():
                continue
            with (left / LOCK).open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
