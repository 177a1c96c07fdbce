"""How long a connection may take: to log in, to be idle, and to take an answer."""

from __future__ import annotations

import asyncio
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minikafka.server.connection import ClientConnection


class Deadlines:
    """Of one connection, with one timer for each."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = weakref.proxy(
            connection
        )  # a circle would keep it long after it is closed, until cycles are collected
        self._config = connection.services.context.config
        self._idle: asyncio.TimerHandle | None = None
        self._login: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._taken = 0

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """The connection is there."""
        self._watch_idleness(loop)
        if not self._connection.is_let_in:
            self._login = loop.call_later(self._config.minikafka_authentication_timeout_ms / 1000, self._look_at_login)

    def blocked(self, loop: asyncio.AbstractEventLoop) -> None:
        """The socket takes no more of an answer now."""
        self._taken = self._connection.bytes_sent
        self._reading = loop.call_later(
            self._config.minikafka_slow_reader_timeout_ms / 1000, self._look_at_reading, loop
        )

    def unblocked(self) -> None:
        """The answer was taken."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def stop(self) -> None:
        """The connection is gone."""
        for timer in (self._idle, self._login, self._reading):
            if timer is not None:
                timer.cancel()

    def _watch_idleness(self, loop: asyncio.AbstractEventLoop) -> None:
        """``connections.max.idle.ms`` since a request came or an answer left, as in Kafka also while one is worked on: while
        nothing is read the broker cannot see that the client has gone. How fast an answer is taken has a limit of its own.
        """
        connection, config = self._connection, self._config
        allowed = config.connections_max_idle_ms / 1000
        if allowed < 0:
            return
        if connection.heartbeats_of is not None:  # their end looks like a death, so not before the session is over
            allowed = max(allowed, config.broker_session_timeout_ms / 1000)
        left = allowed - (time.perf_counter() - connection.last_active)
        if left <= 0 and not connection.is_blocked:
            connection.close()
            return
        self._idle = loop.call_later(left if left > 0 else allowed, self._watch_idleness, loop)

    def _look_at_login(self) -> None:
        """Who stands in the door, or in the middle of a handshake, does not stand there for as long as a guest may sit idle."""
        if self._connection.is_let_in:
            return
        self._connection.refused("has not logged in in time")
        self._connection.stats.record_limited("minikafka.authentication.timeout.ms")
        self._connection.close()

    def _look_at_reading(self, loop: asyncio.AbstractEventLoop) -> None:
        """Of the answer nothing was taken for all this time: what it holds is let go."""
        if self._connection.bytes_sent != self._taken:
            self.blocked(loop)
            return
        self._connection.cut("minikafka.slow.reader.timeout.ms")
