"""A client's connection to another broker: requests out, answers back in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from minikafka.protocol import messages, wire
from minikafka.server.framing import FrameProtocol


class PeerClosed(ConnectionError):
    """The connection closed before the answer came; whether the request was carried out is unknown."""


class PeerConnection(FrameProtocol):
    """Requests are answered in the order they were sent, as Kafka promises for one connection."""

    def __init__(self, client_id: str, on_close: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._client_id = client_id
        self._on_close = on_close
        self._waiting: deque[tuple[int, Callable[[memoryview | None], None]]] = deque()
        self._correlation = 0

    @property
    def is_open(self) -> bool:
        return self.socket is not None

    def next_correlation(self) -> int:
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        return self._correlation

    def send_frame(self, correlation: int, frame: bytes, on_answer: Callable[[memoryview | None], None]) -> None:
        """Send a whole frame; ``on_answer`` gets the answer as a view that is valid only inside the call, or None."""
        if self.socket is None:
            on_answer(None)
            return
        self._waiting.append((correlation, on_answer))
        self.send([frame])

    async def request(self, api_key: int, version: int, values: Mapping[str, Any]) -> messages.Entity:
        """Send a cold request and await its decoded answer.

        Raises:
            PeerClosed: no answer will come.
        """
        body = messages.encode_request(api_key, version, values)
        return messages.decode_response(api_key, version, await self.request_raw(api_key, version, body))

    async def request_raw(self, api_key: int, version: int, body: bytes) -> bytes:
        """Send an encoded request body and await the body of the answer; raises PeerClosed."""
        flexible = messages.is_flexible(api_key, version)
        correlation = self.next_correlation()
        frame = wire.request_frame(api_key, version, correlation, self._client_id, body, flexible)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def on_answer(view: memoryview | None) -> None:
            if answer.done():
                return
            if view is None:
                answer.set_exception(PeerClosed("connection closed"))
            else:
                answer.set_result(bytes(view))

        self.send_frame(correlation, frame, on_answer)
        raw = await answer
        return raw[wire.skip_tags(raw, 4) :] if flexible else raw[4:]

    def frame_received(self, frame: memoryview) -> None:
        if not self._waiting:
            self.close()
            return
        correlation, on_answer = self._waiting.popleft()
        if int.from_bytes(frame[:4], "big", signed=True) != correlation:
            on_answer(None)
            self.close()
            return
        on_answer(frame)

    def closed(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, on_answer in waiting:
            on_answer(None)
        if self._on_close is not None:
            self._on_close()


async def connect(
    host: str, port: int, client_id: str, timeout: float, on_close: Callable[[], None] | None = None
) -> PeerConnection:
    """Open a connection; raises ``OSError`` (``ConnectionRefusedError`` when nobody listens) or ``TimeoutError``."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout):
        _, protocol = await loop.create_connection(lambda: PeerConnection(client_id, on_close), host, port)
    return protocol
