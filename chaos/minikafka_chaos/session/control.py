"""The control port: the verbs of a session over HTTP, for tests in any language and for who breaks a cluster by hand.

`POST /v1/VERB` with the verb's fields as a JSON object; `GET /v1/openapi.json` says which there are. Verbs are carried out one
after the other. Where the port is not on loopback, a request needs the token.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.session.errors import VerbRefused
from minikafka_chaos.session.openapi import DOCUMENT, PATH, document
from minikafka_chaos.session.session import ChaosSession
from minikafka_chaos.session.verbs import VERBS, call

FILE = "control.json"
"""In the data directory while the port is open: where it is, and its token."""
BODY_BYTES_MAX = 1 << 20
TIMEOUT_S = 300.0
JSON = "application/json"
WAYS = f"GET {DOCUMENT}, and POST {PATH}/VERB"
NO_TOKEN = "the token is missing or wrong: Authorization: Bearer TOKEN"


def is_loopback(host: str) -> bool:
    """Return whether only this machine comes there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ControlServer:
    """Serves one session, from its `start` on. `folder` gets the file by which others find it.

    Raises VerbRefused when it cannot listen there.
    """

    def __init__(self, session: ChaosSession, host: str, port: int, folder: Path, token: str | None = None) -> None:
        self._file = folder / FILE
        self.token = token or (None if is_loopback(host) else secrets.token_urlsafe(24))
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(session, self.token, threading.Lock()))
        except OSError as error:
            raise VerbRefused(f"control port: cannot listen on {host}:{port} ({error.strerror or error})") from error
        self._server.daemon_threads = True
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{self._server.server_address[1]}{PATH}"

    def start(self) -> None:
        """Serve in the background."""
        self._file.touch(mode=0o600)
        self._file.write_text(json.dumps({"url": self.url, "token": self.token}) + "\n")
        threading.Thread(target=self._server.serve_forever, name="control", daemon=True).start()

    def close(self) -> None:
        """Serve no more."""
        self._file.unlink(missing_ok=True)
        self._server.shutdown()
        self._server.server_close()


def _handler(session: ChaosSession, token: str | None, turn: threading.Lock) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_GET(self) -> None:
            if self.path == DOCUMENT:
                self._send(HTTPStatus.OK, document())
            else:
                self._send(HTTPStatus.NOT_FOUND, {"error": f"there is {WAYS}"})

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            """Tell of a request that is none, or has another method, as of everything else."""
            del explain
            self._send(HTTPStatus(code), {"error": f"{message or HTTPStatus(code).phrase}: there is {WAYS}"})

        def do_POST(self) -> None:
            try:
                given = self._body()
            except VerbRefused as error:
                self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})
                return
            offered = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if token is not None and not hmac.compare_digest(offered.encode(), token.encode()):
                self._send(HTTPStatus.UNAUTHORIZED, {"error": NO_TOKEN})
                return
            self._send(*_done(session, turn, self.path.removeprefix(f"{PATH}/"), given))

        def _body(self) -> Any:
            """Only JSON that says that it is, and without a token only for this machine by its name: no page in a browser can
            send such a request unasked, not even one whose own name leads here."""
            host = self.headers.get("Host", "").rpartition(":")[0].strip("[]")
            if token is None and not is_loopback(host):
                raise VerbRefused(f"Host: {host!r} is not this machine")
            if "Transfer-Encoding" in self.headers:  # fields that nobody reads would be those that are left out
                raise VerbRefused("Transfer-Encoding: is not taken; send the body at once, with Content-Length")
            size = self.headers.get("Content-Length", "0")
            if not size.isdigit() or int(size) > BODY_BYTES_MAX:
                raise VerbRefused(f"Content-Length: {size!r} is not a number of bytes up to {BODY_BYTES_MAX}")
            raw = self.rfile.read(int(size))
            if self.headers.get_content_type() != JSON:
                raise VerbRefused(f"Content-Type: {self.headers.get_content_type()} is not {JSON}")
            try:
                return json.loads(raw or b"{}")
            except (ValueError, RecursionError) as error:
                raise VerbRefused(f"body: not JSON: {error}") from error

        def _send(self, status: HTTPStatus, answer: Mapping[str, Any]) -> None:
            body = json.dumps(answer).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", JSON)
            self.send_header("Content-Length", str(len(body)))
            # Tests ask seldom. Of a connection that is kept, clients learn too late that it was closed meanwhile.
            self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    return Handler


def _done(session: ChaosSession, turn: threading.Lock, verb: str, given: Any) -> tuple[HTTPStatus, dict[str, Any]]:
    if verb not in VERBS:
        return HTTPStatus.NOT_FOUND, {"error": f"there is no verb {verb!r}; there are {', '.join(VERBS)}"}
    try:
        with turn:
            return HTTPStatus.OK, {"result": call(session, verb, given)}
    except VerbRefused as error:
        return HTTPStatus.BAD_REQUEST, {"error": str(error)}
    except ToolTrouble as error:
        return HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}
    except Exception as error:  # whoever asks must hear of it, and the next verb must find the port open
        words = " ".join(str(error).split())
        return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(error).__name__}: {words}"}


class Control:
    """The client's side, for a data directory whose `up` has a control port."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = url
        self._headers = {"Content-Type": JSON} | ({} if token is None else {"Authorization": f"Bearer {token}"})

    @classmethod
    def of(cls, data: Path) -> Control | None:
        """The one that is open for this data directory; None when there is none."""
        try:
            opened = json.loads((data / FILE).read_text())
            control = cls(opened["url"], opened["token"])
            control.ask("status", {})
        except (OSError, ValueError, KeyError, ToolTrouble):
            return None
        return control

    def ask(self, verb: str, given: Mapping[str, Any]) -> Any:
        """Have a verb carried out; its result. Raises VerbRefused, and ToolTrouble when nobody answers."""
        body = json.dumps(given).encode()
        request = urllib.request.Request(f"{self._url}/{verb}", body, self._headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)["result"]
        except urllib.error.HTTPError as error:
            with error:
                words = json.loads(error.read())["error"]
            raise (VerbRefused if error.code == HTTPStatus.BAD_REQUEST else ToolTrouble)(words) from None
        except OSError as error:
            raise ToolTrouble(f"control port {self._url}: {error}") from error
