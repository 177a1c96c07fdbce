"""The hand-written codecs of Produce and Fetch against kio's, which is generated from Kafka's own message definitions.

All versions, both directions (docs/decisions/001-protocol-library.md). kio's bytes are the truth.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from minikafka.protocol import fetch, messages, produce
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.wire import ROWS_MAX, TAGS_MAX, MalformedRequest, TooManyRows, uvarint

TOPIC_ID = UUID("00000000-0000-4000-8000-0000000000a1")
RECORDS = bytes(range(256)) * 3  # opaque to the codecs
PRODUCE_VERSIONS = range(produce.MIN_SUPPORTED, produce.MAX_SUPPORTED + 1)
FETCH_VERSIONS = range(fetch.MIN_SUPPORTED, fetch.MAX_SUPPORTED + 1)
NAMED_BY_ID_VERSION, SESSIONS_VERSION = 13, 7
"""Of Fetch: the first in which topics have ids for names (KIP-516), and sessions (KIP-227)."""
TAGS = b"\0"
"""The empty tagged fields at the end of a flexible request's header, which the decoders skip."""


def framed(api_key: int, version: int, body: bytes) -> memoryview:
    """A body as the decoders get it: behind what is left of the request's header."""
    return memoryview(TAGS + body if messages.is_flexible(api_key, version) else body)


def body_of(api_key: int, version: int, frame: bytes) -> bytes:
    """The body of a response frame, whose length must be right."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert int.from_bytes(frame[4:8], "big") == 77, "correlation id"
    flexible = messages.is_flexible(api_key, version)
    assert not flexible or frame[8:9] == TAGS
    return frame[9:] if flexible else frame[8:]


# -- Produce ----------------------------------------------------------------------------------------------------------


def produce_body(version: int, transactional_id: str | None = None) -> bytes:
    values = {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout": 12_345,
        "topic_data": [
            {
                "name": "orders",
                "partition_data": [{"index": 0, "records": RECORDS}, {"index": 7, "records": None}],
            },
            {"name": "ünïcode", "partition_data": [{"index": 2, "records": RECORDS[:5]}]},
            {"name": "empty", "partition_data": []},
        ],
    }
    return messages.encode_request(ApiKey.PRODUCE, version, values)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "", "tx-1"])
def test_produce_requests_are_read(version: int, transactional_id: str | None) -> None:
    request = produce.decode_produce(
        framed(ApiKey.PRODUCE, version, produce_body(version, transactional_id)), 0, version
    )
    assert (request.transactional_id, request.acks, request.timeout_ms) == (transactional_id, -1, 12_345)
    found = [(n, [(i, None if r is None else bytes(r)) for i, r in parts]) for n, parts in request.topics]
    assert found == [("orders", [(0, RECORDS), (7, None)]), ("ünïcode", [(2, RECORDS[:5])]), ("empty", [])]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_records_are_views_of_the_request(version: int) -> None:
    """The log stamps batches in place: a copy would be stamped in vain."""
    frame = bytearray(framed(ApiKey.PRODUCE, version, produce_body(version)))
    records = produce.decode_produce(memoryview(frame), 0, version).topics[0][1][0][1]
    assert records is not None
    records[0] = 0xAB
    assert 0xAB in frame[: frame.index(RECORDS[1:])]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_cut_produce_request_is_malformed(version: int) -> None:
    """Cut anywhere inside what is needed: a typed error, never another one."""
    whole = framed(ApiKey.PRODUCE, version, produce_body(version))
    whole = memoryview(bytes(whole).replace("ünïcode".encode(), b"plainname"))
    for length in range(len(whole)):
        try:
            produce.decode_produce(whole[:length], 0, version)
        except MalformedRequest:
            continue


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_name_that_is_no_utf8_is_malformed(version: int) -> None:
    body = produce_body(version).replace(b"orders", b"ord\xffrs")
    with pytest.raises(MalformedRequest):
        produce.decode_produce(framed(ApiKey.PRODUCE, version, body), 0, version)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_responses_are_what_kio_reads(version: int) -> None:
    results = [
        ("orders", [produce.PartitionResult(0, 0, 41, 1_700_000_000_000, 5), produce.PartitionResult(7, 3)]),
        (
            "ünïcode",
            [produce.PartitionResult(2, 87, message="bad record", record_errors=[(3, "no key"), (5, "nor here")])],
        ),
    ]
    frame = produce.encode_produce_response(version, 77, results)
    read = messages.decode_response(ApiKey.PRODUCE, version, body_of(ApiKey.PRODUCE, version, frame))
    assert [topic.name for topic in read.responses] == ["orders", "ünïcode"]
    first, second = read.responses[0].partition_responses
    (third,) = read.responses[1].partition_responses
    assert [(p.index, int(p.error_code), p.base_offset) for p in (first, second, third)] == [
        (0, 0, 41),
        (7, 3, -1),
        (2, 87, -1),
    ]
    assert messages.millis(first.log_append_time) == 1_700_000_000_000
    if version >= 5:
        assert (first.log_start_offset, second.log_start_offset) == (5, -1)
    if version >= 8:
        assert (first.error_message, third.error_message) == (None, "bad record")
        assert not first.record_errors
        named = [(e.batch_index, e.batch_index_error_message) for e in third.record_errors]
        assert named == [(3, "no key"), (5, "nor here")]


@pytest.mark.parametrize("version", [v for v in PRODUCE_VERSIONS if v >= 10])
def test_produce_responses_name_the_new_leader(version: int) -> None:
    """KIP-951."""
    results = [("orders", [produce.PartitionResult(0, 6, current_leader=(2, 9))])]
    frame = produce.encode_produce_response(version, 77, results, [(2, "host", 9092, "rack"), (3, "other", 1, None)])
    read = messages.decode_response(ApiKey.PRODUCE, version, body_of(ApiKey.PRODUCE, version, frame))
    leader = read.responses[0].partition_responses[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (2, 9)
    nodes = [(n.node_id, n.host, n.port, n.rack) for n in read.node_endpoints]
    assert nodes == [(2, "host", 9092, "rack"), (3, "other", 1, None)]


# -- Fetch ------------------------------------------------------------------------------------------------------------


def topic_key(version: int) -> str | bytes:
    """Topics are named by id from version 13 on (KIP-516)."""
    return TOPIC_ID.bytes if version >= 13 else "orders"


def fetch_body(version: int, replica_id: int = -1, replica_epoch: int = -1) -> bytes:
    partitions = []
    for index in (0, 7):
        part: dict[str, Any] = {"partition": index, "fetch_offset": 1000 + index, "partition_max_bytes": 1 << 20}
        if version >= 5:
            part["log_start_offset"] = 3
        if version >= 9:
            part["current_leader_epoch"] = 4
        if version >= 12:
            part["last_fetched_epoch"] = 2
        partitions.append(part)
    values: dict[str, Any] = {"max_wait": 500, "min_bytes": 1, "max_bytes": 1 << 24, "isolation_level": 1}
    if version >= 15:
        values["replica_state"] = {"replica_id": replica_id, "replica_epoch": replica_epoch}
    else:
        values["replica_id"] = replica_id
    if version >= 7:
        values |= {"session_id": 11, "session_epoch": 12}
        forgotten = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": "gone"}
        values["forgotten_topics_data"] = [{**forgotten, "partitions": [1, 2]}]
    if version >= 11:
        values["rack_id"] = "rack-a"
    name = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": "orders"}
    values["topics"] = [{**name, "partitions": partitions}]
    return messages.encode_request(ApiKey.FETCH, version, values)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("replica", [(-1, -1), (2, 31)])
def test_fetch_requests_are_read(version: int, replica: tuple[int, int]) -> None:
    request = fetch.decode_fetch(framed(ApiKey.FETCH, version, fetch_body(version, *replica)), 0, version)
    assert request.replica_id == replica[0]
    assert request.replica_epoch == (replica[1] if version >= 15 else -1)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 1 << 24)
    assert request.isolation_level == 1
    if version >= 7:
        assert (request.session_id, request.session_epoch) == (11, 12)
    if version >= 11:
        assert request.rack == "rack-a"
    epoch, last, start = 4 if version >= 9 else -1, 2 if version >= 12 else -1, 3 if version >= 5 else -1
    expected = [fetch.FetchPartition(i, epoch, 1000 + i, last, start, 1 << 20) for i in (0, 7)]
    assert request.topics == [(topic_key(version), expected)]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_cut_fetch_request_is_malformed(version: int) -> None:
    whole = framed(ApiKey.FETCH, version, fetch_body(version))
    for length in range(len(whole)):
        try:
            fetch.decode_fetch(whole[:length], 0, version)
        except MalformedRequest:
            continue


def flat(parts: Sequence[Any]) -> bytes:
    """What `framing` would send: header bytes, and records in place of file ranges."""
    return b"".join(
        part if isinstance(part, bytes | bytearray) else RECORDS[part[1] : part[1] + part[2]] for part in parts
    )


def fetched(index: int, ranges: Sequence[tuple[Any, int, int]] = (), error: int = 0) -> fetch.PartitionData:
    data = fetch.PartitionData(index, error, 2000 + index, 3)
    data.ranges, data.size = list(ranges), sum(length for _, _, length in ranges)
    return data


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_responses_are_what_kio_reads(version: int) -> None:
    rows = [
        fetched(0, [(None, 0, 300), (None, 300, 20)]),
        fetched(7),
        fetched(9, [(None, 5, 1)], 0),
        fetched(11, error=6),
    ]
    frame = flat(fetch.encode_fetch_response(version, 77, [(topic_key(version), rows)]))
    read = messages.decode_response(ApiKey.FETCH, version, body_of(ApiKey.FETCH, version, frame))
    (topic,) = read.responses
    assert (topic.topic_id if version >= 13 else topic.topic) == (TOPIC_ID if version >= 13 else "orders")
    found = [
        (p.partition_index, int(p.error_code), p.high_watermark, bytes(p.records or b"")) for p in topic.partitions
    ]
    assert found == [(0, 0, 2000, RECORDS[:320]), (7, 0, 2007, b""), (9, 0, 2009, RECORDS[5:6]), (11, 6, 2011, b"")]
    assert [p.last_stable_offset for p in topic.partitions] == [2000, 2007, 2009, 2011]
    if version >= 5:
        assert {p.log_start_offset for p in topic.partitions} == {3}
    if version >= 11:
        assert {p.preferred_read_replica for p in topic.partitions} == {-1}


@pytest.mark.parametrize("version", [v for v in FETCH_VERSIONS if v >= 12])
def test_fetch_responses_tell_divergence_and_leader(version: int) -> None:
    """KIP-595 and, from version 16 on with endpoints, KIP-951."""
    data = fetched(0)
    data.diverging, data.current_leader = (4, 55), (2, 9)
    endpoints = [(2, "host", 9092, "rack")]
    frame = flat(fetch.encode_fetch_response(version, 77, [(topic_key(version), [data])], 0, endpoints))
    read = messages.decode_response(ApiKey.FETCH, version, body_of(ApiKey.FETCH, version, frame))
    part = read.responses[0].partitions[0]
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (4, 55)
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (2, 9)
    if version >= 16:
        assert [(n.node_id, n.host, n.port, n.rack) for n in read.node_endpoints] == endpoints


# -- the follower's end -------------------------------------------------------------------------------------------------


def test_a_followers_request_is_what_kio_reads() -> None:
    asked = [(TOPIC_ID.bytes, [(0, 4, 1000, 2, 3, 1 << 20), (7, 4, 1007, -1, 0, 1 << 20)])]
    frame = fetch.encode_follower_fetch(77, "broker-2-fetcher", 2, 31, 500, 1, 1 << 24, asked)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header_bytes = 4 + 2 + 2 + 4 + 2 + len("broker-2-fetcher") + 1
    read = messages.decode_request(ApiKey.FETCH, fetch.FOLLOWER_VERSION, frame[header_bytes:])
    assert (read.replica_state.replica_id, read.replica_state.replica_epoch) == (2, 31)
    (topic,) = read.topics
    assert topic.topic_id == TOPIC_ID
    found = [
        (
            p.partition,
            p.current_leader_epoch,
            p.fetch_offset,
            p.last_fetched_epoch,
            p.log_start_offset,
            p.partition_max_bytes,
        )
        for p in topic.partitions
    ]
    assert found == asked[0][1]


@pytest.mark.parametrize("aborted", [None, [], [{"producer_id": 1, "first_offset": 2}]])
@pytest.mark.parametrize("diverging", [None, (4, 55)])
def test_a_follower_reads_what_kio_writes(
    aborted: list[dict[str, int]] | None, diverging: tuple[int, int] | None
) -> None:
    part: dict[str, Any] = {
        "partition_index": 7,
        "error_code": 0,
        "high_watermark": 2000,
        "last_stable_offset": 2000,
        "log_start_offset": 3,
        "aborted_transactions": aborted,
        "preferred_read_replica": -1,
        "records": RECORDS,
        "current_leader": {"leader_id": 2, "leader_epoch": 9},
    }
    if diverging is not None:
        part["diverging_epoch"] = {"epoch": diverging[0], "end_offset": diverging[1]}
    empty = {**part, "partition_index": 8, "records": None}
    values = {
        "error_code": 0,
        "session_id": 0,
        "responses": [{"topic_id": TOPIC_ID, "partitions": [part, empty]}],
        "node_endpoints": [{"node_id": 2, "host": "host", "port": 9092, "rack": None}],
    }
    body = messages.encode_response(ApiKey.FETCH, fetch.FOLLOWER_VERSION, values)
    frame = memoryview((77).to_bytes(4, "big") + TAGS + body)
    error, found = fetch.decode_follower_response(frame)
    assert error == 0
    assert [(d.topic_id, d.partition, d.error, d.high_watermark, d.log_start_offset) for d in found] == [
        (TOPIC_ID.bytes, 7, 0, 2000, 3),
        (TOPIC_ID.bytes, 8, 0, 2000, 3),
    ]
    assert [bytes(d.records) for d in found] == [RECORDS, b""]
    assert [d.diverging for d in found] == [diverging, diverging]


# -- lengths that lead back ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_topic_of_a_produce_has_a_name(version: int) -> None:
    """A negative length led back to bytes that had been read, and 34 bytes kept a broker busy for ever."""
    nameless = struct.pack(">h", -16)
    body = struct.pack(">h4shii", 4, bytes(4), -6, 0, 1000) + nameless
    if messages.is_flexible(ApiKey.PRODUCE, version):
        body = b"\0" + struct.pack(">hi", -1, 0) + b"\x02\0\0\0\0"
    with pytest.raises(MalformedRequest, match="a topic without a name"):
        produce.decode_produce(framed(ApiKey.PRODUCE, version, body), 0, version)


@pytest.mark.parametrize("version", [version for version in FETCH_VERSIONS if version < NAMED_BY_ID_VERSION])
def test_a_topic_of_a_fetch_has_a_name(version: int) -> None:
    head = bytes(17 if version < SESSIONS_VERSION else 25)
    body = head + struct.pack(">ih", 1000, -6)
    if messages.is_flexible(ApiKey.FETCH, version):
        body = head + b"\x02\0\0\0\0"
    with pytest.raises(MalformedRequest, match="a topic without a name"):
        fetch.decode_fetch(framed(ApiKey.FETCH, version, body), 0, version)


def test_forgotten_topics_without_names_lead_nowhere() -> None:
    back_to_itself, back_to_that = -6, -18
    body = bytes(21) + struct.pack(">hhiih", back_to_itself, 0, 0, 40_000, back_to_that)
    with pytest.raises(MalformedRequest):
        fetch.decode_fetch(memoryview(body), 0, 11)


@pytest.mark.slow
@pytest.mark.parametrize("version", [3, 12])
def test_a_produce_of_very_many_batches_is_malformed(version: int) -> None:
    """They are worked on at one go: a million kept a broker from its heartbeats for longer than a session."""

    def asked(*counts: int) -> memoryview:
        rows = [[{"index": 0, "records": None}] * count for count in counts]
        topics = [{"name": "t", "partition_data": row} for row in rows]
        values = {"transactional_id": None, "acks": 1, "timeout": 1, "topic_data": topics}
        body = messages.encode_request(ApiKey.PRODUCE, version, values)
        return memoryview((b"\0" if version >= 9 else b"") + body)

    half = produce.BATCHES_MAX // 2
    read = produce.decode_produce(asked(half, half), 0, version)
    assert [len(rows) for _, rows in read.topics] == [half, half]
    for counts in ((half, half + 1), (0,) * (produce.BATCHES_MAX + 1)):
        with pytest.raises(MalformedRequest, match="more than 10,000 rows"):
            produce.decode_produce(asked(*counts), 0, version)


@pytest.mark.parametrize("version", [11, 12])
def test_a_fetch_of_very_many_rows_is_malformed(version: int) -> None:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    head = {"max_wait": 0, "min_bytes": 1}

    def asked(topics: int, partitions: int, forgotten: int) -> memoryview:
        rows = [{"topic": "t", "partitions": [part] * partitions}, *[{"topic": "t", "partitions": []}] * (topics - 1)]
        left = [{"topic": "t", "partitions": []}] * forgotten
        body = messages.encode_request(ApiKey.FETCH, version, head | {"topics": rows, "forgotten_topics_data": left})
        return framed(ApiKey.FETCH, version, body)

    quarter = ROWS_MAX // 4
    fetch.decode_fetch(asked(quarter, quarter, quarter), 0, version)
    for more in range(3):
        with pytest.raises(MalformedRequest, match="more than 25,000 rows"):
            fetch.decode_fetch(asked(*(ROWS_MAX if each == more else 1 for each in range(3))), 0, version)


def test_of_many_rows_no_more_are_read_than_may_be() -> None:
    """What they are is of no interest before they have a turn: to decode them takes as long as to serve them."""
    rows = [{"index": 0, "records": None}] * 100
    values = {
        "transactional_id": None,
        "acks": 1,
        "timeout": 1,
        "topic_data": [{"name": "t", "partition_data": rows}] * 3,
    }
    body = messages.encode_request(ApiKey.PRODUCE, 9, values)[:-600]
    with pytest.raises(TooManyRows):
        produce.decode_produce(memoryview(b"\0" + body), 0, 9, 200)
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    asked = {"max_wait": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [part] * 100}] * 3}
    body = messages.encode_request(ApiKey.FETCH, 12, asked | {"forgotten_topics_data": []})[:-3_000]
    with pytest.raises(TooManyRows):
        fetch.decode_fetch(memoryview(b"\0" + body), 0, 12, 200)


def test_a_fetch_with_very_many_tagged_fields_is_malformed() -> None:
    """10 MB of them held the event loop for 2.4 s (found by an attack)."""
    body = fetch_body(15, -1, -1)
    tags = uvarint(TAGS_MAX + 1) + b"\x63\0" * (TAGS_MAX + 1)
    with pytest.raises(MalformedRequest, match="tagged fields"):
        fetch.decode_fetch(framed(ApiKey.FETCH, 15, body[:-1] + tags), 0, 15)
