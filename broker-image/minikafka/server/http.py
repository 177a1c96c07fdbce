"""The broker's little HTTP server: ``/metrics``, ``/healthz`` and ``/readyz``, and nothing else.

Written on asyncio's protocols, because a web framework costs more memory than the rest of the broker. HTTP/1.1 as far
as scrapers and kubelets need it (RFC 9112): GET and HEAD, keep-alive, pipelining in order, no request bodies. Every
connection is bounded in time and bytes, so that a slow or rude client can do no harm.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast

REQUEST_BYTES_MAX: Final = 8 * 1024
"""Request line and headers together; a scraper sends a few hundred bytes."""
CONNECTIONS_MAX: Final = 64
"""More are closed at once: a few scrapers, the kubelet and a person are expected."""
IDLE_SECONDS_MAX: Final = 75.0
"""Without progress for this long (no whole request, or an answer that is not read) a connection is closed."""

Probe = Callable[[], tuple[bool, str]]

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class MetricsServer:
    """Serves what its callables say: ``metrics`` the page, ``health`` and ``ready`` a verdict with its reason.

    They run on the event loop, so they must be quick. A probe that is not well is answered with 503 and the reason.
    """

    def __init__(self, metrics: Callable[[], bytes], health: Probe, ready: Probe) -> None:
        self._metrics = metrics
        self._probes = {"/healthz": health, "/readyz": ready}
        self._server: asyncio.Server | None = None
        self.connections: set[_Connection] = set()

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
        for connection in tuple(self.connections):
            connection.abort()
        await self._server.wait_closed()
        self._server = None

    def answer(self, target: str) -> tuple[int, str, bytes]:
        """Status, content type and body for a request target."""
        path = target.partition("?")[0]
        if path == "/metrics":
            return 200, METRICS_TYPE, self._metrics()
        probe = self._probes.get(path)
        if probe is None:
            return 404, _TEXT, b"not found; there are /metrics, /healthz and /readyz\n"
        well, reason = probe()
        return (200 if well else 503), _TEXT, f"{reason}\n".encode()


class _Connection(asyncio.Protocol):
    def __init__(self, server: MetricsServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._buffer = bytearray()
        self._writable = True
        self._ended = False  # the client sends no more
        self._closing = False  # nothing more is answered
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._transport = transport
        if len(self._server.connections) >= CONNECTIONS_MAX:
            transport.abort()
            return
        self._server.connections.add(self)
        self._restart_timer()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()

    def eof_received(self) -> bool:
        # A client may close its side after its last request and still read; what is whole is answered first.
        self._ended = True
        return not self._writable

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
        self._answer_all()
        if self._ended and self._writable:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._buffer += data
        self._answer_all()

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(IDLE_SECONDS_MAX, self.abort)

    def _answer_all(self) -> None:
        """Answer every whole request in the buffer, in order, while the client reads."""
        while self._writable and not self._closing:
            # Empty lines before a request line are allowed (RFC 9112, 2.2).
            while self._buffer.startswith(b"\r\n"):
                del self._buffer[:2]
            end = self._buffer.find(b"\r\n\r\n")
            if max(end, 0) > REQUEST_BYTES_MAX or (end < 0 and len(self._buffer) > REQUEST_BYTES_MAX):
                self._refuse(431)
                return
            if end < 0:
                return
            head = bytes(self._buffer[:end])
            del self._buffer[: end + 4]
            self._restart_timer()
            self._answer_one(head)

    def _answer_one(self, head: bytes) -> None:
        request_line, *header_lines = head.decode("latin-1").split("\r\n")
        parts = request_line.split(" ")
        if len(parts) != 3 or not all(parts) or not parts[2].startswith("HTTP/"):
            self._refuse(400)
            return
        method, target, version = parts
        if version not in ("HTTP/1.1", "HTTP/1.0"):
            self._refuse(505)
            return
        headers: dict[str, str] = {}
        for line in header_lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                self._refuse(400)
                return
            headers[name.lower()] = value.strip().lower()
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            self._refuse(413)
            return
        if method not in ("GET", "HEAD"):
            self._refuse(405)
            return
        connection = headers.get("connection", "")
        keep = "close" not in connection and (version == "HTTP/1.1" or "keep-alive" in connection)
        try:
            status, content_type, body = self._server.answer(target)
        except Exception as error:  # a bug in a probe must show in the answer, not end the broker
            status, content_type, body = 500, _TEXT, f"{type(error).__name__}: {error}\n".encode()
        self._send(status, content_type, body, head_only=method == "HEAD", keep=keep)

    def _refuse(self, status: int) -> None:
        body = f"{status} {_REASONS[status]}\n".encode()
        self._send(status, _TEXT, body, head_only=False, keep=False)

    def _send(self, status: int, content_type: str, body: bytes, *, head_only: bool, keep: bool) -> None:
        assert self._transport is not None
        lines = [
            f"HTTP/1.1 {status} {_REASONS[status]}",
            f"Content-Type: {content_type}",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
        ]
        if status == 405:
            lines.append("Allow: GET, HEAD")
        lines.append(f"Connection: {'keep-alive' if keep else 'close'}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        self._transport.write(head if head_only else head + body)
        if not keep:
            self._closing = True
            self._buffer.clear()
            self._transport.close()
