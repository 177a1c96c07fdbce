"""A proxy in front of the API server that loses, delays and refuses what a test tells it to.

Clients speak plain HTTP to it. Each request goes to the real server over a connection of its own, so that a fault
hits exactly one request.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple


class Fault(Enum):
    """What happens to one request."""

    REFUSE = auto()
    """The connection is closed; the server never sees the request."""
    LOSE_ANSWER = auto()
    """The server carries it out, and the client never hears of it."""
    DELAY = auto()
    """The client's connection is closed at once; the server gets the request when the test says so (``release``)."""
    THROTTLE = auto()
    """429 with Retry-After: 1."""
    FAIL_AFTERWARDS = auto()
    """The server carries it out; the client is told 500."""
    HANG = auto()
    """Nothing, for as long as the client waits."""


class Request(NamedTuple):
    method: str
    path: str
    body: bytes

    @property
    def is_watch(self) -> bool:
        return "watch=true" in self.path


Rule = Callable[[Request], Fault | None]


@dataclass
class _Delayed:
    request: Request
    raw: bytes


class FaultyProxy:
    """``rule`` is asked for each request; None lets it pass."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext) -> None:
        self._host, self._upstream_port, self._tls = host, port, tls
        self._server: asyncio.Server | None = None
        self._streams: set[asyncio.StreamWriter] = set()
        self._delayed: list[_Delayed] = []
        self.rule: Rule = lambda _: None
        self.requests: list[Request] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the door and every connection; ``start`` opens it again at the same port."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    def cut(self) -> None:
        """Break every connection there is, in the middle of whatever it does."""
        for writer in list(self._streams):
            writer.transport.abort()

    async def release(self) -> list[int]:
        """Let the delayed requests arrive at the server; the status of each answer."""
        statuses = []
        while self._delayed:
            delayed = self._delayed.pop(0)
            reader, writer = await self._forward(delayed.raw)
            head = await reader.readuntil(b"\r\n")
            statuses.append(int(head.split()[1]))
            await reader.read()
            writer.close()
        return statuses

    async def _forward(self, raw: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, self._upstream_port, ssl=self._tls)
        writer.write(raw)
        await writer.drain()
        return reader, writer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._streams.add(writer)
        try:
            await self._handle(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._streams.discard(writer)
            writer.transport.abort() if writer.transport.is_closing() else writer.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, path, _ = first.split(" ")
        headers = [line for line in lines if not line.lower().startswith(("connection:", "host:"))]
        length = next((int(h.split(":")[1]) for h in headers if h.lower().startswith("content-length:")), 0)
        body = await reader.readexactly(length)
        request = Request(method, path, body)
        self.requests.append(request)
        kept = [first, f"Host: {self._host}:{self._upstream_port}", "Connection: close", *headers]
        raw = "\r\n".join(kept).encode("latin-1") + b"\r\n\r\n" + body
        match self.rule(request):
            case Fault.REFUSE:
                return
            case Fault.DELAY:
                self._delayed.append(_Delayed(request, raw))
                return
            case Fault.THROTTLE:
                writer.write(_answer("429 Too Many Requests", "Retry-After: 1\r\n"))
                await writer.drain()
                return
            case Fault.HANG:
                await reader.read()
                return
            case Fault.LOSE_ANSWER:
                await self._discard(raw)
                return
            case Fault.FAIL_AFTERWARDS:
                await self._discard(raw)
                writer.write(_answer("500 Internal Server Error"))
                await writer.drain()
                return
            case None:
                await self._pass_on(raw, reader, writer)

    async def _discard(self, raw: bytes) -> None:
        upstream, out = await self._forward(raw)
        await upstream.read()
        out.close()

    async def _pass_on(self, raw: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, out = await self._forward(raw)
        gone = asyncio.ensure_future(reader.read())  # a client that goes away ends its watch at the server, too
        try:
            while True:
                piece = asyncio.ensure_future(upstream.read(65536))
                await asyncio.wait((piece, gone), return_when=asyncio.FIRST_COMPLETED)
                if not piece.done():
                    piece.cancel()
                    return
                if not piece.result():
                    return
                writer.write(piece.result())
                await writer.drain()
        finally:
            gone.cancel()
            out.close()


def _answer(status: str, headers: str = "") -> bytes:
    body = b'{"kind":"Status","reason":"Faulty","message":"made by the test"}'
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
