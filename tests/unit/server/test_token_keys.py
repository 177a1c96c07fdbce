"""The keys that sign access tokens: in a file, and at an address (31 item 1; KIP-768)."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from minikafka.config import ConfigError
from minikafka.config.oauth_settings import OAuthSettings
from minikafka.security.access_tokens import KEY_SET_BYTES_MAX
from minikafka.security.oauthbearer import TokenRefused, TokenRules
from minikafka.security.tls import TlsSettings
from minikafka.transport.key_set_address import KeysAtAddress, fetch
from minikafka.transport.token_keys import open_token_keys

from tests.tokens import Issuer
from tests.waiting import until

ONE, TWO = Issuer(), Issuer("two")
NOW = 1_700_000_000.0


def settings(url: str, refresh: float = 1e6, retry: float = 0.0005, retry_max: float = 0.001) -> OAuthSettings:
    return OAuthSettings(url, refresh, retry, retry_max, TokenRules(), TlsSettings())


def subject(keys: object, issuer: Issuer) -> str:
    """Whom its token names, or why it is not believed."""
    try:
        return keys.believe(issuer.token(now=NOW), NOW).subject  # type: ignore[attr-defined, no-any-return]
    except TokenRefused as refused:
        return str(refused)


UNKNOWN = "the token's key is not known"


async def test_a_changed_file_holds_for_the_next_token(tmp_path: Path) -> None:
    path, said = tmp_path / "keys.json", []
    path.write_text(ONE.key_set())
    keys = open_token_keys(settings(path.as_uri()), said.append)
    await keys.read_first()
    assert keys.next_round is None
    assert (subject(keys, ONE), subject(keys, TWO), said) == ("alice", UNKNOWN, [])
    for text, found, told in (
        (TWO.key_set(), (UNKNOWN, "alice"), [None]),
        ("half a fi", (UNKNOWN, "alice"), [None, "no JSON Web Key Set (RFC 7517)"]),
        (ONE.key_set(TWO.public()), ("alice", "alice"), [None, "no JSON Web Key Set (RFC 7517)", None]),
    ):
        (tmp_path / "new").write_text(text)
        os.replace(tmp_path / "new", path)
        assert (subject(keys, ONE), subject(keys, TWO)) == found
        assert said == told


def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    for url, problem in (
        ((tmp_path / "gone").as_uri(), "No such file or directory"),
        (tmp_path.as_uri(), "Is a directory"),
    ):
        with pytest.raises(ConfigError, match=f"^sasl.oauthbearer.jwks.endpoint.url={url}: {problem}; allowed: "):
            open_token_keys(settings(url), lambda _: None)


class Source:
    """Answers with a text, or with an error, and counts how often."""

    def __init__(self) -> None:
        self.answer: str | Exception = ConnectionRefusedError("refused")
        self.asked = 0
        self.said: list[str | None] = []

    def fetch(self) -> bytes:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer.encode()

    def keys(self, **times: float) -> KeysAtAddress:
        return KeysAtAddress(settings("https://h/", **times), self.fetch, self.said.append)


@contextmanager
def refreshed(keys: KeysAtAddress) -> Iterator[None]:
    async def again() -> None:
        while True:
            await keys.next_round()

    task = asyncio.ensure_future(again())
    try:
        yield
    finally:
        task.cancel()


async def test_keys_that_are_not_there_yet_are_asked_for_again() -> None:
    source = Source()
    keys = source.keys()
    await keys.read_first()
    assert subject(keys, ONE) == "there are no keys yet"
    with refreshed(keys):
        await until(lambda: source.asked > 3)
        assert source.said == ["refused"], "once"
        source.answer = ONE.key_set()
        await until(lambda: subject(keys, ONE) == "alice")
    assert source.said == ["refused", None]


async def test_keys_before_stay_in_force() -> None:
    source = Source()
    source.answer = ONE.key_set()
    keys = source.keys(refresh=0.0001)
    await keys.read_first()
    source.answer = "<html>"
    with refreshed(keys):
        await until(lambda: len(source.said) > 1)
        assert source.said == [None, "no JSON Web Key Set (RFC 7517)"]
        assert subject(keys, ONE) == "alice"
        source.answer = TWO.key_set()
        await until(lambda: subject(keys, TWO) == "alice")
    assert source.said[2:] == [None]
    assert subject(keys, ONE) == UNKNOWN


async def test_an_unknown_key_has_them_asked_for_sooner() -> None:
    source = Source()
    source.answer = ONE.key_set()
    keys = source.keys()
    await keys.read_first()
    with refreshed(keys):
        source.answer = TWO.key_set()
        await asyncio.sleep(0)
        assert source.asked == 1
        assert subject(keys, TWO) == UNKNOWN
        await until(lambda: subject(keys, TWO) == "alice")


async def test_unknown_keys_do_not_have_them_asked_for_all_the_time() -> None:
    source = Source()
    source.answer = ONE.key_set()
    keys = source.keys(retry_max=1e6)
    await keys.read_first()
    with refreshed(keys):
        for _ in range(100):
            assert subject(keys, TWO) == UNKNOWN
            await asyncio.sleep(0)
    assert source.asked == 1


# -- HTTP ------------------------------------------------------------------------------------------------------------------


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """``/large`` has no end, and a header of ``/slow`` none that anybody waits for."""
        self.send_response({"/moved": 302, "/gone": 404}.get(self.path, 200))
        self.send_header("Location", "/keys")
        try:
            self.flush_headers()
            for _ in range(20_000 if self.path == "/slow" else 0):
                self.wfile.write(b"x")
                time.sleep(0.0001)
            self.end_headers()
            while self.path == "/large":
                self.wfile.write(b"x" * KEY_SET_BYTES_MAX)
            self.wfile.write(b"keys")
        except ConnectionError:
            pass

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


async def test_what_is_asked_over_http() -> None:
    with served() as url:
        assert await asyncio.to_thread(fetch, f"{url}/keys", TlsSettings()) == b"keys"
        for path, problem in (
            ("/moved", "HTTP status 302"),
            ("/gone", "HTTP status 404"),
            ("/large", f"more than {KEY_SET_BYTES_MAX} bytes"),
        ):
            said: list[str | None] = []
            await open_token_keys(settings(url + path), said.append).read_first()
            assert said == [problem]


async def test_who_sends_a_header_byte_by_byte_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.transport.key_set_address.FETCH_SECONDS_MAX", 0.2)
    with served() as url:
        said: list[str | None] = []
        await open_token_keys(settings(f"{url}/slow"), said.append).read_first()
    assert said == ["no whole answer in time"]


async def test_nobody_answers() -> None:
    with served() as url:
        pass
    said: list[str | None] = []
    await open_token_keys(settings(url + "/secret"), said.append).read_first()
    assert said == ["[Errno 111] Connection refused"]


def test_a_trust_store_that_cannot_be_used() -> None:
    wrong = OAuthSettings("https://h/", 1, 1, 1, TokenRules(), TlsSettings(truststore_location="/gone"))
    with pytest.raises(ConfigError, match=r"^ssl\.truststore\.location=/gone: No such file or directory"):
        open_token_keys(wrong, lambda _: None)


def test_the_library_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    monkeypatch.delitem(sys.modules, "minikafka.security.access_tokens")
    with pytest.raises(ConfigError, match="joserfc is not installed; allowed: with minikafka"):
        open_token_keys(settings("file:///keys"), lambda _: None)
