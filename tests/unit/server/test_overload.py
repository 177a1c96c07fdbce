"""What holds a broker that gets more than it can take: memory of requests, slow readers, late logins (31 item 4)."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from minikafka.config import BrokerConfig, ConfigError
from minikafka.protocol import messages, wire
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.wire import MANY_ROWS
from minikafka.server.broker import Broker
from minikafka.server.connection import PIPELINE_MAX, ClientConnection
from minikafka.server.deadlines import Deadlines
from minikafka.transport import turn
from minikafka.transport.request_memory import RequestMemory

from tests.certificates import PemFiles
from tests.interop.raw_client import record_batch
from tests.unit.server.in_process import DEADLINE, Cluster, context, running
from tests.unit.server.strangers import SASL, SOFTWARE, Stranger, connections, fetch
from tests.waiting import until


class Reader:
    """Whoever reads requests; what the loop is to call is called at once."""

    def __init__(self, user: str = "alice") -> None:
        self.loop: Any = self
        self.asked_by = user
        self.memory: RequestMemory | None = None
        self.asked = 0
        self.holds: set[str] = set()

    def call_soon(self, what: Any, *args: Any) -> None:
        what(*args)

    def hold_frames(self, reason: str) -> None:
        self.holds.add(reason)

    def release_frames(self, reason: str) -> None:
        self.holds.discard(reason)
        if self.memory is not None:
            self.ask(self.memory)

    def ask(self, memory: RequestMemory) -> None:
        """Have a request of 20 bytes let in, now and when there is room."""
        self.memory, self.asked = memory, self.asked + 1
        memory.admits(self, 20)


class TestMemory:
    def test_the_last_one_may_exceed_it(self) -> None:
        """Or a large request would never be let in beside small ones."""
        memory, alices, bobs = RequestMemory(100), Reader(), Reader("bob")
        assert memory.admits(alices, 99) and memory.admits(bobs, 500)
        assert not memory.admits(Reader("carol"), 1)
        assert memory.used == 599

    def test_one_user_has_half_of_it(self) -> None:
        memory, readers = RequestMemory(100), [Reader(), Reader(), Reader()]
        assert memory.admits(readers[0], 49) and memory.admits(readers[1], 20)
        assert not memory.admits(readers[2], 1) and readers[2].holds == {"memory"}
        assert memory.admits(Reader("bob"), 10)
        memory.give_back(readers[1], 20)
        assert not readers[2].holds and memory.admits(readers[2], 1)

    def test_a_users_small_ones_have_it_one_at_a_time(self) -> None:
        """Few large requests that waited, or were never sent to their end, kept everybody from being read."""
        memory, others, readers = RequestMemory(100), Reader("bob"), [Reader(), Reader()]
        memory.take(others, 150)
        assert not memory.admits(Reader(), 1), "large ones wait, who may be of the same user"
        memory.take(readers[0], 5)
        assert not readers[0].holds
        memory.take(readers[1], 5)
        assert readers[1].holds == {"memory"}, "one at a time"
        memory.give_back(readers[1], 5)
        assert readers[1].holds == {"memory"}
        memory.give_back(readers[0], 5)
        assert not readers[1].holds

    def test_who_waits_is_let_go_when_there_is_room(self) -> None:
        memory, first, readers = RequestMemory(100), Reader("bob"), [Reader(), Reader("carol")]
        memory.take(first, 150)
        assert not any(memory.admits(reader, 10) for reader in readers)
        memory.give_back(first, 50)
        assert [reader.holds for reader in readers] == [{"memory"}] * 2
        memory.give_back(first, 1)
        assert [reader.holds for reader in readers] == [set(), set()]
        assert memory.admits(readers[1], 10)

    def test_one_after_the_other_is_let_go(self) -> None:
        """Each of 1,500 that had gone woke all others, which was not seen while they waited: 8 s (found by an attack)."""
        memory, first, readers = RequestMemory(100), Reader(), [Reader() for _ in range(5)]
        assert memory.admits(first, 60)
        for reader in readers:
            reader.ask(memory)
        memory.give_back(first, 60)
        assert [bool(reader.holds) for reader in readers] == [False, False, False, True, True]
        assert sum(reader.asked for reader in readers) == 5 + 3

    def test_it_is_given_back_to_who_has_logged_in_meanwhile(self) -> None:
        memory, reader, other = RequestMemory(100), Reader(""), Reader("")
        assert memory.admits(reader, 60) and not memory.admits(other, 1)
        reader.asked_by = other.asked_by = "alice"
        memory.give_back(reader, 60)
        assert not other.holds and memory.used == 0
        assert memory.admits(reader, 60) and memory.admits(Reader(""), 1)

    def test_who_is_gone_waits_no_more(self) -> None:
        memory, reader = RequestMemory(100), Reader()
        assert memory.admits(reader, 60) and not memory.admits(reader, 1)
        memory.gone(reader)
        assert reader.holds == {"memory"} and memory.used == 0


def test_a_memory_that_holds_no_request() -> None:
    properties = {"node.id": "1", "minikafka.metadata.store": "memory", "socket.request.max.bytes": "1000"}
    with pytest.raises(ConfigError, match=r"queued.max.request.bytes=999: .*allowed: -1, or at least .*=1000"):
        BrokerConfig.from_properties(properties | {"queued.max.request.bytes": "999"})
    BrokerConfig.from_properties(properties | {"queued.max.request.bytes": "1000"})
    BrokerConfig.from_properties(properties | {"queued.max.request.bytes": "0"})


# -- brokers with real sockets -------------------------------------------------------------------------------------------------

LARGE = 900_000


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    limits = {
        "socket_request_max_bytes": "1000000",
        "queued_max_request_bytes": "1000000",
        "message_max_bytes": "1000000",
        "minikafka_slow_reader_timeout_ms": "200",
    }
    async with running(tmp_path, 1, **limits) as found:
        await found.create("t")
        yield found


class Client:
    """Sends a request piece by piece, and counts answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, broker: Broker, address: str = "127.0.0.1") -> tuple[Client, ClientConnection]:
        """And its connection at the broker."""
        before = set(connections(broker))
        host, port = next((h, p) for n, h, p in broker.listeners.advertised() if n == "CLIENT")
        client = cls(*await asyncio.open_connection(host, port, local_addr=(address, 0)))
        await until(lambda: len(set(connections(broker)) - before) == 1)
        (connection,) = set(connections(broker)) - before
        return client, connection

    async def answer(self) -> bytes:
        async with asyncio.timeout(DEADLINE):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return await self.reader.readexactly(size)


def frame(key: ApiKey, version: int, values: dict[str, Any]) -> bytes:
    body = messages.encode_request(key, version, values)
    return wire.request_frame(key, version, 7, "test", body, messages.is_flexible(key, version))


def large_request() -> bytes:
    batch = record_batch([b"x" * LARGE])
    topic = {"name": "t", "partition_data": [{"index": 0, "records": batch}]}
    return frame(ApiKey.PRODUCE, 9, {"transactional_id": None, "acks": 1, "timeout": 30_000, "topic_data": [topic]})


@pytest.mark.slow
async def test_large_requests_wait_for_each_other(cluster: Cluster) -> None:
    """Two users' that are announced take all; the third is read when one is done, or gone."""
    broker, request = cluster.brokers[1], large_request()
    memory = broker.services.request_memory
    assert memory is not None
    (first, a), (second, b), (third, c) = [await Client.of(broker, f"127.0.0.{host}") for host in (1, 2, 3)]
    first.writer.write(request[:400_000])
    await until(lambda: bool(a._admitted))
    second.writer.write(request[:400_000])
    await until(lambda: bool(b._admitted))
    assert memory.used == 2 * len(request)
    third.writer.write(request)
    await until(lambda: "memory" in c._held)
    assert not c._admitted and len(c._buffer) <= 1 << 18
    first.writer.write(request[400_000:])
    await first.answer()
    await third.answer()
    second.writer.close()
    await until(lambda: memory.used == 0)
    for client in (first, third):
        client.writer.close()


@pytest.mark.slow
async def test_requests_that_wait_for_earlier_ones_count_too(cluster: Cluster) -> None:
    client, connection = await Client.of(cluster.brokers[1])
    memory = connection.memory = RequestMemory(100)
    metadata = frame(ApiKey.METADATA, 12, {"topics": [{"name": "t" * 90}], "allow_auto_topic_creation": False})
    most = 0
    client.writer.write(metadata * 50)
    for _ in range(50):
        await client.answer()
        most = max(most, memory.used)
    assert most < 100 + 2 * len(metadata)
    await until(lambda: memory.used == 0)
    client.writer.write(metadata * 2_000)  # so many that some are seen to wait
    await until(lambda: memory.used > 0)
    client.writer.close()
    await until(lambda: connection not in connections(cluster.brokers[1]))
    assert memory.used == 0


def events(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    lines = (cluster.data / "events-1.jsonl").read_text().splitlines()
    return [event["fields"] for event in map(json.loads, lines) if event["event"] == name]


async def test_who_takes_no_answer_is_cut(cluster: Cluster) -> None:
    broker = cluster.brokers[1]
    client, connection = await Client.of(broker)
    client.writer.write(large_request())
    await client.answer()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    fetch = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1,
             "topics": [{"topic": "t", "partitions": [part]}], "rack_id": ""}  # fmt: skip
    client.writer.write(frame(ApiKey.FETCH, 11, fetch) * 100)
    await until(lambda: connection not in connections(broker))
    await until(lambda: bool(events(cluster, "connection_cut")))
    assert events(cluster, "connection_cut") == [
        {
            "principal": "User:ANONYMOUS",
            "address": "127.0.0.1",
            "listener": "CLIENT",
            "key": "minikafka.slow.reader.timeout.ms",
        }
    ]
    assert broker.stats.limited == {"minikafka.slow.reader.timeout.ms": 1}
    client.writer.close()


async def test_who_takes_some_of_it_is_not_cut(cluster: Cluster) -> None:
    client, connection = await Client.of(cluster.brokers[1])
    assert connection.loop is not None
    connection.deadlines.blocked(connection.loop)
    connection.bytes_sent += 1
    connection.deadlines._look_at_reading(connection.loop)
    connection.deadlines.unblocked()
    assert connection in connections(cluster.brokers[1])
    client.writer.close()


IMPATIENT = {"minikafka_authentication_timeout_ms": "100"}


@pytest.mark.slow
async def test_who_does_not_log_in_is_closed_though_it_asks_for_versions(tmp_path: Path) -> None:
    async with running(tmp_path, **{**SASL, **IMPATIENT}) as cluster:
        broker = cluster.brokers[1]
        client = await Stranger.at(broker)
        async with asyncio.timeout(DEADLINE):
            while await client.ask(ApiKey.API_VERSIONS, 3, SOFTWARE) is not None:
                pass
        await until(lambda: not connections(broker))
        assert broker.stats.limited == {"minikafka.authentication.timeout.ms": 1}
        assert [fields["reason"] for fields in events(cluster, "authentication_failed")] == [
            "has not logged in in time"
        ]


async def test_who_has_logged_in_may_be_idle(tmp_path: Path) -> None:
    async with running(tmp_path, **SASL) as cluster:
        client = await Stranger.at(cluster.brokers[1])
        assert not (await client.log_in()).error_code
        (connection,) = connections(cluster.brokers[1])
        connection.deadlines._look_at_login()
        assert await client.is_served()
        client.close()


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "half a message"])
async def test_a_handshake_that_stalls_is_closed(tmp_path: Path, said: bytes) -> None:
    files = PemFiles.write(tmp_path)
    tls = {**files.settings, "listener.security.protocol.map": "CLIENT:SSL,REPLICATION:PLAINTEXT"}
    async with running(tmp_path, **{**tls, **IMPATIENT}) as cluster:
        host, port = next((h, p) for n, h, p in cluster.brokers[1].listeners.advertised() if n == "CLIENT")
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(said)
        async with asyncio.timeout(DEADLINE):
            try:
                await reader.read()
            except ConnectionResetError:
                pass
        writer.close()
        assert cluster.brokers[1].stats.limited == {"minikafka.authentication.timeout.ms": 1}


@pytest.mark.parametrize("key", [ApiKey.DESCRIBE_GROUPS, ApiKey.FETCH])
async def test_others_are_served_between_the_requests_of_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: ApiKey
) -> None:
    """300 that came at once, in 19 KB, kept a broker from everybody else for 6 s; 8 MB of Fetch that were refused for 3 s."""
    monkeypatch.setattr("minikafka.transport.turn.TURN_SECONDS_MAX", 0.0)
    async with running(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        client = await Stranger.at(broker)
        answered: list[int] = []

        def next_round() -> None:
            answered.append(sum(broker.stats.times_of(key).counts))
            asyncio.get_running_loop().call_soon(next_round)

        version, values = (5, {"groups": []}) if key is ApiKey.DESCRIBE_GROUPS else (11, fetch(absent=1))
        await client.ask(key, version, values)
        next_round()
        for _ in range(50):
            client.request(key, version, values)
        for _ in range(50):
            assert await client.frame()
        assert answered[-1] - answered[0] == 50
        assert max(after - before for before, after in itertools.pairwise(answered)) == 1


ROWS = 30
OF_MANY_ROWS: dict[ApiKey, tuple[int, dict[str, Any]]] = {
    ApiKey.METADATA: (12, {"topics": [{"name": f"t{i}", "topic_id": None} for i in range(ROWS)]}),
    ApiKey.OFFSET_FETCH: (8, {"groups": [{"group_id": f"g{i}", "topics": []} for i in range(ROWS)]}),
    ApiKey.DESCRIBE_CONFIGS: (4, {"resources": [{"resource_type": 2, "resource_name": f"t{i}"} for i in range(ROWS)]}),
    ApiKey.DESCRIBE_GROUPS: (5, {"groups": [f"g{i}" for i in range(ROWS)]}),
    ApiKey.CREATE_TOPICS: (7, {"topics": [{"name": "t"} for _ in range(2)] + [{"name": f"t{i}"} for i in range(ROWS)]}),
    ApiKey.DELETE_TOPICS: (6, {"topics": [{"name": f"t{i}", "topic_id": None} for i in range(ROWS)]}),
    ApiKey.FIND_COORDINATOR: (4, {"key_type": 1, "coordinator_keys": [f"g{i}" for i in range(ROWS)]}),
    ApiKey.DESCRIBE_PRODUCERS: (0, {"topics": [{"name": "t", "partition_indexes": list(range(ROWS))}]}),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, {"topics": [{"name": f"t{i}"} for i in range(ROWS)]}),
    ApiKey.CREATE_ACLS: (3, {"creations": [{"resource_name": f"t{i}"} for i in range(ROWS)]}),
    ApiKey.DELETE_ACLS: (3, {"filters": [{"principal_filter": f"User:{i}"} for i in range(ROWS)]}),
    ApiKey.DELETE_RECORDS: (
        2,
        {"topics": [{"name": "t", "partitions": [{"partition_index": i} for i in range(ROWS)]}]},
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        4,
        {"topics": [{"topic": "t", "partitions": [{"partition": i} for i in range(ROWS)]}]},
    ),
}


async def test_others_are_served_between_the_rows_of_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CreateTopics of 49,000 rows kept a broker from everybody else for 9 s, and others for a second."""
    monkeypatch.setattr("minikafka.transport.turn.TURN_SECONDS_MAX", 0.0)
    async with running(tmp_path, 1) as cluster:
        client = await Stranger.at(cluster.brokers[1])
        rounds = itertools.count()

        def next_round() -> None:
            next(rounds)
            asyncio.get_running_loop().call_soon(next_round)

        next_round()
        for key, (version, values) in OF_MANY_ROWS.items():
            begun = next(rounds)
            await client.ask(key, version, values)
            assert next(rounds) - begun > ROWS, key


@pytest.mark.parametrize("of", ["partitions", "topics"])
@pytest.mark.parametrize("hooks", ["false", "true"])
@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.FETCH])
async def test_a_produce_or_fetch_of_many_rows_waits_for_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: ApiKey, hooks: str, of: str
) -> None:
    """Of 100 connections, each with 9,000 rows, all were served in one round of the event loop: others waited for 10 s.

    A broker with hooks for tests took a request that has to wait for one that is served, and it was never answered.
    """
    async with running(tmp_path, 1, minikafka_test_hooks=hooks) as cluster:
        broker = cluster.brokers[1]
        turns = asyncio.Event()
        monkeypatch.setattr(broker.services.turn_queue, "first", turns.wait)
        client, other = await Stranger.at(broker), await Stranger.at(broker)
        for count in (MANY_ROWS + 1, 1):
            partitions, topics = (count, 1) if of == "partitions" else (0, count)
            if key is ApiKey.FETCH:
                values = fetch(absent=partitions)
                client.request(key, 11, values | {"topics": values["topics"][-1:] * topics})
            else:
                row = {"name": "absent", "partition_data": [{"index": 0, "records": None}] * partitions}
                values = {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": [row] * topics}
                client.request(key, 9, values)
        answered = asyncio.ensure_future(client.frame())
        await until(lambda: any("rows" in each._held for each in connections(broker)))
        assert await other.ask(ApiKey.METADATA, 9, {"topics": []})
        assert not answered.done()
        turns.set()
        assert await answered and await client.frame()


@pytest.mark.parametrize(
    ("key", "version", "topic", "partition"),
    [
        (ApiKey.DELETE_RECORDS, 2, "name", "partition_index"),
        (ApiKey.LIST_OFFSETS, 7, "name", "partition_index"),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, "topic", "partition"),
    ],
)
async def test_all_topics_of_a_request_share_a_turn(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, key: ApiKey, version: int, topic: str, partition: str
) -> None:
    """Each began another, which one partition does not end."""
    made = Mock(side_effect=turn.Turn)
    monkeypatch.setattr(turn, "Turn", made)
    asked = {"topics": [{topic: f"t{number}", "partitions": [{partition: 0}]} for number in range(3)]}
    client = await Stranger.at(cluster.brokers[1])
    assert len((await client.ask(key, version, asked)).topics) == 3
    assert made.call_count == 1


async def test_requests_wait_while_their_client_takes_no_answers(tmp_path: Path) -> None:
    """600 that came in 14 KB had answers of 510 MB, kept for whoever did not read."""
    async with running(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        host, port = next((h, p) for n, h, p in broker.listeners.advertised() if n == "CLIENT")
        own = socket.socket()
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        own.connect((host, port))
        client = Stranger(*await asyncio.open_connection(sock=own, limit=1 << 14))
        resources = [{"resource_type": 4, "resource_name": "1", "configuration_keys": None}]
        values = {"resources": resources, "include_synonyms": True, "include_documentation": True}
        for _ in range(300):
            client.request(ApiKey.DESCRIBE_CONFIGS, 4, values)
        (connection,) = await until(lambda: [each for each in connections(broker) if each.is_blocked])
        other, left = await Stranger.at(broker), [300]
        while connection.queued_requests != left[-1]:  # the kernel takes some of them
            left.append(connection.queued_requests)
            for _ in range(20):
                await other.ask(ApiKey.METADATA, 9, {"topics": []})
        assert left[-1] > 0 and connection.is_blocked
        assert broker.services.unsent._not_taken.total() > 0
        for _ in range(300):
            assert await client.frame()


def stall(broker: Broker) -> asyncio.Event:
    """Have ListGroups wait for what is returned."""
    may_go_on = asyncio.Event()
    spec, handle = broker.services.handlers[ApiKey.LIST_GROUPS]

    async def waits(*args: Any) -> Any:
        await may_go_on.wait()
        return await handle(*args)

    broker.services.handlers[ApiKey.LIST_GROUPS] = spec, waits
    return may_go_on


async def test_a_large_answer_is_made_for_one_of_a_user_and_encoded_in_a_thread(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OffsetFetch of all of 240,000 offsets, in 1 KB, held the event loop for a second, for each connection that asked."""
    monkeypatch.setattr("minikafka.server.answering.ENCODED_ROWS_MAX", 20)
    broker, on_loop = cluster.brokers[1], threading.get_ident()
    clients = [await Stranger.at(broker) for _ in range(2)]
    encoding, may_go_on = itertools.count(), threading.Event()
    encode = messages.encode_response

    def encoded(key: int, version: int, values: dict[str, Any]) -> bytes:
        if key == ApiKey.DESCRIBE_GROUPS:
            assert threading.get_ident() != on_loop
            next(encoding)
            assert may_go_on.wait(DEADLINE)
        return encode(key, version, values)

    monkeypatch.setattr(messages, "encode_response", encoded)
    try:
        for client in clients:
            client.request(ApiKey.DESCRIBE_GROUPS, 5, {"groups": [f"g{number}" for number in range(21)]})
        answered = [asyncio.ensure_future(client.frame()) for client in clients]
        other = await Stranger.at(broker)
        for _ in range(5):
            assert await other.ask(ApiKey.METADATA, 9, {"topics": []})
        assert next(encoding) == 1
    finally:
        may_go_on.set()
    assert all(await asyncio.gather(*answered))


@pytest.mark.parametrize(("goes", "much"), [(False, "members"), (True, "members"), (True, "topics")])
async def test_no_more_large_answers_are_made_for_who_takes_none(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, goes: bool, much: str
) -> None:
    """Each of 80 connections, which asked in 39 bytes, kept 16 MB for as long as it read nothing (found by an attack)."""
    monkeypatch.setattr("minikafka.server.unsent.UNSENT_BYTES_MAX", 500_000)
    broker = cluster.brokers[1]
    lazy = await Stranger.at(broker)
    await lazy.ask(ApiKey.METADATA, 9, {"topics": []})
    (connection,) = connections(broker)
    connection.unsent.not_taken(500_000)
    key, version, values = (
        (ApiKey.METADATA, 9, {"topics": None})
        if much == "topics"
        else (ApiKey.DESCRIBE_GROUPS, 5, {"groups": [f"{number:030000}" for number in range(30)]})
    )
    if much == "topics":
        broker.services.has_much(connection.asked_by, key)
    else:
        assert await (await Stranger.at(broker)).ask(key, version, values), (
            "the first one, before it is known to be large"
        )
    others = [await Stranger.at(broker) for _ in range(2)]
    for other in others:
        other.request(key, version, values)
    frames = [asyncio.ensure_future(other.frame()) for other in others]
    await until(lambda: bool(broker.services.unsent._waiting))
    assert await (await Stranger.at(broker)).ask(ApiKey.LIST_GROUPS, 0, {}), "who had no large answer of it"
    assert not any(frame.done() for frame in frames)
    if goes:
        lazy.close()
    else:
        connection.unsent.taken()
    assert all(await asyncio.gather(*frames))
    assert not broker.services.unsent._bytes and not broker.services.unsent._not_taken


async def test_what_waits_behind_others_does_not_keep_the_others_waiting(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OffsetFetches waited for room that answers behind them had, for ever (found by an attack)."""
    monkeypatch.setattr("minikafka.server.unsent.UNSENT_BYTES_MAX", 500_000)
    broker = cluster.brokers[1]
    client = await Stranger.at(broker)
    asked = (ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g"]})
    await client.ask(*asked)
    (connection,) = connections(broker)
    broker.services.has_much(connection.asked_by, ApiKey.DESCRIBE_GROUPS)
    other = await Stranger.at(broker)
    await other.ask(*asked)
    (others,) = set(connections(broker)) - {connection}
    others.unsent.not_taken(500_000)
    others.unsent.keep(500_000)
    client.request(*asked)
    await until(lambda: bool(broker.services.unsent._waiting))
    others.unsent.taken()
    assert await client.frame()
    first = connection.begin(ApiKey.JOIN_GROUP, 10)
    client.request(*asked)
    await until(lambda: bool(broker.services.unsent._waiting))
    connection.answer(first, [])
    assert await client.frame()


async def test_answers_that_wait_are_bounded_for_their_user_too(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 connections, each with 1 MiB of small answers behind a Fetch that waited, took 530 MB (found by an attack)."""
    monkeypatch.setattr("minikafka.server.unsent.UNSENT_BYTES_MAX", 100_000)
    monkeypatch.setattr("minikafka.server.unsent.KEPT_BYTES_FULL_MAX", 10_000)
    client = await Stranger.at(cluster.brokers[1])
    await client.ask(ApiKey.METADATA, 9, {"topics": []})
    (connection,) = connections(cluster.brokers[1])
    first = connection.begin(ApiKey.FETCH, 10)
    for number in range(20):
        client.request(ApiKey.DESCRIBE_GROUPS, 5, {"groups": [f"{number:030000}"]})
    await until(lambda: "kept" in connection._held)
    assert connection.unsent._kept < 200_000
    connection.answer(first, [])
    for _ in range(20):
        assert await client.frame()
    assert not cluster.brokers[1].services.unsent._bytes


async def test_an_answer_to_who_has_gone_is_counted_for_nobody(cluster: Cluster) -> None:
    """Each acks=all whose client did not wait for its answer was counted for the user for ever (found by an attack)."""
    broker = cluster.brokers[1]
    client = await Stranger.at(broker)
    await client.ask(ApiKey.METADATA, 9, {"topics": []})
    (connection,) = connections(broker)
    slot = connection.begin(ApiKey.PRODUCE, 10)
    client.close()
    await until(lambda: not connections(broker))
    connection.answer(slot, [b"late"])
    assert not broker.services.unsent._bytes


async def test_who_asks_for_much_in_few_bytes_waits_for_a_turn(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer before says so: of 200 connections each had 3,000 offsets in one round of the event loop."""
    monkeypatch.setattr("minikafka.server.answering.MANY_ROWS", 5)
    broker = cluster.brokers[1]
    first = AsyncMock(side_effect=broker.services.turn_queue.first)
    monkeypatch.setattr(broker.services.turn_queue, "first", first)
    for asked, turns in ((1, 0), (6, 0), (1, 1), (1, 2)):
        client = await Stranger.at(broker)
        await client.ask(ApiKey.DESCRIBE_GROUPS, 5, {"groups": [f"g{number}" for number in range(asked)]})
        await client.ask(ApiKey.METADATA, 9, {"topics": []})
        assert first.await_count == turns
    broker.services.has_much(connections(broker)[0].asked_by, ApiKey.METADATA)
    await client.ask(ApiKey.METADATA, 9, {"topics": []})
    assert first.await_count == 4, "before it is handled, and after it has waited for leaders"
    monkeypatch.setattr("minikafka.server.services.MUCH_MAX", 2)
    for user in "abc":
        broker.services.has_much(user, 1)
    assert [broker.services.had_much(user, 1) for user in "abc"] == [False, True, True]


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.FETCH])
async def test_answers_behind_one_that_is_not_there_are_bounded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, key: ApiKey
) -> None:
    """4,000 requests in 1.2 MB behind a Fetch that waited had 276 MB of answers, kept also after the client had gone."""
    monkeypatch.setattr("minikafka.server.unsent.KEPT_BYTES_MAX", 20_000)
    broker = cluster.brokers[1]
    client, other, most = await Stranger.at(broker), await Stranger.at(broker), 0
    await other.ask(ApiKey.METADATA, 9, {"topics": []})
    connection = min(connections(broker), key=lambda each: each.last_active)
    first = connection.begin(ApiKey.JOIN_GROUP, 10)
    for _ in range(100):
        if key is ApiKey.FETCH:
            client.request(key, 11, fetch(absent=100))
        else:
            client.request(key, 9, {"topics": [{"name": f"absent-{index}"} for index in range(100)]})
    await until(lambda: "kept" in connection._held)
    for _ in range(20):
        await other.ask(ApiKey.METADATA, 9, {"topics": []})
        most = max(most, connection.unsent._kept)
    assert 20_000 < most < 40_000
    connection.answer(first, [])
    for _ in range(100):
        assert await client.frame()
    assert connection.unsent._kept == 0


async def test_a_request_for_which_the_kept_answers_wait_is_worked_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minikafka.server.unsent.KEPT_BYTES_MAX", 20_000)
    may_go_on = stall(cluster.brokers[1])
    client = await Stranger.at(cluster.brokers[1])
    client.request(ApiKey.LIST_GROUPS, 0, {})
    client.request(ApiKey.DESCRIBE_GROUPS, 5, {"groups": []})  # which waits for the one before
    for _ in range(100):
        client.request(ApiKey.FETCH, 11, fetch(absent=100))
    await until(lambda: any("kept" in each._held for each in connections(cluster.brokers[1])))
    may_go_on.set()
    for _ in range(102):
        assert await client.frame()


async def test_a_client_that_has_gone_is_let_go_though_its_fetch_waits(tmp_path: Path) -> None:
    """Nothing more is read while too many requests are unanswered, so its end is not seen; it kept its place for 24 days."""
    async with running(tmp_path, 1, connections_max_idle_ms="100", auto_create_topics_enable="true") as cluster:
        await cluster.create("t")
        broker = cluster.brokers[1]
        client = await Stranger.at(broker)
        client.request(ApiKey.FETCH, 11, fetch())
        for _ in range(PIPELINE_MAX):
            client.request(ApiKey.API_VERSIONS, 0, {})
        await until(lambda: any(each._mute for each in connections(broker)))
        client.close()
        await until(lambda: not connections(broker))


@pytest.mark.parametrize("sizes", [(1, 2, 20), (20,)], ids=["large ones at last", "a large one"])
async def test_who_waits_keeps_no_room_that_others_need(cluster: Cluster, sizes: tuple[int, ...]) -> None:
    """A JoinGroup waited for another member, and behind it requests took all of queued.max.request.bytes, for half an hour."""
    broker, may_go_on = cluster.brokers[1], stall(cluster.brokers[1])
    client = await Stranger.at(broker)
    client.request(ApiKey.LIST_GROUPS, 0, {})
    for size in sizes:  # the largest one needs a buffer of its own
        client.request(ApiKey.METADATA, 9, {"topics": [{"name": f"{index:0>40000}"} for index in range(size)]})
    (connection,) = await until(lambda: [each for each in connections(broker) if "behind" in each._held])
    assert connection.memory is not None
    for _ in range(20):
        assert await (await Stranger.at(broker)).is_served()
    assert connection.memory.used < 1 << 16
    may_go_on.set()
    for _ in range(1 + len(sizes)):
        assert await client.frame()


@pytest.mark.parametrize("is_blocked", [True, False])
def test_who_takes_an_answer_is_not_idle(is_blocked: bool) -> None:
    """However long that takes: how fast it is taken has a limit of its own."""
    of = context(connections_max_idle_ms="1000")
    connection, closed = Mock(), Mock()
    connection.configure_mock(
        services=SimpleNamespace(context=of), is_blocked=is_blocked, last_active=-1e9, heartbeats_of=None, close=closed
    )
    Deadlines(connection).begin(Mock())
    assert closed.called != is_blocked
