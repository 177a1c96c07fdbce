"""Where a run is kept, and what is told when nothing more can be written there: which place it is, and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_AWAY: Final = frozenset({errno.EROFS, errno.EIO, errno.EACCES, errno.ESTALE})
"""What a write says of a volume that is full, or went away: nothing of it is a defect of the program."""


@dataclass(frozen=True, slots=True)
class Place:
    """A directory for runs, in the words of who has to look after it."""

    directory: Path
    name: str
    make_room: str = "make room there"
    look_at: str = "look at that file system"

    def problem(self, error: BaseException) -> str | None:
        """Return why the run cannot be kept there, in one line; None when an error comes of something else.

        What went wrong first is looked for, too: a load that ended because it could not write, say.
        """
        for one in _chain(error):
            if isinstance(one, OSError) and one.errno in FULL | _AWAY and self._holds(one):
                file = f" ({one.filename})" if one.filename else ""
                advice = self.make_room if one.errno in FULL else self.look_at
                return f"the run cannot be kept on {self.name}: {one.strerror}{file}; {advice}"
        return None

    def _holds(self, error: OSError) -> bool:
        """A write to a file that is open does not say which one it is. Who is refused without a file wanted a port, say."""
        if error.filename is None:
            return error.errno != errno.EACCES
        return isinstance(error.filename, str) and Path(error.filename).is_relative_to(self.directory)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
