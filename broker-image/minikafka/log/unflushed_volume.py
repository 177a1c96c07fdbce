"""How much lies on the unflushed volume of a broker, and how much may.

All logs share it (`minikafka.unflushed.dir`), and so does nobody else. It is mostly in memory, and small: who filled it would
find that the append of every log is refused. So whoever appends looks here first whether there is room, and waits if there is
none (`minikafka.replication.append_room`); a flush gives the room back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from minikafka.protocol.records import LOG_OVERHEAD_BYTES

PAGE_BYTES: Final = 4096
"""What a file takes is rounded up to this, so each counts for one more: then nothing counts for less than it takes."""

HEAD_ROOM: Final = 16
"""This part of a file system is left free, for what it needs itself."""


def usable_bytes(size: int) -> int:
    """How much of a file system of this size may be filled."""
    return size - size // HEAD_ROOM


def _nothing() -> None:
    pass


class UnflushedVolume:
    """See the module. Bytes; all is called from one thread.

    Args:
        limit: `minikafka.unflushed.max.bytes`, or what the file system has room for if that is less.
    """

    __slots__ = ("_alarm_at", "_at_alarm", "limit", "used")

    def __init__(self, limit: int = sys.maxsize) -> None:
        self.limit = limit
        self.used = 0
        self._alarm_at = sys.maxsize
        self._at_alarm: Callable[[], None] = _nothing

    # -- what lies there

    def grew(self, count: int) -> None:
        """So many bytes more."""
        self.used += count
        if self.used > self._alarm_at:
            self._alarm_at = sys.maxsize
            self._at_alarm()

    def shrank(self, count: int) -> None:
        """So many bytes less."""
        self.used -= count

    def alarm(self, at: int, call: Callable[[], None]) -> None:
        """Have `call` called, once, in the append that brings it above so many bytes."""
        self._alarm_at, self._at_alarm = at, call

    # -- what may be appended

    @property
    def room(self) -> int:
        """Bytes that a log may append now, though it begin a new file for them."""
        return max(0, self.limit - self.used - PAGE_BYTES)

    def has_room(self, size: int) -> bool:
        """Whether so many bytes may be appended now."""
        return self.used + size + PAGE_BYTES <= self.limit

    def fitting(self, records: memoryview) -> memoryview:
        """The batches that a follower may append, whole ones from the first on.

        A batch for which there never is room is let through when nothing else is there: the leader has it, so without it this
        replica would follow no more.
        """
        room = self.room
        if len(records) <= room:
            return records
        end = 0
        while (after := _end_of_batch(records, end)) <= room:
            end = after
        if not end and not self.used:
            end = min(_end_of_batch(records, 0), len(records))
        return records[:end]


def _end_of_batch(records: memoryview, start: int) -> int:
    """Where the batch ends that begins here; beyond all that came when there is no whole header."""
    header = records[start : start + LOG_OVERHEAD_BYTES]
    if len(header) < LOG_OVERHEAD_BYTES:
        return sys.maxsize
    return start + LOG_OVERHEAD_BYTES + max(0, int.from_bytes(header[8:12], "big", signed=True))
