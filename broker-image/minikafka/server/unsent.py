"""Answers that clients do not take, or that wait for one before them: how much memory they have, and who waits for that."""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from minikafka.server.connection import ClientConnection

UNSENT_BYTES_MAX: Final = 1 << 26
"""Of one user, from which on no more large answers are made for it: a request of 40 bytes may have one of 16 MB."""

KEPT_BYTES_MAX: Final = 1 << 20
"""Of the answers of one connection that wait for one before them; over it nothing more is worked on until that has come."""

KEPT_BYTES_FULL_MAX: Final = 1 << 16
"""The same, while those of its user have all that one may have."""

END_SECONDS: Final = 1.0
"""How often it is looked for the end of a connection that is not read."""


def bytes_of(parts: list[Any]) -> int:
    """Return the memory of what is to be sent; what comes from files takes none."""
    return sum(len(part) for part in parts if not isinstance(part, tuple))


class UnsentAnswers:
    """Of one broker, those of each user over all connections.

    A user may exceed what it may have by the last answer that was made, as `RequestMemory` is by a request.
    """

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()
        self._not_taken: Counter[str] = Counter()
        """Of these the ones that are first, and of which their socket does not take all."""
        self._waiting: dict[str, dict[UnsentHere, None]] = {}

    def count(self, user: str, size: int, not_taken: bool) -> None:
        """So many more bytes of a user's answers wait for their client, or for one before them; fewer where they have left."""
        has_room = False
        for counter in (self._bytes, self._not_taken) if not_taken else (self._bytes,):
            before, now = counter[user], counter[user] + size
            has_room |= before >= UNSENT_BYTES_MAX > now
            counter[user] = now
            if not now:
                del counter[user]
        if has_room:
            for waiting in self._waiting.pop(user, ()):
                waiting.look_again()

    def is_full(self, user: str) -> bool:
        """Whether a user's answers have so much that no more are to be made."""
        return self._bytes[user] >= UNSENT_BYTES_MAX

    def has_room(self, user: str, is_next: bool) -> bool:
        """Whether another answer may be made. The next one of a connection does not wait for those that wait behind others."""
        return not self.is_full(user) or (is_next and self._not_taken[user] < UNSENT_BYTES_MAX)

    def wait(self, user: str, waiting: UnsentHere) -> None:
        """Have a connection look again when there is room."""
        self._waiting.setdefault(user, {})[waiting] = None

    def wait_no_more(self, user: str, waiting: UnsentHere) -> None:
        """It has room, or is gone."""
        of_user = self._waiting.get(user, {})
        of_user.pop(waiting, None)
        if not of_user:
            self._waiting.pop(user, None)


class UnsentHere:
    """Of one connection.

    Args:
        connection: see there.
        all_: those of its broker.
    """

    __slots__ = ("_all", "_connection", "_kept", "_kept_for", "_not_taken", "_room", "_timer")

    def __init__(self, connection: ClientConnection, all_: UnsentAnswers) -> None:
        self._connection = weakref.proxy(
            connection
        )  # a circle would keep it long after it is closed, until cycles are collected
        self._all = all_
        self._kept = 0
        """Bytes of the answers that wait for one before them."""
        self._kept_for = ""
        self._not_taken: list[tuple[str, int]] = []
        """Users and bytes of the answers of which the socket does not take all."""
        self._timer: asyncio.TimerHandle | None = None
        self._room: asyncio.Future[None] | None = None

    def has_room(self) -> bool:
        """Whether the answer may be made that is worked on."""
        return self._all.has_room(self._connection.asked_by, self._connection.is_next)

    async def room(self) -> None:
        """Wait until it may."""
        user = self._connection.asked_by
        while not self.has_room():
            self._room = asyncio.get_running_loop().create_future()
            self._all.wait(user, self)
            try:
                await self._room
            finally:
                self._room = None
                self._all.wait_no_more(user, self)

    def look_again(self) -> None:
        """There may be room, or the one before it has left."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def not_taken(self, size: int) -> None:
        """The socket does not take all of an answer."""
        self._not_taken.append((self._connection.asked_by, size))
        self._all.count(*self._not_taken[-1], not_taken=True)

    def taken(self) -> None:
        """It has taken all of them."""
        not_taken, self._not_taken = self._not_taken, []
        for user, size in not_taken:
            self._all.count(user, -size, not_taken=True)

    def keep(self, size: int) -> None:
        """An answer waits for one before it."""
        if not self._kept:
            self._kept_for = self._connection.asked_by
        self._kept += size
        self._all.count(self._kept_for, size, not_taken=False)
        self._look_for_end()

    def kept_no_more(self, size: int) -> None:
        """They are sent."""
        self._kept -= size
        self._all.count(self._kept_for, -size, not_taken=False)

    @property
    def keeps_much(self) -> bool:
        """Whether those that wait for one before them are too large, alone or with all of their user."""
        is_full = self._kept > KEPT_BYTES_FULL_MAX and self._all.is_full(self._kept_for)
        return is_full or self._kept > KEPT_BYTES_MAX

    def closed(self) -> None:
        """Forget all of them."""
        if self._timer is not None:
            self._timer.cancel()
        self.taken()
        self.kept_no_more(self._kept)

    def _look_for_end(self) -> None:
        """Close when the client has gone: while nothing is read nobody else sees that, and what is kept keeps others waiting."""
        connection = self._connection
        if not self.keeps_much or self._timer is not None or connection.loop is None:
            return
        if connection.has_hung_up:
            connection.close()
        else:
            self._timer = connection.loop.call_later(END_SECONDS, self._is_due)

    def _is_due(self) -> None:
        self._timer = None
        self._look_for_end()
