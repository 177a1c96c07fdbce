"""The broker's little HTTP server: ``/metrics``, ``/healthz`` and ``/readyz``, and nothing else (but ``/hooks``, where a test
may have them).

h11 for the protocol, asyncio for the bytes, because a web framework costs more memory than the rest of the broker. What
scrapers and kubelets need: GET and HEAD, keep-alive (HTTP/1.1), pipelining in order, no request bodies (a POST to ``/hooks``
says all in its query). Every connection is bounded in time and bytes, so that a slow or rude client can do no harm. Where
there are tokens, whatever is no probe asks for one; a kubelet has none.
"""

import asyncio
import json
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final, Protocol, cast
from urllib.parse import parse_qsl

import h11

from minikafka.security.bearer import AcceptedTokens
from minikafka.security.tls_stream import TlsStream, tls_reason
from minikafka.transport.turn import Turn

REQUEST_BYTES_MAX: Final = 8 * 1024
"""Request line and headers together; a scraper sends a few hundred bytes."""
CONNECTIONS_MAX: Final = 64
"""A few scrapers, the kubelet and a person are expected. For one more, that is closed of which nothing whole came for longest:
who only holds connections, which takes no token, would have the kubelet find nobody, and kill the broker."""
IDLE_SECONDS_MAX: Final = 75.0
"""Without progress for this long (no whole request, or an answer that is not read) a connection is closed."""

Answered = Callable[[int, str, bytes], None]
"""Takes status, content type and body of an answer."""

Probe = Callable[[], tuple[bool | HTTPStatus, str]]
"""Whether it is well, or the status that says in which way it is not, and the reason."""

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_VERSIONS = (b"1.0", b"1.1")
_METHODS = (b"GET", b"HEAD")
_PROBES = (b"/healthz", b"/readyz")
_READ_BYTES = 1 << 16
HOOKS: Final = "/hooks"
_JSON = "application/json"


class Orders(Protocol):
    """What `/hooks` is for: a POST orders, a GET tells."""

    def order(self, given: Mapping[str, str]) -> None:
        """Raises ValueError with one line."""
        ...

    def as_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class MetricsDoor:
    """Who is let in: ``tls`` makes that of a new connection, None: there is none. ``refused`` gets an address and a reason."""

    tls: Callable[[], TlsStream | None] = lambda: None
    tokens: AcceptedTokens | None = None
    refused: Callable[[str, str], object] = lambda _address, _reason: None


class MetricsServer:
    """Serves what its callables say: ``metrics`` the pieces of the page, ``health`` and ``ready`` a verdict with its reason.

    They run on the event loop, so they must be quick, as must each piece. A probe that is not well is answered with 503, or
    the status that it gives, and the reason. ``orders`` is what `/hooks` stands for, where there is such a thing.
    """

    def __init__(
        self,
        metrics: Callable[[], Iterable[bytes]],
        health: Probe,
        ready: Probe,
        orders: Orders | None = None,
        door: MetricsDoor = MetricsDoor(),
    ) -> None:
        self._pages = _Pages(metrics)
        self.door = door
        self._orders = orders
        self._probes = {"/healthz": health, "/readyz": ready}
        self._server: asyncio.Server | None = None
        self.connections: dict[_Connection, None] = {}  # the one that made progress last is the last

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises ``OSError`` when the port cannot be had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self, loop), host, port)

    @property
    def port(self) -> int:
        """The port listened on, also when the system chose it."""
        assert self._server is not None, "not started"
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close the listener and every connection."""
        if self._server is None:
            return
        self._server.close()
        self._pages.stop()
        for connection in tuple(self.connections):
            connection.abort()
        await self._server.wait_closed()
        self._server = None

    def takes(self, method: bytes, target: bytes) -> bool:
        """Whether there is such a method for this target."""
        on_hooks = self._orders is not None and target.partition(b"?")[0] == HOOKS.encode()
        return method in _METHODS or (on_hooks and method == b"POST")

    def unauthorized(self, request: h11.Request) -> str:
        """Why this request is not let in, or nothing."""
        tokens = self.door.tokens
        if tokens is None or request.target.partition(b"?")[0] in _PROBES:
            return ""
        return tokens.refusal(value.decode("latin-1") for name, value in request.headers if name == b"authorization")

    def answer(self, target: str, method: str, done: Answered) -> None:
        """Find status, content type and body for a request target."""
        path, _, query = target.partition("?")
        if path == "/metrics":
            self._pages.ask(done)
            return
        try:
            found = self._answer(path, query, method)
        except Exception as error:  # a bug in a probe must show in the answer, not end the broker
            found = _failed(error)
        done(*found)

    def _answer(self, path: str, query: str, method: str) -> tuple[int, str, bytes]:
        if path == HOOKS and self._orders is not None:
            return self._hooks(self._orders, method, query)
        probe = self._probes.get(path)
        if probe is None:
            return 404, _TEXT, b"not found; there are /metrics, /healthz and /readyz\n"
        well, reason = probe()
        status = well if isinstance(well, HTTPStatus) else HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
        return int(status), _TEXT, f"{reason}\n".encode()

    def _hooks(self, orders: Orders, method: str, query: str) -> tuple[int, str, bytes]:
        if method == "POST":
            try:
                orders.order(dict(parse_qsl(query, keep_blank_values=True)))
            except ValueError as error:
                return int(HTTPStatus.BAD_REQUEST), _TEXT, f"{error}\n".encode()
        return int(HTTPStatus.OK), _JSON, json.dumps(orders.as_json()).encode()


def _failed(error: Exception) -> tuple[int, str, bytes]:
    return 500, _TEXT, f"{type(error).__name__}: {error}\n".encode()


class _Pages:
    """Makes pages of metrics, one at a time, in pieces between which others are served.

    Who asks while one is made gets the next, with all others who did: many scrapers together take no more of the event loop
    than one, and no page tells of a time before it was asked for.
    """

    def __init__(self, metrics: Callable[[], Iterable[bytes]]) -> None:
        self._metrics = metrics
        self._asked: list[Answered] = []
        self._made_for: list[Answered] = []
        self._next: asyncio.Handle | None = None

    def ask(self, done: Answered) -> None:
        """Have a page made."""
        self._asked.append(done)
        if self._next is None:
            self._begin(asyncio.get_running_loop())

    def stop(self) -> None:
        """Nobody is there any more."""
        if self._next is not None:
            self._next.cancel()

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._made_for, self._asked = self._asked, []
        self._go_on(loop, self._pieces(), [])

    def _pieces(self) -> Iterator[bytes]:
        yield from self._metrics()

    def _go_on(self, loop: asyncio.AbstractEventLoop, pieces: Iterator[bytes], made: list[bytes]) -> None:
        turn = Turn(perf_counter)
        try:
            for piece in pieces:
                made.append(piece)
                if turn.is_over:
                    self._next = loop.call_soon(self._go_on, loop, pieces, made)
                    return
            found = 200, METRICS_TYPE, b"".join(made)
        except Exception as error:  # as in a probe
            found = _failed(error)
        for done in self._made_for:
            done(*found)
        self._made_for = []
        self._next = loop.call_soon(self._begin, loop) if self._asked else None


class _Connection(asyncio.Protocol):
    def __init__(self, server: MetricsServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_BYTES_MAX)
        self._request: h11.Request | None = None  # that is answered now
        self._writable = True
        self._is_due = False  # another request is looked for in the next round of the loop
        self._ended = False  # the client sends no more
        self._closing = False  # nothing more is answered
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tls: TlsStream | None = None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._transport = transport
        connections = self._server.connections
        if len(connections) >= CONNECTIONS_MAX:
            longest = next(iter(connections))
            del connections[longest]
            longest.abort()
        connections[self] = None
        self._restart_timer()
        self._tls = self._server.door.tls()
        if self._tls is not None:
            self._tls.attach(_Wire(transport))

    def connection_lost(self, _exc: Exception | None) -> None:
        self._server.connections.pop(self, None)
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()

    def eof_received(self) -> bool:
        # A client may close its side after its last request and still read; what is whole is answered first.
        self._ended = True
        return not self._writable or self._is_due

    def pause_writing(self) -> None:
        # The client does not read its answers: take no more requests until it does.
        self._writable = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._writable = True
        self._restart_timer()
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.resume_reading()
        if not self._is_due:
            self._answer_next()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._tls is None:
            self._http.receive_data(data)
        else:
            try:
                self._decrypt(self._tls, data)
            except ssl.SSLError as error:
                self._tell(f"TLS: {tls_reason(error)}")
                self._close()
                return
        if not self._is_due:
            self._answer_next()

    def _decrypt(self, tls: TlsStream, data: bytes) -> None:
        """Raises ssl.SSLError."""
        tls.feed(memoryview(data))
        if not tls.established:
            tls.shake_hands()
            tls.flush()
        room = memoryview(bytearray(_READ_BYTES))
        while tls.established and (read := tls.read_into(room)) is not None:
            if read == 0:
                self._ended = True
                return
            self._http.receive_data(bytes(room[:read]))

    def _tell(self, reason: str) -> None:
        assert self._transport is not None
        peer = self._transport.get_extra_info("peername")
        self._server.door.refused(peer[0] if isinstance(peer, tuple) else "", reason)

    def _restart_timer(self) -> None:
        if self in self._server.connections:
            del self._server.connections[self]
            self._server.connections[self] = None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(IDLE_SECONDS_MAX, self.abort)

    def _answer_next(self) -> None:
        """Answer the next whole request that was received, while the client reads.

        Whoever sends thousands at once has others served in between, also those who want something else of this process.
        """
        self._is_due = False
        while self._writable and not self._closing:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._request = None
                self._refuse(error.error_status_hint)
                return
            if isinstance(event, h11.Request):
                self._request = event
                refusal = _refusal(event, self._server.takes(event.method, event.target))
                if refusal is None and (reason := self._server.unauthorized(event)):
                    refusal = HTTPStatus.UNAUTHORIZED
                    self._tell(reason)
                if refusal is not None:
                    self._refuse(refusal)
            elif isinstance(event, h11.EndOfMessage):
                self._restart_timer()
                self._answer_one()
                return
            else:  # more has to come first
                self._resume()
                return

    def _pause(self) -> None:
        """Look for another request when this one is answered, in a round of the loop after that."""
        self._is_due = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._ended:
            self._close()
        else:
            self._transport.resume_reading()

    def _answer_one(self) -> None:
        request = self._request
        assert request is not None
        self._pause()
        self._server.answer(request.target.decode("latin-1"), request.method.decode("latin-1"), self._answered)

    def _answered(self, status: int, content_type: str, body: bytes) -> None:
        if self._closing or self._transport is None or self._transport.is_closing():
            return
        self._send(status, content_type, body)
        if self._http.our_state is h11.MUST_CLOSE:
            self._close()
        else:
            self._http.start_next_cycle()
            self._loop.call_soon(self._answer_next)

    def _refuse(self, status: int) -> None:
        fixed = [("Connection", "close")]
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            fixed.append(("Allow", b", ".join(_METHODS).decode()))
        if status == HTTPStatus.UNAUTHORIZED:
            fixed.append(("WWW-Authenticate", "Bearer"))
        self._send(status, _TEXT, f"{status} {HTTPStatus(status).phrase}\n".encode(), fixed)
        self._close()

    def _send(self, status: int, content_type: str, body: bytes, more: list[tuple[str, str]] | None = None) -> None:
        assert self._transport is not None
        headers = [
            ("Content-Type", content_type),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            *(more or ()),
        ]
        response = h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase.encode())
        parts = [self._http.send(response)]
        if self._request is None or self._request.method != b"HEAD":
            parts.append(self._http.send(h11.Data(data=body)))
        parts.append(self._http.send(h11.EndOfMessage()))
        answer = b"".join(part for part in parts if part)
        if self._tls is None:
            self._transport.write(answer)
            return
        left = memoryview(answer)
        while left:
            left = left[self._tls.send(left) :]

    def _close(self) -> None:
        assert self._transport is not None
        self._closing = True
        if self._tls is not None:
            self._tls.say_goodbye()
        self._transport.close()


class _Wire:
    """What TLS takes for its socket: a transport, which takes everything."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def send(self, data: memoryview) -> int:
        self._transport.write(data)
        return len(data)


def _refusal(request: h11.Request, known: bool) -> int | None:
    """The status with which a request is refused that is not served here; `known`: whether its target has such a method."""
    if request.http_version not in _VERSIONS:
        return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
    headers = dict(request.headers)
    size = len(request.target) + sum(len(name) + len(value) for name, value in request.headers)
    if size > REQUEST_BYTES_MAX:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    if headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    if not known:
        return HTTPStatus.METHOD_NOT_ALLOWED
    if request.method not in _METHODS and b"origin" in headers:  # of a page in some browser, which may post anywhere
        return HTTPStatus.FORBIDDEN
    return None
