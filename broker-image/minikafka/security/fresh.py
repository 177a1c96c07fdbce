"""What is made of files, as they are now: made anew when one of them has changed, and kept when that fails.

Each has a size that it may have, and is a file: what is in its place may be without an end, or say nothing for ever.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

_Signature = tuple[tuple[int, int, int] | None, ...]


def read_at_most(path: str | Path, bytes_max: int, *, may_wait: bool = False) -> bytes:
    """Read a file.

    Args:
        path: of the file.
        bytes_max: how many bytes it may have.
        may_wait: it may be a pipe, too, as people give one to a command; never while others are served.

    Raises:
        OSError: it cannot be read, has more bytes, or is no file: a device, or a FIFO, whose opening waits for a writer.
        ValueError: this is no path.
    """
    # Opened before it is looked at: another one could take its place in between.
    with open(path, "rb", opener=None if may_wait else _open_at_once) as file:
        if not may_wait and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"more than {bytes_max} bytes", str(path))
    return data


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


class Fresh(Generic[T]):
    """What ``make`` makes of files. They are looked at (`stat`) at every `get`.

    Args:
        files: their paths.
        make: reads them; raises ``refusal`` when they cannot be used, from the beginning too.
        refusal: its error, whose text is one line.
        failed: gets that line when changed files cannot be used, once for each change.
        renewed: called when they are in force.
    """

    def __init__(
        self,
        files: Sequence[str],
        make: Callable[[], T],
        refusal: type[Exception],
        failed: Callable[[str], None] = lambda _line: None,
        renewed: Callable[[], None] = lambda: None,
    ) -> None:
        self._files = files
        self._make = make
        self._refusal = refusal
        self._failed = failed
        self._renewed = renewed
        self._signature = self._look()
        self._made = make()

    def _look(self) -> _Signature:
        found: list[tuple[int, int, int] | None] = []
        for path in self._files:
            try:
                status = os.stat(path)
            except OSError:
                found.append(None)
            else:
                # ctime, for a file that could not be read is mended by its permissions alone
                found.append((status.st_ino, status.st_ctime_ns, status.st_size))
        return tuple(found)

    def get(self) -> T:
        """Return what is in force now."""
        signature = self._look()
        if signature != self._signature:
            self._signature = signature
            try:
                self._made = self._make()
            except self._refusal as error:
                self._failed(str(error))
            else:
                self._renewed()
        return self._made
