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

LOCK = ".in-use"  # Spark and Hadoop read no file whose name begins so


class ScratchFolder:
    """A folder in `parent` with a name of its own that begins with `prefix`. Raises OSError where it cannot be made."""

    def __init__(self, parent: Path, prefix: str) -> None:
        sweep(parent, prefix)
        name = f"{prefix}{uuid.uuid4().hex[:12]}"
        # Renamed once it is locked, so that nobody takes it for one that was left.
        new = parent / f".{name}"
        new.mkdir(mode=0o700, parents=True)
        self._lock: IO[str] | None = (new / LOCK).open("w")
        with suppress(OSError):  # a file system without locks: nobody will sweep there
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = new.rename(parent / name)

    def remove(self) -> None:
        """Remove it with all that is in it. Raises nothing: what cannot be removed is left to the next."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def sweep(parent: Path, prefix: str) -> None:
    """Remove this user's folders of processes that are gone."""
    for left in (*parent.glob(f"{prefix}*"), *parent.glob(f".{prefix}*")):
        with suppress(OSError):
            if left.is_symlink() or left.stat().st_uid != os.getuid():
                continue
            with (left / LOCK).open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
