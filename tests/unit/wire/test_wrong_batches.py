"""Batches that a client must not send, over the wire: the request's error, and what it says of single records."""

from __future__ import annotations

import time
from typing import Any

from minikafka.metadata.image import PartitionState
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import MAGIC_POSITION, TRANSACTIONAL_FLAG, Codec, Record, build_batch

from tests.interop.raw_client import ProducerState, record_batch
from tests.unit.wire.client import ALL, CONSUMER, Client, answered
from tests.unit.wire.stage import TOPIC_ID, Stage

NOW_MS = int(time.time() * 1000)
ALONE = PartitionState((1,), (1,), 1, leader_epoch=3, partition_epoch=5)


async def sent(client: Client, *batches: bytes, version: int = 9) -> list[Any]:
    """The answer for each partition of a Produce; every batch goes to partition 0."""
    rows = [{"index": 0, "records": batch} for batch in batches]
    values = {"acks": ALL, "timeout": 1000, "topic_data": [{"name": "t", "partition_data": rows}]}
    return list((await client.ask(ApiKey.PRODUCE, values, version)).responses[0].partition_responses)


async def test_a_transactional_batch_without_a_transactional_id(stage: Stage) -> None:
    """27 A3: Kafka refuses the whole request, before anything of it is written."""
    await stage.start()
    await stage.partition(ALONE)
    client = await stage.client()
    transactional = record_batch([b"x"], attributes=TRANSACTIONAL_FLAG, producer=ProducerState(77, 0, 0))
    for row in await sent(client, record_batch([b"a"]), transactional):
        assert row.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    (row,) = await sent(client, record_batch([b"a"]))
    assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 0)


async def test_what_is_no_batch_has_no_attributes(stage: Stage) -> None:
    """Where a batch has its attributes, other bytes have other things."""
    await stage.start()
    await stage.partition(ALONE)
    client = await stage.client()
    for bits in (TRANSACTIONAL_FLAG, Codec.ZSTD):
        for magic, error in ((1, ErrorCode.INVALID_RECORD), (90, ErrorCode.CORRUPT_MESSAGE)):
            batch = bytearray(record_batch([b"x"], attributes=bits))
            batch[MAGIC_POSITION] = magic
            (row,) = await sent(client, bytes(batch), version=6)
            assert row.error_code == error


async def test_zstd_before_the_version_that_has_it(stage: Stage) -> None:
    """KIP-110."""
    await stage.start()
    await stage.partition(ALONE)
    client = await stage.client()
    batch = bytes(build_batch([Record(0, NOW_MS, b"k", b"v")], codec=Codec.ZSTD))
    (row,) = await sent(client, batch, version=6)
    assert row.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    (row,) = await sent(client, batch, version=7)
    assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 0)


async def test_the_records_at_fault_are_named(stage: Stage) -> None:
    """KIP-467."""
    await stage.start()
    await stage.partition(ALONE)
    client = await stage.client()
    far = NOW_MS + 10**9
    records = [Record(0, far, b"k", b"v"), Record(1, NOW_MS, b"k", b"v"), Record(2, far, b"k", b"v")]
    (row,) = await sent(client, bytes(build_batch(records)))
    assert row.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in row.record_errors] == [0, 2]


async def test_the_log_start_is_told_where_the_log_was_looked_at(stage: Stage) -> None:
    """27, Shows: with what the records are refused for, and not with what the request is."""
    await stage.start()
    await stage.partition(ALONE)
    client = await stage.client()
    good = record_batch([b"a"])
    for batch, error, log_start in (
        (record_batch([b"a"], base_offset=7), ErrorCode.INVALID_RECORD, 0),
        (record_batch([b"a"], timestamp_ms=NOW_MS + 10**9), ErrorCode.INVALID_TIMESTAMP, 0),
        (good + good, ErrorCode.INVALID_RECORD, -1),
        (good[:-1] + b"x", ErrorCode.CORRUPT_MESSAGE, -1),
    ):
        (row,) = await sent(client, batch)
        assert (row.error_code, row.log_start_offset) == (error, log_start)


async def test_a_broker_without_the_partition_names_its_leader(stage: Stage) -> None:
    """KIP-951."""
    await stage.start()
    await stage.partition(PartitionState((2,), (2,), 2, leader_epoch=4, partition_epoch=6))
    client = await stage.client()
    (row,) = await sent(client, record_batch([b"a"]), version=12)
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    read = (await answered(client.fetch(TOPIC_ID, 0, CONSUMER))).responses[0].partitions[0]
    assert read.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    for leader in (row.current_leader, read.current_leader):
        assert (leader.leader_id, leader.leader_epoch) == (2, 4)
