"""What is made of files, as they are now: made anew when one of them has changed, and kept when that fails.

Each has a size that it may have: what is in the place of a file may be another, or one without an end.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

_Signature = tuple[tuple[int, int, int] | None, ...]


def read_at_most(path: str, bytes_max: int) -> bytes:
    """Read a file. Raises OSError, also where it has more bytes than that, and ValueError for what is no path."""
    with Path(path).open("rb") as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"more than {bytes_max} bytes")
    return data


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
