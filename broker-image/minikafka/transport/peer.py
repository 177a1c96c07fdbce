"""A client's connection to another broker: requests out, answers back in order, and none is awaited for ever.

A peer that vanished without a word, or a path that lost it, is noticed by the request that has no answer in time: the
connection is closed then, as Kafka's NetworkClient does, for what comes later on it would be late as well.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from minikafka.protocol import messages, wire
from minikafka.protocol.api_keys import ApiKey
from minikafka.security.sasl_client import AuthenticationError, Login, exchange
from minikafka.security.tls_stream import TlsStream, tls_reason
from minikafka.transport.framing import FrameProtocol

LOGIN_AGAIN_AFTER = 0.85
"""Of a session, so that the next one begins before it is over, as Kafka's clients do (KIP-368)."""


class PeerClosed(ConnectionError):
    """The connection closed before the answer came; whether the request was carried out is unknown."""


class PeerConnection(FrameProtocol):
    """Requests are answered in the order they were sent, as Kafka promises for one connection.

    Args:
        client_id: sent with each request.
        request_timeout: seconds that a request may be without an answer; then the connection is closed.
        on_close: called when the connection is gone, for whatever reason.
        tls: how it is secured.
    """

    def __init__(
        self,
        client_id: str,
        request_timeout: float,
        on_close: Callable[[], None] | None = None,
        tls: TlsStream | None = None,
    ) -> None:
        super().__init__(tls)
        self._client_id = client_id
        self._request_timeout = request_timeout
        self._on_close = on_close
        self._waiting: deque[tuple[int, float, Callable[[memoryview | None], None]]] = deque()
        self._correlation = 0
        self._timer: asyncio.TimerHandle | None = None
        self.timed_out = False
        """It was closed because a request had no answer in time."""
        self._secured: asyncio.Future[None] | None = None
        self._logging_in: asyncio.Task[None] | None = None
        self._session: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.socket is not None and self.socket.family != socket.AF_UNIX:
            milliseconds = max(int(self._request_timeout * 1000), 1)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)

    # -- security ---------------------------------------------------------------------------------------------------------

    async def secure(self, login: Login | None, on_close: Callable[[], None] | None) -> None:
        """Wait for TLS, and log in; from then on ``on_close`` is called.

        Raises:
            AuthenticationError: one side does not believe the other.
            ConnectionError: the connection is gone.
        """
        try:
            if self.tls is not None and not self.tls.established:
                if not self.is_open:
                    raise ConnectionResetError("closed during the handshake of TLS")
                self._secured = asyncio.get_running_loop().create_future()
                await self._secured
            if login is not None:
                await self._log_in(login)
            if not self.is_open:
                raise ConnectionResetError("closed at once")
        except BaseException:
            self.close()
            raise
        self._on_close = on_close

    def established(self) -> None:
        if self._secured is not None and not self._secured.done():
            self._secured.set_result(None)

    def handshake_failed(self, error: ssl.SSLError) -> None:
        if self._secured is not None and not self._secured.done():
            self._secured.set_exception(AuthenticationError(f"TLS: {tls_reason(error)}"))

    async def _log_in(self, login: Login) -> None:
        answer = await self.request(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": login.mechanism})
        if answer.error_code:
            raise AuthenticationError(f"{login.mechanism}: {answer.error_code.name}")
        steps = exchange(login)
        message = next(steps)
        while True:
            answer = await self.request(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": message})
            if answer.error_code:
                raise AuthenticationError(answer.error_message or answer.error_code.name)
            try:
                message = steps.send(answer.auth_bytes)
            except StopIteration:
                break
        lifetime = messages.millis(answer.session_lifetime)
        if lifetime > 0 and self.loop is not None:
            self._session = self.loop.call_later(lifetime * LOGIN_AGAIN_AFTER / 1000, self._session_ends, login)

    def _session_ends(self, login: Login) -> None:
        self._logging_in = asyncio.ensure_future(self._log_in_again(login))

    async def _log_in_again(self, login: Login) -> None:
        try:
            await self._log_in(login)
        except (OSError, wire.MalformedRequest):  # whoever uses it connects anew, and is told why that fails
            self.close()

    @property
    def is_open(self) -> bool:
        return self.socket is not None

    def next_correlation(self) -> int:
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        return self._correlation

    def send_frame(self, correlation: int, frame: bytes, on_answer: Callable[[memoryview | None], None]) -> None:
        """Send a whole frame; ``on_answer`` gets the answer as a view that is valid only inside the call, or None."""
        if self.socket is None or self.loop is None:
            on_answer(None)
            return
        now = self.loop.time()
        self._waiting.append((correlation, now, on_answer))
        if self._timer is None:
            self._timer = self.loop.call_at(now + self._request_timeout, self._look_at_the_oldest)
        self.send([frame])

    def _look_at_the_oldest(self) -> None:
        """One timer a connection: it follows the oldest request, instead of one timer a request."""
        self._timer = None
        if not self._waiting or self.loop is None:
            return
        due = self._waiting[0][1] + self._request_timeout
        if self.loop.time() < due:
            self._timer = self.loop.call_at(due, self._look_at_the_oldest)
            return
        self.timed_out = True
        self.close()

    async def request(self, api_key: int, version: int, values: Mapping[str, Any]) -> messages.Entity:
        """Send a cold request and await its decoded answer.

        Raises:
            PeerClosed: no answer will come.
        """
        body = messages.encode_request(api_key, version, values)
        return messages.decode_response(api_key, version, await self.request_raw(api_key, version, body))

    async def request_raw(self, api_key: int, version: int, body: bytes, client_id: str | None = None) -> bytes:
        """Send an encoded request body and await the body of the answer; raises PeerClosed.

        ``client_id``: under which it is asked, if not under this connection's own.
        """
        flexible = messages.is_flexible(api_key, version)
        correlation = self.next_correlation()
        frame = wire.request_frame(
            api_key, version, correlation, self._client_id if client_id is None else client_id, body, flexible
        )
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def on_answer(view: memoryview | None) -> None:
            if answer.done():
                return
            if view is None:
                answer.set_exception(PeerClosed("connection closed"))
            else:
                answer.set_result(bytes(view))

        self.send_frame(correlation, frame, on_answer)
        return messages.answer_body(api_key, version, await answer)

    def frame_received(self, frame: memoryview) -> bool:
        if not self._waiting:
            self.close()
            return False
        correlation, _, on_answer = self._waiting.popleft()
        if int.from_bytes(frame[:4], "big", signed=True) != correlation:
            on_answer(None)
            self.close()
        else:
            on_answer(frame)
        return False

    def closed(self) -> None:
        for handle in (self._timer, self._session, self._logging_in):
            if handle is not None:
                handle.cancel()
        if self._secured is not None and not self._secured.done():
            self._secured.set_exception(ConnectionResetError("closed during the handshake of TLS"))
        waiting, self._waiting = self._waiting, deque()
        for _, _, on_answer in waiting:
            on_answer(None)
        if self._on_close is not None:
            self._on_close()


async def connect(
    host: str,
    port: int,
    client_id: str,
    timeout: float,
    request_timeout: float,
    on_close: Callable[[], None] | None = None,
    tls: TlsStream | None = None,
    login: Login | None = None,
) -> PeerConnection:
    """Open a connection within ``timeout`` seconds; for the rest see :class:`PeerConnection`.

    Raises:
        OSError: ``ConnectionRefusedError`` when nobody listens; also for what can be no host's name. AuthenticationError when one
            side does not believe the other.
        TimeoutError: no connection in time.
    """
    loop = asyncio.get_running_loop()
    is_plain = tls is None and login is None
    try:
        async with asyncio.timeout(timeout):
            _, protocol = await loop.create_connection(
                lambda: PeerConnection(client_id, request_timeout, on_close if is_plain else None, tls), host, port
            )
            if not is_plain:
                await protocol.secure(login, on_close)
    except ValueError as error:  # UnicodeError of the IDNA codec; the name was registered by the other broker
        raise OSError(f"{host}:{port}: {error}") from error
    return protocol
