"""confluent-kafka (librdkafka): the client most Python services use, and the one of our own command line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewPartitions, NewTopic

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

MESSAGE_BYTES_MAX = 1_048_588  # Kafka's default message.max.bytes: a whole batch, header included


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def created(admin: AdminClient, topic: str) -> str:
    create(admin, topic, PARTITIONS)
    return topic


def create(admin: AdminClient, topic: str, partitions: int, config: dict[str, str] | None = None) -> None:
    new = NewTopic(topic, num_partitions=partitions, replication_factor=REPLICATION_FACTOR, config=config or {})
    admin.create_topics([new])[topic].result(DEADLINE_S)


@contextmanager
def consuming(bootstrap: str, group: str, **settings: Any) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 45000,  # no member is put out because a machine is slow
            "heartbeat.interval.ms": 300,  # how soon a member hears of a rebalance
        }
        | {key.replace("_", "."): value for key, value in settings.items()}
    )
    try:
        yield consumer
    finally:
        consumer.close()


def take(consumer: Consumer, count: int) -> list[Message]:
    """Poll until ``count`` records came, at least."""
    got: list[Message] = []
    for _ in deadline(f"{count} records"):
        for message in consumer.consume(count - len(got), timeout=0.5):
            assert message.error() is None, message.error()
            got.append(message)
        if len(got) >= count:
            break
    return got


def send(bootstrap: str, topic: str, values: list[bytes], partition: int = 0, **settings: Any) -> list[Message]:
    """Produce to one partition, in order; the delivered messages. Raises the first delivery error."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5}
        | {key.replace("_", "."): value for key, value in settings.items()}
    )
    delivered: list[Message] = []
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            delivered.append(message)
        else:
            errors.append(error)

    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=on_delivery)
    assert producer.flush(DEADLINE_S) == 0
    if errors:
        raise KafkaException(errors[0])
    return delivered


@pytest.mark.parametrize("codec", CODECS)
def test_create_produce_consume_commit_resume(bootstrap: str, created: str, group: str, codec: str) -> None:
    records = records_to_send()
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "acks": "all", "linger.ms": 20})
    for record in records:
        producer.produce(created, record.value, record.key, headers=[("trace", record.header), ("empty", None)])
    assert producer.flush(DEADLINE_S) == 0
    assert codecs_in_log(bootstrap, created) == {codec}

    with consuming(bootstrap, group) as first:
        first.subscribe([created])
        before = take(first, FIRST_PART)
        first.commit(asynchronous=False)
    with consuming(bootstrap, group) as second:
        second.subscribe([created])
        after = take(second, RECORDS - len(before))
        assert second.poll(0.2) is None, "more than was sent"

    got = {message.value(): message for message in before + after}
    assert len(before) + len(after) == len(got) == RECORDS
    for record in records:
        message = got[record.value]
        assert message.key() == record.key
        assert message.headers() == [("trace", record.header), ("empty", None)]
        assert abs(message.timestamp()[1] / 1000 - time.time()) < 300
    by_key = {(message.key(), message.partition()) for message in got.values()}
    assert len(by_key) == len({record.key for record in records}), "a key lies in two partitions"


def test_rewind_by_offset_and_to_the_beginning(bootstrap: str, created: str, group: str) -> None:
    send(bootstrap, created, [b"%d" % n for n in range(50)])
    with consuming(bootstrap, group) as consumer:
        consumer.assign([TopicPartition(created, 0, 30)])
        assert [message.value() for message in take(consumer, 20)] == [b"%d" % n for n in range(30, 50)]
        consumer.seek(TopicPartition(created, 0, 7))
        assert take(consumer, 1)[0].offset() == 7
        consumer.seek(TopicPartition(created, 0, OFFSET_BEGINNING))
        assert [message.offset() for message in take(consumer, 50)] == list(range(50))
        assert consumer.get_watermark_offsets(TopicPartition(created, 0), DEADLINE_S) == (0, 50)


def test_rewind_by_timestamp(bootstrap: str, created: str, group: str) -> None:
    """ListOffsets by time: the first record whose timestamp is not earlier (KIP-79)."""
    base_ms = int(time.time() * 1000) - 60_000
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for n in range(20):
        producer.produce(created, b"%d" % n, partition=0, timestamp=base_ms + n * 100)
        producer.flush(DEADLINE_S)
    with consuming(bootstrap, group) as consumer:

        def offset_at(timestamp_ms: int) -> int:
            asked = [TopicPartition(created, 0, timestamp_ms)]
            return int(consumer.offsets_for_times(asked, DEADLINE_S)[0].offset)

        assert offset_at(base_ms + 500) == 5
        assert offset_at(base_ms + 501) == 6
        assert offset_at(base_ms - 1) == 0
        assert offset_at(base_ms + 10_000) == -1  # none: librdkafka's OFFSET_END
        consumer.assign([TopicPartition(created, 0, offset_at(base_ms + 1500))])
        assert take(consumer, 1)[0].timestamp()[1] == base_ms + 1500


def test_large_messages_near_the_limit_and_over_it(bootstrap: str, created: str, group: str) -> None:
    near = b"n" * (MESSAGE_BYTES_MAX - 200)
    unlimited = {"message_max_bytes": 3_000_000}  # of the client; the broker's own limit stays
    assert send(bootstrap, created, [near], **unlimited)[0].offset() == 0
    with pytest.raises(KafkaException) as refused:
        send(bootstrap, created, [b"o" * (MESSAGE_BYTES_MAX + 1)], **unlimited)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    with consuming(bootstrap, group) as consumer:
        consumer.assign([TopicPartition(created, 0, 0)])
        assert take(consumer, 1)[0].value() == near
        assert consumer.get_watermark_offsets(TopicPartition(created, 0), DEADLINE_S) == (0, 1)


def test_a_topic_with_its_own_larger_limit(bootstrap: str, admin: AdminClient, topic: str, group: str) -> None:
    create(admin, topic, 1, {"max.message.bytes": "5000000"})
    value = bytes(range(256)) * 16_000  # 4 MB: four times the default fetch of a partition
    send(bootstrap, topic, [value], message_max_bytes=6_000_000)
    with consuming(bootstrap, group) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert take(consumer, 1)[0].value() == value


@pytest.mark.parametrize("acks", ["0", *in_full(["1"]), "all"])
def test_acks(bootstrap: str, created: str, group: str, acks: str) -> None:
    values = [b"%d" % n for n in range(100)]
    delivered = send(bootstrap, created, values, acks=acks)
    if acks != "0":  # acks=0 learns no offset
        assert [message.offset() for message in delivered] == list(range(100))
    with consuming(bootstrap, group) as consumer:
        consumer.assign([TopicPartition(created, 0, 0)])
        assert [message.value() for message in take(consumer, 100)] == values


def test_an_idempotent_producer_keeps_order_without_doubles(bootstrap: str, created: str, group: str) -> None:
    values = [b"%06d" % n for n in range(5000)]
    settings = {"enable_idempotence": True, "batch_num_messages": 50, "max_in_flight": 5}
    delivered = send(bootstrap, created, values, **settings)
    assert [message.offset() for message in delivered] == list(range(5000))
    send(bootstrap, created, [b"another producer"], enable_idempotence=True)
    with consuming(bootstrap, group) as consumer:
        consumer.assign([TopicPartition(created, 0, 0)])
        assert [message.value() for message in take(consumer, 5001)] == [*values, b"another producer"]


def test_two_members_share_the_partitions_and_the_rest_goes_to_who_stays(
    bootstrap: str, created: str, group: str
) -> None:
    def partitions(consumer: Consumer) -> set[int]:
        return {assigned.partition for assigned in consumer.assignment()}

    def poll_both() -> None:
        for consumer in (first, second):
            consumer.poll(0.1)

    with consuming(bootstrap, group) as first:
        first.subscribe([created])
        until_now(
            lambda: first.poll(0.1) or len(partitions(first)) == PARTITIONS, what="the only member has everything"
        )
        with consuming(bootstrap, group) as second:
            second.subscribe([created])

            def shared() -> bool:
                poll_both()
                mine, theirs = partitions(first), partitions(second)
                return bool(mine and theirs) and not mine & theirs and len(mine | theirs) == PARTITIONS

            until_now(shared, what="each member has some of the partitions")
        until_now(
            lambda: first.poll(0.1) or len(partitions(first)) == PARTITIONS, what="the one who stays has everything"
        )


def test_cooperative_members_keep_what_stays_theirs(bootstrap: str, created: str, group: str) -> None:
    """KIP-429: with cooperative-sticky the first member loses only what it gives away."""
    revoked: list[int] = []
    settings = {"partition_assignment_strategy": "cooperative-sticky"}
    with consuming(bootstrap, group, **settings) as first:
        first.subscribe([created], on_revoke=lambda _, gone: revoked.extend(part.partition for part in gone))
        until_now(
            lambda: first.poll(0.1) or len(first.assignment()) == PARTITIONS, what="the only member has everything"
        )
        with consuming(bootstrap, group, **settings) as second:
            second.subscribe([created])

            def shared() -> bool:
                first.poll(0.1)
                second.poll(0.1)
                return len(first.assignment()) + len(second.assignment()) == PARTITIONS and second.assignment() != []

            until_now(shared, what="the second member got one partition")
            assert len(revoked) == 1


def test_offsets_are_committed_by_themselves(bootstrap: str, created: str, group: str) -> None:
    """What most services run with: auto-commit, and the last position when the consumer closes."""
    send(bootstrap, created, [b"%d" % n for n in range(30)])
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}
    with consuming(bootstrap, group, **settings) as consumer:
        consumer.subscribe([created])
        take(consumer, 10)
    with consuming(bootstrap, group, **settings) as consumer:
        consumer.subscribe([created])
        assert take(consumer, 20)[0].offset() == 10
        asked = [TopicPartition(created, 0)]
        until_now(lambda: consumer.committed(asked, DEADLINE_S)[0].offset == 30, what="committed while it runs")


def test_a_static_member_comes_back_without_a_rebalance(bootstrap: str, created: str, group: str) -> None:
    """KIP-345: a member with group.instance.id that restarts in time gets its partitions again; nobody else notices."""
    rebalances: list[str] = []

    def settled(consumer: Consumer) -> bool:
        other.poll(0.05)
        consumer.poll(0.05)
        return bool(consumer.assignment()) and bool(other.assignment())

    with consuming(bootstrap, group, group_instance_id="stays") as other:
        other.subscribe([created], on_assign=lambda *_: rebalances.append("assigned"))
        with consuming(bootstrap, group, group_instance_id="restarts") as member:
            member.subscribe([created])
            until_now(
                lambda: settled(member) and len(member.assignment() + other.assignment()) == PARTITIONS, what="shared"
            )
            before = {assigned.partition for assigned in member.assignment()}
        seen = len(rebalances)
        with consuming(bootstrap, group, group_instance_id="restarts") as member:
            member.subscribe([created])
            until_now(lambda: settled(member), what="the member is back")
            assert {assigned.partition for assigned in member.assignment()} == before
        assert len(rebalances) == seen


def test_a_topic_is_made_when_it_is_first_written_to(bootstrap: str, topic: str, group: str) -> None:
    assert send(bootstrap, topic, [b"first"], partition=0)[0].offset() == 0
    with consuming(bootstrap, group) as consumer:
        assert len(consumer.list_topics(topic, DEADLINE_S).topics[topic].partitions) == PARTITIONS
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert take(consumer, 1)[0].value() == b"first"


def test_administration(bootstrap: str, admin: AdminClient, topic: str, group: str) -> None:
    create(admin, topic, 1, {"retention.ms": "3600000"})
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        create(admin, topic, 1)
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        admin.create_topics([NewTopic(f"{topic}-x", 1, 99)])[f"{topic}-x"].result(DEADLINE_S)
    with pytest.raises(KafkaException, match="TOPIC_EXCEPTION"):
        admin.create_topics([NewTopic("no spaces", 1, 1)])["no spaces"].result(DEADLINE_S)

    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    assert entries["retention.ms"].value == "3600000"
    assert not entries["retention.ms"].is_default
    assert entries["segment.bytes"].is_default
    assert entries["min.insync.replicas"].value == "2"

    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(DEADLINE_S)

    def partition_count() -> int:
        return len(admin.list_topics(topic, DEADLINE_S).topics[topic].partitions)

    until_now(lambda: partition_count() == 4, what="four partitions")
    assert send(bootstrap, topic, [b"x"], partition=3)[0].offset() == 0

    cluster = admin.describe_cluster().result(DEADLINE_S)
    assert len(cluster.nodes) == 3
    assert cluster.controller is not None

    with consuming(bootstrap, group) as consumer:
        consumer.subscribe([topic])
        take(consumer, 1)
        consumer.commit(asynchronous=False)
        listed = admin.list_consumer_groups().result(DEADLINE_S)
        assert group in {one.group_id for one in listed.valid}
        described = admin.describe_consumer_groups([group])[group].result(DEADLINE_S)
        assert described.state.name == "STABLE"
        assert len(described.members) == 1
    admin.delete_consumer_groups([group])[group].result(DEADLINE_S)
    listed = admin.list_consumer_groups().result(DEADLINE_S)
    assert group not in {one.group_id for one in listed.valid}

    admin.delete_topics([topic])[topic].result(DEADLINE_S)
    until_now(lambda: topic not in admin.list_topics(timeout=DEADLINE_S).topics, what="the topic is gone")
    create(admin, topic, 1)  # and its name is free again, with an empty log
    assert send(bootstrap, topic, [b"anew"])[0].offset() == 0
