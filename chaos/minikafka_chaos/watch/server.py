"""Serves the page of a watched cluster, and its steps as server-sent events.

`GET /` is the page, which has no data in it; `GET /v1/steps` the steps; `POST /v1/VERB` a verb by hand, of a cluster that is
watched live.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from http import HTTPStatus
from typing import Any

from minikafka_chaos.session.control import answer
from minikafka_chaos.session.errors import VerbRefused
from minikafka_chaos.session.local_http import LocalHandler, LocalServer, token_for
from minikafka_chaos.session.openapi import PATH
from minikafka_chaos.watch.evidence import Evidence
from minikafka_chaos.watch.page import live_page
from minikafka_chaos.watch.page_data import beginning, steps_json
from minikafka_chaos.watch.recording import Recording
from minikafka_chaos.watch.verbs import VERBS, CarryOut

STEPS = f"{PATH}/steps"
TOGETHER_S = 0.1
"""What comes within this time is one message: as often as a page can show it."""
SILENCE_S = 15.0
"""Then a comment is sent, so that who has gone is noticed."""
READERS_MAX = 16
BATCH_MAX = 5_000
WAYS = f"GET /, GET {STEPS}, and while a cluster is watched live POST {PATH}/VERB"


class SharedRecording:
    """A recording that one thread adds to, and others read."""

    def __init__(self, title: str, recording: Recording, *, live: bool) -> None:
        self.title = title
        self.live = live
        self._recording = recording
        self._changed = threading.Condition()
        self._failure: str | None = None
        self._closed = False

    def take_all(self, evidence: Iterable[Evidence]) -> None:
        """Add what follows from evidence."""
        with self._changed:
            for each in evidence:
                self._recording.take(each)
            self._changed.notify_all()

    def fail(self, line: str) -> None:
        """Say why nothing more will come."""
        with self._changed:
            self._failure = line
            self._changed.notify_all()

    def close(self) -> None:
        """Let all readers end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def messages(self) -> Iterator[tuple[str, Any]]:
        """Yield (event, data) for one reader: the beginning, then steps as they come; `silence` where none did for a while."""
        with self._changed:  # never while a reader takes what it is sent
            begun, sent = beginning(self.title, self._recording, live=self.live), self._recording.forgotten
        yield "beginning", begun
        failed = False
        while not self._closed:
            with self._changed:
                self._changed.wait_for(partial(self._has_more, sent, failed), SILENCE_S)
                skipped = self._recording.forgotten > sent  # a reader so slow that what it lacks is no longer there
                anew = beginning(self.title, self._recording, live=self.live) if skipped else None
                sent = max(sent, self._recording.forgotten)
                start = sent - self._recording.forgotten
                steps = self._recording.steps[start : start + BATCH_MAX]
                failure = self._failure
            if anew is not None:
                yield "beginning", anew
            if steps:
                sent += len(steps)
                yield "steps", steps_json(steps)
            elif failure is not None and not failed:
                failed = True
                yield "failure", failure
            else:
                yield "silence", None

    def _has_more(self, sent: int, failed: bool) -> bool:
        more = self._recording.forgotten + len(self._recording.steps) > sent
        return more or self._closed or (self._failure is not None and not failed)


class WatchServer:
    """Serves one recording from its `start` on. Raises VerbRefused when it cannot listen there.

    `carry_out` does a verb by hand; None where there is nothing to be broken.
    """

    def __init__(
        self, shared: SharedRecording, host: str, port: int, token: str | None, carry_out: CarryOut | None
    ) -> None:
        self.token = token_for(host, token)
        self._shared = shared
        self._server = LocalServer(host, port, _handler(shared, self.token, carry_out), "--web")
        self.url = f"{self._server.url}/" + ("" if self.token is None else f"#token={self.token}")

    def start(self) -> None:
        """Serve in the background."""
        self._server.start()

    def close(self) -> None:
        """Serve no more."""
        self._shared.close()
        self._server.close()


def _handler(shared: SharedRecording, needed: str | None, carry_out: CarryOut | None) -> type[LocalHandler]:
    page = live_page(shared.title).encode()
    turn, readers = threading.Lock(), threading.BoundedSemaphore(READERS_MAX)
    pause = threading.Event()

    class Handler(LocalHandler):
        token = needed
        offered = WAYS

        def do_GET(self) -> None:
            if self.path == "/":
                self.send_whole(HTTPStatus.OK, "text/html; charset=utf-8", page)
            elif self.path != STEPS:
                self.send_json(HTTPStatus.NOT_FOUND, {"error": f"there is {WAYS}"})
            elif self._is_ours() and self.is_allowed():
                self._stream()

        def _is_ours(self) -> bool:
            try:
                self.check_host()
            except VerbRefused as error:
                self.send_json(HTTPStatus.BAD_REQUEST, {"error": str(error)})
                return False
            return True

        def _stream(self) -> None:
            if not readers.acquire(blocking=False):
                self.send_json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": f"{READERS_MAX} pages look already"})
                return
            try:
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Cache-Control", "no-store")
                self.send_header("Connection", "close")
                self.end_headers()
                for event, data in shared.messages():
                    self.wfile.write(_message(event, data))
                    pause.wait(TOGETHER_S)
            except OSError:
                pass  # who looked has gone
            finally:
                self.close_connection = True
                readers.release()

        def posted(self, given: Any) -> None:
            verb = self.path.removeprefix(f"{PATH}/")
            if carry_out is None or verb not in VERBS or not isinstance(given, dict):
                problem = "a recording cannot be broken" if carry_out is None else f"there are {', '.join(VERBS)}"
                self.send_json(HTTPStatus.NOT_FOUND, {"error": problem})
                return
            by = carry_out
            self.send_json(*answer(verb, lambda: by(verb, given), turn))

    return Handler


def _message(event: str, data: Any) -> bytes:
    """Return a message as server-sent events have it; JSON has no line break."""
    if event == "silence":
        return b":\n\n"
    return f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
