"""Frames under TLS, without a socket: what is held, and frames of every size (31 item 1)."""

from __future__ import annotations

import asyncio
import socket
from unittest.mock import Mock

import pytest
from minikafka.security.tls import client_context, server_context
from minikafka.security.tls_stream import REPLIES_BYTES_MAX, TlsStream
from minikafka.transport import framing
from minikafka.transport.framing import BUFFER_BYTES_START, IN_USE, FrameProtocol
from minikafka_simulator.machine.transport import MemoryTransport, feed

from tests.certificates import broker_keystore
from tests.unit.security.test_tls import CLIENT, Wire, server_of
from tests.waiting import until


class Transport(MemoryTransport):
    """What the server sends; it can be told to read no more."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.reads = True
        self.is_closed = False

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0) -> int:
        self.sent += data
        return len(data)

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def abort(self) -> None:
        self.is_closed = True


def new_tls() -> TlsStream:
    return TlsStream(server_context(server_of(broker_keystore())), server_side=True)


class Server(FrameProtocol):
    """Keeps what it gets; holds the frames after those that begin with h."""

    def __init__(self, tls: TlsStream | None) -> None:
        super().__init__(tls)
        self.frames: list[bytes] = []
        self.hold_on = "test"

    def frame_received(self, frame: memoryview) -> bool:
        self.frames.append(bytes(frame))
        if frame[:1] == b"h":
            self.hold_frames(self.hold_on)
        return False


class Both:
    """A client, and the server under test."""

    def __init__(self) -> None:
        self.server, self.transport, self.wire = Server(new_tls()), Transport(), Wire()
        self.server.connection_made(self.transport)
        self.client = TlsStream(client_context(CLIENT), server_side=False, host="localhost")
        self.client.attach(self.wire)
        while not (self.client.established and self.server.tls and self.server.tls.established):
            self.client.shake_hands()
            self.client.flush()
            self.carry()

    def carry(self) -> None:
        """To the server as its loop would, for as long as it reads, and back."""
        while self.wire.data and self.transport.reads and not self.transport.is_closed:
            size = len(self.server.get_buffer(-1))  # a read brings as much as there is room for
            piece = bytes(self.wire.data[:size])
            del self.wire.data[:size]
            feed(self.server, piece, lambda: True)
        if self.transport.sent:
            self.client.feed(memoryview(bytes(self.transport.sent)))
            self.transport.sent.clear()

    def send(self, *frames: bytes) -> None:
        self.client.send(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))
        self.carry()


async def test_frames_of_every_size() -> None:
    both = Both()
    frames = [b"x" * size for size in (0, 1, 16_380, 16_384, 100_000, 7)]
    both.send(*frames[:4])
    both.send(*frames[4:])
    assert both.server.frames == frames


async def test_what_is_held_is_handed_on_later() -> None:
    """A record of TLS that was not decrypted yet when the first frame was held, too."""
    both = Both()
    frames = [b"h" * 10_000, b"a" * 30_000, b"h" * 5, b"b"]
    both.send(*frames)
    assert both.server.frames == frames[:1]
    assert not both.transport.reads
    both.server.release_frames("test")
    both.carry()
    assert both.server.frames == frames[:3]
    both.server.release_frames("test")
    both.carry()
    assert both.server.frames == frames
    assert both.transport.reads


async def test_what_could_not_be_decrypted_yet_is_handed_on_later() -> None:
    """A record of TLS fills the buffer, and holds it, when the next has come already: nothing more will wake the connection."""
    both = Both()
    full = b"a" * (BUFFER_BYTES_START - 4 - 4 - 2)
    for record in ((b"h1", full), (b"z",)):
        both.client.send(b"".join(len(frame).to_bytes(4, "big") + frame for frame in record))
    both.carry()
    assert both.server.frames == [b"h1"]
    assert not both.wire.data
    both.server.release_frames("test")
    assert both.server.frames == [b"h1", full, b"z"]


@pytest.mark.parametrize("is_used", [False, True])
async def test_what_is_held_keeps_no_large_buffer(is_used: bool) -> None:
    """It would count for queued.max.request.bytes for as long as a client is throttled, say."""
    server, given_back, frame = Server(None), Mock(), b"h" * 3_000_000
    server.give_back = given_back  # type: ignore[method-assign]
    server.connection_made(Transport())
    if is_used:
        server.hold_on = IN_USE
    sent = len(frame).to_bytes(4, "big") + frame
    while sent:
        size = len(server.get_buffer(-1))
        feed(server, sent[:size], lambda: True)
        sent = sent[size:]
    if is_used:
        server.hold_frames("throttled")
        given_back.assert_not_called()
        server.release_frames(IN_USE)
    assert server.frames == [frame] and server._held
    given_back.assert_called_once_with(4 + len(frame))
    assert len(server._buffer) == BUFFER_BYTES_START


async def test_a_goodbye_closes() -> None:
    both = Both()
    both.client.say_goodbye()
    both.carry()
    assert both.transport.is_closed


async def test_ciphertext_that_was_changed_closes() -> None:
    both = Both()
    both.client.send(b"\0\0\0\1x")
    both.wire.data[-1] ^= 1
    both.carry()
    assert both.server.frames == []
    assert both.transport.is_closed


async def test_replies_of_tls_itself_do_not_fill_the_memory() -> None:
    """OpenSSL answers each key update, before anybody has logged in; Python's ssl can send none."""
    both = Both()
    assert both.server.tls
    replies = both.server.tls._outgoing
    replies.write(b"r" * 1000)
    both.send(b"one")
    assert both.server.frames == [b"one"] and not replies.pending, "sent, though there is no answer yet"
    both.server.tls.attach(Mock(send=Mock(side_effect=BlockingIOError)))
    for _ in range(2):
        replies.write(b"r" * REPLIES_BYTES_MAX)
        assert not both.transport.is_closed
        both.send(b"two")
    replies.write(b"r")
    both.send(b"three")
    assert both.transport.is_closed


async def test_answers_reach_the_client() -> None:
    both = Both()
    both.server.send([b"one", memoryview(b"two"), b"3" * 300_000])
    both.carry()
    room = memoryview(bytearray(400_000))
    got = 0
    while count := both.client.read_into(room[got:]):
        got += count
    assert bytes(room[:got]) == b"onetwo" + b"3" * 300_000


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x12" + b"\0" * 18, b"\xff" * 100])
async def test_what_is_no_tls_closes(garbage: bytes) -> None:
    server, transport = Server(new_tls()), Transport()
    server.connection_made(transport)
    feed(server, garbage, lambda: True)
    assert transport.is_closed
    assert server.frames == []


class Plain(FrameProtocol):
    def __init__(self) -> None:
        super().__init__()
        self.frames: list[int] = []

    def frame_received(self, frame: memoryview) -> bool:
        self.frames.append(len(frame))
        return False


async def test_memory_is_taken_by_what_has_come() -> None:
    """Not by what is announced: four bytes must not cost as much as the largest frame."""
    server = Plain()
    server.connection_made(Transport())
    size = 10_000_000
    feed(server, size.to_bytes(4, "big"), lambda: True)
    assert len(server._buffer) == BUFFER_BYTES_START
    left = size
    while left:
        piece = bytes(min(left, len(server.get_buffer(-1)), 50_000))
        feed(server, piece, lambda: True)
        left -= len(piece)
        assert len(server._buffer) <= max(4 * (size - left + 4), BUFFER_BYTES_START)
    assert server.frames == [size]
    feed(server, b"\0\0\0\1x", lambda: True)
    assert server.frames == [size, 1]


async def test_who_reads_quickly_does_not_keep_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of 55 MB to one connection kept all others waitingwhile TLS encrypted them (found by an attack)."""
    monkeypatch.setattr(framing, "FLUSH_BYTES_MAX", 1_000)
    ours, theirs = socket.socketpair()
    with theirs:
        transport, server = await asyncio.get_running_loop().create_connection(Plain, sock=ours)
        server.send([b"x" * 600] * 5)
        assert server.is_blocked and server.bytes_sent == 1_200
        await until(lambda: not server.is_blocked)
        assert len(theirs.recv(4_000)) == 3_000
        transport.close()
