"""A command in a container, by the API server's WebSocket: what it wrote is there to the last byte, however it arrives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.client import ApiClient, Configuration
from kubernetes.stream import ws_client
from minikafka_chaos.grounds.kubernetes_api import STATUS_CHANNEL, ExecResult, Namespace

STDOUT, STDERR = ws_client.STDOUT_CHANNEL, ws_client.STDERR_CHANNEL
DEADLINE = 10.0


class Container:
    """The API server for one command: sends `first`, and the rest, the status and the end when it is told to."""

    def __init__(self, first: list[tuple[int, bytes]], rest: list[tuple[int, bytes]]) -> None:
        self.first, self.rest = first, rest
        self.go_on = asyncio.Event()
        self.over = threading.Event()

    async def exec(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        for channel, content in self.first:
            await socket.send_bytes(bytes([channel]) + content)
        await asyncio.wait_for(self.go_on.wait(), DEADLINE)
        for channel, content in [*self.rest, (STATUS_CHANNEL, b'{"status":"Success"}')]:
            await socket.send_bytes(bytes([channel]) + content)
        closing = asyncio.ensure_future(socket.close())
        await asyncio.sleep(0)
        self.over.set()
        await closing
        return socket


@pytest.fixture
async def run() -> AsyncIterator[Any]:
    servers: list[TestServer] = []

    async def run(container: Container) -> ExecResult:
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/lab/pods/p/exec", container.exec)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        client = ApiClient(Configuration(host=f"http://127.0.0.1:{servers[-1].port}"))
        return await asyncio.to_thread(Namespace(client, "lab").run, "p", "c", ["true"], DEADLINE)

    yield run
    for server in servers:
        await server.close()


async def test_what_comes_while_a_channel_is_read_is_not_lost(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client takes in more whenever it is asked for a channel that is empty: the last output, the status, the end."""
    container = Container([(STDOUT, b"x" * 50_000)], [(STDOUT, b"y" * 50_000), (STDERR, b"warned")])
    loop, update = asyncio.get_running_loop(), ws_client.WSClient.update

    def slow(self: ws_client.WSClient, timeout: float = 0) -> None:
        if timeout == 0:  # as where this process is not scheduled between two reads
            loop.call_soon_threadsafe(container.go_on.set)
            assert container.over.wait(DEADLINE)
        update(self, timeout=timeout)

    monkeypatch.setattr(ws_client.WSClient, "update", slow)
    assert await run(container) == ExecResult(0, "x" * 50_000 + "y" * 50_000, "warned")


async def test_a_letter_may_begin_in_one_frame_and_end_in_the_next(run: Any) -> None:
    letter = "é".encode()
    container = Container([(STDOUT, letter[:1])], [(STDOUT, letter[1:])])
    asyncio.get_running_loop().call_later(0.2, container.go_on.set)
    assert (await run(container)).output == "é"
