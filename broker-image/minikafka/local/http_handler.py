"""A handler for `http.server` that bounds what a request begins with: that library keeps 6 MB of headers, of whoever connects."""

from __future__ import annotations

import time
from http import HTTPStatus
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

HEAD_BYTES_MAX = 16 * 1024
"""Of request line and headers together."""


class BoundedHandler(BaseHTTPRequestHandler):
    """Answers 431, and closes, where request line and headers are too large; closes where they take longer than `timeout`."""

    timeout: ClassVar[float] = 60

    def handle_one_request(self) -> None:
        whole = self.rfile
        self.rfile = _Head(self.connection, whole, self.timeout)  # type: ignore[assignment]
        try:
            super().handle_one_request()
        except LineTooLong as error:  # the request line: of headers `parse_request` answers it
            self.requestline = self.request_version = self.command = ""
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, str(error))
            self.close_connection = True
        finally:
            self.rfile = whole

    def parse_request(self) -> bool:
        """Read a request but for the body; false: it is answered, and the connection is to be closed."""
        is_read = super().parse_request()
        if isinstance(self.rfile, _Head):
            self.rfile = self.rfile.file
        self.connection.settimeout(self.timeout)
        if not is_read:
            self.close_connection = True
        return is_read


class _Head:
    """Reads lines of a connection, so many bytes and seconds."""

    def __init__(self, connection: Any, file: Any, seconds: float) -> None:
        self.file = file
        self._connection = connection
        self._left = HEAD_BYTES_MAX
        self._until = time.monotonic() + seconds

    def readline(self, limit: int) -> bytes:
        """A line, or what there is of it where the connection ends. Raises LineTooLong, TimeoutError."""
        line = b""
        while not line.endswith(b"\n") and len(line) < limit:
            self._connection.settimeout(max(self._until - time.monotonic(), 0.001))
            there = self.file.peek(1)  # one piece of what comes at most: for more the time would begin anew
            size = min(there.find(b"\n") + 1 or len(there), limit - len(line))
            self._left -= size
            if self._left < 0:
                raise LineTooLong("request with its headers")
            if not size:
                break
            line += self.file.read(size)
        return line
