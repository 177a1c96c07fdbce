"""Bytes of ``__consumer_offsets`` records, against hand-built golden bytes from Kafka's message definitions."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from minikafka.groups.records import (
    CommittedOffset,
    GroupKey,
    MalformedGroupRecord,
    OffsetKey,
    StoredGroup,
    StoredMember,
    UnstorableGroupRecord,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group_value,
    read_key,
    read_offset_value,
)
from minikafka.protocol.types import TopicPartition

LEDGER = TopicPartition("ledger", 5)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def test_offset_commit_key_v1() -> None:
    """OffsetCommitKey.json: group, topic, partition."""
    golden = bytes.fromhex("0001000462616e6b00066c656467657200000005")
    assert offset_key("bank", LEDGER) == golden
    assert read_key(golden) == OffsetKey("bank", LEDGER)
    assert read_key(b"\0\0" + golden[2:]) == OffsetKey("bank", LEDGER)  # version 0 is the same


@pytest.mark.parametrize(
    ("topic_id", "tags"), [(bytes(range(1, 17)), "0100100102030405060708090a0b0c0d0e0f10"), (None, "00")]
)
def test_offset_commit_value_v4(topic_id: bytes | None, tags: str) -> None:
    """OffsetCommitValue.json v4, as Apache Kafka 4.3 writes it: offset, leaderEpoch, metadata, commitTimestamp, tags."""
    golden = bytes.fromhex("0004000000000000002a00000007036f6b0000018bcfe56800" + tags)
    committed = CommittedOffset(42, 7, "ok", 1_700_000_000_000, topic_id=topic_id)
    assert offset_value(committed) == golden
    assert read_offset_value(golden) == committed


@pytest.mark.parametrize(("tag", "problem"), [("00", "topic id"), ("904e", "an expiry")])
def test_tagged_fields_of_another_length(tag: str, problem: str) -> None:
    value = bytes.fromhex(f"0004000000000000002a00000007036f6b0000018bcfe5680001{tag}020102")
    with pytest.raises(MalformedGroupRecord, match=f"{problem} of 2 bytes"):
        read_offset_value(value)


def test_an_expiry_is_kept_beside_a_topic_id() -> None:
    """Only version 1 has expireTimestamp, which Kafka writes then, and no topic's id; Kafka passes over tags that it has not."""
    committed = CommittedOffset(42, -1, "ok", 1_700_000_000_000, 1_700_000_000_001, b"i" * 16)
    assert read_offset_value(offset_value(committed)) == committed
    of_version_1 = bytes.fromhex("0001000000000000002a00026f6b0000018bcfe568000000018bcfe56801")
    assert read_offset_value(of_version_1) == committed._replace(topic_id=None)


def test_other_versions_of_offset_commit_value_are_read() -> None:
    """0 and 2: no epoch, no expiry; 3: no topic's id."""
    body = struct.pack(">q", 42) + text("ok") + struct.pack(">q", 9)
    expected = CommittedOffset(42, -1, "ok", 9)
    assert read_offset_value(b"\0\0" + body) == expected
    assert read_offset_value(b"\0\2" + body) == expected
    with_epoch = b"\0\3" + struct.pack(">qi", 42, 7) + text("ok") + struct.pack(">q", 9)
    assert read_offset_value(with_epoch) == CommittedOffset(42, 7, "ok", 9)


def test_group_metadata_key_v2() -> None:
    """GroupMetadataKey.json."""
    assert group_key("bank") == bytes.fromhex("0002000462616e6b")
    assert read_key(group_key("bank")) == GroupKey("bank")


GROUP = StoredGroup(
    "consumer",
    3,
    "range",
    "alice-1",
    1_700_000_000_000,
    [StoredMember("alice-1", "one", "alice", "/127.0.0.1", 60_000, 10_000, b"\0\0", b"\1\2\3")],
)


def test_group_metadata_value_v3() -> None:
    """GroupMetadataValue.json v3."""
    golden = b"".join(
        (
            b"\0\3",
            text("consumer"),
            struct.pack(">i", 3),
            text("range"),
            text("alice-1"),
            struct.pack(">q", 1_700_000_000_000),
            struct.pack(">i", 1),
            text("alice-1"),
            text("one"),
            text("alice"),
            text("/127.0.0.1"),
            struct.pack(">ii", 60_000, 10_000),
            blob(b"\0\0"),
            blob(b"\1\2\3"),
        )
    )
    assert group_value(GROUP) == golden
    assert read_group_value(golden) == GROUP


def test_an_empty_group_has_no_protocol_and_no_leader() -> None:
    """Nullable strings."""
    golden = b"\0\3" + text("consumer") + struct.pack(">i", 4) + b"\xff\xff\xff\xff" + struct.pack(">qi", -1, 0)
    empty = StoredGroup("consumer", 4, None, None, -1, [])
    assert group_value(empty) == golden
    assert read_group_value(golden) == empty


def test_other_versions_of_group_metadata_value_are_read() -> None:
    """0 has one timeout for both, 0 and 1 no state timestamp, 0 to 2 no instance id, 4 is flexible."""
    head = text("consumer") + struct.pack(">i", 3) + text("range") + text("alice-1")
    who = text("alice-1") + text("alice") + text("/127.0.0.1")
    tail = blob(b"\0\0") + blob(b"\1\2\3")
    one = struct.pack(">i", 1)
    v0 = read_group_value(b"\0\0" + head + one + who + struct.pack(">i", 10_000) + tail)
    assert (v0.members[0].rebalance_timeout_ms, v0.members[0].session_timeout_ms) == (10_000, 10_000)
    v1 = read_group_value(b"\0\1" + head + one + who + struct.pack(">ii", 60_000, 10_000) + tail)
    assert (v1.members[0].rebalance_timeout_ms, v1.state_timestamp_ms) == (60_000, -1)
    v2 = read_group_value(b"\0\2" + head + struct.pack(">q", 8) + one + who + struct.pack(">ii", 60_000, 10_000) + tail)
    assert (v2.state_timestamp_ms, v2.members[0].group_instance_id) == (8, None)
    v4 = b"".join(
        (
            b"\0\4" + b"\x09consumer" + struct.pack(">i", 3) + b"\x06range" + b"\x08alice-1",
            struct.pack(">q", 1_700_000_000_000) + b"\x02",
            b"\x08alice-1" + b"\x04one" + b"\x06alice" + b"\x0b/127.0.0.1" + struct.pack(">ii", 60_000, 10_000),
            b"\x03\0\0" + b"\x04\1\2\3" + b"\x01\x00\x01x" + b"\0",
        )
    )
    assert read_group_value(v4) == GROUP


def test_keys_of_newer_group_protocols_are_left_alone() -> None:
    """KIP-848 uses key versions from 3 on."""
    assert read_key(b"\0\x03" + text("bank")) is None


def test_names_too_long_for_the_format() -> None:
    """An int16 length."""
    with pytest.raises(UnstorableGroupRecord, match="at most 32767"):
        offset_key("x" * 32_768, LEDGER)


@pytest.mark.slow
@given(st.binary(max_size=60))
def test_garbage_is_refused_in_one_way(data: bytes) -> None:
    """MalformedGroupRecord and nothing else."""
    for read in (read_key, read_offset_value, read_group_value):
        try:
            read(data)
        except MalformedGroupRecord:
            continue


@pytest.mark.slow
@given(
    st.text(max_size=30),
    st.text(max_size=30),
    st.integers(0, 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1, 2**31 - 1),
)
def test_offsets_round_trip(group: str, topic: str, partition: int, offset: int, epoch: int) -> None:
    """Any names and numbers."""
    key = OffsetKey(group, TopicPartition(topic, partition))
    assert read_key(offset_key(*key)) == key
    committed = CommittedOffset(offset, epoch, group, offset)
    assert read_offset_value(offset_value(committed)) == committed
