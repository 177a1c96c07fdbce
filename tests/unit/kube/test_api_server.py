"""What the operator makes of the API server's answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import kopf
import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration
from minikafka_kube.api_server import ApiError, ApiServer
from minikafka_kube.kinds import CLUSTER, POD, SERVICE, TOPIC
from minikafka_kube.process import not_ready_to_start
from minikafka_kube.telemetry import Looking

Answer = tuple[int, Any, dict[str, str]]
NEEDED = frozenset({CLUSTER.plural, TOPIC.plural})


class Server:
    """An HTTP server that gives the answers it was told, and remembers what was asked."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[dict[str, Any]] = []
        self.logins = 0
        self.url = ""

    def will(self, status: int, body: Any = None, **headers: str) -> None:
        self.answers.append((status, {} if body is None else body, headers))

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        self.asked.append(
            {
                "method": request.method,
                "path": request.path,
                "query": dict(request.query),
                "body": body,
                "type": request.headers.get("Content-Type"),
                "token": request.headers.get("Authorization"),
            }
        )
        status, answer, headers = self.answers.pop(0)
        return web.json_response(answer, status=status, headers=headers)

    async def login(self) -> Configuration:
        self.logins += 1
        return Configuration(host=self.url, api_key={"BearerToken": f"Bearer token-{self.logins}"})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


@pytest.fixture
async def telemetry() -> Looking:
    return Looking("minikafka_operator", "cluster")


@pytest.fixture
async def api(server: Server, telemetry: Looking) -> AsyncIterator[ApiServer]:
    async with ApiServer(server.login, telemetry) as api:
        yield api


@pytest.mark.parametrize(
    "name", ["../../kube-system/pods/a", ".", "..", "", "a?watch=true", "a#", "..%2fa", "a/status"]
)
async def test_a_name_leads_to_no_other_object(api: ApiServer, server: Server, name: str) -> None:
    """Names of Secrets stand in specs, and who may write those need not be allowed to read other namespaces."""
    assert await api.get(POD, "ns", name) is None
    assert not server.asked


@pytest.mark.slow
async def test_a_long_refusal_still_fits_into_a_condition(api: ApiServer, server: Server) -> None:
    server.will(403, {"reason": "Forbidden", "message": "denied by a webhook " * 10_000})
    with pytest.raises(ApiError) as refused:
        await api.create(POD, "ns", {"metadata": {"name": "a"}})
    assert refused.value.message.startswith("denied by a webhook") and len(refused.value.message) < 32_768 // 2


@pytest.mark.slow
async def test_reading(api: ApiServer, server: Server) -> None:
    server.will(200, {"kind": "Pod"})
    server.will(404, {"reason": "NotFound"})
    server.will(200, {"items": [{"metadata": {"name": "a"}}]})
    assert await api.get(POD, "ns", "a") == {"kind": "Pod"}
    assert await api.get(POD, "ns", "b") is None
    found = await api.find_all(POD, "ns", labels="a=b", fields="c=d")
    assert found == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}], "lists leave out the kind"
    assert server.asked[0]["path"] == "/api/v1/namespaces/ns/pods/a"
    assert server.asked[2]["query"] == {"labelSelector": "a=b", "fieldSelector": "c=d"}


@pytest.mark.slow
async def test_applying(api: ApiServer, server: Server, telemetry: Looking) -> None:
    for _ in range(2):
        server.will(200)
    thing = {"metadata": {"name": "a", "namespace": "ns"}}
    await api.apply(SERVICE, thing, force=False)
    await api.apply_status(CLUSTER, "ns", "c", {"replicas": 1})
    first, second = server.asked
    assert first["query"] == {"fieldManager": "minikafka-operator", "force": "false"}
    assert first["type"] == "application/apply-patch+yaml"
    assert second["path"].endswith("/minikafkaclusters/c/status")
    assert second["body"]["status"] == {"replicas": 1}
    count = telemetry.registry.get_sample_value("minikafka_operator_writes_total", {"verb": "apply", "kind": "Service"})
    assert count == 1


async def test_finalizers_are_bound_to_what_was_seen(api: ApiServer, server: Server) -> None:
    server.will(200)
    await api.set_finalizers(CLUSTER, "ns", "c", "17", ["a"])
    assert server.asked[0]["body"] == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "17"},
        {"op": "add", "path": "/metadata/finalizers", "value": ["a"]},
    ]


async def test_deleting(api: ApiServer, server: Server) -> None:
    server.will(200)
    server.will(404, {"reason": "NotFound"})
    await api.delete(POD, "ns", "a", "uid")
    await api.delete(POD, "ns", "a", "uid", "7")
    assert server.asked[0]["body"]["preconditions"] == {"uid": "uid"}
    assert server.asked[1]["body"]["preconditions"] == {"uid": "uid", "resourceVersion": "7"}


async def test_evicting(api: ApiServer, server: Server) -> None:
    server.will(201)
    server.will(429, {"reason": "TooManyRequests", "message": "Cannot evict pod"})
    await api.evict(POD, "ns", "a", "uid")
    with pytest.raises(ApiError, match="429"):
        await api.evict(POD, "ns", "a", "uid")
    assert server.asked[0]["path"] == "/api/v1/namespaces/ns/pods/a/eviction"
    assert server.asked[0]["body"]["deleteOptions"]["preconditions"] == {"uid": "uid"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        lambda api: api.get(POD, "ns", "a"),
        lambda api: api.delete(POD, "ns", "a", None),
        lambda api: api.apply(SERVICE, {"metadata": {"name": "a", "namespace": "ns"}}, force=True),
    ],
)
async def test_refusals(api: ApiServer, server: Server, call: Callable[[ApiServer], Awaitable[Any]]) -> None:
    server.will(403, {"reason": "Forbidden", "message": "no"})
    with pytest.raises(ApiError, match="403 Forbidden: no") as error:
        await call(api)
    assert error.value.code == 403


@pytest.mark.slow
async def test_patience_is_passed_on(api: ApiServer, server: Server) -> None:
    server.will(429, {"reason": "TooManyRequests"}, **{"Retry-After": "7"})
    with pytest.raises(ApiError) as error:
        await api.get(POD, "ns", "a")
    assert error.value.retry_after_seconds == 7


@pytest.mark.slow
async def test_answers_that_are_no_json(api: ApiServer, server: Server) -> None:
    server.will(502, "bad gateway")
    with pytest.raises(ApiError, match="bad gateway"):
        await api.get(POD, "ns", "a")


class TestCredentials:
    @pytest.mark.slow
    async def test_a_token_that_has_ended_is_read_again(self, api: ApiServer, server: Server) -> None:
        server.will(200)
        server.will(401, {"reason": "Unauthorized"})
        server.will(200)
        await api.get(POD, "ns", "a")
        await api.get(POD, "ns", "a")
        assert [one["token"] for one in server.asked] == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]

    @pytest.mark.slow
    async def test_once(self, api: ApiServer, server: Server) -> None:
        server.will(401, {"reason": "Unauthorized"})
        server.will(401, {"reason": "Unauthorized"})
        with pytest.raises(ApiError, match="401"):
            await api.get(POD, "ns", "a")

    @pytest.mark.slow
    async def test_those_who_are_refused_together_log_in_together(self, api: ApiServer, server: Server) -> None:
        server.will(200)
        await api.get(POD, "ns", "a")
        for _ in range(3):
            server.will(401, {"reason": "Unauthorized"})
        for _ in range(3):
            server.will(200)
        await asyncio.gather(*(api.get(POD, "ns", "a") for _ in range(3)))
        assert server.logins == 2
        assert [one["token"] for one in server.asked[-3:]] == ["Bearer token-2"] * 3


async def test_no_answer_is_counted(server: Server, telemetry: Looking) -> None:
    server.url = "http://127.0.0.1:1"
    async with ApiServer(server.login, telemetry) as api:
        with pytest.raises(aiohttp.ClientConnectionError):
            await api.get(POD, "ns", "a")
    labels = {"verb": "GET", "code": "0"}
    assert telemetry.registry.get_sample_value("minikafka_operator_api_requests_total", labels) == 1


class TestStarting:
    """What has to be put right before an operator can work is said in one line, if it does not come right by itself."""

    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
        if "waited_for" not in request.node.name:
            monkeypatch.setattr("minikafka_kube.process.START_SECONDS_MAX", -1.0)

    @pytest.mark.slow
    async def test_all_is_there(self, api: ApiServer, server: Server) -> None:
        server.will(200, {"resources": [{"name": "minikafkaclusters"}, {"name": "minikafkatopics"}]})
        assert await not_ready_to_start(api, NEEDED) == ""

    @pytest.mark.slow
    async def test_no_crds(self, api: ApiServer, server: Server) -> None:
        server.will(404, {"reason": "NotFound"})
        assert (
            await not_ready_to_start(api, NEEDED)
            == "the API server does not serve minikafka.dev/v1alpha1; apply crds/ first"
        )

    @pytest.mark.slow
    async def test_one_crd_is_missing(self, api: ApiServer, server: Server) -> None:
        server.will(200, {"resources": [{"name": "minikafkaclusters"}]})
        assert await not_ready_to_start(api, NEEDED) == "the CRDs of minikafkatopics are missing; apply crds/ first"

    @pytest.mark.slow
    async def test_no_permission(self, api: ApiServer, server: Server) -> None:
        server.will(403, {"reason": "Forbidden", "message": "who are you"})
        assert "who are you" in await not_ready_to_start(api, NEEDED)

    @pytest.mark.slow
    @pytest.mark.parametrize("code", [403, 404, 503])
    async def test_an_api_server_that_starts_is_waited_for(self, api: ApiServer, server: Server, code: int) -> None:
        server.will(code, {"reason": "NotYet"})
        server.will(200, {"resources": [{"name": "minikafkaclusters"}, {"name": "minikafkatopics"}]})
        assert await not_ready_to_start(api, NEEDED) == ""

    async def test_no_credentials(self, telemetry: Looking) -> None:
        async def login() -> Configuration:
            raise kopf.LoginError("no credentials")

        async with ApiServer(login, telemetry) as api:
            assert await not_ready_to_start(api, NEEDED) == "no credentials"
