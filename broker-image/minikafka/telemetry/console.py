"""Lines for the operator on standard error."""

from __future__ import annotations

import contextlib
import sys


def tell(line: str) -> None:
    """Say it if that can be done. Never raises: standard error may be a file on the very disk that is full, and who has
    trouble to tell of must still act on it."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: it is closed
        print(line, file=sys.stderr, flush=True)
