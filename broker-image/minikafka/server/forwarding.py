"""Carries what clients ask of the controller on to it (KIP-590)."""

from __future__ import annotations

import asyncio

from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.context import BrokerContext
from minikafka.transport.peer import PeerConnection

FORWARD_SECONDS_MAX = 5.0
"""Of waiting for an answer, since the controller has last answered a heartbeat; and of connecting."""

KEPT_MAX = 16
"""Connections that are kept while nobody waits for an answer over them."""


class _Forwarder:
    """One connection to the controller, made when it is needed."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._connection: PeerConnection | None = None
        self._to = ("", 0)
        self._lock = asyncio.Lock()
        self.waiting = 0
        """Requests that have no answer yet."""

    async def request(
        self, address: tuple[str, int], api_key: int, version: int, body: bytes, client_id: str | None
    ) -> bytes:
        self.waiting += 1
        try:
            async with self._lock:
                connection = self._connection
                if connection is None or not connection.is_open or self._to != address:
                    self.close()
                    self._connection = connection = await self._context.channels.connect(
                        *address,
                        self._context.client_id("forwarder"),
                        FORWARD_SECONDS_MAX,
                        self._context.config.request_timeout_ms / 1000,
                    )
                    self._to = address
            return await connection.request_raw(api_key, version, body, client_id)
        finally:
            self.waiting -= 1

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Forwarding:
    """Of one broker, with a connection for each user whose requests are passed on.

    Requests of one connection are worked on one after the other: of one user's large ones others would wait for the end.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._of_users: dict[str, _Forwarder] = {}
        """By principal, the one that was asked last at the end."""
        self._limits: dict[asyncio.Timeout, tuple[str, int]] = {}
        """Of the requests that wait for an answer, and whose."""

    async def request(
        self,
        address: tuple[str, int] | None,
        principal: str,
        api_key: int,
        version: int,
        body: bytes,
        client_id: str | None,
    ) -> bytes:
        """Return the body of the controller's answer.

        Args:
            address: where the controller is; None: nowhere.
            principal: whose request it is; empty: the broker's own.
            api_key: of the request, which is passed on as it is.
            version: of the request.
            body: of the request.
            client_id: says whose it is, where that matters.

        Raises:
            KafkaError: NOT_CONTROLLER when there is none to be reached; whether it was carried out is then unknown. Of thousands
                of changes some would be: so a controller that is seen to live may take until ``request.timeout.ms``.
        """
        unreachable = KafkaError(ErrorCode.NOT_CONTROLLER, "the controller cannot be reached")
        if address is None:
            raise unreachable
        forwarder = self._of_users.pop(principal, None) or _Forwarder(self._context)
        self._of_users[principal] = forwarder
        limit = asyncio.timeout(FORWARD_SECONDS_MAX)
        try:
            async with limit:
                self._limits[limit] = address
                return await forwarder.request(address, api_key, version, body, client_id)
        except (OSError, TimeoutError) as error:
            forwarder.close()
            raise unreachable from error
        finally:
            self._limits.pop(limit, None)
            self._close_idle()

    def answered(self, address: tuple[str, int] | None) -> None:
        """The controller at this address lives: what it was asked may take longer."""
        until = asyncio.get_running_loop().time() + FORWARD_SECONDS_MAX
        for limit, asked in self._limits.items():
            if asked == address and not limit.expired():
                limit.reschedule(until)

    def _close_idle(self) -> None:
        idle = [principal for principal, forwarder in self._of_users.items() if not forwarder.waiting]
        for principal in idle[: max(len(self._of_users) - KEPT_MAX, 0)]:
            self._of_users.pop(principal).close()

    def close(self) -> None:
        """The broker stops."""
        for forwarder in self._of_users.values():
            forwarder.close()
        self._of_users.clear()
