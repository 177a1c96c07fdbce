"""TLS over any byte stream: ciphertext in, plaintext out, and back. It has a socket's ``send``, so that whoever writes to a
socket can write to it.

Python's ssl keeps the protocol (an `ssl.SSLObject` over two memory buffers); the bytes on the wire are somebody else's.
"""

from __future__ import annotations

import socket
import ssl
import time
from typing import Any, cast

CHUNK_BYTES = 1 << 18
"""Plaintext encrypted at once; as much ciphertext may wait for the socket."""
REPLIES_BYTES_MAX = 1 << 14
"""Of TLS itself, to a peer that does not take them: each of its key updates (RFC 8446, 4.6.3) is answered by one of ours."""


def tls_reason(error: ssl.SSLError) -> str:
    """What went wrong, in a few words."""
    reason = (getattr(error, "reason", None) or "").lower().replace("_", " ")  # none where we have raised it
    detail = getattr(error, "verify_message", "")
    return ": ".join(part for part in (reason, detail) if part) or str(error)


class TlsStream:
    """One connection's TLS. Every method may raise `ssl.SSLError`, after which the connection is to be closed."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, host: str | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=None if server_side else host
        )
        self._unsent = memoryview(b"")
        self._socket: Any = None
        self.established = False

    # -- in ------------------------------------------------------------------------------------------------------------

    def feed(self, ciphertext: memoryview) -> None:
        """What came over the wire."""
        self._incoming.write(ciphertext)

    def shake_hands(self) -> bool:
        """Go on with the handshake as far as what came allows; True when it is over. What is to be sent waits for `flush`."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self._check_resumed()
        self.established = True
        return True

    def _check_resumed(self) -> None:
        """Refuse a session that outlives the certificate it began with: OpenSSL looks at it once (RFC 8446, 4.6.1)."""
        if not self._object.session_reused:
            return
        try:
            certificate: dict[str, Any] | None = self._object.getpeercert()
        except ValueError:  # of names in it that are no UTF-8
            raise ssl.SSLError(0, "certificate verify failed: what it says cannot be read") from None
        if certificate and time.time() > ssl.cert_time_to_seconds(certificate["notAfter"]):
            raise ssl.SSLError(0, "certificate verify failed: certificate has expired")

    def read_into(self, room: memoryview) -> int | None:
        """Plaintext, as much as there is and fits; None when more ciphertext is needed, 0 when the peer has said goodbye."""
        try:
            # with a buffer it answers how many bytes it has put there, which the type stubs do not say
            return cast(int, self._object.read(len(room), room))
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLZeroReturnError:
            return 0
        finally:
            if self._outgoing.pending:
                self._reply()

    def _reply(self) -> None:
        """Send what TLS itself answers, which nobody else sends before there is something to say."""
        try:
            self.flush()
        except OSError:  # it waits for the socket, or the connection is gone
            if self._outgoing.pending > REPLIES_BYTES_MAX:
                raise ssl.SSLError(0, "too many key updates, whose answers are not taken") from None

    @property
    def peer_certificate(self) -> bytes | None:
        """In DER, of a peer that has shown one, which was found good."""
        return None if self._object.context.verify_mode is ssl.CERT_NONE else self._object.getpeercert(binary_form=True)

    # -- out: what is used of a socket --------------------------------------------------------------------------------------

    def attach(self, sock: Any) -> None:
        """Ciphertext goes to this socket, which does not block."""
        self._socket = sock

    @property
    def family(self) -> int:
        return int(self._socket.family)

    def fileno(self) -> int:
        return int(self._socket.fileno())

    def setsockopt(self, *what: int) -> None:
        self._socket.setsockopt(*what)

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0) -> int:
        """Take plaintext; how much of it was taken. Raises BlockingIOError while earlier ciphertext waits.

        With MSG_MORE it may stay here until `flush`, so that a header and what follows it share a packet.
        """
        if self._unsent:
            self.flush()
        taken = self._object.write(data if len(data) <= CHUNK_BYTES else memoryview(data)[:CHUNK_BYTES])
        if not flags & socket.MSG_MORE or self._outgoing.pending > CHUNK_BYTES:
            try:
                self.flush()
            except (BlockingIOError, InterruptedError):
                pass  # it was taken all the same; who sends more, or flushes, is told
        return taken

    def send_file(self, file: Any, position: int, length: int) -> int:
        """As `os.sendfile`, through this process's memory: 0 where the file ends. Raises OSError of the disk."""
        if self._unsent:
            self.flush()
        data = file.pread(min(length, CHUNK_BYTES), position)  # also of a file that has no descriptor
        return self.send(data) if data else 0

    def flush(self) -> None:
        """Send all ciphertext. Raises BlockingIOError when the socket does not take it all."""
        while True:
            if not self._unsent:
                if not self._outgoing.pending:
                    return
                self._unsent = memoryview(self._outgoing.read())
            sent = self._socket.send(self._unsent)
            self._unsent = self._unsent[sent:]

    def say_goodbye(self) -> None:
        """Send an alert: that this side closes, or why the handshake failed. What the socket does not take is lost."""
        try:
            if self.established:
                self._object.unwrap()
        except ssl.SSLError:  # what it wants to read is the peer's goodbye
            pass
        try:
            self.flush()
        except OSError:
            pass
