"""What a follower asks its leader for, byte by byte as the leader receives it (R6, R13, KIP-595)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode

from tests.interop.raw_client import record_batch
from tests.unit.wire.client import LEADER, produced
from tests.unit.wire.peer import Asked, next_of
from tests.unit.wire.stage import TOPIC_ID, Stage

LED = PartitionState((1, 2), (1, 2), 1, leader_epoch=3, partition_epoch=5)
FOLLOWED = replace(LED, leader=2, leader_epoch=4, partition_epoch=6)


async def asked(stage: Stage) -> tuple[Asked, dict[str, Any]]:
    """The next Fetch of broker 1, and what it says of its replica."""
    fetch = await next_of(stage.peer.fetches)
    part = fetch.request.topics[0].partitions[0]
    names = ("current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset")
    return fetch, {name: getattr(part, name) for name in names}


def answer(fetch: Asked, **row: Any) -> None:
    """Answer a Fetch for its only partition."""
    known = {"partition_index": 0, "high_watermark": 0, "log_start_offset": 0, "records": b""}
    fetch.answer.set_result({"responses": [{"topic_id": TOPIC_ID, "partitions": [{**known, **row}]}]})


def batch(value: bytes, offset: int, epoch: int) -> bytes:
    """A batch as it lies in the leader's log: with its offset and the epoch it was written in."""
    records = bytearray(record_batch([value], base_offset=offset))
    records[12:16] = epoch.to_bytes(4, "big")
    return bytes(records)


async def follow_with_three_records(stage: Stage) -> None:
    """Broker 1 led in epoch 3 and has three records of that term; broker 2 leads in epoch 4."""
    await stage.start()
    await stage.partition(LED)
    client = await stage.client()
    for offset, value in enumerate((b"a", b"b", b"c")):
        assert await produced(client.produce(value, acks=LEADER)) == (ErrorCode.NONE, offset)
    await stage.partition(FOLLOWED)


async def test_every_new_term_begins_with_the_epoch_of_the_last_record(stage: Stage) -> None:
    """KIP-595, KIP-320: with it, and only with it, the leader sees where the logs part; also on following it again."""
    await follow_with_three_records(stage)
    fetch, position = await asked(stage)
    expected = {"current_leader_epoch": 4, "fetch_offset": 3, "last_fetched_epoch": 3, "log_start_offset": 0}
    assert position == expected
    assert fetch.request.replica_state.replica_id == 1
    assert fetch.request.replica_state.replica_epoch == stage.broker.broker_epoch
    answer(fetch)
    fetch, position = await asked(stage)
    assert position == expected, "an empty answer changes nothing of it (KAFKA-15510)"
    await stage.partition(replace(FOLLOWED, leader_epoch=5, partition_epoch=7))
    answer(fetch, error_code=ErrorCode.FENCED_LEADER_EPOCH)
    _, position = await asked(stage)
    assert position == {**expected, "current_leader_epoch": 5}


async def test_an_answer_of_the_term_before_is_thrown_away(stage: Stage) -> None:
    """Kip320.tla: it was right when it was sent. Since then the leader may have cut what is in it."""
    await follow_with_three_records(stage)
    late, _ = await asked(stage)
    await stage.partition(replace(FOLLOWED, leader_epoch=5, partition_epoch=7))
    answer(late, records=batch(b"x", 3, 4), high_watermark=4)
    fetch, position = await asked(stage)
    assert (position["current_leader_epoch"], position["fetch_offset"]) == (5, 3)
    answer(fetch)
    _, position = await asked(stage)
    assert position["fetch_offset"] == 3
    assert stage.broker.replicas.get("t", 0).high_watermark == 0


async def test_where_the_logs_part_it_cuts(stage: Stage) -> None:
    """R13: the leader has one record of epoch 3; the next fetch stands there, and what comes then is taken."""
    await follow_with_three_records(stage)
    fetch, _ = await asked(stage)
    answer(fetch, diverging_epoch={"epoch": 3, "end_offset": 1})
    fetch, position = await asked(stage)
    assert (position["fetch_offset"], position["last_fetched_epoch"]) == (1, 3)
    answer(fetch, records=batch(b"x", 1, 4), high_watermark=2)
    _, position = await asked(stage)
    assert (position["fetch_offset"], position["last_fetched_epoch"]) == (2, 4)
    partition = stage.broker.replicas.get("t", 0)
    assert partition.high_watermark == 2
    assert partition.log.epochs.entries == [(3, 0), (4, 1)]


async def test_a_follower_serves_no_client(stage: Stage) -> None:
    """R2: neither records nor offsets."""
    await follow_with_three_records(stage)
    client = await stage.client()
    assert (await stage.sees(client, 0)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await client.list_offset(-1))[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await produced(client.produce(b"d")))[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_the_high_watermark_is_the_leaders_not_the_own_end(stage: Stage) -> None:
    """R6: HW = min(LEO, leader's HW); it is what this broker shows when it leads next."""
    await follow_with_three_records(stage)
    fetch, _ = await asked(stage)
    answer(fetch, high_watermark=1)
    fetch, _ = await asked(stage)
    assert stage.broker.replicas.get("t", 0).high_watermark == 1
    await stage.partition(replace(LED, leader_epoch=5, partition_epoch=7))
    client = await stage.client()
    assert (await stage.sees(client, 0))[:3] == (ErrorCode.NONE, 1, 1)
