"""Limits the events that somebody else may cause: who is refused asks again, and must not push all else out of the file."""

from __future__ import annotations

from collections.abc import Callable, Hashable

TELL_SECONDS = 60.0
EMITTED_MAX = 100
"""Of one kind in :data:`TELL_SECONDS`. All are counted."""


class EventLimit:
    """Limits the events of one kind.

    Args:
        now: seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._emitted: set[Hashable] = set()
        self._since = float("-inf")

    def takes(self, what: Hashable) -> bool:
        """Tell whether it is to be emitted: the same once in a while."""
        now = self._now()
        if now - self._since >= TELL_SECONDS:
            self._since = now
            self._emitted.clear()
        if what in self._emitted or len(self._emitted) >= EMITTED_MAX:
            return False
        self._emitted.add(what)
        return True
