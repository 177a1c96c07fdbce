"""Ends of connections that are in memory, and how bytes come to who listens there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from minikafka.transport.framing import SocketlessTransport


class MemoryTransport(SocketlessTransport):
    """What the server takes for a socket is the transport itself. Subclasses say what becomes of bytes, and of :meth:`abort`."""

    family = socket.AF_UNIX
    """It has none of TCP's options."""

    def __init__(self) -> None:
        super().__init__()
        self.sender = self

    def send(self, data: bytes | bytearray | memoryview[Any], flags: int = 0) -> int:
        raise NotImplementedError

    def send_file(self, sender: Any, file: Any, position: int, length: int) -> int:
        del sender
        return self.send(file.pread(length, position))

    def close(self) -> None:
        """Also what is called of a socket: of its own descriptor, when the connection is lost already."""
        self.abort()


def feed(protocol: asyncio.BufferedProtocol, data: bytes, goes_on: Callable[[], bool]) -> None:
    """Give a protocol bytes as an event loop does; ``goes_on``: whether it still reads."""
    left = memoryview(data)
    while left and goes_on():
        buffer = memoryview(protocol.get_buffer(-1))
        size = min(len(buffer), len(left))
        buffer[:size] = left[:size]
        protocol.buffer_updated(size)
        left = left[size:]
