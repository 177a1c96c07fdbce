"""The server of the page: who may ask it, and what a reader is sent."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from minikafka_chaos.session.errors import VerbRefused
from minikafka_chaos.watch.evidence import EventLine, Note
from minikafka_chaos.watch.recording import KEYFRAME_STEPS, Recording
from minikafka_chaos.watch.server import SharedRecording, WatchServer

TIMEOUT_S = 60
TOKEN = "let me in"
JSON = {"Content-Type": "application/json"}


class Verbs:
    """Notes what was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    def carry_out(self, verb: str, given: Mapping[str, Any]) -> None:
        self.asked.append((verb, given))
        if given.get("broker") == 9:
            raise VerbRefused("broker 9 does not exist")


@pytest.fixture
def shared() -> SharedRecording:
    found = SharedRecording("cluster", Recording(), live=True)
    found.take_all([EventLine(1.0, 1, "broker_ready", None, None, {})])
    return found


@pytest.fixture
def verbs() -> Verbs:
    return Verbs()


@pytest.fixture(params=[None, TOKEN])
def server(request: pytest.FixtureRequest, shared: SharedRecording, verbs: Verbs) -> Iterator[WatchServer]:
    found = WatchServer(shared, "127.0.0.1", 0, request.param, verbs.carry_out)
    found.start()
    yield found
    found.close()


def headers(server: WatchServer) -> dict[str, str]:
    return {} if server.token is None else {"Authorization": f"Bearer {server.token}"}


def connect(server: WatchServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(server.url.split("/")[2], timeout=TIMEOUT_S)


def asked(
    server: WatchServer, method: str, path: str, body: str | None = None, more: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    connection = connect(server)
    connection.request(method, path, body, {**headers(server), **(more or {})})
    with connection.getresponse() as answer:
        stream = answer.getheader("Content-Type") == "text/event-stream"  # which never ends
        return answer.status, b"" if stream else answer.read()


class Reader:
    """Reads server-sent events, as the page does."""

    def __init__(self, server: WatchServer) -> None:
        self._connection = connect(server)
        self._connection.request("GET", "/v1/steps", headers=headers(server))
        self.answer = self._connection.getresponse()

    def next(self) -> tuple[str, Any]:
        """The next message that is none of silence."""
        while True:
            lines = []
            while (line := self.answer.readline().decode().rstrip("\n")) != "":
                lines.append(line)
            fields = dict(each.split(": ", 1) for each in lines if ": " in each)
            if "data" in fields:
                return fields["event"], json.loads(fields["data"])

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


def test_a_reader_gets_the_beginning_and_then_what_comes(server: WatchServer, shared: SharedRecording) -> None:
    reader = Reader(server)
    assert reader.answer.getheader("Content-Type") == "text/event-stream"
    event, data = reader.next()
    assert (event, data["title"], data["live"]) == ("beginning", "cluster", True)
    event, (step,) = reader.next()
    assert (event, step["c"]) == ("steps", {"b|1": {"condition": "up"}})
    shared.take_all([Note(2.0, "a line\n\nbreak")])
    event, (step,) = reader.next()
    assert (event, step["x"]) == ("steps", "a line break")
    shared.fail("nobody looks any more")
    assert reader.next() == ("failure", "nobody looks any more")
    reader.close()


def test_a_reader_that_is_left_behind_begins_anew() -> None:
    """What it lacks was forgotten meanwhile."""
    shared = SharedRecording("cluster", Recording(steps_max=KEYFRAME_STEPS), live=True)
    messages = shared.messages()
    assert next(messages)[0] == "beginning"
    shared.take_all(Note(float(n), f"{n}") for n in range(10 * KEYFRAME_STEPS))
    event, data = next(messages)
    assert event == "beginning" and data["forgotten"] > 0
    event, steps = next(messages)
    assert event == "steps" and steps[-1]["x"] == f"{10 * KEYFRAME_STEPS - 1}"
    shared.close()


def test_a_verb_is_carried_out(server: WatchServer, verbs: Verbs) -> None:
    assert asked(server, "POST", "/v1/kill", '{"broker": 1}', JSON)[0] == 200
    assert asked(server, "POST", "/v1/heal", "{}", JSON)[0] == 200
    assert verbs.asked == [("kill", {"broker": 1}), ("heal", {})]


@pytest.mark.parametrize(
    ("path", "body", "more", "status", "word"),
    [
        ("/v1/kill", '{"broker": 9}', JSON, 400, "broker 9 does not exist"),
        ("/v1/verdict", "{}", JSON, 404, "there are kill"),
        ("/v1/kill", "[]", JSON, 404, "there are kill"),
        ("/v1/kill", "{", JSON, 400, "not JSON"),
        ("/v1/kill", "{}", {}, 400, "is not application/json"),
    ],
)
def test_what_is_no_verb_is_refused_in_one_line(
    server: WatchServer, path: str, body: str, more: Mapping[str, str], status: int, word: str
) -> None:
    code, answer = asked(server, "POST", path, body, more)
    error = json.loads(answer)["error"]
    assert code == status and word in error and "\n" not in error


def test_nobody_else_is_served(server: WatchServer, verbs: Verbs) -> None:
    """Without a token: who calls this machine by another name, as a page that was led here. With one: who has not."""
    other = {"Host": "evil.example:80"} if server.token is None else {"Authorization": "Bearer guess"}
    status = 400 if server.token is None else 401
    assert asked(server, "GET", "/v1/steps", more=other)[0] == status
    assert asked(server, "POST", "/v1/kill", '{"broker": 1}', {**JSON, **other})[0] == status
    assert verbs.asked == []


def test_the_page_itself_has_no_data_in_it(server: WatchServer) -> None:
    status, page = asked(server, "GET", "/", more={"Authorization": "Bearer guess"})
    assert status == 200 and b'id="data">null</script>' in page
    assert asked(server, "GET", "/favicon.ico")[0] == 404


def test_a_recording_cannot_be_broken(shared: SharedRecording) -> None:
    server = WatchServer(shared, "127.0.0.1", 0, None, None)
    server.start()
    try:
        status, answer = asked(server, "POST", "/v1/kill", '{"broker": 1}', JSON)
    finally:
        server.close()
    assert (status, json.loads(answer)) == (404, {"error": "a recording cannot be broken"})


def test_others_need_a_token(shared: SharedRecording) -> None:
    server = WatchServer(shared, "0.0.0.0", 0, None, None)
    server.close()
    assert server.token is not None and server.url.endswith(f"/#token={server.token}")


def test_a_port_in_use(server: WatchServer, shared: SharedRecording) -> None:
    port = int(server.url.split(":")[2].split("/")[0])
    with pytest.raises(VerbRefused, match=rf"--web: cannot listen on 127.0.0.1:{port}"):
        WatchServer(shared, "127.0.0.1", port, None, None)
