"""Answers that clients do not take: how much memory those of one user have, over all connections, and who waits for that."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

UNSENT_BYTES_MAX: Final = 1 << 26
"""Of one user, from which on no more large answers are made for it: a request of 40 bytes may have one of 16 MB."""


class UnsentAnswers:
    """Of one broker. It may be exceeded by the last answer that was made, as `RequestMemory` is by a request."""

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    def waits(self, user: str, size: int) -> None:
        """So many bytes of a user's answers wait for their client."""
        self._bytes[user] += size

    def gone(self, user: str, size: int) -> None:
        """They have left, or their connection is closed."""
        self._bytes[user] -= size
        if self._bytes[user] < UNSENT_BYTES_MAX:
            for waiting in self._waiting.pop(user, ()):
                if not waiting.done():
                    waiting.set_result(None)
        if not self._bytes[user]:
            del self._bytes[user]

    async def room(self, user: str) -> None:
        """Wait until there is room for another answer."""
        while self._bytes[user] >= UNSENT_BYTES_MAX:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(user, []).append(waiting)
            await waiting
