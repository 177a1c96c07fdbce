"""HTTP/1.1 to one API server: h11 for the protocol, asyncio for the bytes (docs/decisions/004)."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import h11

from minikafka.kubernetes.credentials import Access
from minikafka.metadata.store import StoreError

CONNECT_SECONDS_MAX = 2.0
IDLE_SECONDS_MAX = 20.0
"""A connection unused for longer is not used again: the server closes idle ones after 90 s (Go's IdleTimeout there), and a
request that meets the closing has an unknown outcome."""

IDLE_CONNECTIONS_MAX = 4
READ_BYTES = 65_536
LINE_BYTES_MAX = 8 * 1024 * 1024
"""Objects are limited to 1.5 MiB by etcd; base64 and JSON make that larger."""

KEEPALIVE_IDLE_SECONDS, KEEPALIVE_INTERVAL_SECONDS, KEEPALIVE_COUNT = 10, 5, 3
UNACKNOWLEDGED_MS_MAX = 15_000
"""TCP_USER_TIMEOUT: a peer that vanished without a word is noticed after this, also by a watch that never writes."""


class ApiUnreachable(StoreError):
    """No answer. ``sent`` tells whether the request may have been carried out."""

    def __init__(self, problem: str, sent: bool) -> None:
        super().__init__(problem)
        self.sent = sent


class HttpResponse(NamedTuple):
    """A complete answer; names of headers are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpConnection:
    """One connection; one request at a time."""

    def __init__(self, access: Access, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._access = access
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self.idle_since = time.monotonic()

    @classmethod
    async def open(cls, access: Access) -> HttpConnection:
        """Raises ApiUnreachable; TLS problems are named."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                reader, writer = await asyncio.open_connection(access.host, access.port, ssl=access.tls)
        except TimeoutError as error:
            raise ApiUnreachable(f"Kubernetes API at {access.address}: no connection in time", sent=False) from error
        except OSError as error:  # includes SSLError
            reason = error.strerror or str(error)
            raise ApiUnreachable(f"Kubernetes API at {access.address}: {reason}", sent=False) from error
        found = writer.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SECONDS)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_COUNT)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS_MAX)
        return cls(access, reader, writer)

    @property
    def reusable(self) -> bool:
        """Whether another request may go over it."""
        if self._reader.at_eof() or self._writer.is_closing():
            return False
        return self._http.our_state is h11.IDLE and time.monotonic() - self.idle_since < IDLE_SECONDS_MAX

    def close(self) -> None:
        self._writer.close()

    async def send(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> None:
        """Raises ApiUnreachable."""
        token = self._access.token()
        fixed = [("Host", self._access.address), ("Accept", "application/json"), ("User-Agent", "minikafka")]
        if token is not None:
            fixed.append(("Authorization", f"Bearer {token}"))
        if body:
            fixed.append(("Content-Length", str(len(body))))
        request = h11.Request(method=method, target=self._access.base + target, headers=fixed + headers)
        parts = [self._http.send(request)]
        if body:
            parts.append(self._http.send(h11.Data(data=body)))
        parts.append(self._http.send(h11.EndOfMessage()))
        try:
            self._writer.write(b"".join(part for part in parts if part))
            await self._writer.drain()
        except OSError as error:
            raise self._lost(str(error)) from error

    def _lost(self, problem: str) -> ApiUnreachable:
        return ApiUnreachable(f"Kubernetes API at {self._access.address}: {problem}", sent=True)

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            try:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    return event  # type: ignore[return-value]  # NEED_DATA is excluded above
                self._http.receive_data(await self._reader.read(READ_BYTES))
            except (OSError, h11.RemoteProtocolError) as error:
                raise self._lost(str(error)) from error

    async def read_head(self) -> tuple[int, dict[str, str]]:
        """Status and headers; informational answers are skipped."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event.status_code, {name.decode(): value.decode("latin-1") for name, value in event.headers}
            if not isinstance(event, h11.InformationalResponse):
                raise self._lost("the connection was closed before an answer came")

    async def read_body(self) -> AsyncIterator[bytes]:
        """The pieces of a body as they come."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise self._lost("the connection was closed in the middle of an answer")

    def finish(self) -> None:
        """Make it ready for the next request, if both sides allow it."""
        self.idle_since = time.monotonic()
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()


class HttpClient:
    """Requests and streams to one server, over a few kept connections."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._closed = False

    def close(self) -> None:
        self._closed = True
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._idle.clear()

    async def _take(self) -> HttpConnection:
        if self._closed:
            raise ApiUnreachable("the store is closed", sent=False)
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable:
                return connection
            self._drop(connection)
        connection = await HttpConnection.open(self.access)
        self._open.add(connection)
        return connection

    def _drop(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        connection.close()

    def _give_back(self, connection: HttpConnection) -> None:
        connection.finish()
        if connection.reusable and len(self._idle) < IDLE_CONNECTIONS_MAX and not self._closed:
            self._idle.append(connection)
        else:
            self._drop(connection)

    async def request(
        self, method: str, target: str, headers: list[tuple[str, str]], body: bytes, timeout: float
    ) -> HttpResponse:
        """One request and its whole answer within ``timeout`` seconds. Raises ApiUnreachable."""
        connection: HttpConnection | None = None
        complete = False
        try:
            async with asyncio.timeout(timeout):
                connection = await self._take()
                await connection.send(method, target, headers, body)
                status, found = await connection.read_head()
                content = b"".join([piece async for piece in connection.read_body()])
            complete = True
        except TimeoutError as error:
            raise ApiUnreachable(
                f"Kubernetes API at {self.access.address}: no answer in time", sent=connection is not None
            ) from error
        finally:
            if connection is not None:
                if complete:
                    self._give_back(connection)
                else:  # also when the caller was cancelled: the rest of the answer would be taken for the next one
                    self._drop(connection)
        return HttpResponse(status, found, content)

    @asynccontextmanager
    async def stream(
        self, target: str, timeout: float, inactivity: float
    ) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        """A GET whose body is read piece by piece, each within ``inactivity`` seconds; its connection is not used again."""
        connection = await self._take()
        try:
            try:
                async with asyncio.timeout(timeout):
                    await connection.send("GET", target, [], b"")
                    status, headers = await connection.read_head()
            except TimeoutError as error:
                raise ApiUnreachable(
                    f"Kubernetes API at {self.access.address}: no answer in time", sent=True
                ) from error
            yield status, headers, _patiently(connection, inactivity, self.access.address)
        finally:
            self._drop(connection)


async def _patiently(connection: HttpConnection, seconds: float, address: str) -> AsyncIterator[bytes]:
    pieces = connection.read_body()
    while True:
        try:
            async with asyncio.timeout(seconds):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise ApiUnreachable(f"Kubernetes API at {address}: silent for {seconds:g} s", sent=True) from error
        yield piece
