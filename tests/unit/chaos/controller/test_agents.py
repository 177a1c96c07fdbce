"""The way to the agents: one exec, its output, its exit code, and whatever else an API server may say."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration
from minikafka_chaos.controller.agents import PodAgents

Play = Callable[[web.WebSocketResponse], Awaitable[None]]

SUCCESS = json.dumps({"status": "Success"})


def failure(code: int) -> str:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return json.dumps({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}})


class Kubelet:
    """An API server that knows one kind of request."""

    def __init__(self) -> None:
        self.asked: list[web.Request] = []
        self.play: Play | None = None
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        if self.play is None:
            return web.json_response({"message": "pods is forbidden"}, status=403)
        made = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await made.prepare(request)
        await self.play(made)
        await made.close()
        return made


@pytest.fixture
async def kubelet() -> AsyncIterator[Kubelet]:
    made = Kubelet()
    application = web.Application()
    application.router.add_get("/{path:.*}", made.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


@pytest.fixture
def agents(kubelet: Kubelet) -> PodAgents:
    async def login() -> Configuration:
        made = Configuration(host=kubelet.url)
        made.api_key = {"BearerToken": "Bearer secret"}
        return made

    return PodAgents(login)


def says(*frames: tuple[int, str]) -> Play:
    async def play(connection: web.WebSocketResponse) -> None:
        for channel, text in frames:
            await connection.send_bytes(bytes((channel,)) + text.encode())

    return play


async def test_done(kubelet: Kubelet, agents: PodAgents) -> None:
    kubelet.play = says((1, '{"recov'), (1, 'ered": 1}\n'), (3, SUCCESS))
    assert await agents.recover("lab", "shop-broker-1") == ""
    request = kubelet.asked[0]
    assert request.path == "/api/v1/namespaces/lab/pods/shop-broker-1/exec"
    assert request.query.getall("command") == ["minikafka", "agent", "recover"]
    assert (request.query["container"], request.headers["Authorization"]) == ("chaos-agent", "Bearer secret")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ([(1, '{"error": "faults.json cannot be read"}\n'), (3, failure(3))], "faults.json cannot be read"),
        ([(2, "no such file\n"), (3, failure(127))], "no such file"),
        ([(3, failure(137))], "exit code 137"),
        ([(1, "half an answ")], "the connection ended before the command did"),
        ([(3, json.dumps({"status": "Failure", "message": "container not found"}))], "container not found"),
        ([(3, "not JSON")], "Expecting value"),
    ],
)
async def test_not_done(kubelet: Kubelet, agents: PodAgents, frames: list[tuple[int, str]], told: str) -> None:
    """Every way in which it may fail is a line, and none an exception: the fault stays written down."""
    kubelet.play = says(*frames)
    assert told in await agents.recover("lab", "shop-broker-1")


@pytest.mark.slow
async def test_refused(kubelet: Kubelet, agents: PodAgents) -> None:
    assert "403" in await agents.recover("lab", "shop-broker-1")


@pytest.mark.slow
async def test_nobody_there(kubelet: Kubelet, agents: PodAgents) -> None:
    kubelet.url = "http://127.0.0.1:1"
    assert await agents.recover("lab", "shop-broker-1")
