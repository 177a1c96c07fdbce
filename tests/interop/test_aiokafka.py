"""aiokafka: the asyncio client; its own group coordinator and record codecs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError

from tests.forms import in_full
from tests.interop.journey import (
    CODECS,
    DEADLINE_S,
    FIRST_PART,
    PARTITIONS,
    RECORDS,
    REPLICATION_FACTOR,
    codecs_in_log,
    records_to_send,
)
from tests.waiting import until

MESSAGE_BYTES_MAX = 1_048_588


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    """Run a producer, consumer or admin client for as long as the block lasts."""
    try:
        await client.start()
        yield client
    finally:
        await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


async def create(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> None:
    async with started(AIOKafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        answer = await admin.create_topics([NewTopic(topic, partitions, REPLICATION_FACTOR)])
        assert [error[1] for error in answer.topic_errors] == [0]


def consumer_of(bootstrap: str, *topics: str, group: str | None = None, **settings: Any) -> Any:
    return started(
        AIOKafkaConsumer(
            *topics,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=45000,  # no member is put out because a machine is slow
            heartbeat_interval_ms=300,
            metadata_max_age_ms=1000,
            **settings,
        )
    )


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    """Wait for ``count`` records, no more."""
    got: list[Any] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(got) < count:
            for records in (await consumer.getmany(timeout_ms=500, max_records=count - len(got))).values():
                got.extend(records)
    return got


async def send(bootstrap: str, topic: str, values: list[bytes], partition: int = 0, **settings: Any) -> list[Any]:
    """Produce to one partition, in order; what the broker answered for each."""
    async with started(AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, **settings)) as producer:
        futures = [await producer.send(topic, value, partition=partition) for value in values]
        return await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_S)


@pytest.mark.parametrize("codec", ["zstd", *in_full(codec for codec in CODECS if codec != "zstd")])
async def test_create_produce_consume_commit_resume(bootstrap: str, topic: str, group: str, codec: str) -> None:
    await create(bootstrap, topic)
    records = records_to_send()
    compression = None if codec == "none" else codec
    settings = {"bootstrap_servers": bootstrap, "compression_type": compression, "acks": "all", "linger_ms": 20}
    async with started(AIOKafkaProducer(**settings)) as producer:
        futures = [
            await producer.send(topic, record.value, record.key, headers=[("trace", record.header)])
            for record in records
        ]
        sent = await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_S)
    assert codecs_in_log(bootstrap, topic) == {codec}

    async with consumer_of(bootstrap, topic, group=group) as first:
        before = await take(first, FIRST_PART)
        await first.commit()
    async with consumer_of(bootstrap, topic, group=group) as second:
        after = await take(second, RECORDS - len(before))
        assert await second.getmany(timeout_ms=200) == {}, "more than was sent"

    got = {record.value: record for record in before + after}
    assert len(before) + len(after) == len(got) == RECORDS
    for record, answer in zip(records, sent, strict=True):
        found = got[record.value]
        assert (found.partition, found.offset) == (answer.partition, answer.offset)
        assert found.key == record.key
        assert tuple(found.headers) == (("trace", record.header),)


async def test_rewind_by_offset_and_by_timestamp(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic)
    base_ms = int(time.time() * 1000) - 60_000
    async with started(AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")) as producer:
        for n in range(20):
            await producer.send_and_wait(topic, b"%d" % n, partition=0, timestamp_ms=base_ms + n * 100)
    partition = TopicPartition(topic, 0)
    async with consumer_of(bootstrap) as consumer:
        consumer.assign([partition])
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 20}
        consumer.seek(partition, 12)
        assert [record.offset for record in await take(consumer, 8)] == list(range(12, 20))
        found = (await consumer.offsets_for_times({partition: base_ms + 501}))[partition]
        assert (found.offset, found.timestamp) == (6, base_ms + 600)
        assert (await consumer.offsets_for_times({partition: base_ms + 10_000}))[partition] is None
        consumer.seek(partition, found.offset)
        assert (await take(consumer, 1))[0].value == b"6"
        await consumer.seek_to_beginning(partition)
        assert len(await take(consumer, 20)) == 20


async def test_large_messages_near_the_limit_and_over_it(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic)
    near = b"n" * (MESSAGE_BYTES_MAX - 200)
    assert (await send(bootstrap, topic, [near], max_request_size=3_000_000))[0].offset == 0
    with pytest.raises(MessageSizeTooLargeError):
        await send(bootstrap, topic, [b"o" * (MESSAGE_BYTES_MAX + 1)], max_request_size=3_000_000)
    async with consumer_of(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert (await take(consumer, 1))[0].value == near


@pytest.mark.parametrize("acks", [*in_full([0, 1]), "all"])
async def test_acks(bootstrap: str, topic: str, acks: int | str) -> None:
    await create(bootstrap, topic)
    values = [b"%d" % n for n in range(100)]
    answers = await send(bootstrap, topic, values, acks=acks)
    if acks != 0:
        assert [answer.offset for answer in answers] == list(range(100))
    async with consumer_of(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [record.value for record in await take(consumer, 100)] == values


async def test_an_idempotent_producer_keeps_order_without_doubles(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic)
    values = [b"%06d" % n for n in range(2000)]
    answers = await send(bootstrap, topic, values, enable_idempotence=True, max_batch_size=1000)
    assert [answer.offset for answer in answers] == list(range(2000))
    async with consumer_of(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [record.value for record in await take(consumer, 2000)] == values


async def test_two_members_share_the_partitions_and_the_rest_goes_to_who_stays(
    bootstrap: str, topic: str, group: str
) -> None:
    await create(bootstrap, topic)
    async with consumer_of(bootstrap, topic, group=group) as first:

        async def alone() -> bool:
            return len(first.assignment()) == PARTITIONS

        await until(alone, what="the only member has everything")
        async with consumer_of(bootstrap, topic, group=group) as second:

            async def shared() -> bool:
                mine, theirs = first.assignment(), second.assignment()
                return bool(mine and theirs) and not mine & theirs and len(mine | theirs) == PARTITIONS

            await until(shared, what="each member has some of the partitions")
        await until(alone, what="the one who stays has everything")


async def test_a_topic_is_made_when_it_is_first_written_to(bootstrap: str, topic: str) -> None:
    assert (await send(bootstrap, topic, [b"first"]))[0].offset == 0
    async with consumer_of(bootstrap, topic) as consumer:
        assert consumer.partitions_for_topic(topic) == set(range(PARTITIONS))


async def test_administration(bootstrap: str, topic: str, group: str) -> None:
    await create(bootstrap, topic, 1)
    async with started(AIOKafkaAdminClient(bootstrap_servers=bootstrap)) as admin:

        async def listed() -> bool:
            return topic in await admin.list_topics()

        await until(listed, what="the broker that is asked knows the topic")
        assert len((await admin.describe_cluster())["brokers"]) == 3
        await admin.create_partitions({topic: NewPartitions(2)})
        await send(bootstrap, topic, [b"one", b"two"], partition=1)
        described = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        assert "min.insync.replicas" in str(described)
        async with consumer_of(bootstrap, topic, group=group) as consumer:
            await take(consumer, 2)
            await consumer.commit()
        offsets = await admin.list_consumer_group_offsets(group)
        assert offsets[TopicPartition(topic, 1)].offset == 2
        await admin.delete_topics([topic])

        async def gone() -> bool:
            return topic not in await admin.list_topics()

        await until(gone, what="the topic is gone")
