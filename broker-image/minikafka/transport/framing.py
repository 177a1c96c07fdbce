"""Kafka frames over a socket, both directions, with as little Python as can be.

Reading: a ``BufferedProtocol`` lets the kernel write straight into one buffer a connection; frames are handed on as views
of it. Writing: bytes and file ranges go straight to the socket (``send`` with MSG_MORE, ``sendfile``), in order; only what
the socket does not take is kept, and while something is kept nothing more is read (back-pressure). A subclass may hold the
frames: those that were read stay where they are until it releases them. With TLS the same bytes pass through a `TlsStream`,
which takes the place of the socket; the kernel's sendfile cannot be used then.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
import ssl
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from minikafka.security.tls_stream import TlsStream

BUFFER_BYTES_START = 1 << 14
"""A connection begins small (thousands of idle ones must fit) and doubles while it is busy ..."""

BUFFER_BYTES_BUSY = 1 << 18
"""... up to this; a larger frame gets a buffer of its own size."""

BUFFER_BYTES_KEEP = 1 << 21
"""A buffer over this size is given back once it is empty."""

FLUSH_BYTES_MAX, FLUSH_TLS_BYTES_MAX = 1 << 22, 1 << 20
"""Sent in one go, then others are served: a peer that reads as fast as TLS is encrypted would have the event loop for itself."""

HUNG_UP = getattr(select, "POLLRDHUP", 0)
"""Linux tells when the peer sends no more, also before what it has sent is read."""

IN_USE = "in use"
"""Why frames are held while the bytes of the one before them are needed where they are."""

SEND_RETRY_ERRORS = (errno.EAGAIN, errno.EWOULDBLOCK)


class SocketlessTransport(asyncio.Transport):
    """A transport without a socket of the kernel below it: a simulation's. It never blocks."""

    sender: Any
    """Has a socket's ``send``, ``close`` and ``family``."""

    def send_file(self, sender: Any, file: Any, position: int, length: int) -> int:
        """Send a range of a file; how many bytes were sent. Raises OSError as sendfile does."""
        raise NotImplementedError


def _by_the_kernel(sock: Any, file: Any, position: int, length: int) -> int:
    return os.sendfile(sock.fileno(), file.fileno(), position, length)


def _through_tls(stream: Any, file: Any, position: int, length: int) -> int:
    return int(stream.send_file(file, position, length))


class FrameProtocol(asyncio.BufferedProtocol):
    """One connection. Subclasses implement :meth:`frame_received`, and may override the hooks beside it."""

    max_frame_bytes = 100 * 1024 * 1024

    def __init__(self, tls: TlsStream | None = None) -> None:
        self.tls = tls
        self._buffer = bytearray(BUFFER_BYTES_START)
        self._view = memoryview(self._buffer)
        self._read_at = 0
        self._write_at = 0
        self._out: deque[Any] = deque()
        self._blocked = False
        self._held: set[str] = set()
        """Why no frame is handed on."""
        self._closing = False
        self._admitted = 0
        """Bytes of the large frame that is being read."""
        self._mute: set[str] = set()
        """Why nothing is read."""
        self.transport: asyncio.Transport | None = None
        self.socket: socket.socket | TlsStream | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.bytes_sent = 0
        self.send_file: Callable[[Any, Any, int, int], int] = _by_the_kernel
        self._flush_bytes_max = FLUSH_BYTES_MAX if tls is None else FLUSH_TLS_BYTES_MAX

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def frame_received(self, frame: memoryview) -> bool:
        """One frame without its length; the view is valid until this returns, or until frames that it holds are released.

        Returns:
            Whether frames are held, and this one is to be handed on again when they are released.
        """
        raise NotImplementedError

    def turn_is_over(self) -> bool:
        """Whether others are to be served before the next frame, though it is here."""
        return False

    def batch_received(self) -> None:
        """Called after all frames of one read were handed on."""

    def closed(self) -> None:
        """The connection is gone."""

    def bad_frame(self, size: int) -> None:
        """A frame length that is negative or over the limit; the connection is closed after this."""

    def admits(self, size: int) -> bool:
        """Whether there may be a buffer for a large frame that is announced; if not, frames were held until there may."""
        del size
        return True

    def give_back(self, size: int) -> None:
        """The buffer of a large frame that was admitted is needed no more."""

    @property
    def is_blocked(self) -> bool:
        """Whether the socket takes no more now."""
        return self._blocked

    @property
    def has_hung_up(self) -> bool:
        """Whether the peer has ended the connection, or it is closed, also while nothing is read. May be asked in any thread."""
        sock = self.socket
        if self._closing or sock is None:
            return True
        if isinstance(self.transport, SocketlessTransport):
            return False
        if (descriptor := sock.fileno()) < 0:
            return True
        poll = select.poll()
        poll.register(descriptor, HUNG_UP)
        return bool(poll.poll(0))

    def blocked(self) -> None:
        """The socket takes no more now."""

    def unblocked(self) -> None:
        """It has taken all that waited."""

    def established(self) -> None:
        """Frames can be sent: the connection is there, and TLS, where it has that."""

    def handshake_failed(self, error: ssl.SSLError) -> None:
        """TLS could not be had; the connection is closed after this."""

    # -- asyncio.BufferedProtocol ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.loop = asyncio.get_running_loop()
        self.transport = transport  # type: ignore[assignment]
        if isinstance(transport, SocketlessTransport):
            self.socket, self.send_file = transport.sender, transport.send_file
            self._flush_bytes_max = sys.maxsize
        else:
            self.socket = self._own_socket(transport)
        if self.tls is None:
            self.established()
            return
        self.tls.attach(self.socket)
        self.socket, self.send_file = self.tls, _through_tls
        self._shake_hands()

    def _own_socket(self, transport: asyncio.BaseTransport) -> socket.socket:
        """A descriptor of our own: the loop allows add_writer only on descriptors that no transport owns."""
        original = transport.get_extra_info("socket")
        if original.family != socket.AF_UNIX:
            original.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            original.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # both as Kafka's SocketServer does
        own = socket.socket(fileno=os.dup(original.fileno()))
        own.setblocking(False)
        return own

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._closing = True
        if self.socket is not None:
            if self._blocked and self.loop is not None:
                self.loop.remove_writer(self.socket.fileno())
            self.socket.close()
            self.socket = None
        self._out.clear()
        if self._admitted:
            self.give_back(self._admitted)
            self._admitted = 0
        self.closed()

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._view[self._write_at :]

    def buffer_updated(self, nbytes: int) -> None:
        if self.tls is not None:
            self.tls.feed(self._view[self._write_at : self._write_at + nbytes])
            if self.tls.established or self._shake_hands():
                self._decrypt(self.tls)
            return
        self._write_at += nbytes
        self._hand_on()

    def _shake_hands(self) -> bool:
        """Whether the handshake is over."""
        assert self.tls is not None
        try:
            over = self.tls.shake_hands()
        except ssl.SSLError as error:
            self.handshake_failed(error)
            self.close()
            return False
        self._flush()
        if over and not self._closing:
            self.established()
        return over and not self._closing

    def _decrypt(self, tls: TlsStream) -> None:
        """Put plaintext where the kernel puts it otherwise, the ciphertext having been taken from there, and hand it on."""
        more: int | None = 1
        while more and not (self._held or self._closing):
            before = self._write_at
            while more and self._write_at < len(self._buffer):
                try:
                    more = tls.read_into(self._view[self._write_at :])
                except ssl.SSLError:
                    more = 0
                self._write_at += more or 0
            if self._write_at > before:
                self._hand_on()
        if more == 0:
            self.close()

    def _hand_on(self) -> None:
        """Give every whole frame to the subclass, up to one at which it holds them, or closes the connection."""
        read_at, write_at, view = self._read_at, self._write_at, self._view
        while write_at - read_at >= 4:
            size = int.from_bytes(view[read_at : read_at + 4], "big", signed=True)
            if size < 0 or size > self.max_frame_bytes:
                self.bad_frame(size)
                self.close()
                break
            end = read_at + 4 + size
            if end > write_at:
                break
            if self.frame_received(view[read_at + 4 : end]):
                break
            read_at = end
            if self._held or self._closing:
                break
            if write_at - end >= 4 and self.turn_is_over() and self.loop is not None:
                self.hold_frames("turn")
                self.loop.call_soon(self.release_frames, "turn")
                break
        self._read_at = read_at
        self._tidy()
        self.batch_received()

    def _tidy(self) -> None:
        """Make room for what comes. While frames are held, only where none is here: a large buffer is not kept for as long."""
        held = self._held if self._read_at < self._write_at else self._held & {IN_USE}
        if not (held or self._closing):
            self._make_room()

    def hold_frames(self, reason: str) -> None:
        """Hand on no frame after this one, and leave its bytes where they are, until every reason for it is gone."""
        self._held.add(reason)
        self.stop_reading("held")

    def release_frames(self, reason: str) -> None:
        """This reason is gone: hand on the frames that were held, and those to come, if there is no other."""
        self._held.discard(reason)
        if self._closing or self._held:
            self._tidy()
            return
        self._hand_on()
        if self.tls is not None and self.tls.established:
            self._decrypt(self.tls)
        if not self._held:
            self.go_on_reading("held")

    def stop_reading(self, reason: str) -> None:
        """Read nothing from the socket until every reason for it is gone."""
        if not self._mute and self.transport is not None:
            self.transport.pause_reading()
        self._mute.add(reason)

    def go_on_reading(self, reason: str) -> None:
        """This reason is gone."""
        if reason in self._mute:
            self._mute.remove(reason)
            if not self._mute and self.transport is not None:
                self.transport.resume_reading()

    def _make_room(self) -> None:
        """Keep the unread bytes at the front, in a buffer that holds the frame they begin."""
        unread = self._write_at - self._read_at
        capacity = len(self._buffer)
        need = 4
        if unread >= 4:
            need += int.from_bytes(self._view[self._read_at : self._read_at + 4], "big")
        if self._admitted and self._admitted != need:
            self.give_back(self._admitted)
            self._admitted = 0
        if unread == 0:
            filled = self._write_at
            self._read_at = self._write_at = 0
            if capacity > BUFFER_BYTES_KEEP:
                self._resize(BUFFER_BYTES_START)
            elif filled == capacity and capacity < BUFFER_BYTES_BUSY:
                self._resize(min(capacity * 4, BUFFER_BYTES_BUSY))
            return
        if self._read_at + need <= capacity and self._write_at < capacity:
            return
        if need > capacity and unread == capacity:
            if need > BUFFER_BYTES_BUSY and not self._admitted:
                if not self.admits(need):
                    return
                self._admitted = need
            # by what has come, not by what is announced: four bytes would take as much memory as a frame may have
            self._resize(min(max(need, BUFFER_BYTES_BUSY), capacity * 4))
        elif self._read_at:
            self._view[:unread] = self._view[self._read_at : self._write_at]
            self._read_at, self._write_at = 0, unread

    def _resize(self, capacity: int) -> None:
        unread = self._write_at - self._read_at
        old = self._view[self._read_at : self._write_at]
        self._buffer = bytearray(capacity)
        self._view = memoryview(self._buffer)
        self._view[:unread] = old
        self._read_at, self._write_at = 0, unread

    def eof_received(self) -> bool | None:
        return False

    def close(self) -> None:
        """Close after this event; what was not sent yet is lost, and frames behind the one that is handled are not handed on."""
        if self.tls is not None and not self._closing and self.socket is not None:
            self.tls.say_goodbye()
        self._closing = True
        if self.transport is not None:
            self.transport.abort()

    # -- writing -----------------------------------------------------------------------------------------------------------

    def send(self, parts: list[Any]) -> None:
        """Queue ``bytes`` and file ranges (``file``, ``position``, ``length``) and send what the socket takes now."""
        if self.socket is None:
            return
        self._out.extend(parts)
        if not self._blocked:
            self._flush()

    def _flush(self) -> None:
        out = self._out
        sock = self.socket
        assert sock is not None
        until = self.bytes_sent + self._flush_bytes_max
        try:
            while out and self.bytes_sent < until:
                part = out[0]
                if type(part) in _BYTES:
                    sent = sock.send(part, socket.MSG_MORE if len(out) > 1 else 0)
                    self.bytes_sent += sent
                    if sent < len(part):
                        out[0] = memoryview(part)[sent:]
                    else:
                        out.popleft()
                else:
                    self._send_range(sock, part)
            if self.tls is not None:
                self.tls.flush()
        except (BlockingIOError, InterruptedError):
            self._block()
            return
        except OSError:
            self.close()
            return
        if out:
            self._block()  # though the socket may take more: in the next round of the event loop
        elif self._blocked:
            self._unblock()

    def unreadable(self, file: Any, error: OSError) -> None:
        """The disk could not read what was to be sent; the connection is about to be closed."""

    def _send_range(self, sock: socket.socket | TlsStream, part: Any) -> None:
        file, position, length = part
        try:
            sent = self.send_file(sock, file, position, length)
        except OSError as error:
            if error.errno == errno.EIO:  # a socket has no such error: it is the disk's
                self.unreadable(file, error)
            raise
        if sent == 0:  # the file was truncated under the answer: the peer must not wait for bytes that never come
            raise OSError(errno.EPIPE, "file range is gone")
        self.bytes_sent += sent
        if sent < length:
            self._out[0] = (file, position + sent, length - sent)
        else:
            self._out.popleft()

    def _block(self) -> None:
        if not self._blocked:
            assert self.loop is not None and self.socket is not None
            self._blocked = True
            self.loop.add_writer(self.socket.fileno(), self._writable)
            self.stop_reading("blocked")
            self.blocked()

    def _unblock(self) -> None:
        assert self.loop is not None and self.socket is not None
        self._blocked = False
        self.loop.remove_writer(self.socket.fileno())
        self.go_on_reading("blocked")
        self.unblocked()

    def _writable(self) -> None:
        if self.socket is not None:
            self._flush()


_BYTES = frozenset((bytes, bytearray, memoryview))
