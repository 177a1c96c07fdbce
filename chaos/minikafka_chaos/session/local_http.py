"""A small HTTP server for this machine, or for who has its token: the control port, and the page of `minikafka watch`.

Without a token only this machine is served, by its name: no page in a browser can have a request carried out unasked, not even
one whose own name leads here. A body is JSON that says that it is.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

from minikafka.client.metrics_access import is_loopback
from minikafka.local.http_handler import BoundedHandler

from minikafka_chaos.session.errors import VerbRefused

BODY_BYTES_MAX = 1 << 20
READ_BYTES = 1 << 14
CONNECTIONS_MAX = 128
"""Each has a thread. For one more that is closed which came first and has not shown a token."""
DIGITS = re.compile(r"[0-9]{1,19}")
CLOSE_S = 0.1
"""It takes this long at most until a server notices that it is to be closed."""
JSON = "application/json"
NO_TOKEN = "the token is missing or wrong: Authorization: Bearer TOKEN"


def token_for(host: str, token: str | None) -> str | None:
    """Return the token that requests need: the one that was chosen, or a new one where others than this machine come."""
    return token or (None if is_loopback(host) else secrets.token_urlsafe(24))


class LocalHandler(BoundedHandler):
    """Handles a request; `offered` says in words what there is, `token` what a request needs."""

    protocol_version = "HTTP/1.1"
    token: ClassVar[str | None] = None
    offered: ClassVar[str] = ""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Tell of a request that is none, or has another method, as of everything else."""
        del explain
        self.send_json(HTTPStatus(code), {"error": f"{message or HTTPStatus(code).phrase}: there is {self.offered}"})

    def has_token(self) -> bool:
        """Return whether the request has the token, where it needs one."""
        offered = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return self.token is None or hmac.compare_digest(offered.encode(), self.token.encode())

    def parse_request(self) -> bool:
        """Read a request but for the body; who has the token is no stranger from then on."""
        is_read = super().parse_request()
        if is_read and isinstance(self.server, _Server) and self.has_token():
            self.server.strangers.pop(self.request, None)
        return is_read

    def is_allowed(self) -> bool:
        """Return whether the request has the token, where it needs one; else it is answered."""
        if self.has_token():
            return True
        self.send_json(HTTPStatus.UNAUTHORIZED, {"error": NO_TOKEN})
        return False

    def check_host(self) -> None:
        """Raise VerbRefused where this machine is called by a name that is not its own, and no token is needed."""
        given = self.headers.get("Host", "")
        try:
            host = urlsplit(f"//{given}").hostname or ""
        except ValueError:
            host = ""
        if self.token is None and not is_loopback(host):
            raise VerbRefused(f"Host: {given!r} is not this machine")

    def do_POST(self) -> None:
        """Hand on the JSON of a request; of who has no token where it needs one nothing is looked at."""
        try:
            body = self._body()
            self.check_host()  # not before the body is read: the answer would be lost
            if not self.is_allowed():
                return
            given = self._json(body)
        except VerbRefused as error:
            self.send_json(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        else:
            self.posted(given)

    def posted(self, given: Any) -> None:
        """Answer a request with this JSON."""
        raise NotImplementedError

    def _body(self) -> bytes:
        if "Transfer-Encoding" in self.headers:  # fields that nobody reads would be those that are left out
            raise VerbRefused("Transfer-Encoding: is not taken; send the body at once, with Content-Length")
        size = self.headers.get("Content-Length", "0")
        if not DIGITS.fullmatch(size) or int(size) > BODY_BYTES_MAX:
            raise VerbRefused(f"Content-Length: {size!r} is not a number of bytes up to {BODY_BYTES_MAX}")
        left = int(size)
        if self.has_token():
            return self.rfile.read(left)
        # to the end, for the answer would be lost with the connection that is closed before that; but kept by nobody
        while left > 0 and (part := self.rfile.read(min(left, READ_BYTES))):
            left -= len(part)
        return b""

    def _json(self, body: bytes) -> Any:
        if self.headers.get_content_type() != JSON:
            raise VerbRefused(f"Content-Type: {self.headers.get_content_type()} is not {JSON}")
        try:
            return json.loads(body or b"{}")
        except (ValueError, RecursionError) as error:
            raise VerbRefused(f"body: not JSON: {error}") from error

    def send_json(self, status: HTTPStatus, answer: Mapping[str, Any]) -> None:
        """Answer with a JSON object."""
        self.send_whole(status, JSON, json.dumps(answer).encode() + b"\n")

    def send_whole(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        """Answer, and close."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        # Tests ask seldom. Of a connection that is kept, clients learn too late that it was closed meanwhile.
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: standard error is the user's."""
        del format, args


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = CONNECTIONS_MAX
    """Else whoever connects while many strangers do is refused by the kernel."""

    def __init__(self, *args: Any) -> None:
        self.strangers: dict[Any, None] = {}
        """Connections that have not shown a token, the first one first."""
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in place of the first that has shown no token, where there are too many."""
        for first in list(self.strangers)[: max(len(self.strangers) + 1 - CONNECTIONS_MAX, 0)]:
            self.strangers.pop(first, None)
            with suppress(OSError):  # it has gone
                first.shutdown(socket.SHUT_RDWR)  # which ends the thread that reads it
        self.strangers[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to the end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.strangers.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that hung up before it had its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class LocalServer:
    """Listens at once, and serves from `start` on, a thread for each connection. Raises VerbRefused when it cannot listen.

    `what` names the port in messages.
    """

    def __init__(self, host: str, port: int, handler: type[LocalHandler], what: str) -> None:
        try:
            self._server = _Server((host, port), handler)
        except (OSError, UnicodeError, TypeError) as error:  # of a name that no resolver could take, one of the others
            why = getattr(error, "strerror", None) or error
            raise VerbRefused(f"{what}: cannot listen on {host}:{port} ({why})") from error
        self._serves = False
        self._name = what
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{self._server.server_address[1]}"

    def start(self) -> None:
        """Serve in the background."""
        self._serves = True
        threading.Thread(target=self._server.serve_forever, args=(CLOSE_S,), name=self._name, daemon=True).start()

    def close(self) -> None:
        """Serve no more, and listen no more."""
        if self._serves:
            self._server.shutdown()
        self._server.server_close()
