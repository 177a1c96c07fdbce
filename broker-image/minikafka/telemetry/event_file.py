"""The file of a broker's events, which never gets larger than it may: a full disk must not stop a broker, nor must its own log.

At half of the limit it becomes the one before it (`NAME.1.jsonl`), and a new one begins. So there are always the newest events,
at least half of the limit of them once there were so many.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

BEGUN_ANEW: Final = "event_file_begun_anew"
"""The event that a new file begins with."""

BYTES_DEFAULT: Final = 1 << 30
BYTES_MIN: Final = 1 << 16
"""Below it there would be a moment of a busy broker, and no history."""


def file_before(path: Path) -> Path:
    """The name of the file before this one."""
    return path.with_name(f"{path.stem}.1{path.suffix}")


class EventFile:
    """Whole lines at the end of a file. Raises OSError when it cannot be opened, and never after that."""

    __slots__ = ("_file", "_path", "_size", "_size_max", "_torn")

    def __init__(self, path: str | os.PathLike[str], bytes_max: int = BYTES_DEFAULT) -> None:
        self._path = Path(os.path.abspath(path))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._size_max = bytes_max // 2
        self._torn = False
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._file).st_size

    def has_room(self, size: int) -> bool:
        """Return whether a line of this size goes into this file."""
        return self._size + size < self._size_max or not self._size

    def begin_anew(self) -> int | None:
        """Go on with a new file; the bytes that were lost with the oldest. None: the file system refuses that."""
        before = file_before(self._path)
        try:
            lost = before.stat().st_size if before.exists() else 0
            os.replace(self._path, before)
            old = self._file
            self._open()
        except OSError:
            return None
        os.close(old)
        self._torn = False
        return lost

    def write(self, line: bytes) -> bool:
        """Append a line with one system call, so that a killed broker leaves whole lines; whether it is there."""
        if self._torn:  # finish a line that a full disk cut short, so that only that one is unreadable
            line = b"\n" + line
        try:
            written = os.write(self._file, line)
        except OSError:
            return False
        self._size += written
        self._torn = written < len(line)
        return not self._torn

    def close(self) -> None:
        os.close(self._file)
