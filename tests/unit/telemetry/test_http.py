"""The metrics server over real loopback sockets, on asyncio's and on uvloop's event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
import uvloop
from minikafka.transport import http, turn
from minikafka.transport.http import CONNECTIONS_MAX, METRICS_TYPE, REQUEST_BYTES_MAX, MetricsServer

from tests.waiting import until

Story = Callable[[], Coroutine[Any, Any, None]]
DEADLINE = 10.0
PIECES_MAX = 1_000_000
"""More rounds of the event loop than any of these takes."""


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Story], None]:
    def runner(story: Story) -> None:
        with asyncio.Runner(loop_factory=request.param) as loop:
            loop.run(asyncio.wait_for(story(), DEADLINE))

    return runner


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: str) -> None:
        self.writer.write(data.replace("\n", "\r\n").encode())

    async def answer(self, *, head: bool = False) -> Answer:
        first, *rest = (await self.reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in rest)}
        body = b"" if head else await self.reader.readexactly(int(headers["content-length"]))
        return Answer(int(first.split()[1]), headers, body)

    async def ask(self, request: str) -> Answer:
        self.send(request)
        return await self.answer(head=request.startswith("HEAD"))

    async def at_end(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True


class Shop:
    """A server with something to sell."""

    def __init__(self) -> None:
        self.page = b"minikafka_build_info 1\n"
        self.ready = (True, "serving")
        self.scrapes = 0
        self.server = MetricsServer(self.metrics, lambda: (True, "alive"), lambda: self.ready)

    def metrics(self) -> Iterator[bytes]:
        self.scrapes += 1
        yield self.page

    async def client(self) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", self.server.port))


@asynccontextmanager
async def shop() -> AsyncIterator[Shop]:
    opened = Shop()
    await opened.server.start("127.0.0.1", 0)
    try:
        yield opened
    finally:
        await opened.server.stop()


GET = "GET /metrics HTTP/1.1\nHost: h\n\n"


def test_pages(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with shop() as opened:
            client = await opened.client()
            scraped = await client.ask(GET)
            assert (scraped.status, scraped.body) == (200, opened.page)
            assert scraped.headers["content-type"] == METRICS_TYPE
            health = await client.ask("GET /healthz HTTP/1.1\nHost: h\n\n")
            assert (health.status, health.body) == (200, b"alive\n")
            ready = await client.ask("GET /readyz?verbose HTTP/1.1\nHost: h\n\n")
            assert (ready.status, ready.body) == (200, b"serving\n")
            opened.ready = (False, "fenced")
            ready = await client.ask("GET /readyz HTTP/1.1\nHost: h\n\n")
            assert (ready.status, ready.body) == (503, b"fenced\n")
            lost = await client.ask("GET / HTTP/1.1\nHost: h\n\n")
            assert lost.status == 404
            assert b"/metrics" in lost.body
            assert len(opened.server.connections) == 1, "all of it on one connection"

    run(story)


def test_head_has_the_length_and_no_body(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with shop() as opened:
            client = await opened.client()
            answer = await client.ask("HEAD /metrics HTTP/1.1\nHost: h\n\n")
            assert (answer.status, answer.headers["content-length"]) == (200, str(len(opened.page)))
            assert (await client.ask(GET)).body == opened.page

    run(story)


def test_pipelined_requests_are_answered_in_order(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with shop() as opened:
            client = await opened.client()
            client.send(
                GET
                + "GET /healthz HTTP/1.1\nHost: h\n\n"
                + "HEAD /readyz HTTP/1.1\nHost: h\n\n"
                + "GET /no HTTP/1.1\nHost: h\n\n"
                + GET
            )
            assert (await client.answer()).body == opened.page
            assert (await client.answer()).body == b"alive\n"
            assert (await client.answer(head=True)).headers["content-length"] == "8"
            assert (await client.answer()).status == 404
            assert (await client.answer()).body == opened.page

    run(story)


def test_others_are_served_between_pipelined_requests(run: Callable[[Story], None]) -> None:
    """20,000 probes in 640 KB kept a broker from everything else for 0.9 s; a client that hangs up has them answered, too."""

    async def story() -> None:
        rounds = 0

        def next_round() -> None:
            nonlocal rounds
            rounds += 1
            asyncio.get_running_loop().call_soon(next_round)

        async with shop() as opened:
            client = await opened.client()
            client.send(GET * 500)
            client.writer.write_eof()
            await client.answer()
            next_round()
            for _ in range(499):
                assert (await client.answer()).body == opened.page
            assert await client.at_end()
            assert rounds > 400

    run(story)


def test_a_request_in_single_bytes(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with shop() as opened:
            client = await opened.client()
            client.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in GET:
                client.send(byte)
                await client.writer.drain()
            assert (await client.answer()).status == 200

    run(story)


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("nonsense\n\n", 400),
        ("GET /metrics\n\n", 400),
        ("GET  /metrics HTTP/1.1\n\n", 400),
        ("GET /metrics FTP/1.1\n\n", 400),
        ("GET /metrics HTTP/1.1\n\n", 400),
        ("GET /metrics HTTP/1.1\nHost: h\nno colon\n\n", 400),
        ("GET /metrics HTTP/1.1\nHost : h\n\n", 400),
        ("GET /metrics HTTP/2.0\nHost: h\n\n", 505),
        ("POST /metrics HTTP/1.1\nHost: h\n\n", 405),
        ("POST /metrics HTTP/1.1\nHost: h\nContent-Length: 3\n\nabc", 413),
        ("GET /metrics HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n0\n\n", 413),
        ("GET /metrics HTTP/1.1\nHost: h\nX: " + "y" * REQUEST_BYTES_MAX + "\n\n", 431),
        ("G" * (REQUEST_BYTES_MAX + 1), 431),
    ],
)
def test_a_bad_request_is_answered_and_the_connection_closed(
    run: Callable[[Story], None], request_text: str, status: int
) -> None:
    async def story() -> None:
        async with shop() as opened:
            client = await opened.client()
            answer = await client.ask(request_text)
            assert answer.status == status
            assert answer.headers["connection"] == "close"
            assert await client.at_end()
            assert (await (await opened.client()).ask(GET)).status == 200, "others are served"
            assert ("allow" in answer.headers) == (status == 405)

    run(story)


class Ordered:
    """Stands in for hooks."""

    def __init__(self) -> None:
        self.given: list[dict[str, str]] = []

    def order(self, given: Any) -> None:
        self.given.append(dict(given))

    def as_json(self) -> dict[str, Any]:
        return {}


def test_a_page_in_a_browser_orders_nothing(run: Callable[[Story], None]) -> None:
    """It may post to any port of its machine, and says where it comes from."""

    async def story() -> None:
        orders = Ordered()
        server = MetricsServer(lambda: b"", lambda: (True, ""), lambda: (True, ""), orders)
        await server.start("127.0.0.1", 0)
        for origin, status in (("Origin: http://x.example\n", 403), ("Origin: null\n", 403), ("", 200)):
            client = Client(*await asyncio.open_connection("127.0.0.1", server.port))
            assert (await client.ask(f"POST /hooks?a=b HTTP/1.1\nHost: h\n{origin}\n")).status == status
            client.writer.close()
        assert orders.given == [{"a": "b"}]
        await server.stop()

    run(story)


@pytest.mark.parametrize(
    ("request_text", "kept"),
    [
        ("GET /healthz HTTP/1.1\nHost: h\n\n", True),
        ("GET /healthz HTTP/1.1\nHost: h\nConnection: close\n\n", False),
        ("GET /healthz HTTP/1.0\n\n", False),
        ("GET /healthz HTTP/1.0\nConnection: Keep-Alive\n\n", False),
    ],
)
def test_keep_alive(run: Callable[[Story], None], request_text: str, kept: bool) -> None:
    async def story() -> None:
        async with shop() as opened:
            client = await opened.client()
            answer = await client.ask(request_text)
            assert answer.headers.get("connection") == (None if kept else "close")
            if kept:
                assert (await client.ask(GET)).status == 200
            else:
                assert await client.at_end()

    run(story)


def test_a_failing_page_is_an_answer_not_the_end(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with shop() as opened:
            opened.server._pages._metrics = lambda: [bytes(1 // 0)]
            client = await opened.client()
            answer = await client.ask(GET)
            assert (answer.status, answer.body) == (500, b"ZeroDivisionError: integer division or modulo by zero\n")
            assert (await client.ask("GET /healthz HTTP/1.1\nHost: h\n\n")).status == 200

    run(story)


def test_others_are_served_while_a_page_is_made(run: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """And who asks meanwhile gets the next page, which is made once for all of them."""
    monkeypatch.setattr(turn, "TURN_SECONDS_MAX", 0.0)

    async def story() -> None:
        async with shop() as opened:
            asks_health, healthy = await opened.client(), asyncio.Event()
            made = 0

            def page() -> Iterator[bytes]:
                nonlocal made
                made += 1
                for _ in range(PIECES_MAX):
                    if healthy.is_set():
                        break
                    yield b"."
                yield b"page %d" % made

            opened.server._pages._metrics = page
            scrapers = [await opened.client() for _ in range(3)]
            scrapers[0].send(GET)
            await until(lambda: made == 1)
            scrapers[1].send(GET + GET)
            scrapers[2].send("HEAD /metrics HTTP/1.1\nHost: h\n\n")
            assert (await asks_health.ask("GET /healthz HTTP/1.1\nHost: h\n\n")).status == 200
            await until(lambda: len(opened.server._pages._asked) == 2)
            healthy.set()
            assert (await scrapers[0].answer()).body.lstrip(b".") == b"page 1"
            assert (await scrapers[1].answer()).body == b"page 2"
            assert (await scrapers[2].answer(head=True)).headers["content-length"] == str(len(b"page 2"))
            assert (await scrapers[1].answer()).body == b"page 3"
            scrapers[2].writer.write_eof()
            assert await scrapers[2].at_end()

    run(story)


def test_who_goes_while_his_page_is_made_ends_nothing(
    run: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "TURN_SECONDS_MAX", 0.0)

    async def story() -> None:
        async with shop() as opened:
            gone, stays = asyncio.Event(), await opened.client()

            def page() -> Iterator[bytes]:
                for _ in range(PIECES_MAX):
                    if gone.is_set():
                        break
                    yield b""
                yield b"all"

            opened.server._pages._metrics = page
            client = await opened.client()
            client.send(GET)
            await until(lambda: opened.server._pages._next is not None)
            stays.send(GET)
            await until(lambda: opened.server._pages._asked)
            client.writer.transport.abort()
            gone.set()
            assert (await stays.answer()).body == b"all"
            await until(lambda: len(opened.server.connections) == 1)

    run(story)


@pytest.mark.slow
def test_a_client_that_does_not_read_holds_up_nobody_and_little_memory(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with shop() as opened:
            opened.page = b"x" * 1_000_000
            slow = await opened.client()
            slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
            slow.send(GET * 50)
            await until(lambda: opened.scrapes > 0)
            quick = await opened.client()
            for _ in range(20):
                assert (await quick.ask("GET /healthz HTTP/1.1\nHost: h\n\n")).status == 200
            assert opened.scrapes < 20, "pages wait to be asked for until the earlier ones were read"
            slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
            for _ in range(50):
                assert len((await slow.answer()).body) == 1_000_000
            assert opened.scrapes == 50

    run(story)


def test_a_client_that_closes_its_side_still_gets_its_answers(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with shop() as opened:
            opened.page = b"x" * 3_000_000
            client = await opened.client()
            client.send(GET * 3)
            client.writer.write_eof()
            for _ in range(3):
                assert len((await client.answer()).body) == 3_000_000
            assert await client.at_end()
            await until(lambda: not opened.server.connections)

    run(story)


def test_a_silent_connection_is_closed(run: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "IDLE_SECONDS_MAX", 0.05)

    async def story() -> None:
        async with shop() as opened:
            client = await opened.client()
            client.send("GET /metrics")
            assert await client.at_end()

    run(story)


def test_of_too_many_connections_the_idlest_is_closed(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with shop() as opened:
            clients = [await opened.client() for _ in range(CONNECTIONS_MAX)]
            await until(lambda: len(opened.server.connections) == CONNECTIONS_MAX)
            assert (await clients[0].ask(GET)).status == 200
            clients.append(await opened.client())
            assert (await clients[-1].ask(GET)).status == 200, "as the kubelet's has to be"
            assert await clients[1].at_end()
            assert (await clients[0].ask(GET)).status == 200
            assert len(opened.server.connections) == CONNECTIONS_MAX

    run(story)


def test_stop_closes_what_is_open(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with shop() as opened:
            client = await opened.client()
            assert (await client.ask(GET)).status == 200
            port = opened.server.port
            await opened.server.stop()
            assert await client.at_end()
            with pytest.raises(OSError, match=r"(?i)refused|connect"):
                await asyncio.open_connection("127.0.0.1", port)

    run(story)


def test_a_port_in_use_is_an_error(run: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with shop() as opened:
            with pytest.raises(OSError, match="in use"):
                await Shop().server.start("127.0.0.1", opened.server.port)

    run(story)
