"""The memory that requests take before they are handled (``queued.max.request.bytes``): nothing more is read while it is full."""

from __future__ import annotations

import asyncio
from typing import Protocol

REASON = "memory"


class Reader(Protocol):
    """Who reads requests."""

    loop: asyncio.AbstractEventLoop | None

    def hold_frames(self, reason: str) -> None: ...

    def release_frames(self, reason: str) -> None: ...


class RequestMemory:
    """Of one broker. As in Kafka it may be exceeded by the last request that was let in; so one always goes on.

    Args:
        bytes_max: from which on it is full.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.used = 0
        self._waiting: dict[Reader, None] = {}

    def admits(self, reader: Reader, size: int) -> bool:
        """Take memory for a request of which not all has come. False: the reader is held until there is some, and asks again."""
        if self._waits(reader):
            return False
        self.used += size
        return True

    def take(self, reader: Reader, size: int) -> None:
        """Take memory for a request that is here. The reader is held where it is full then."""
        self.used += size
        self._waits(reader)

    def give_back(self, size: int) -> None:
        """A request was handled, or will not be."""
        self.used -= size
        if self.used >= self._bytes_max:
            return
        waiting, self._waiting = self._waiting, {}
        for reader in waiting:
            if reader.loop is not None:
                reader.loop.call_soon(reader.release_frames, REASON)

    def gone(self, reader: Reader) -> None:
        """A reader's connection is closed."""
        self._waiting.pop(reader, None)

    def _waits(self, reader: Reader) -> bool:
        if self.used < self._bytes_max:
            return False
        self._waiting[reader] = None
        reader.hold_frames(REASON)
        return True
