"""How the agent asks the API server: patiently, and with one line when that did not help."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from minikafka.kubernetes.connection import ApiUnreachable, HttpResponse
from minikafka.metadata.store import StoreError
from minikafka_chaos.network import pods
from minikafka_chaos.network.errors import NotNow
from minikafka_chaos.network.pods import ApiReader, Get

AWAY = ApiUnreachable("Kubernetes API at 10.96.0.1:443: no connection in time", sent=False)


class Client:
    """`minikafka.kubernetes.connection.HttpClient`, with the answers that the test has."""

    answers: ClassVar[list[HttpResponse | Exception]] = []
    closed = 0

    def __init__(self, _access: object) -> None:
        pass

    async def request(self, method: str, path: str, *_more: Any) -> HttpResponse:
        assert (method, path) == ("GET", "/api/v1/x")
        answer = Client.answers.pop(0) if len(Client.answers) > 1 else Client.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        Client.closed += 1


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "HttpClient", Client)
    monkeypatch.setattr(pods, "find_access", lambda: None)
    monkeypatch.setattr(pods, "RETRY_SECONDS", 0.001)


def asked(*answers: HttpResponse | Exception) -> Any:
    Client.answers, Client.closed = list(answers), 0

    async def look(get: Get) -> Any:
        return await get("/api/v1/x")

    try:
        return ApiReader().run(look)
    finally:
        assert Client.closed == 1


def answer(status: int, body: object) -> HttpResponse:
    return HttpResponse(status, {}, json.dumps(body).encode())


def test_found_and_not() -> None:
    assert asked(answer(200, {"kind": "Pod"})) == {"kind": "Pod"}
    assert asked(answer(404, {"message": "not found"})) is None


def test_one_that_is_away_for_a_moment() -> None:
    assert asked(AWAY, AWAY, answer(200, {})) == {}


def test_one_that_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "PATIENCE_SECONDS", 0.01)
    with pytest.raises(NotNow, match="no connection in time"):
        asked(AWAY)


def test_what_it_refuses() -> None:
    with pytest.raises(NotNow, match="the API server: 403: pods is forbidden"):
        asked(answer(403, {"message": "pods is forbidden"}))
    with pytest.raises(NotNow, match="the API server: 503"):
        asked(HttpResponse(503, {}, b"<html>"))


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise StoreError("this is no pod")

    monkeypatch.setattr(pods, "find_access", none)
    with pytest.raises(NotNow, match="this is no pod"):
        ApiReader().run(lambda get: get("/"))
