"""With the only follower paused, no client learns of anything above the high watermark (R3)."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from minikafka.metadata.image import PartitionState
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode

from tests.unit.wire.client import LATEST, LEADER, MAX_TIMESTAMP, Client, fetched, produced
from tests.unit.wire.stage import TOPIC_ID, Stage

LED = PartitionState((1, 2), (1, 2), 1, leader_epoch=3, partition_epoch=5)


async def paused(stage: Stage) -> tuple[Client, Client]:
    """Two records are committed, two more are not, for the follower does not come for them: (client, follower)."""
    await stage.start()
    await stage.partition(LED)
    client, follower = await stage.client(), await stage.follower()
    assert await produced(client.produce(b"a", b"b", acks=LEADER)) == (ErrorCode.NONE, 0)
    await stage.has(follower, 2)
    assert await produced(client.produce(b"c", acks=LEADER)) == (ErrorCode.NONE, 2)
    assert await produced(client.produce(b"d", acks=LEADER)) == (ErrorCode.NONE, 3)
    return client, follower


async def test_a_consumer_gets_nothing_above_the_high_watermark(stage: Stage) -> None:
    """R3: not by reading on, not by asking for a place above it, not by waiting there."""
    consumer, follower = await paused(stage)
    for offset, end in ((0, 2), (2, -1), (3, -1), (4, -1)):
        found = await stage.sees(consumer, offset)
        assert found[:3] == (ErrorCode.NONE, 2, end), f"at offset {offset}"
    waiting = consumer.fetch(TOPIC_ID, 2, wait=True)
    other = await stage.client()
    assert await produced(other.produce(b"e", acks=LEADER)) == (ErrorCode.NONE, 4)
    await stage.still_waits(waiting)
    await stage.has(follower, 3)
    assert (await fetched(waiting))[:3] == (ErrorCode.NONE, 3, 3), "one record more is committed"


async def test_a_fetch_that_waits_does_not_hold_back_the_next_one(stage: Stage) -> None:
    """Answers come in order. A follower that waits for nothing else to come asks on as soon as its flush is done."""
    consumer, _ = await paused(stage)
    waiting = consumer.fetch(TOPIC_ID, 2, wait=True)
    await stage.still_waits(waiting)
    assert (await stage.sees(consumer, 0)).end_offset == 2
    assert (await fetched(waiting)).end_offset == -1


@pytest.mark.parametrize("version", [4, 5, 11, 12, 17])
async def test_nor_by_another_version_of_the_request(stage: Stage, version: int) -> None:
    """R3: topics by name or by id, fixed or compact lengths; READ_COMMITTED's end is not above it either."""
    consumer, _ = await paused(stage)
    found = await fetched(consumer.fetch(TOPIC_ID, 0, version=version))
    assert (found.error, found.high_watermark, found.end_offset) == (ErrorCode.NONE, 2, 2)
    assert found.last_stable_offset <= 2
    assert (await fetched(consumer.fetch(TOPIC_ID, 2, version=version))).end_offset == -1


async def test_a_client_of_another_term_gets_nothing_at_all(stage: Stage) -> None:
    """KIP-320: it may be about to truncate what it thinks it has, or know a newer leader than this broker does."""
    client, _ = await paused(stage)
    for epoch, refusal in ((2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        found = await fetched(client.fetch(TOPIC_ID, 0, leader_epoch=epoch))
        assert (found.error, found.high_watermark, found.end_offset) == (refusal, -1, -1)
        assert await client.list_offset(LATEST, leader_epoch=epoch) == (refusal, -1)
        assert await end_of_epoch(client, 3, epoch) == (refusal, -1, -1)
    assert await end_of_epoch(client, 3, 3) == (ErrorCode.NONE, 3, 4), "the log end, as Kafka tells it"


async def end_of_epoch(client: Client, epoch: int, leader_epoch: int) -> tuple[ErrorCode, int, int]:
    """(error, epoch, end offset) of OffsetForLeaderEpoch."""
    partition = {"partition": 0, "current_leader_epoch": leader_epoch, "leader_epoch": epoch}
    topics = [{"topic": "t", "partitions": [partition]}]
    answer = await client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, {"replica_id": -2, "topics": topics})
    row = answer.topics[0].partitions[0]
    return ErrorCode(int(row.error_code)), row.leader_epoch, row.end_offset


async def test_a_follower_gets_all_there_is(stage: Stage) -> None:
    """R2: how else would it ever be committed."""
    _, follower = await paused(stage)
    assert (await stage.has(follower, 2, leader_epoch=3, last_epoch=3))[:3] == (ErrorCode.NONE, 2, 4)


@pytest.mark.parametrize("replica", [3, 9, -2])
async def test_who_is_no_replica_gets_no_more_than_a_consumer(stage: Stage, replica: int) -> None:
    """R2, R5: it is the assignment that makes a follower, not what a request says of itself."""
    _, follower = await paused(stage)
    found = await stage.has(follower, 2, stage.peer.me._replace(replica=replica))
    assert found.end_offset == -1


@pytest.mark.slow
async def test_list_offsets_tells_nothing_above_it(stage: Stage) -> None:
    """R3: the end is the high watermark, and no record above it is found by its time."""
    started_ms = int(time.time() * 1000) - 1
    consumer, follower = await paused(stage)
    assert await consumer.list_offset(LATEST) == (ErrorCode.NONE, 2)
    assert await follower.list_offset(LATEST, stage.peer.me) == (ErrorCode.NONE, 4), "a replica may know (KAFKA-7414)"
    await stage.has(follower, 4)
    assert await consumer.list_offset(LATEST) == (ErrorCode.NONE, 4)
    assert (await consumer.list_offset(started_ms))[1] == 0


async def test_list_offsets_finds_no_record_above_it_by_time(stage: Stage) -> None:
    """R3, KIP-734: by time and by the largest time."""
    await stage.start()
    await stage.partition(LED)
    client, follower = await stage.client(), await stage.follower()
    await stage.has(follower, 0)
    assert await produced(client.produce(b"a", acks=LEADER)) == (ErrorCode.NONE, 0)
    assert await client.list_offset(0) == (ErrorCode.NONE, -1)
    assert await client.list_offset(MAX_TIMESTAMP) == (ErrorCode.NONE, -1)
    await stage.has(follower, 1)
    assert await client.list_offset(0) == (ErrorCode.NONE, 0)
    assert await client.list_offset(MAX_TIMESTAMP) == (ErrorCode.NONE, 0)


async def test_records_above_it_cannot_be_deleted(stage: Stage) -> None:
    """R3: the log start never passes the high watermark."""
    client, _ = await paused(stage)

    async def delete(offset: int) -> tuple[int, int]:
        partition = {"partition_index": 0, "offset": offset}
        answer = await client.ask(
            ApiKey.DELETE_RECORDS, {"topics": [{"name": "t", "partitions": [partition]}], "timeout": 0}
        )
        row = answer.topics[0].partitions[0]
        return int(row.error_code), row.low_watermark

    assert await delete(3) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert await delete(-1) == (ErrorCode.NONE, 2)


async def test_a_new_leader_does_not_show_its_end_either(stage: Stage) -> None:
    """R3: taken over with two records it does not know to be committed; ListOffsets answers OFFSET_NOT_AVAILABLE until then."""
    consumer, follower = await paused(stage)
    await stage.partition(replace(LED, leader_epoch=5, partition_epoch=7))
    assert (await stage.sees(consumer, 0))[:3] == (ErrorCode.NONE, 2, 2)
    assert (await stage.sees(consumer, 2)).end_offset == -1
    assert (await consumer.list_offset(LATEST))[0] is ErrorCode.OFFSET_NOT_AVAILABLE
    await stage.has(follower, 4, leader_epoch=5, last_epoch=3)
    assert await consumer.list_offset(LATEST) == (ErrorCode.NONE, 4)


async def test_the_high_watermark_after_a_restart(stage: Stage) -> None:
    """R3, R11: what the checkpoint holds is the high watermark; were it the log end, uncommitted records would be shown."""
    await paused(stage)
    await stage.stop()
    broker = await stage.start()
    consumer = await stage.client()
    await stage.until(lambda: broker.replicas.get("t", 0) is not None)
    assert (await stage.sees(consumer, 0))[:3] == (ErrorCode.NONE, 2, 2)
    assert (await stage.sees(consumer, 2)).end_offset == -1
    assert broker.replicas.get("t", 0).log.log_end_offset == 4
