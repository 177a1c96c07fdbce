"""flush.messages over a connection: nobody is told of a record before the flush that the setting wants (R17).

Kafka's log flushes inside the append that reaches the number. Here the event loop goes on meanwhile: only what depends on that
flush waits.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import pytest
from minikafka.log.filesystem import RealFile
from minikafka.metadata.image import TOPIC, PartitionState, TopicState
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server import housekeeping

from tests.interop.raw_client import record_batch
from tests.unit.wire.client import ALL, DEADLINE, FOREVER_MS, LEADER, answered, produced
from tests.unit.wire.peer import TOPIC_ID, next_of
from tests.unit.wire.stage import Stage
from tests.unit.wire.test_following import answer, batch

ALONE = PartitionState((1,), (1,), 1, leader_epoch=3, partition_epoch=5)
LED = PartitionState((1, 2), (1, 2), 1, leader_epoch=3, partition_epoch=5)
FOLLOWED = replace(LED, leader=2, leader_epoch=4, partition_epoch=6)
EVERY_RECORD = {"flush.messages": "1"}


class Disk:
    """Flushes of partition t-0 wait for the test."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.waiting = 0

    def flushes(self) -> None:
        """From now on at once."""
        self.goes_on.set()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    found, fsync = Disk(), RealFile.fsync

    def held(self: RealFile) -> None:
        if "/t-0/" in self._path and self._path.endswith(".log"):
            found.waiting += 1
            assert found.goes_on.wait(DEADLINE)
        fsync(self)

    monkeypatch.setattr(RealFile, "fsync", held)
    for pause in ("FLUSH_CHECK_SECONDS", "FLUSH_CHECK_IDLE_SECONDS"):
        monkeypatch.setattr(housekeeping, pause, 3600.0)  # nothing is flushed by the clock
    yield found
    found.flushes()


@pytest.mark.parametrize("acks", [LEADER, ALL])
async def test_an_acknowledgement_comes_after_the_flush(stage: Stage, disk: Disk, acks: int) -> None:
    """R16, R17: also with acks=1, which promises what the leader's own log is to hold."""
    await stage.start()
    await stage.partition(ALONE, configs=EVERY_RECORD)
    waiting = (await stage.client()).produce(b"a", acks=acks)
    await stage.until(lambda: disk.waiting)
    await stage.still_waits(waiting)
    assert (await stage.sees(await stage.client(), 0)).high_watermark == 0, "nor is it shown to a reader"
    disk.flushes()
    assert await produced(waiting) == (ErrorCode.NONE, 0)
    assert stage.broker.replicas.get("t", 0).log.flushed_offset == 1


async def test_what_comes_meanwhile_shares_the_next_flush(stage: Stage, disk: Disk) -> None:
    await stage.start()
    await stage.partition(ALONE, configs=EVERY_RECORD)
    client = await stage.client()
    first = client.produce(b"a", acks=LEADER)
    await stage.until(lambda: disk.waiting)
    rest = [client.produce(b"b", acks=LEADER) for _ in range(20)]
    await stage.until(lambda: stage.broker.replicas.get("t", 0).log.log_end_offset == 21)
    await stage.still_waits(first)
    disk.flushes()
    assert [await produced(each) for each in (first, *rest)] == [(ErrorCode.NONE, n) for n in range(21)]
    assert disk.waiting == 2


async def test_another_partition_does_not_wait(stage: Stage, disk: Disk) -> None:
    """The event loop goes on: a slow disk under one partition's flush holds up nobody who asks for none."""
    await stage.start()
    await stage.took(stage.peer.decide_topic(TopicState("t", TOPIC_ID, (ALONE, ALONE), EVERY_RECORD)))
    waiting = (await stage.client()).produce(b"a")
    await stage.until(lambda: disk.waiting)
    records = [{"index": 1, "records": record_batch([b"a"])}]
    topics = [{"name": "t", "partition_data": records}]
    other = (await stage.client()).send(ApiKey.PRODUCE, {"acks": LEADER, "timeout": FOREVER_MS, "topic_data": topics})
    assert int((await answered(other)).responses[0].partition_responses[0].error_code) == 0
    assert not waiting.done()


async def test_with_two_only_the_second_waits(stage: Stage, disk: Disk) -> None:
    """Kafka's ``unflushedMessages >= flushInterval``."""
    await stage.start()
    await stage.partition(ALONE, configs={"flush.messages": "2"})
    client = await stage.client()
    assert await produced(client.produce(b"a")) == (ErrorCode.NONE, 0)
    second = client.produce(b"b")
    await stage.until(lambda: disk.waiting)
    await stage.still_waits(second)
    disk.flushes()
    assert await produced(second) == (ErrorCode.NONE, 1)


async def test_a_time_out_and_the_end_of_leadership_are_told(stage: Stage, disk: Disk) -> None:
    """R16: who waits for a flush is no worse off than who waits for followers."""
    await stage.start()
    await stage.partition(LED, configs=EVERY_RECORD)
    client = await stage.client()
    impatient, patient = client.produce(b"a", acks=LEADER, timeout_ms=1), client.produce(b"b", acks=LEADER)
    assert await produced(impatient) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    await stage.still_waits(patient)
    await stage.partition(replace(LED, leader=-1, isr=(), elr=(1,), leader_epoch=4, partition_epoch=6))
    assert await produced(patient) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_a_follower_asks_on_after_its_flush(stage: Stage, disk: Disk) -> None:
    """R5, R17: the offset of its next fetch is its acknowledgement."""
    await stage.start()
    await stage.partition(FOLLOWED, configs=EVERY_RECORD)
    fetch = await next_of(stage.peer.fetches)
    answer(fetch, records=batch(b"x", 0, 4), high_watermark=0)
    await stage.until(lambda: disk.waiting)
    asking = asyncio.ensure_future(stage.peer.fetches.get())
    await stage.still_waits(asking)
    disk.flushes()
    async with asyncio.timeout(DEADLINE):
        fetch = await asking
    assert fetch.request.topics[0].partitions[0].fetch_offset == 1
    answer(fetch)


async def test_a_partition_whose_flush_is_slow_does_not_hold_up_the_others(stage: Stage, disk: Disk) -> None:
    """It is left out of the fetches of the others, and overtakes one that is parked when its flush is done."""
    await stage.start()
    plain = TopicState("u", UUID(int=9), (FOLLOWED,), {})
    stage.peer.decide(TOPIC + "u", plain.to_json())
    await stage.took(stage.peer.decide_topic(TopicState("t", TOPIC_ID, (FOLLOWED,), EVERY_RECORD)))
    asked = await next_of(stage.peer.fetches)
    while len(asked.request.topics) < 2:
        asked.answer.set_result({"responses": []})
        asked = await next_of(stage.peer.fetches)
    answer(asked, records=batch(b"x", 0, 4), high_watermark=0)
    parked = await next_of(stage.peer.fetches)
    assert [topic.topic_id for topic in parked.request.topics] == [UUID(int=9)]
    disk.flushes()
    await stage.until(lambda: stage.broker.fetchers._fetchers[2]._loop.in_flight == 2)
    parked.answer.set_result({"responses": []})  # a leader answers it at once when another one comes
    both = await next_of(stage.peer.fetches)
    offsets = {topic.topic_id: topic.partitions[0].fetch_offset for topic in both.request.topics}
    assert offsets == {TOPIC_ID: 1, UUID(int=9): 0}
    both.answer.set_result({"responses": []})
