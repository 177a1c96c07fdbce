"""A peer that takes requests and never answers, as behind a path that was cut: nobody waits for it for ever."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest
from minikafka.config import BrokerConfig
from minikafka.metadata.image import BrokerState
from minikafka.metadata.memory import MemoryStore
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.types import TopicPartition
from minikafka.replication.follower import FetchPosition
from minikafka.replication.isr import IsrProposal
from minikafka.replication.reporter import ReplicaReporter
from minikafka.server.broker import Broker
from minikafka.server.fetchers import ReplicaFetcher
from minikafka.server.forwarding import KEPT_MAX
from minikafka.server.membership import Membership
from minikafka.server.metadata_cache import MetadataCache
from minikafka.transport.peer import PeerClosed, connect

from tests.unit.replication.unwired import replica_manager
from tests.unit.server.in_process import DEADLINE, context, running
from tests.waiting import until

SOON = 0.1


class HalfOpen:
    """Accepts, reads, and never answers."""

    def __init__(self) -> None:
        self.accepted = 0
        self.received = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.append(writer)
        while data := await reader.read(65536):
            self.received += len(data)

    @property
    def address(self) -> tuple[str, int]:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()


@pytest.fixture
async def peer() -> AsyncIterator[HalfOpen]:
    half_open = HalfOpen()
    await half_open.start()
    yield half_open
    half_open.stop()


async def test_a_request_without_an_answer_closes_its_connection(peer: HalfOpen) -> None:
    closed = asyncio.Event()
    connection = await connect(*peer.address, "test", DEADLINE, SOON, closed.set)
    with pytest.raises(PeerClosed):
        async with asyncio.timeout(DEADLINE):
            await connection.request(ApiKey.API_VERSIONS, 2, {})
    assert connection.timed_out
    await closed.wait()


class Clock:
    """Stands in for a connection's event loop, and is told the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> Any:
        self.due.append((when, callback))
        return SimpleNamespace(cancel=lambda: None)

    def pass_to(self, now: float) -> None:
        self.now = now
        due, self.due = [d for d in self.due if d[0] <= now], [d for d in self.due if d[0] > now]
        for _, callback in due:
            callback()


async def test_the_oldest_request_is_the_one_that_counts(peer: HalfOpen) -> None:
    """Each is given its own time; and a connection that is asked nothing stays open."""
    connection = await connect(*peer.address, "test", DEADLINE, 10.0)
    clock = Clock()
    connection.loop = cast(Any, clock)

    def ask() -> None:
        connection.send_frame(connection.next_correlation(), b"\0\0\0\0", lambda _: None)

    def answered(correlation: int) -> None:
        connection.frame_received(memoryview(correlation.to_bytes(4, "big")))

    clock.pass_to(100.0)
    assert clock.due == []
    ask()
    clock.pass_to(108.0)
    ask()
    answered(1)
    clock.pass_to(110.0)
    assert not connection.timed_out, "the second has been under way for two seconds only"
    clock.pass_to(117.0)
    answered(2)
    clock.pass_to(118.0)
    assert clock.due == []
    clock.pass_to(200.0)
    assert not connection.timed_out
    ask()
    clock.pass_to(209.9)
    assert not connection.timed_out
    clock.pass_to(210.0)
    assert connection.timed_out


async def test_the_kernel_watches_too(peer: HalfOpen) -> None:
    """A peer whose machine is gone acknowledges nothing: seen without a request's time-out, too."""
    connection = await connect(*peer.address, "test", DEADLINE, 12.0)
    assert connection.socket is not None
    assert connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 12_000
    connection.close()


async def test_a_follower_connects_anew(peer: HalfOpen, monkeypatch: pytest.MonkeyPatch) -> None:
    """``replica.socket.timeout.ms``."""
    about = context(replica_socket_timeout_ms="100", replica_fetch_wait_max_ms="50")
    told: list[tuple[Any, ...]] = []
    monkeypatch.setattr(about, "heard_nothing_from", lambda *whom: told.append(whom))
    metadata = MetadataCache(MemoryStore(), about.clock, "PLAINTEXT")
    metadata.image.brokers[2] = BrokerState(2, 1, "x", (("PLAINTEXT", *peer.address),), fenced=False)
    reporter = ReplicaReporter(about, replica_manager(about.clock), lambda *_: None)
    position = FetchPosition(0, 0, -1, 0)
    follower = SimpleNamespace(failed=False, leader_id=2, may_ask=lambda: True, position=lambda: position)
    log = SimpleNamespace(unflushed_volume=None)
    partition = SimpleNamespace(topic_id=b"i" * 16, topic_partition=TopicPartition("t", 0), follower=follower, log=log)
    fetcher = ReplicaFetcher(about, metadata, reporter, lambda: 1, lambda _: None, lambda: None, 2)
    fetcher.add(cast(Any, partition))
    await until(lambda: peer.accepted >= 3)
    fetcher.stop()
    assert told[:2] == [("leader 2", *peer.address)] * 2


class Unanswered:
    """A broker whose controller's lease is held at an address where nobody answers, and is renewed all the same."""

    def __init__(self, peer: HalfOpen, **settings: str) -> None:
        properties = {"node.id": "1", "minikafka.metadata.store": "memory", "listeners": "PLAINTEXT://127.0.0.1:0"}
        config = BrokerConfig.from_properties(
            {**properties, **{name.replace("_", "."): value for name, value in settings.items()}}
        )
        self.store = MemoryStore()
        self.store.open_now(None)
        self.store.acquire_now(2, *peer.address, 0)
        self.broker = Broker(config, self.store)
        self.membership: Membership = self.broker.membership

    async def renew(self) -> None:
        """The half-open peer lives: others hear it."""
        while True:
            held = self.store.held
            assert held is not None
            await self.store.renew(held)
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "settings",
    [
        {"broker_session_timeout_ms": "400", "broker_heartbeat_interval_ms": "50"},
        {"request_timeout_ms": "300", "broker_heartbeat_interval_ms": "50"},
    ],
    ids=["session", "request.timeout.ms"],
)
async def test_a_broker_looks_for_its_controller_anew(
    peer: HalfOpen, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    """Heartbeats that have no answer: the controller holds the lease, and this connection to it is dead."""
    unanswered = Unanswered(peer, **settings)
    monkeypatch.setattr(unanswered.broker.listeners, "advertised", lambda: (("PLAINTEXT", "h", 1),))
    renewing = asyncio.ensure_future(unanswered.renew())
    unanswered.membership.start()
    await until(lambda: peer.accepted >= 2)
    renewing.cancel()
    await unanswered.membership.stop()


async def test_an_isr_change_without_an_answer_has_an_unknown_outcome(peer: HalfOpen) -> None:
    unanswered = Unanswered(peer)
    unanswered.membership._connection = await connect(*peer.address, "test", DEADLINE, SOON)
    proposal = IsrProposal(TopicPartition("t", 0), b"i" * 16, 0, 0, ((1, 1),), 0)
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(PeerClosed):
            await unanswered.membership.alter_partitions([proposal])
        assert await unanswered.membership.alter_partitions([proposal]) is None, "nobody to be asked"


async def test_a_forwarded_request(peer: HalfOpen, monkeypatch: pytest.MonkeyPatch) -> None:
    unanswered = Unanswered(peer, request_timeout_ms="100")
    unanswered.membership.lifecycle.controller_id = 2
    monkeypatch.setattr(unanswered.broker.metadata, "address_of", lambda _: peer.address)
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(KafkaError, match="cannot be reached"):
            await unanswered.membership.forward(ApiKey.CREATE_TOPICS, 5, b"")


async def test_a_forwarded_request_goes_to_who_is_the_controller_now(
    peer: HalfOpen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one before may live on, and with it the connection; it would only say that it is none."""
    unanswered = Unanswered(peer)
    asked: list[tuple[str, int]] = []

    async def connect(host: str, port: int, *_: object) -> Any:
        async def request_raw(*_: object) -> bytes:
            asked.append((host, port))
            return b""

        return SimpleNamespace(is_open=True, request_raw=request_raw, close=lambda: None)

    monkeypatch.setattr(unanswered.broker.context.channels, "connect", connect)
    monkeypatch.setattr(unanswered.broker.metadata, "address_of", {2: ("h", 92), 3: ("g", 93)}.get)
    for unanswered.membership.lifecycle.controller_id in (2, 3):
        await unanswered.membership.forward(ApiKey.CREATE_TOPICS, 5, b"")
    assert asked == [("h", 92), ("g", 93)]


async def test_requests_of_one_user_do_not_wait_for_those_of_another(
    peer: HalfOpen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over one connection for all others' were answered after 2 s, or failed; who is not waited for is closed at some time."""
    unanswered = Unanswered(peer)
    opened: list[Any] = []

    async def connect(*_: object) -> Any:
        opened.append(connection := Mock(is_open=True, request_raw=AsyncMock(return_value=b"")))
        return connection

    monkeypatch.setattr(unanswered.broker.context.channels, "connect", connect)
    monkeypatch.setattr(unanswered.broker.metadata, "address_of", {2: ("h", 92)}.get)
    unanswered.membership.lifecycle.controller_id = 2
    for user in range(2 * KEPT_MAX):
        for _ in range(2):
            await unanswered.membership.forward(ApiKey.CREATE_TOPICS, 5, b"", None, f"User:{user}")
    assert [each.request_raw.await_count for each in opened] == [2] * (2 * KEPT_MAX)
    assert [each.close.called for each in opened] == [True] * KEPT_MAX + [False] * KEPT_MAX


async def test_a_controller_that_answers_heartbeats_may_take_longer(
    peer: HalfOpen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 3,000 changes most were made when the client was told after 5 s that there is no controller."""

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    unanswered = Unanswered(peer)
    membership, address = unanswered.membership, ("h", 92)
    opened = Mock(is_open=True, request_raw=AsyncMock(side_effect=never))
    monkeypatch.setattr(unanswered.broker.context.channels, "connect", AsyncMock(return_value=opened))
    monkeypatch.setattr(unanswered.broker.metadata, "address_of", {2: address, 3: ("g", 93)}.get)
    membership.lifecycle.controller_id = 2
    asking = asyncio.ensure_future(membership.forward(ApiKey.CREATE_TOPICS, 5, b""))
    await until(lambda: opened.request_raw.called)
    (limit,) = membership._forwarding._limits
    due = [limit.when()]
    for membership.lifecycle.controller_id in (2, 3):
        membership._heard(ErrorCode.NONE)
        due.append(limit.when())
    assert due[0] < due[1] == due[2]
    asking.cancel()
    await asyncio.wait((asking,))
    assert not membership._forwarding._limits


async def test_what_a_broker_asks_for_a_user_goes_over_the_connection_of_that_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AlterConfigs and topics made on demand shared one: 1,000 changes had others' wait for 1.7 s."""
    async with running(tmp_path, 2, auto_create_topics_enable="true") as cluster:
        await cluster.has_controller()
        await cluster.create("t")
        other = next(b for b in cluster.brokers.values() if b is not cluster.controller)
        asked: list[str] = []
        request = other.membership._forwarding.request

        async def counted(address: Any, principal: str, *args: Any) -> bytes:
            asked.append(principal)
            return await request(address, principal, *args)

        monkeypatch.setattr(other.membership._forwarding, "request", counted)
        connection = await cluster.connect(other, "CLIENT")
        config = {"name": "retention.ms", "value": "1000", "config_operation": 0}
        topic = {"resource_type": 2, "resource_name": "t", "configs": [config]}
        answer = await connection.request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [topic], "validate_only": False}
        )
        assert answer.responses[0].error_code == ErrorCode.NONE
        wanted = {"topics": [{"topic_id": None, "name": "new"}], "allow_auto_topic_creation": True}
        await connection.request(ApiKey.METADATA, 12, wanted)
        await until(lambda: "new" in other.metadata.image.topics)
        assert asked == ["User:ANONYMOUS"] * 2
        connection.close()


@pytest.mark.slow
async def test_clients_that_ask_nothing_are_let_go(tmp_path: Path) -> None:
    """``connections.max.idle.ms``; a broker whose heartbeats come over a connection keeps it."""
    async with running(tmp_path, 2, connections_max_idle_ms="300") as cluster:
        controller = cluster.controller
        other = next(b for b in cluster.brokers.values() if b is not controller)
        kept = controller.connections.heard_over(other.broker_id)
        connection = await cluster.connect(controller, "CLIENT")
        await until(lambda: not connection.is_open)
        assert not connection.timed_out
        assert kept is not None and kept in controller.connections


async def test_one_address_may_have_so_many_connections(tmp_path: Path) -> None:
    """``max.connections.per.ip``, for brokers by themselves, and ``max.connections``, which keeps no broker out."""
    async with running(tmp_path, 1, max_connections_per_ip="2", max_connections="3") as cluster:
        broker = cluster.brokers[1]
        opened = [await cluster.connect(broker, "CLIENT") for _ in range(2)]
        await until(lambda: broker.stats.connections == 2)
        refused = await cluster.connect(broker, "CLIENT")
        await until(lambda: not refused.is_open)
        opened += [await cluster.connect(broker, "REPLICATION") for _ in range(2)]
        await until(lambda: broker.stats.connections == 4)
        refused = await cluster.connect(broker, "REPLICATION")
        await until(lambda: not refused.is_open)
        opened.pop().close()
        await until(lambda: broker.stats.connections == 3)
        opened.append(await cluster.connect(broker, "REPLICATION"))
        await until(lambda: broker.stats.connections == 4)
        assert all(connection.is_open for connection in opened)
        for connection in opened:
            connection.close()
        await until(lambda: not broker.connections.hosts())
