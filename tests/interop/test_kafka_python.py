"""kafka-python 3: pure Python, its own protocol codec, idempotent producer by default."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError
from kafka.producer.future import RecordMetadata

from tests.forms import in_full
from tests.interop.journey import (
    CODECS,
    DEADLINE_S,
    FIRST_PART,
    PARTITIONS,
    RECORDS,
    REPLICATION_FACTOR,
    codecs_in_log,
    deadline,
    records_to_send,
)
from tests.waiting import until_now

MESSAGE_BYTES_MAX = 1_048_588
POLL_MS = 15_000


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as client:
        yield client


@pytest.fixture
def created(admin: KafkaAdminClient, topic: str) -> str:
    admin.create_topics([NewTopic(topic, PARTITIONS, REPLICATION_FACTOR)])
    return topic


@contextmanager
def polled(consumer: Any, bootstrap: str, topic: str) -> Iterator[None]:
    """Poll in a thread, as a program does; a record in each partition ends the last poll at once.

    In kafka-python 3.0.12 a poll whose time is up in the middle of a rebalance loses what the rebalance assigns: the answer to
    SyncGroup comes, and nobody takes it in. So no poll here is shorter than a rebalance.
    """
    over = threading.Event()

    def poll() -> None:
        while not over.is_set():
            consumer.poll(POLL_MS)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        over.set()
        for partition in range(PARTITIONS):
            send(bootstrap, topic, [b"the end"], partition)
        thread.join()


def consumer_of(bootstrap: str, *topics: str, group: str | None = None, **settings: Any) -> Any:
    return closing(
        KafkaConsumer(
            *topics,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=45000,  # no member is put out because a machine is slow
            heartbeat_interval_ms=300,
            **settings,
        )
    )


def take(consumer: KafkaConsumer, count: int, at_most: int | None = None) -> list[Any]:
    """Poll until ``count`` records came; ``at_most`` bounds what one poll hands out."""
    got: list[Any] = []
    for _ in deadline(f"{count} records"):
        for records in consumer.poll(POLL_MS, max_records=at_most or count - len(got)).values():
            got.extend(records)
        if len(got) >= count:
            break
    return got


def send(bootstrap: str, topic: str, values: list[bytes], partition: int = 0, **settings: Any) -> list[RecordMetadata]:
    """Produce to one partition, in order; what the broker answered for each."""
    with closing(KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, **settings)) as producer:
        futures = [producer.send(topic, value, partition=partition) for value in values]
        return [future.get(DEADLINE_S) for future in futures]


@pytest.mark.parametrize("codec", ["zstd", *in_full(codec for codec in CODECS if codec != "zstd")])
def test_create_produce_consume_commit_resume(bootstrap: str, created: str, group: str, codec: str) -> None:
    records = records_to_send()
    compression = None if codec == "none" else codec
    with closing(KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20)) as producer:
        futures = [
            producer.send(created, record.value, record.key, headers=[("trace", record.header)]) for record in records
        ]
        sent = [future.get(DEADLINE_S) for future in futures]
    assert codecs_in_log(bootstrap, created) == {codec}

    with consumer_of(bootstrap, created, group=group) as first:
        before = take(first, FIRST_PART)
        first.commit()
    with consumer_of(bootstrap, created, group=group) as second:
        after = take(second, RECORDS - len(before))
        assert second.poll(200) == {}, "more than was sent"
        assert sum(second.committed(TopicPartition(created, p)) or 0 for p in range(PARTITIONS)) == len(before)

    got = {record.value: record for record in before + after}
    assert len(before) + len(after) == len(got) == RECORDS
    for record, answer in zip(records, sent, strict=True):
        found = got[record.value]
        assert (found.partition, found.offset) == (answer.partition, answer.offset)
        assert found.key == record.key
        assert [tuple(header) for header in found.headers] == [("trace", record.header)]
        assert found.timestamp == answer.timestamp


def test_rewind_by_offset_and_by_timestamp(bootstrap: str, created: str) -> None:
    base_ms = int(time.time() * 1000) - 60_000
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for n in range(20):
            producer.send(created, b"%d" % n, partition=0, timestamp_ms=base_ms + n * 100).get(DEADLINE_S)
    partition = TopicPartition(created, 0)
    with consumer_of(bootstrap) as consumer:
        consumer.assign([partition])
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 20}
        consumer.seek(partition, 12)
        assert [record.offset for record in take(consumer, 8)] == list(range(12, 20))
        found = consumer.offsets_for_times({partition: base_ms + 501})[partition]
        assert (found.offset, found.timestamp) == (6, base_ms + 600)
        assert consumer.offsets_for_times({partition: base_ms + 10_000})[partition] is None
        consumer.seek(partition, found.offset)
        assert take(consumer, 1)[0].value == b"6"
        consumer.seek_to_beginning(partition)
        assert len(take(consumer, 20)) == 20
        consumer.seek_to_end(partition)
        assert consumer.position(partition) == 20


def test_large_messages_near_the_limit_and_over_it(bootstrap: str, created: str) -> None:
    near = b"n" * (MESSAGE_BYTES_MAX - 200)
    assert send(bootstrap, created, [near], max_request_size=3_000_000)[0].offset == 0
    with pytest.raises(MessageSizeTooLargeError):
        send(bootstrap, created, [b"o" * (MESSAGE_BYTES_MAX + 1)], max_request_size=3_000_000)
    with consumer_of(bootstrap) as consumer:
        consumer.assign([TopicPartition(created, 0)])
        assert take(consumer, 1)[0].value == near


@pytest.mark.parametrize("acks", [*in_full([0, 1]), "all"])
def test_acks(bootstrap: str, created: str, acks: int | str) -> None:
    values = [b"%d" % n for n in range(100)]
    answers = send(bootstrap, created, values, acks=acks, enable_idempotence=False)
    if acks != 0:
        assert [answer.offset for answer in answers] == list(range(100))
    with consumer_of(bootstrap) as consumer:
        consumer.assign([TopicPartition(created, 0)])
        assert [record.value for record in take(consumer, 100)] == values


def test_an_idempotent_producer_keeps_order_without_doubles(bootstrap: str, created: str) -> None:
    values = [b"%06d" % n for n in range(2000)]
    answers = send(bootstrap, created, values, enable_idempotence=True, batch_size=1000)
    assert [answer.offset for answer in answers] == list(range(2000))
    with consumer_of(bootstrap) as consumer:
        consumer.assign([TopicPartition(created, 0)])
        assert [record.value for record in take(consumer, 2000)] == values


def test_two_members_share_the_partitions_and_the_rest_goes_to_who_stays(
    bootstrap: str, created: str, group: str
) -> None:
    with consumer_of(bootstrap, created, group=group) as first, polled(first, bootstrap, created):
        until_now(lambda: len(first.assignment()) == PARTITIONS, what="the only member has everything")
        with consumer_of(bootstrap, created, group=group) as second, polled(second, bootstrap, created):

            def shared() -> bool:
                mine, theirs = first.assignment(), second.assignment()
                return bool(mine and theirs) and not mine & theirs and len(mine | theirs) == PARTITIONS

            until_now(shared, what="each member has some of the partitions")
        until_now(lambda: len(first.assignment()) == PARTITIONS, what="who stays has everything")


def test_a_topic_is_made_when_it_is_first_written_to(bootstrap: str, topic: str) -> None:
    assert send(bootstrap, topic, [b"first"])[0].offset == 0
    with consumer_of(bootstrap) as consumer:
        assert consumer.partitions_for_topic(topic) == set(range(PARTITIONS))


def test_administration(bootstrap: str, admin: KafkaAdminClient, created: str, group: str) -> None:
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(created, 1, 1)])
    until_now(lambda: created in admin.list_topics(), what="the broker that is asked knows the topic")
    assert len(admin.describe_cluster()["brokers"]) == 3
    admin.create_partitions({created: NewPartitions(PARTITIONS + 1)})
    send(bootstrap, created, [b"one", b"two"], partition=PARTITIONS)
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, created)], config_filter="all")
    assert described["topic"][created]["min.insync.replicas"]["value"] == "2"

    with consumer_of(bootstrap, created, group=group) as consumer:
        take(consumer, 2)
        consumer.commit()
        assert group in str(admin.list_groups())
        assert created in str(admin.list_group_offsets(group))
    admin.delete_groups([group])
    admin.delete_topics([created])
    until_now(lambda: created not in admin.list_topics(), what="the topic is gone")
