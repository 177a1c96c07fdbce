"""Bytes that no good client sends: what the broker answers, and that it lives on (a fixture sees to that).

Each expectation was read off Apache Kafka 4.3.1, and these same tests pass against it. `make compare` asks both brokers far
more batches (`odd_batches.py`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.interop.journey import DEADLINE_S, REPLICATION_FACTOR
from tests.interop.odd_batches import (
    CRC_AT,
    GOOD,
    MAGIC_AT,
    MAX_MESSAGE_BYTES,
    NOW_MS,
    counted,
    flipped,
    idempotent,
    old_message_set,
)
from tests.interop.raw_client import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    ClusterInfo,
    ConnectionClosed,
    ProduceAnswer,
    ProducerState,
    RawConnection,
    api_versions,
    fetch_request,
    metadata,
    produce_request,
    read_fetch_answer,
    read_produce_answer,
    record_batch,
    request,
)
from tests.waiting import until_now

NONE, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION = 0, 1, 2, 3
NOT_LEADER_OR_FOLLOWER, MESSAGE_TOO_LARGE, INVALID_REQUIRED_ACKS, INVALID_TIMESTAMP = 6, 10, 21, 32
UNSUPPORTED_VERSION, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH = 35, 45, 47
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, INVALID_RECORD = 74, 75, 87

SOCKET_REQUEST_MAX_BYTES = 104_857_600


@pytest.fixture(scope="module")
def cluster(bootstrap: str) -> ClusterInfo:
    """A topic ``bad-requests-...`` with one partition, and who leads it."""
    topic = f"bad-requests-{os.urandom(4).hex()}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, REPLICATION_FACTOR)])[topic].result(DEADLINE_S)
    seen: list[ClusterInfo] = []

    def has_leader() -> bool:
        with RawConnection(bootstrap) as connection:
            seen[:] = [metadata(connection, [topic])]
        partitions = seen[0].topics[topic]
        return 0 in partitions and partitions[0].leader >= 0 and len(partitions[0].in_sync) == REPLICATION_FACTOR

    until_now(has_leader, what="the topic has a leader and all replicas")
    with RawConnection(seen[0].leader_address(topic, 0)) as connection:
        asked = fetch_request(topic, 0, 0)
        until_now(
            lambda: read_fetch_answer(connection.call(asked)).error_code == NONE, what="the leader knows that it leads"
        )
    return seen[0]


@pytest.fixture
def bad_topic(cluster: ClusterInfo) -> str:
    return next(iter(cluster.topics))


@pytest.fixture
def connection(cluster: ClusterInfo, bad_topic: str) -> Iterator[RawConnection]:
    """A connection to the leader."""
    with RawConnection(cluster.leader_address(bad_topic, 0)) as opened:
        yield opened


def produce_v3(topic: str, records: bytes) -> bytes:
    """Produce v3, the last version before KIP-482 that Kafka 4 still takes."""
    name = topic.encode()
    body = struct.pack(">hhiih", -1, -1, 3000, 1, len(name)) + name + struct.pack(">iii", 1, 0, len(records)) + records
    return request(PRODUCE, 3, body, flexible=False)


CLOSES = {
    "negative length": struct.pack(">i", -5) + b"whatever",
    "zero length": struct.pack(">i", 0),
    "three bytes are no header": struct.pack(">i", 3) + b"abc",
    "one byte over socket.request.max.bytes": struct.pack(">i", SOCKET_REQUEST_MAX_BYTES + 1) + b"x" * 100,
    "the largest length": struct.pack(">i", 2**31 - 1) + b"x" * 100,
    "unknown API": request(9999, 0, b""),
    "negative API": request(-1, 0, b""),
    "Metadata of a version to come": request(METADATA, 99, b"\0"),
    "Fetch below the floor of KIP-896": request(FETCH, 3, struct.pack(">iiiii", -1, 100, 1, 1000, 0), flexible=False),
    "truncated Metadata": request(METADATA, 9, b"\x05\x08abc"),
    "truncated Produce": request(PRODUCE, 9, b"\0\xff\xff"),
    "a client id longer than the request": struct.pack(">ihhih", 10, METADATA, 9, 1, 500),
    "an array of two thousand million topics": request(METADATA, 9, b"\xff\xff\xff\xff\x07"),
    "a web browser": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "a TLS client": bytes.fromhex("16030100c8010000c40303") + bytes(200),
}


@pytest.mark.parametrize("data", CLOSES.values(), ids=CLOSES)
def test_the_connection_is_closed(connection: RawConnection, data: bytes) -> None:
    connection.send(data)
    with pytest.raises(ConnectionClosed):
        connection.receive()


def test_other_connections_do_not_notice(connection: RawConnection, cluster: ClusterInfo, bad_topic: str) -> None:
    with RawConnection(cluster.leader_address(bad_topic, 0)) as other:
        before = api_versions(other)
        connection.send(struct.pack(">i", -1))
        with pytest.raises(ConnectionClosed):
            connection.receive()
        assert api_versions(other) == before


@pytest.mark.parametrize("version", [99, -1])
def test_api_versions_of_an_unknown_version_is_answered_with_version_0(connection: RawConnection, version: int) -> None:
    """KIP-511: error 35 and the range of ApiVersions itself, so that the client can ask again, on this connection."""
    response = connection.call(request(API_VERSIONS, version, b"", correlation_id=42))
    correlation, error, count, key, lowest, highest = struct.unpack_from(">ihihhh", response)
    assert (correlation, error, count, key, lowest) == (42, UNSUPPORTED_VERSION, 1, API_VERSIONS, 0)
    assert highest >= 3
    assert len(response) == 16
    assert api_versions(connection)[API_VERSIONS] == (lowest, highest)


def test_bytes_after_a_whole_request_body_are_ignored(connection: RawConnection) -> None:
    assert len(connection.call(request(METADATA, 9, b"\x01\0\0\0\0" + b"garbage"))) > 50


REFUSED = {
    "wrong CRC": (flipped(GOOD, CRC_AT), CORRUPT_MESSAGE),
    "a flipped bit in the records": (flipped(GOOD, len(GOOD) - 2), CORRUPT_MESSAGE),
    "a flipped bit in the header": (flipped(GOOD, 40), CORRUPT_MESSAGE),
    "random bytes": (b"\x5a" * 100, CORRUPT_MESSAGE),
    "magic 3": (flipped(GOOD, MAGIC_AT), CORRUPT_MESSAGE),
    "a batch, then zeros": (GOOD + bytes(70), CORRUPT_MESSAGE),
    "two batches": (GOOD + GOOD, INVALID_RECORD),
    "no records": (b"", INVALID_RECORD),
    "three bytes": (b"abc", INVALID_RECORD),
    "half a header": (GOOD[:40], INVALID_RECORD),
    "a batch that ends too early": (GOOD[:-3], INVALID_RECORD),
    "magic 1": (old_message_set(1), INVALID_RECORD),
    "magic 0": (old_message_set(0), INVALID_RECORD),
    "no record in the batch": (counted(0, -1, b""), INVALID_RECORD),
    "a negative count": (counted(-1, 0), INVALID_RECORD),
    "a last offset delta beyond the count": (counted(1, 4), INVALID_RECORD),
    "a last offset delta below the count": (counted(1, -1), INVALID_RECORD),
    "a base offset of its own": (record_batch([b"hello"], base_offset=77), INVALID_RECORD),
    "a control batch": (record_batch([b"hello"], attributes=0x20), INVALID_RECORD),
    "a producer id without a sequence": (idempotent(ProducerState(123_458, 0, -1)), INVALID_RECORD),
    "over max.message.bytes": (record_batch([b"x" * MAX_MESSAGE_BYTES]), MESSAGE_TOO_LARGE),
    "ten days in the future": (record_batch([b"x"], timestamp_ms=NOW_MS + 864_000_000), INVALID_TIMESTAMP),
}


@pytest.mark.parametrize(("records", "error"), REFUSED.values(), ids=REFUSED)
def test_records_are_refused(connection: RawConnection, bad_topic: str, records: bytes, error: int) -> None:
    """The error code is the answer; the connection stays; nothing was written, as the next batch's offset shows."""

    def send(data: bytes) -> ProduceAnswer:
        return read_produce_answer(connection.call(produce_request(bad_topic, 0, data)))

    before = send(GOOD)
    assert send(records) == (error, -1)
    assert send(GOOD) == (NONE, before.base_offset + 1)


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_are_0_1_or_all(connection: RawConnection, bad_topic: str, acks: int) -> None:
    answer = read_produce_answer(connection.call(produce_request(bad_topic, 0, GOOD, acks=acks)))
    assert answer == (INVALID_REQUIRED_ACKS, -1)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_sets_are_refused_by_produce_v3_too(connection: RawConnection, bad_topic: str, magic: int) -> None:
    response = connection.call(produce_v3(bad_topic, old_message_set(magic)))
    assert struct.unpack_from(">h", response, 4 + 4 + 2 + len(bad_topic) + 8) == (INVALID_RECORD,)
    response = connection.call(produce_v3(bad_topic, GOOD))
    assert struct.unpack_from(">h", response, 4 + 4 + 2 + len(bad_topic) + 8) == (NONE,)


def test_odd_but_good_batches_are_taken(connection: RawConnection, bad_topic: str) -> None:
    for records in (
        GOOD + b"xyz",  # too few bytes to be a batch
        record_batch([b"x"], timestamp_ms=1000),
        record_batch([b"x"], timestamp_ms=-1),
        record_batch([b"x"], attributes=0x08),  # the client says LogAppendTime
        record_batch([b"x" * (MAX_MESSAGE_BYTES - 61 - 12)]),
    ):
        answer = read_produce_answer(connection.call(produce_request(bad_topic, 0, records)))
        assert answer.error_code == NONE


def test_sequences_of_an_idempotent_producer(connection: RawConnection, bad_topic: str) -> None:
    """KIP-98, without InitProducerId: a producer that the broker has never met may begin anywhere."""
    producer_id = int.from_bytes(os.urandom(5), "big")

    def send(epoch: int, sequence: int, values: int = 1) -> ProduceAnswer:
        records = idempotent(ProducerState(producer_id, epoch, sequence), values)
        return read_produce_answer(connection.call(produce_request(bad_topic, 0, records)))

    first = send(3, 7)
    assert first.error_code == NONE
    assert send(3, 7) == first, "a duplicate is acknowledged with its first offset"
    assert send(3, 9).error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(3, 8, values=2) == (NONE, first.base_offset + 1)
    assert send(3, 10) == (NONE, first.base_offset + 3)
    assert send(3, 8, values=2) == (NONE, first.base_offset + 1), "an older one of the last five too"
    assert send(2, 11).error_code == INVALID_PRODUCER_EPOCH
    assert send(4, 3).error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(4, 0) == (NONE, first.base_offset + 4)


def test_acks_0_gets_no_answer_and_an_error_closes_the_connection(connection: RawConnection, bad_topic: str) -> None:
    connection.send(produce_request(bad_topic, 0, GOOD, acks=0))
    assert API_VERSIONS in api_versions(connection), "the next answer is that of the next request"
    connection.send(produce_request(bad_topic, 0, flipped(GOOD, CRC_AT), acks=0))
    with pytest.raises(ConnectionClosed):
        connection.receive()


@pytest.mark.parametrize("partition", [9, -1, 2**31 - 1])
def test_partitions_that_are_not_there(connection: RawConnection, bad_topic: str, partition: int) -> None:
    answer = read_produce_answer(connection.call(produce_request(bad_topic, partition, GOOD)))
    assert answer == (UNKNOWN_TOPIC_OR_PARTITION, -1)


@pytest.mark.parametrize("topic", ["nobody-made-this", "bad name!", "x" * 300, ".."])
def test_topics_that_are_not_there(connection: RawConnection, topic: str) -> None:
    answer = read_produce_answer(connection.call(produce_request(topic, 0, GOOD)))
    assert answer == (UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_only_the_leader_takes_records(cluster: ClusterInfo, bad_topic: str) -> None:
    leader = cluster.leader_address(bad_topic, 0)
    for address in set(cluster.brokers.values()) - {leader}:
        with RawConnection(address) as connection:
            until_now(partial(knows, connection, bad_topic), what=f"{address} knows the topic")
            answer = read_produce_answer(connection.call(produce_request(bad_topic, 0, GOOD)))
            assert answer == (NOT_LEADER_OR_FOLLOWER, -1)


def knows(connection: RawConnection, topic: str) -> bool:
    """Whether this broker knows of the topic by now: the metadata reach each broker in its own time."""
    answer = read_fetch_answer(connection.call(fetch_request(topic, 0, 0)))
    return answer.error_code != UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("offset", [10**9, -1, -5])
def test_fetching_outside_the_log(connection: RawConnection, bad_topic: str, offset: int) -> None:
    answer = read_fetch_answer(connection.call(fetch_request(bad_topic, 0, offset)))
    assert (answer.error_code, answer.high_watermark, answer.size) == (OFFSET_OUT_OF_RANGE, -1, 0)


def test_fetching_with_the_epoch_of_another_leader(connection: RawConnection, bad_topic: str) -> None:
    answer = read_fetch_answer(connection.call(fetch_request(bad_topic, 0, 0, leader_epoch=99)))
    assert answer.error_code == UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("max_bytes", [0, 1])
def test_a_fetch_makes_progress_whatever_its_limit(connection: RawConnection, bad_topic: str, max_bytes: int) -> None:
    """KIP-74: the first batch comes whole, even when it is larger than max_bytes."""
    connection.call(produce_request(bad_topic, 0, GOOD))
    response = connection.call(fetch_request(bad_topic, 0, 0, max_bytes=max_bytes))
    answer = read_fetch_answer(response)
    assert answer.error_code == NONE
    (length,) = struct.unpack_from(">i", response, answer.start + 8)
    assert answer.size == 12 + length


def test_requests_in_pieces_and_in_one_go(connection: RawConnection, bad_topic: str) -> None:
    """TCP keeps no borders: a byte at a time, and twenty pipelined requests at once, answered in order."""
    for byte in request(METADATA, 9, b"\x01\0\0\0\0", correlation_id=5):
        connection.send(bytes([byte]))
    assert struct.unpack_from(">i", connection.receive()) == (5,)
    connection.send(b"".join(produce_request(bad_topic, 0, GOOD, correlation_id=100 + n) for n in range(20)))
    answers = [connection.receive() for _ in range(20)]
    assert [struct.unpack_from(">i", answer)[0] for answer in answers] == list(range(100, 120))
    offsets = [read_produce_answer(answer).base_offset for answer in answers]
    assert offsets == list(range(offsets[0], offsets[0] + 20))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_request_that_breaks_off_writes_nothing(cluster: ClusterInfo, bad_topic: str, share: float) -> None:
    address = cluster.leader_address(bad_topic, 0)
    with RawConnection(address) as connection:
        before = read_produce_answer(connection.call(produce_request(bad_topic, 0, GOOD)))
        data = produce_request(bad_topic, 0, record_batch([b"x" * 100_000]))
        connection.send(data[: int(len(data) * share)])
    with RawConnection(address) as connection:
        after = read_produce_answer(connection.call(produce_request(bad_topic, 0, GOOD)))
    assert after == (NONE, before.base_offset + 1)


def test_a_fetch_whose_client_has_gone(cluster: ClusterInfo, bad_topic: str) -> None:
    """A long poll waits at the end of the log; its client leaves; the next record wakes nobody."""
    address = cluster.leader_address(bad_topic, 0)
    with RawConnection(address) as connection:
        end = read_produce_answer(connection.call(produce_request(bad_topic, 0, GOOD))).base_offset + 1
        connection.send(fetch_request(bad_topic, 0, end, max_wait_ms=30_000))
    with RawConnection(address) as connection:
        answer = read_produce_answer(connection.call(produce_request(bad_topic, 0, GOOD)))
        assert answer == (NONE, end)
