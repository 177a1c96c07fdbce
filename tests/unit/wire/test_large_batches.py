"""Large compressed batches over the wire: a thread walks over them, the connection keeps its order, and others are served."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from minikafka.log import timestamps
from minikafka.log.log import Log
from minikafka.log.record_validation import walk_ahead
from minikafka.log.timestamps import LargeBatch, Search
from minikafka.metadata.image import PartitionState, TopicState
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.compression import LZ4_FRAME_HEADER, XERIAL_MAGIC
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.record_walk import record_heads
from minikafka.protocol.records import HEADER_BYTES, BatchHeader, Codec, Record, build_batch
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.offsets import FoundOffset
from minikafka.server.api import list_offsets, produce
from minikafka.server.walkers import Walkers
from minikafka.transport.framing import IN_USE

from tests.interop.raw_client import seal_batch
from tests.unit.wire.client import ALL, LATEST, MAX_TIMESTAMP, Client, answered, fetched
from tests.unit.wire.peer import TOPIC_ID
from tests.unit.wire.stage import Stage

NOW_MS = int(time.time() * 1000)
ALONE = PartitionState((1,), (1,), 1, leader_epoch=3, partition_epoch=5)
SIZE = 2 * produce.WALKED_BYTES_MAX
NOISE = os.urandom(SIZE)
LARGE = bytes(build_batch([Record(0, NOW_MS, b"k", NOISE)], codec=Codec.LZ4))
BOMBS = [bytes(build_batch([Record(0, NOW_MS, b"k", bytes(SIZE))], codec=codec)) for codec in Codec if codec]
XERIAL = seal_batch(XERIAL_MAGIC + bytes(8) + 1000 * b"\0\0\0\1\0", 1, NOW_MS, attributes=Codec.SNAPPY)
"""A thousand blocks that hold nothing."""
STORED = seal_batch(LZ4_FRAME_HEADER + 1000 * b"\1\0\0\x80\0" + bytes(4), 1, NOW_MS, attributes=Codec.LZ4)
"""A thousand blocks that hold a byte each: 250 KiB of them took 16 ms of the event loop."""
GARBAGE = seal_batch(NOISE, 1, NOW_MS, attributes=Codec.LZ4)


class Walks:
    """The threads that walk over batches, which may be made to wait."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def __call__(self, view: memoryview, config: Any, now_ms: int, bytes_max: int | None = None) -> Any:
        if bytes_max is None:
            self.sizes.append(len(view))
            assert self.may_go_on.wait(60)
        return walk_ahead(view, config, now_ms, bytes_max)


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Walks]:
    walks = Walks()
    monkeypatch.setattr(produce, "walk_ahead", walks)
    yield walks
    walks.may_go_on.set()


def send(client: Client, *batches: bytes, acks: int = ALL) -> Any:
    rows = [{"index": 0, "records": batch} for batch in batches]
    values = {"acks": acks, "timeout": 60_000, "topic_data": [{"name": "t", "partition_data": rows}]}
    return client.send(ApiKey.PRODUCE, values)


async def results(answer: Any) -> list[tuple[int, int]]:
    """(error, base offset) of each batch."""
    rows = (await answered(answer)).responses[0].partition_responses
    return [(int(row.error_code), row.base_offset) for row in rows]


def logged(stage: Stage) -> Log:
    partition = stage.broker.replicas.get("t", 0)
    assert partition is not None
    return partition.log


async def test_others_are_served_and_a_connection_keeps_its_order(stage: Stage, walks: Walks) -> None:
    await stage.start()
    await stage.partition(ALONE)
    client, other = await stage.client(), await stage.client()
    walks.may_go_on.clear()
    large, small = send(client, LARGE), client.produce(b"behind it")
    await stage.until(lambda: bool(walks.sizes))
    assert await results(other.produce(b"of another client")) == [(0, 0)]
    assert not large.done() and not small.done()
    walks.may_go_on.set()
    assert (await results(large), await results(small)) == ([(0, 1)], [(0, 2)])
    assert await results(send(client, LARGE)) == [(0, 3)], "the connection goes on"


async def test_each_batch_of_a_request_is_walked_for_itself(stage: Stage, walks: Walks) -> None:
    """Two for one partition; what is known of the good one says nothing of the other."""
    await stage.start()
    await stage.partition(ALONE)
    client = await stage.client()
    refused = (int(ErrorCode.INVALID_RECORD), -1)
    assert await results(send(client, LARGE, GARBAGE, LARGE)) == [(0, 0), refused, (0, 1)]
    assert walks.sizes == [len(LARGE), len(GARBAGE), len(LARGE)]
    assert await results(send(client, GARBAGE, LARGE)) == [refused, (0, 2)]
    damaged = bytearray(LARGE)
    damaged[HEADER_BYTES + 1000] ^= 1
    assert await results(send(client, bytes(damaged))) == [(int(ErrorCode.CORRUPT_MESSAGE), -1)]


async def test_what_is_small_or_not_compressed_is_not_handed_to_a_thread(stage: Stage, walks: Walks) -> None:
    await stage.start()
    await stage.partition(ALONE)
    client = await stage.client()
    assert await results(client.produce(NOISE)) == [(0, 0)]
    assert await results(send(client, bytes(build_batch([Record(0, NOW_MS, b"k", b"v")], codec=Codec.LZ4)))) == [(0, 1)]
    assert walks.sizes == []


@pytest.mark.slow
async def test_what_holds_much_is_handed_to_a_thread_however_small_it_is(stage: Stage, walks: Walks) -> None:
    """Only decompressing it tells: no more than a bounded part is decompressed on the event loop."""
    await stage.start()
    await stage.partition(ALONE)
    client = await stage.client()
    for number, bomb in enumerate(BOMBS):
        assert len(bomb) < SIZE // 8
        assert await results(send(client, bomb)) == [(0, number)]
    for blocks in (XERIAL, STORED):
        assert await results(send(client, blocks)) == [(int(ErrorCode.INVALID_RECORD), -1)]
    small = bytes(build_batch([Record(0, NOW_MS, b"k", bytes(produce.WALKED_BYTES_MAX // 2))], codec=Codec.ZSTD))
    assert await results(send(client, small)) == [(0, len(BOMBS))]
    assert walks.sizes == [len(batch) for batch in (*BOMBS, XERIAL, STORED)]
    assert await results(send(client, small, small, small)) == [(0, len(BOMBS) + 1 + number) for number in range(3)]
    assert walks.sizes[-3:] == [len(small)] * 3, "what a request holds in all is bounded"


async def test_a_producer_that_waits_for_no_answer_may_leave(stage: Stage, walks: Walks) -> None:
    """acks=0, and the connection is closed at once: what the broker has read is appended, as Kafka appends it."""
    await stage.start()
    await stage.partition(ALONE)
    log = logged(stage)
    client, other = await stage.client(), await stage.client()
    walks.may_go_on.clear()
    send(client, LARGE, acks=0)
    await stage.until(lambda: bool(walks.sizes))
    await client.close()
    await results(other.produce(b"so that the end of the connection has been seen"))
    walks.may_go_on.set()
    await stage.until(lambda: log.log_end_offset == 2)


async def test_who_waits_for_data_is_told_of_what_came_of_a_client_that_has_left(stage: Stage, walks: Walks) -> None:
    """The follower of a quiet topic would have waited for its next fetch."""
    await stage.start()
    await stage.partition(ALONE)
    client, consumer = await stage.client(), await stage.client()
    walks.may_go_on.clear()
    send(client, LARGE, acks=0)
    await stage.until(lambda: bool(walks.sizes))
    found = consumer.fetch(TOPIC_ID, 0, wait=True)
    await stage.still_waits(found)
    connection = next(iter(stage.broker.connections._open))
    connection.close()  # as when an earlier answer cannot be sent: nothing is read of it, so only then its end is seen
    await stage.until(lambda: connection not in stage.broker.connections)
    walks.may_go_on.set()
    assert (await fetched(found)).end_offset == 1


async def test_what_follows_a_batch_is_judged_alike_whatever_the_batch_holds(stage: Stage, walks: Walks) -> None:
    """Kafka ignores what cannot be another batch."""
    await stage.start()
    await stage.partition(ALONE)
    client = await stage.client()
    small = bytes(build_batch([Record(0, NOW_MS, b"k", b"v")], codec=Codec.LZ4))
    assert await results(send(client, small + b"junk")) == [(0, 0)]
    assert await results(send(client, LARGE + b"junk")) == [(0, 1)]
    twice = [(int(ErrorCode.INVALID_RECORD), -1)]
    assert await results(send(client, small + small)) == await results(send(client, LARGE + LARGE)) == twice


async def test_the_wrong_records_of_a_large_batch_are_named_in_the_thread(
    stage: Stage, walks: Walks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To name one record without a key, 64 MiB were decompressed once more, on the event loop."""
    on_loop = threading.get_ident()

    def named(*args: Any) -> Iterator[tuple[int, bool]]:
        assert threading.get_ident() != on_loop
        return record_heads(*args)

    monkeypatch.setattr("minikafka.log.record_validation.record_heads", named)
    await stage.start()
    await stage.partition(ALONE)
    client = await stage.client()
    late = bytes(build_batch([Record(0, NOW_MS + 10**9, b"k", NOISE)], codec=Codec.LZ4))
    (row,) = (await answered(send(client, late))).responses[0].partition_responses
    assert row.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in row.record_errors] == [0]


async def test_a_broker_that_ends_meanwhile_appends_nothing(
    stage: Stage, walks: Walks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of its logs are closed, and their numbers may be another's by then. Nor does it look at more batches."""
    monkeypatch.setattr(produce, "WALKERS", walkers := Walkers(1))
    await stage.start()
    await stage.partition(ALONE)
    log = logged(stage)
    client = await stage.client()
    walks.may_go_on.clear()
    send(client, LARGE, LARGE)
    await stage.until(lambda: bool(walks.sizes))
    await stage.broker.abort()
    walks.may_go_on.set()
    await asyncio.wrap_future(walkers.submit("after it", lambda: None))
    for _ in range(3):
        await asyncio.sleep(0)
    assert (log.log_end_offset, log.failure) == (0, None)
    assert len(walks.sizes) == 1


async def test_nothing_more_is_looked_at_for_a_client_that_has_gone(stage: Stage, walks: Walks) -> None:
    """Four requests of 100 batches, whose client had hung up, kept all others' waiting for 95 s."""
    await stage.start()
    await stage.partition(ALONE)
    log = logged(stage)
    client, other = await stage.client(), await stage.client()
    walks.may_go_on.clear()
    send(client, LARGE, LARGE)
    client.produce(b"behind it")
    await stage.until(lambda: bool(walks.sizes))
    connection = next(each for each in stage.broker.connections._open if IN_USE in each._held)
    await client.close()
    await stage.until(lambda: connection.has_hung_up)
    walks.may_go_on.set()
    await stage.until(lambda: connection not in stage.broker.connections)
    assert len(walks.sizes) == 1
    assert await results(send(other, LARGE)) == [(0, 0)]
    assert log.log_end_offset == 1, "what came behind it is not written without it"


async def test_others_have_their_turns_between_the_batches_of_a_request(
    stage: Stage, walks: Walks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "WALKERS", Walkers(1))
    monkeypatch.setattr("minikafka.transport.turn.TURN_SECONDS_MAX", -1.0)
    await stage.start()
    await stage.partition(ALONE)
    client, other = await stage.client(), await stage.client()
    walks.may_go_on.clear()
    many = send(client, LARGE, LARGE, LARGE)
    await stage.until(lambda: bool(walks.sizes))
    one = send(other, BOMBS[0])
    await stage.until(lambda: sum(IN_USE in each._held for each in stage.broker.connections._open) == 2)
    walks.may_go_on.set()
    await results(one)
    await results(many)
    assert walks.sizes == [len(LARGE), len(BOMBS[0]), len(LARGE), len(LARGE)]


async def test_what_is_led_here_only_meanwhile_is_not_walked_on_the_event_loop_either(
    stage: Stage, walks: Walks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic that is made while a request waits, each batch took 0.2 s of the event loop where it was appended."""
    walked: list[bool] = []
    append = Log.append_as_leader

    def append_as_leader(*args: Any, ahead: Any = None) -> Any:
        walked.append(ahead is not None)
        return append(*args, ahead=ahead)

    monkeypatch.setattr(Log, "append_as_leader", append_as_leader)
    await stage.start()
    await stage.partition(ALONE)
    client = await stage.client()
    walks.may_go_on.clear()
    rows = [{"index": index, "records": LARGE} for index in (0, 1, 1)]
    values = {"acks": ALL, "timeout": 60_000, "topic_data": [{"name": "t", "partition_data": rows}]}
    answer = client.send(ApiKey.PRODUCE, values)
    await stage.until(lambda: bool(walks.sizes))
    await stage.took(stage.peer.decide_topic(TopicState("t", TOPIC_ID, (ALONE,) * 2, {})))
    await stage.until(lambda: stage.broker.replicas.get("t", 1) is not None)
    walks.may_go_on.set()
    assert await results(answer) == [(0, 0), (0, 0), (0, 1)]
    assert walked == [True] * 3


async def test_the_time_that_threads_take_is_charged(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is most of what a bomb takes."""
    await stage.start()
    await stage.partition(ALONE)
    quotas = stage.broker.services.quotas
    walked: list[float] = []
    monkeypatch.setattr(stage.broker.metadata.image.quotas, "is_set", True)
    monkeypatch.setattr(quotas, "spent", lambda client, seconds: walked.append(seconds))
    monkeypatch.setattr("time.thread_time", iter([3.0, 8.0]).__next__)
    assert await results(send(await stage.client(), LARGE)) == [(0, 0)]
    assert walked[1] == 5.0, "after the end of the round in which it was read"


class Looks:
    """What threads look into for searches by time, which may be made to wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.may_go_on = threading.Event()
        on_loop, look = threading.get_ident(), Search.look_into
        decompressed = timestamps.decompressed_body

        def look_into(large: Search, found: LargeBatch) -> None:
            self.count += 1
            assert self.may_go_on.wait(60)
            look(large, found)

        def body(batch: memoryview, header: BatchHeader, bytes_max: int) -> Any:
            assert bytes_max <= produce.WALKED_BYTES_MAX or threading.get_ident() != on_loop
            return decompressed(batch, header, bytes_max)

        monkeypatch.setattr(Search, "look_into", look_into)
        monkeypatch.setattr(timestamps, "decompressed_body", body)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    looks = Looks(monkeypatch)
    yield looks
    looks.may_go_on.set()


@pytest.mark.parametrize("timestamp", [NOW_MS, MAX_TIMESTAMP], ids=["at a time", "largest"])
async def test_others_are_served_while_a_bomb_is_searched_by_time(stage: Stage, looks: Looks, timestamp: int) -> None:
    """A request of 43 bytes held the event loop for 0.2 s, and 60 of them at once cost a broker its session."""
    await stage.start()
    await stage.partition(ALONE)
    client, same, other = [await stage.client() for _ in range(3)]
    assert await results(send(client, BOMBS[0])) == [(0, 0)]
    found, again = [asyncio.ensure_future(each.list_offset(timestamp)) for each in (client, same)]
    await stage.until(lambda: looks.count > 0)
    assert await results(other.produce(b"of another client")) == [(0, 1)]
    await stage.still_waits(found)
    await stage.still_waits(again)
    assert looks.count == 1, "each would have a batch in memory"
    looks.may_go_on.set()
    assert await found == await again
    assert (await found)[0] == 0


async def test_a_log_that_is_cut_while_it_is_searched_is_asked_anew(stage: Stage, looks: Looks) -> None:
    await stage.start()
    await stage.partition(ALONE)
    client = await stage.client()
    assert await results(send(client, BOMBS[0], BOMBS[1])) == [(0, 0), (0, 1)]
    found = asyncio.ensure_future(client.list_offset(NOW_MS))
    await stage.until(lambda: looks.count > 0)
    logged(stage).increment_log_start_offset(1)
    looks.may_go_on.set()
    assert await found == (0, 1)
    assert looks.count == 2


async def test_others_are_served_while_offsets_of_many_partitions_are_listed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search by time may decompress a batch of each, and nobody was served before the last."""
    monkeypatch.setattr("minikafka.transport.turn.TURN_SECONDS_MAX", -1.0)
    listed = list_offsets.list_offset
    served: list[int] = []

    def searched(partition: HostedPartition, *args: Any, **more: Any) -> FoundOffset:
        index = partition.topic_partition.partition
        assert served == list(range(index)), "others have had their turn"
        asyncio.get_running_loop().call_soon(served.append, index)
        return listed(partition, *args, **more)

    monkeypatch.setattr(list_offsets, "list_offset", searched)
    await stage.start()
    await stage.took(stage.peer.decide_topic(TopicState("t", TOPIC_ID, (ALONE,) * 3, {})))
    rows = [{"partition_index": index, "current_leader_epoch": -1, "timestamp": LATEST} for index in range(3)]
    topics = [{"name": "t", "partitions": rows}]
    answer = await (await stage.client()).ask(
        ApiKey.LIST_OFFSETS, {"replica_id": -1, "isolation_level": 0, "topics": topics}
    )
    assert [row.error_code for row in answer.topics[0].partitions] == [0, 0, 0]
