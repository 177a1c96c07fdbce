"""The control port, over a cluster in this process: verbs by HTTP, what is refused, and the document that describes them."""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from jsonschema import Draft202012Validator
from minikafka.client.metrics_access import is_loopback
from minikafka.local.http_handler import HEAD_BYTES_MAX
from minikafka.local.layout import HOOKS
from minikafka.protocol.types import TopicPartition
from minikafka.testing import MiniKafkaCluster, VerbRefused
from minikafka_chaos.grounds.processes import ProcessesGround
from minikafka_chaos.load.reader import ReadRecord
from minikafka_chaos.session import local_http
from minikafka_chaos.session.control import Control, ControlServer
from minikafka_chaos.session.controlled import session_of
from minikafka_chaos.session.groups import GroupOffsets
from minikafka_chaos.session.openapi import document
from minikafka_chaos.session.results import plain, result_schema
from minikafka_chaos.session.verbs import VERBS, model


@pytest.fixture(scope="module")
def cluster() -> Iterator[MiniKafkaCluster]:
    with MiniKafkaCluster(2, in_process=True) as made:
        yield made


@pytest.fixture
def server(cluster: MiniKafkaCluster, tmp_path: Path) -> Iterator[ControlServer]:
    made = ControlServer("127.0.0.1", 0, tmp_path, "a-token")
    made.start(cluster)
    yield made
    made.close()
    cluster.heal()


def asked(server: ControlServer, path: str, body: bytes | None, **headers: str) -> tuple[int, Any]:
    request = urllib.request.Request(server.url + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


SAYS_JSON = {"Content-Type": "application/json", "Authorization": "Bearer a-token"}


class Described(Control):
    """A client that gets what the document says."""

    def ask(self, verb: str, given: Mapping[str, Any]) -> Any:
        found = super().ask(verb, given)
        Draft202012Validator(result_schema(verb)).validate(found)
        return found


@pytest.mark.slow
def test_verbs_are_carried_out(server: ControlServer, tmp_path: Path) -> None:
    control = Described.of(tmp_path)
    assert control is not None
    assert control.ask("create_topic", {"name": "orders", "replication_factor": 2}) == "orders"
    control.ask("cut", {"broker": 1, "peers": [2]})
    control.ask("kill", {"broker": 2})
    assert [each["condition"] for each in control.ask("status", {})] == ["running", "dead"]
    assert control.ask("heal", {}) == ["healed every link", "started broker 2"]
    control.ask("observe", {"api": "Produce"})
    assert control.ask("requests", {"api": "Produce"}) == []
    assert control.ask("leader", {"topic": "orders"}) in (1, 2)
    assert control.ask("records", {"topic": "orders"}) == []
    assert control.ask("groups", {}) == {}
    assert control.ask("verdict", {})["verdict"] == "Inconclusive"


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "words"),
    [
        ("/kill", b'{"broker": 9}', SAYS_JSON, 400, "broker 9 does not exist"),
        ("/kill", b"{}", SAYS_JSON, 400, "broker: kill needs it: a whole number"),
        ("/kill", b'{"broker": "1"}', SAYS_JSON, 400, 'broker: "1" is not a whole number'),
        ("/heal", b'{"brokers": 1}', SAYS_JSON, 400, "brokers: heal does not take it; allowed: deadline_s"),
        ("/cut", b'{"broker": 1, "peers": ["2"]}', SAYS_JSON, 400, 'peers: ["2"] is not a list, each a whole number'),
        ("/cut", b'{"broker": 1, "peers": [1]}', SAYS_JSON, 400, "peers: broker 1 cannot be cut from itself"),
        ("/inject_error", b'{"api": "Fetch", "code": 1.5}', SAYS_JSON, 400, "code: 1.5 is not text or a whole number"),
        ("/inject_error", b'{"api": "\\ud800", "code": 6}', SAYS_JSON, 400, "api: '\\ud800' is not text that can be"),
        ("/heal", b'{"deadline_s": NaN}', SAYS_JSON, 400, "deadline_s: nan is not a number of seconds from 0 to 86400"),
        (
            "/create_topic",
            b'{"config": {"retention.ms": null}}',
            SAYS_JSON,
            400,
            'config: {"retention.ms": null} is not an object whose values are text, a whole number or true or false or null',
        ),
        ("/kill", b"[", SAYS_JSON, 400, "body: not JSON"),
        ("/kill", b"[]", SAYS_JSON, 400, "body: [] is not an object with the fields of kill"),
        ("/explode", b"{}", SAYS_JSON, 404, "there is no verb 'explode'"),
        ("/kill", b'{"broker": 1}', SAYS_JSON | {"Content-Type": "text/plain"}, 400, "Content-Type: text/plain is not"),
        ("/kill", b'{"broker": 1}', {"Content-Type": "application/json"}, 401, "the token is missing or wrong"),
        ("/kill", b"[", {"Content-Type": "text/plain"}, 401, "the token is missing or wrong"),
        ("/kill", b'{"broker": 1}', SAYS_JSON | {"Authorization": "Bearer x"}, 401, "the token is missing or wrong"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    server: ControlServer, path: str, body: bytes, headers: dict[str, str], status: int, words: str
) -> None:
    code, told = asked(server, path, body, **headers)
    assert (code, list(told)) == (status, ["error"])
    assert words in told["error"]
    assert "\n" not in told["error"]


@pytest.mark.parametrize(
    ("method", "headers", "status", "words"),
    [
        ("PUT", {"Content-Length": "2"}, 501, "Unsupported method ('PUT'): there is GET /v1/openapi.json, and POST"),
        ("GET", {}, 404, "there is GET /v1/openapi.json, and POST /v1/VERB"),
        ("POST", {"Transfer-Encoding": "chunked"}, 400, "Transfer-Encoding: is not taken"),
        ("POST", {"Content-Length": "\u00b2"}, 400, "Content-Length: '\u00b2' is not a number of bytes"),
        ("POST", {"Content-Length": "1" * 5000}, 400, "is not a number of bytes up to 1048576"),
    ],
)
def test_a_request_of_another_form_is_answered_in_json(
    server: ControlServer, method: str, headers: dict[str, str], status: int, words: str
) -> None:
    """A body in chunks that nobody reads would be one without fields: `heal` instead of a refusal."""
    connection = http.client.HTTPConnection(server.url.split("/")[2], timeout=60)
    connection.putrequest(method, "/v1/heal")
    for name, value in {**SAYS_JSON, **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    told = json.loads(answer.read())
    assert (answer.status, answer.getheader("Connection")) == (status, "close")
    assert words in told["error"]
    connection.close()


def test_words_that_are_allowed_are_described() -> None:
    paths = document()["paths"]
    for verb, field, words in (
        ("power_loss", "mode", ["all", "torn", "garbage"]),
        ("cut", "direction", ["both", "inbound", "outbound"]),
    ):
        schema = paths[f"/v1/{verb}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert sorted(schema["properties"][field]["enum"]) == sorted(words)


def test_what_records_and_groups_are_is_described() -> None:
    text, other = (ReadRecord(0, 1, None, value, (("h", None),), 5, None) for value in (b"a", b"\xff"))
    described = Draft202012Validator(result_schema("records"))
    assert described.is_valid(plain([text, other]))
    assert not described.is_valid([{**plain(text), "offset": "1"}])
    group = GroupOffsets("g", "stable", ("m",), {TopicPartition("t", 0): 3})
    assert Draft202012Validator(result_schema("groups")).is_valid(plain({"g": group}))


def test_without_a_token_another_name_of_this_machine_is_refused(cluster: MiniKafkaCluster, tmp_path: Path) -> None:
    made = ControlServer("127.0.0.1", 0, tmp_path)
    made.start(cluster)
    assert made.token is None
    assert asked(made, "/status", b"{}", **{"Content-Type": "application/json"})[0] == 200
    for name, status in {"localhost": 200, "[::1]:9": 200, "evil.example:80": 400, "[::1": 400}.items():
        code, told = asked(made, "/status", b"{}", **{"Content-Type": "application/json", "Host": name})
        assert (code, "error" in told) == (status, status != 200)
    assert told == {"error": "Host: '[::1' is not this machine"}
    made.close()


def test_strangers_take_few_connections_and_no_memory(server: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 of them, each with a body of 1 MiB that was kept before its token was looked at, took 317 MB and as many threads."""
    sizes: list[int] = []

    class Kept(local_http.LocalHandler):
        def setup(self) -> None:
            super().setup()
            file = self.rfile
            self.rfile = SimpleNamespace(  # type: ignore[assignment]
                peek=file.peek,
                read=lambda size: sizes.append(size) or file.read(size),
                close=file.close,  # type: ignore[attr-defined]
            )

    monkeypatch.setattr(local_http, "CONNECTIONS_MAX", 1)
    Kept.token = "a-token"
    made = local_http.LocalServer("127.0.0.1", 0, Kept, "test")
    made.start()
    host, port = made.url.removeprefix("http://").split(":")
    body = b"x" * local_http.BODY_BYTES_MAX
    stranger = http.client.HTTPConnection(host, int(port), timeout=60)
    stranger.putrequest("POST", "/")
    stranger.putheader("Content-Length", str(len(body)))
    stranger.endheaders(body[:-1])
    stranger.send(body[-1:])
    assert stranger.getresponse().status == 401 and max(sizes) == local_http.READ_BYTES
    stranger.close()
    with socket.create_connection((host, int(port)), 60) as silent, socket.create_connection((host, int(port)), 60):
        assert silent.recv(1) == b"", "else the owner of the token would not get in"
    made.close()


@pytest.mark.parametrize(
    "begin",
    [b"GET /", b"GET / HTTP/1.1\r\nHost: ", b"GET / HTTP/1.1\r\n" + 50 * (b"A: " + 200 * b"b" + b"\r\n")],
    ids=["line", "header", "headers"],
)
def test_of_what_a_request_begins_with_little_is_kept(server: ControlServer, begin: bytes) -> None:
    """66 strangers with 97 headers of 65 KB each took 2 GB."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), 60) as stranger:
        stranger.sendall(begin + (HEAD_BYTES_MAX - len(begin)) * b"a")
        stranger.sendall(b"a")
        answer = b"".join(iter(lambda: stranger.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 431 ")


def test_what_a_request_begins_with_has_a_time_in_all(server: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte each minute held a thread for days."""
    now = itertools.count(0.0, 20.0)
    monkeypatch.setattr("minikafka.local.http_handler.time", SimpleNamespace(monotonic=lambda: next(now)))
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), 60) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n" + 5 * b"A: b\r\n")
        assert stranger.recv(1) == b""


def test_an_address_that_cannot_be_had_is_refused(server: ControlServer, tmp_path: Path) -> None:
    port = int(server.url.split(":")[2].split("/")[0])
    for host in ("127.0.0.1", "203.0.113.1", "a" * 64 + "\N{SNOWMAN}", "\udcff"):
        with pytest.raises(VerbRefused, match=f"control port: cannot listen on {host}:{port}"):
            ControlServer(host, port, tmp_path)


def test_a_token_is_made_where_others_may_come(cluster: MiniKafkaCluster, tmp_path: Path) -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "host")] == [True] * 3 + [
        False
    ] * 2
    made = ControlServer("0.0.0.0", 0, tmp_path)
    made.start(cluster)
    assert made.token is not None
    assert (tmp_path / "control.json").stat().st_mode & 0o077 == 0
    made.close()
    assert Control.of(tmp_path) is None
    (tmp_path / "control.json").write_text("[]")  # nobody that wrote it so listens
    assert Control.of(tmp_path) is None


@pytest.mark.slow
def test_the_document_describes_every_verb(server: ControlServer) -> None:
    status, told = asked(server, "/openapi.json", None)
    assert (status, told) == (200, document())
    assert told["openapi"] == "3.1.0"
    for verb in VERBS:
        operation = told["paths"][f"/v1/{verb}"]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        Draft202012Validator.check_schema(schema)
        assert set(schema["properties"]) == set(model(verb).model_fields)
        assert operation["summary"]
        result = operation["responses"]["200"]["content"]["application/json"]["schema"]["properties"]["result"]
        Draft202012Validator.check_schema(result)
        assert result, "it says of what kind it is"


@pytest.mark.parametrize(("setting", "on"), [(" TRUE", True), ("False", False)])
def test_a_session_has_the_hooks_that_its_brokers_have(setting: str, on: bool, tmp_path: Path) -> None:
    """Otherwise heal would leave what was injected, and no verdict could be had."""
    ground = SimpleNamespace(
        cluster=SimpleNamespace(record=SimpleNamespace(config={HOOKS: setting})),
        clock=SimpleNamespace(time=time.time),
        clients=SimpleNamespace(view=lambda: None),
    )
    session = session_of(tmp_path, cast("ProcessesGround", ground))
    session.close()
    assert session._hooks is on
