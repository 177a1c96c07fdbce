"""Arrays that say that they have more elements than a request has bytes, and those that say what is true."""

from __future__ import annotations

import itertools
import struct
from typing import Any
from uuid import UUID

import pytest
from minikafka.protocol import counts, messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.wire import ROWS_MAX, TAGS_MAX, MalformedRequest, skip_tags, uvarint
from minikafka.server.api import load_handlers

from tests.fuzz.choices import Choices
from tests.fuzz.request_values import request_of
from tests.unit.server.api_requests import SPECIAL, USUAL, request_values

KNOWN = {
    "topic_id": UUID(int=5),
    "broker_id": 1,
    "broker_epoch": 1,
    "cluster_id": "c",
    "offline_log_dirs": [UUID(int=6)],
}
HOT = (ApiKey.PRODUCE, ApiKey.FETCH)


def bodies(key: int, version: int, **more: Any) -> list[bytes]:
    entity_type = messages.request_type(key, version)
    return [
        messages.encode_request(key, version, request_values(entity_type, {**USUAL, **KNOWN, **special, **more}))
        for special in SPECIAL.get(ApiKey(key), ({},))
    ]


COLD = [(int(key), spec) for key, (spec, _) in load_handlers().items() if key not in HOT]


@pytest.mark.parametrize(("key", "spec"), COLD, ids=lambda value: getattr(value, "name", None))
def test_each_field_is_gone_over_to_the_end(key: int, spec: Any) -> None:
    """Whoever goes wrong by a byte takes the next ones for a count."""
    for version in range(spec.min_version, spec.max_version + 1):
        for body in bodies(key, version):
            assert counts._skip_struct(messages.request_type(key, version))(body, 0, counts.RowCount(1000)) == len(body)
            messages.decode_request(key, version, body)
        answer_type = messages.response_type(key, version)
        for fill in (b"\1", b"\2"):
            answer = messages.encode_response(key, version, request_of(answer_type, Choices(fill * 1000)))
            assert counts._skip_struct(answer_type)(answer, 0, counts.RowCount(1000)) == len(answer)
            messages.decode_response(key, version, answer)


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (ApiKey.METADATA, 4, struct.pack(">i", 2**31 - 1)),
        (ApiKey.METADATA, 9, b"\xff\xff\xff\xff\x0f"),
        (ApiKey.METADATA, 4, struct.pack(">i", 2) + b"\0"),
        (ApiKey.BROKER_HEARTBEAT, 1, bytes(22) + b"\1\0\6\xff\xff\xff\xff\x0f\0"),
    ],
    ids=["legacy", "flexible", "one too many", "tagged"],
)  # fmt: skip
def test_more_elements_than_bytes_are_refused(key: int, version: int, body: bytes) -> None:
    """kio's reader would make room for them first, which aborts the process."""
    with pytest.raises(MalformedRequest, match="an array of"):
        messages.decode_request(key, version, body)


def test_responses_are_held_against_their_bytes_too() -> None:
    """A client's process, or a broker's that asks another, would be aborted."""
    for version, body in ((4, bytes(4) + struct.pack(">i", 2**31 - 1)), (9, bytes(4) + b"\xff\xff\xff\xff\x0f")):
        with pytest.raises(MalformedRequest, match="an array of"):
            messages.decode_response(ApiKey.METADATA, version, body)


def test_null_is_refused_where_an_array_must_be() -> None:
    """kio reads it as None, which handlers would go over; Kafka closes the connection, too."""
    for key, version, body in ((ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, b"\0\0\0"), (ApiKey.METADATA, 0, b"\xff" * 4)):
        with pytest.raises(MalformedRequest, match="null where an array must be"):
            messages.decode_request(key, version, body)


def test_no_array_is_one_of_no_elements() -> None:
    assert messages.decode_request(ApiKey.METADATA, 4, struct.pack(">ib", -1, 0)).topics is None
    assert messages.decode_request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, b"\1\0\0\0\1\xff\0").cursor is None


@pytest.mark.parametrize("version", [0, 10])
def test_very_many_rows_are_malformed(version: int) -> None:
    """Each takes time, and no other client is served before the answer is made."""

    def asked(topics: int, partitions: int) -> bytes:
        rows = [{"name": "t", "topic_id": UUID(int=5), "partition_indexes": [0] * partitions}] * topics
        if version < 10:
            return messages.encode_request(
                ApiKey.OFFSET_DELETE,
                0,
                {
                    "group_id": "g",
                    "topics": [{"name": "t", "partitions": [{"partition_index": 0}] * partitions}] * topics,
                },
            )
        return messages.encode_request(ApiKey.OFFSET_FETCH, version, {"groups": [{"group_id": "g", "topics": rows}]})

    key = ApiKey.OFFSET_FETCH if version else ApiKey.OFFSET_DELETE
    messages.decode_request(key, version, asked(2, ROWS_MAX // 2 - 2))
    with pytest.raises(MalformedRequest, match="more than 25,000 rows"):
        messages.decode_request(key, version, asked(2, ROWS_MAX // 2))


def test_a_topic_of_very_many_partitions_may_be_asked_for_with_its_replicas() -> None:
    def asked(replicas: int) -> bytes:
        rows = [{"partition_index": index, "broker_ids": range(replicas)} for index in range(10_000)]
        topic = {"name": "t", "num_partitions": -1, "replication_factor": -1, "assignments": rows, "configs": []}
        return messages.encode_request(ApiKey.CREATE_TOPICS, 7, {"topics": [topic], "timeout": 0})

    assert len(messages.decode_request(ApiKey.CREATE_TOPICS, 7, asked(4)).topics[0].assignments) == 10_000
    with pytest.raises(MalformedRequest, match="more than 25,000 rows"):
        messages.decode_request(ApiKey.CREATE_TOPICS, 7, asked(8))


# -- tagged fields ------------------------------------------------------------------------------------------------------

METADATA = b"\3" + 2 * (bytes(16) + b"\2t%b") + b"\1\0%b"
"""Two topics named t, with the tagged fields of both, and of the request."""
UNKNOWN = b"\2\x63\2ab\x64\0"


def test_tagged_fields_that_nobody_knows_are_left_out() -> None:
    """KIP-482: newer clients may send them in any version."""
    usual = messages.decode_request(ApiKey.METADATA, 12, METADATA % (b"\0", b"\0", b"\0"))
    assert [topic.name for topic in usual.topics] == ["t", "t"]
    for where in itertools.product((b"\0", UNKNOWN), repeat=3):
        assert messages.decode_request(ApiKey.METADATA, 12, METADATA % where) == usual


def test_one_that_is_known_stays() -> None:
    values = request_values(messages.request_type(ApiKey.BROKER_HEARTBEAT, 1), {**USUAL, **KNOWN})
    known = b"\0\x11\2" + UUID(int=6).bytes
    head, count, rest = messages.encode_request(ApiKey.BROKER_HEARTBEAT, 1, values).partition(b"\1" + known)
    assert count and not rest, "offline_log_dirs is its one tagged field, and its last"
    for both in (known + b"\x63\0", b"\x63\0" + known):
        request = messages.decode_request(ApiKey.BROKER_HEARTBEAT, 1, head + b"\2" + both)
        assert request.offline_log_dirs == (UUID(int=6),)


def test_very_many_tagged_fields_are_malformed() -> None:
    """In a request's header, too, whose structure nobody else looks at."""
    many = uvarint(TAGS_MAX + 1) + b"\x63\0" * (TAGS_MAX + 1)
    with pytest.raises(MalformedRequest, match="65 tagged fields in one place; 64 are allowed"):
        messages.decode_request(ApiKey.METADATA, 12, METADATA % (b"\0", b"\0", many))
    with pytest.raises(MalformedRequest, match="65 tagged fields in one place; 64 are allowed"):
        skip_tags(many, 0)
    few = uvarint(TAGS_MAX) + b"\x63\0" * TAGS_MAX
    assert skip_tags(few, 0) == len(few)
    body = uvarint(ROWS_MAX // TAGS_MAX + 1) + (bytes(16) + b"\2t" + few) * (ROWS_MAX // TAGS_MAX) + b"\1\0\0"
    with pytest.raises(MalformedRequest, match="more than 25,000 rows"):
        messages.decode_request(ApiKey.METADATA, 12, body)
