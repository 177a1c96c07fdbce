"""How the fetches of a follower are carried, over a connection that the test plays without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
import uvloop
from minikafka.metadata.image import BrokerState, PartitionState
from minikafka.metadata.memory import MemoryStore
from minikafka.protocol import messages, wire
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import FOLLOWER_VERSION, decode_fetch
from minikafka.replication import fetch_loop
from minikafka.replication.reporter import ReplicaReporter
from minikafka.server.fetchers import EARLIEST, LATEST, ReplicaFetcher
from minikafka.server.metadata_cache import MetadataCache

from tests.unit.replication.test_replicas import EPOCH, TOPIC_ID, Lab
from tests.unit.server.in_process import context
from tests.waiting import until

LEADER = 2
FOLLOWED = PartitionState((1, 2), (1, 2), LEADER, leader_epoch=EPOCH + 1, partition_epoch=1)
HEADER_BYTES = 14


class Connection:
    """To the leader, which holds the offsets from 5 to 9."""

    is_open = True
    timed_out = False

    def __init__(self) -> None:
        self.sent: list[dict[int, int]] = []
        """Of each fetch the offset by partition."""
        self.asked_as: set[tuple[int, int]] = set()
        """By which replica, and in which leader epoch, the range was asked for."""
        self.refusal = ErrorCode.NONE
        """The answer to that, instead of the range."""
        self._answers: list[Callable[[memoryview | None], None]] = []

    def next_correlation(self) -> int:
        return len(self.sent)

    def send_frame(self, correlation: int, frame: bytes, on_answer: Callable[[memoryview | None], None]) -> None:
        client_id_bytes = int.from_bytes(frame[HEADER_BYTES - 2 : HEADER_BYTES], "big")
        request = decode_fetch(memoryview(frame), HEADER_BYTES + client_id_bytes, FOLLOWER_VERSION)
        self.sent.append({part.partition: part.fetch_offset for _, parts in request.topics for part in parts})
        self._answers.append(on_answer)

    def refuse(self, error: ErrorCode, partition: int = 0) -> None:
        """Answer the last fetch with an error of one partition."""
        row = {
            "partition_index": partition,
            "error_code": error,
            "high_watermark": 0,
            "log_start_offset": 0,
            "records": b"",
        }
        values = {"responses": [{"topic_id": UUID(bytes=TOPIC_ID), "partitions": [row]}]}
        body = messages.encode_response(ApiKey.FETCH, FOLLOWER_VERSION, values)
        self._answers[-1](memoryview(wire.response_frame(len(self.sent) - 1, body, True))[4:])

    async def request(self, api_key: int, version: int, values: dict[str, Any]) -> Any:
        assert api_key == ApiKey.LIST_OFFSETS
        asked = values["topics"][0]["partitions"][0]
        self.asked_as.add((values["replica_id"], asked["current_leader_epoch"]))
        offset = {EARLIEST: 5, LATEST: 9}[asked["timestamp"]]
        row = SimpleNamespace(error_code=self.refusal, offset=-1 if self.refusal else offset)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[row])])

    def close(self) -> None: ...


class Scene:
    """Broker 1 follows broker 2 in partitions 0 and 1."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lab = Lab()
        self.partitions = lab.partitions
        for partition in lab.partitions:
            partition.apply_state(FOLLOWED, lab.now)
        about = context(replica_fetch_backoff_ms="1")
        self.metadata = metadata = MetadataCache(MemoryStore(), about.clock, "PLAINTEXT")
        metadata.image.brokers[LEADER] = BrokerState(LEADER, 1, "x", (("PLAINTEXT", "h", 1),), fenced=False)
        self.connection = Connection()

        async def connect(*given: Any) -> Connection:
            self.closed: Callable[[], None] = given[-1]
            return self.connection

        monkeypatch.setattr(about.channels, "connect", cast(Any, connect))
        reporter = ReplicaReporter(about, lab.replicas, lambda *_: None)
        self.fetcher = ReplicaFetcher(about, metadata, reporter, lambda: 1, lambda _: None, lambda: None, LEADER)

    async def sent(self, count: int) -> list[dict[int, int]]:
        """All fetches, once there are so many."""
        await until(lambda: len(self.connection.sent) >= count)
        return self.connection.sent


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(fetch_loop, "BACKOFF_SECONDS_FIRST", 0.001)
    return Scene(monkeypatch)


async def test_a_partition_in_a_new_term_overtakes_the_fetch_that_is_parked(scene: Scene) -> None:
    """Its leader would wait half a second for it to join the ISR again, and producers with it."""
    scene.fetcher.add(scene.partitions[0])
    assert await scene.sent(1) == [{0: 0}]
    scene.fetcher.add(scene.partitions[1])
    assert scene.connection.sent == [{0: 0}, {0: 0, 1: 0}]
    scene.fetcher.stop()


def test_a_back_off_that_is_as_good_as_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop's handle of it has no time. Who asked for it failed, and a replica was followed by nobody, for ever."""

    async def story() -> None:
        fetcher, loop = Scene(monkeypatch).fetcher, asyncio.get_running_loop()
        for seconds in (0.0001, 0.0):
            fetcher._loop.wake_at = loop.time() + seconds
            fetcher._set_timer(loop)
        fetcher.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())


async def test_a_leader_whose_connection_ends_is_suspected(scene: Scene) -> None:
    """Clients who ask where to go wait a moment for its successor."""
    scene.fetcher.add(scene.partitions[0])
    await scene.sent(1)
    assert not scene.metadata._is_suspect(LEADER)
    scene.closed()
    assert scene.metadata._is_suspect(LEADER)
    scene.fetcher.stop()


async def test_every_back_off_comes_to_an_end(scene: Scene) -> None:
    """Also the second one; with nothing else to ask the leader for, nobody but a timer looks again."""
    scene.fetcher.add(scene.partitions[0])
    for count in range(1, 4):
        await scene.sent(count)
        scene.connection.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert await scene.sent(4) == [{0: 0}] * 4
    scene.fetcher.stop()


async def test_a_short_back_off_does_not_wait_for_the_end_of_a_long_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer was set for the long one, and stayed as it was (found with planted bug s51)."""
    monkeypatch.setattr(fetch_loop, "BACKOFF_SECONDS_FIRST", 3600.0)
    scene.fetcher.add(scene.partitions[0])
    await scene.sent(1)
    scene.connection.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    monkeypatch.setattr(fetch_loop, "BACKOFF_SECONDS_FIRST", 0.001)
    scene.fetcher.add(scene.partitions[1])
    await scene.sent(2)
    scene.connection.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=1)
    assert await scene.sent(3) == [{0: 0}, {1: 0}, {1: 0}]
    scene.fetcher.stop()


async def test_a_follower_out_of_range_goes_on_where_its_leader_begins(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-7414: the leader says where its log begins and ends, and neither is taken for the other. It is asked as a replica's
    leader, or its end would be the high watermark, and in the follower's leader epoch (KIP-320).

    The answer ends the back-off, which must be long: on a slow machine the old offset is asked for again after a short one.
    """
    monkeypatch.setattr(fetch_loop, "BACKOFF_SECONDS_FIRST", 3600.0)
    scene.fetcher.add(scene.partitions[0])
    await scene.sent(1)
    scene.connection.refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert (await scene.sent(2))[1] == {0: 5}
    assert scene.connection.asked_as == {(1, FOLLOWED.leader_epoch)}
    scene.fetcher.stop()


async def test_a_range_that_is_refused_is_none(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no offset in such an answer; taken for one it would cut all that is here."""
    monkeypatch.setattr(fetch_loop, "BACKOFF_SECONDS_FIRST", 3600.0)
    partition, scene.connection.refusal = scene.partitions[0], ErrorCode.FENCED_LEADER_EPOCH
    partition.begin_anew_at(7)
    scene.fetcher.add(partition)
    await scene.sent(1)
    scene.connection.refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
    await until(lambda: bool(scene.connection.asked_as) and not scene.fetcher._tasks)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (7, 7)
    scene.fetcher.stop()
