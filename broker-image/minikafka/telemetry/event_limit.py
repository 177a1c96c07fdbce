"""How many events somebody else may cause: who is refused asks again, and must not push everything else out of the file."""

from __future__ import annotations

from collections.abc import Callable, Hashable

TELL_SECONDS = 60.0
TOLD_MAX = 100
"""Of one kind in :data:`TELL_SECONDS`. All are counted."""


class EventLimit:
    """Of one kind of event.

    Args:
        now: seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._told: set[Hashable] = set()
        self._since = float("-inf")

    def takes(self, what: Hashable) -> bool:
        """Whether it is to be told: the same once in a while."""
        now = self._now()
        if now - self._since >= TELL_SECONDS:
            self._since = now
            self._told.clear()
        if what in self._told or len(self._told) >= TOLD_MAX:
            return False
        self._told.add(what)
        return True
