"""The memory that requests take before they are handled (``queued.max.request.bytes``), shared out to users.

While it is full no large request is read. A user's small ones, which are here already, have it one at a time then: a large one
may wait for as long as its client likes, for other members of a group, for a quota, or for the rest of itself.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from minikafka.transport.framing import BUFFER_BYTES_BUSY

REASON = "memory"

SMALL_BYTES = BUFFER_BYTES_BUSY
"""Up to which a request is small, and has no buffer of its own."""


class Reader(Protocol):
    """Who reads requests."""

    loop: asyncio.AbstractEventLoop | None

    @property
    def asked_by(self) -> str: ...

    def hold_frames(self, reason: str) -> None: ...

    def release_frames(self, reason: str) -> None: ...


@dataclass(slots=True)
class _Taken:
    """By a reader, or by all of a user."""

    user: str
    bytes: int = 0
    small: int = 0
    """Requests that are small."""

    def add(self, bytes_: int, small: int) -> None:
        self.bytes += bytes_
        self.small += small


class RequestMemory:
    """Of one broker. As in Kafka it may be exceeded by the last request that was let in; so one always goes on.

    One user has half of it at most, which may be exceeded in the same way.

    Args:
        bytes_max: from which on it is full.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.used = 0
        self._of_reader: dict[Reader, _Taken] = {}
        """Of those who have taken memory, or wait for it; as the user that they were then, though they have logged in since."""
        self._of_user: dict[str, _Taken] = {}
        self._large: dict[str, dict[Reader, None]] = {}
        """Those that wait until there is room, by user ..."""
        self._small: dict[str, dict[Reader, None]] = {}
        """... and those that wait for another small request of their user, too."""

    def admits(self, reader: Reader, size: int) -> bool:
        """Take memory for a request of which not all has come. False: the reader is held until there is some, and asks again."""
        if self._is_full(self._taken(reader).user):
            self._hold(reader, self._large)
            return False
        self._add(reader, size, 0)
        return True

    def take(self, reader: Reader, size: int) -> None:
        """Take memory for a request that is here. The reader is held while it is full, if this is large, or its user's second."""
        self._add(reader, size, int(size <= SMALL_BYTES))
        user = self._of_user[self._taken(reader).user]
        if self._is_full(user.user) and (size > SMALL_BYTES or user.small > 1):
            self._hold(reader, self._large if size > SMALL_BYTES else self._small)

    def give_back(self, reader: Reader, size: int) -> None:
        """A request was handled, or will not be."""
        self._give_back(reader, size, int(size <= SMALL_BYTES))

    def gone(self, reader: Reader) -> None:
        """A reader's connection is closed, or takes no memory any more: what it has is given back."""
        taken = self._taken(reader)
        for waiting in (self._large, self._small):
            of_user = waiting.get(taken.user, {})
            of_user.pop(reader, None)
            if not of_user:
                waiting.pop(taken.user, None)
        self._give_back(reader, taken.bytes, taken.small)

    def _is_full(self, user: str) -> bool:
        taken = self._of_user.get(user)
        return self.used >= self._bytes_max or (taken is not None and 2 * taken.bytes >= self._bytes_max)

    def _taken(self, reader: Reader) -> _Taken:
        return self._of_reader.get(reader) or _Taken(reader.asked_by)

    def _add(self, reader: Reader, size: int, small: int) -> None:
        taken = self._of_reader.setdefault(reader, self._taken(reader))
        taken.add(size, small)
        self._of_user.setdefault(taken.user, _Taken(taken.user)).add(size, small)
        self.used += size

    def _give_back(self, reader: Reader, size: int, small: int) -> None:
        user, was_full = self._taken(reader).user, self.used >= self._bytes_max
        if size:
            self._add(reader, -size, -small)
        if user in self._of_user and not self._of_user[user].bytes:
            del self._of_user[user]
        self._forget(reader)
        for each in {**self._large, **self._small} if was_full and self.used < self._bytes_max else (user,):
            self._wake(each)

    def _hold(self, reader: Reader, waiting: dict[str, dict[Reader, None]]) -> None:
        taken = self._of_reader.setdefault(reader, self._taken(reader))
        waiting.setdefault(taken.user, {})[reader] = None
        reader.hold_frames(REASON)

    def _wake(self, user: str) -> None:
        """Let the first of those go on that wait, and the next after it, for as long as they may."""
        is_full = self._is_full(user)
        if not is_full:
            self._release(user, self._large)
        if not is_full or user not in self._of_user or not self._of_user[user].small:
            self._release(user, self._small)

    def _release(self, user: str, waiting: dict[str, dict[Reader, None]]) -> None:
        readers = waiting.get(user)
        if not readers:
            return
        reader = next(iter(readers))
        del readers[reader]
        if not readers:
            del waiting[user]
        self._forget(reader)
        if reader.loop is not None:
            reader.loop.call_soon(self._go_on, user, reader)

    def _go_on(self, user: str, reader: Reader) -> None:
        reader.release_frames(REASON)
        self._wake(user)

    def _forget(self, reader: Reader) -> None:
        """Forget as whom a reader has memory, where it has none and waits for none."""
        taken = self._of_reader.get(reader)
        if taken is None or taken.bytes:
            return
        if not any(reader in waiting.get(taken.user, ()) for waiting in (self._large, self._small)):
            del self._of_reader[reader]
