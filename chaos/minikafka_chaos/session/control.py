"""The control port: the verbs of a session over HTTP, for tests in any language and for who breaks a cluster by hand.

`POST /v1/VERB` with the verb's fields as a JSON object; `GET /v1/openapi.json` says which there are. Verbs are carried out one
after the other. Where the port is not on loopback, a request needs the token.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from minikafka_chaos.errors import BadScenario, ToolTrouble
from minikafka_chaos.session.errors import VerbRefused
from minikafka_chaos.session.local_http import JSON, LocalHandler, LocalServer, token_for
from minikafka_chaos.session.openapi import DOCUMENT, PATH, document
from minikafka_chaos.session.session import ChaosSession
from minikafka_chaos.session.verbs import VERBS, call

FILE = "control.json"
"""In the data directory while the port is open: where it is, and its token."""
TIMEOUT_S = 300.0
WAYS = f"GET {DOCUMENT}, and POST {PATH}/VERB"


class ControlServer:
    """Listens at once, so that nothing is begun where it cannot, and serves a session from `start` on.

    `folder` gets the file by which others find it, and has to be there by then. Raises VerbRefused when it cannot listen.
    """

    def __init__(self, host: str, port: int, folder: Path, token: str | None = None) -> None:
        self._file = folder / FILE
        self._sessions: list[ChaosSession] = []
        self.token = token_for(host, token)
        self._server = LocalServer(host, port, _handler(self._sessions, self.token, threading.Lock()), "control port")
        self.url = f"{self._server.url}{PATH}"

    def start(self, session: ChaosSession) -> None:
        """Serve in the background."""
        self._sessions.append(session)
        self._file.touch(mode=0o600)
        self._file.write_text(json.dumps({"url": self.url, "token": self.token}) + "\n")
        self._server.start()

    def close(self) -> None:
        """Serve no more."""
        self._file.unlink(missing_ok=True)
        self._server.close()


def _handler(sessions: Sequence[ChaosSession], needed: str | None, turn: threading.Lock) -> type[LocalHandler]:
    class Handler(LocalHandler):
        token = needed
        offered = WAYS

        def do_GET(self) -> None:
            if self.path == DOCUMENT:
                self.send_json(HTTPStatus.OK, document())
            else:
                self.send_json(HTTPStatus.NOT_FOUND, {"error": f"there is {WAYS}"})

        def posted(self, given: Any) -> None:
            verb = self.path.removeprefix(f"{PATH}/")
            self.send_json(*answer(verb, lambda: call(sessions[0], verb, given), turn))

    return Handler


def answer(verb: str, carry_out: Callable[[], Any], turn: threading.Lock) -> tuple[HTTPStatus, dict[str, Any]]:
    """Have a verb carried out when it is its turn; the status and the answer that say what became of it."""
    if verb not in VERBS:
        return HTTPStatus.NOT_FOUND, {"error": f"there is no verb {verb!r}; there are {', '.join(VERBS)}"}
    try:
        with turn:
            return HTTPStatus.OK, {"result": carry_out()}
    except (VerbRefused, BadScenario) as error:
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
        except (OSError, ValueError, KeyError, TypeError, ToolTrouble):
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
