"""Kafka's record formats in ``__consumer_offsets``: what a committed offset and a group look like on disk.

Written: ``OffsetCommitKey`` v1 with ``OffsetCommitValue`` v4 (in which a commit's own retention is a tagged field),
``GroupMetadataKey`` v2 with ``GroupMetadataValue`` v3. Read: every version Kafka defined so far. A key or value starts
with its version as an int16; a null value is a tombstone. Keys of other versions belong to newer group protocols
(KIP-848, KIP-932) and are left alone.

Source: ``group-coordinator/src/main/resources/common/message/*.json`` of Apache Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minikafka.protocol.types import TopicPartition
from minikafka.protocol.wire import uvarint

NO_EPOCH = -1
NO_TIMESTAMP = -1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_STRING_BYTES_MAX = 32767
_TOPIC_ID_TAG, _TOPIC_ID_BYTES = 0, 16
_EXPIRE_TAG = 10_000
"""A tagged field that Kafka does not have, and passes over: it writes version 1 for an expiry, where no topic's id fits in."""


class MalformedGroupRecord(ValueError):
    """The bytes are not a record of a group."""


class UnstorableGroupRecord(ValueError):
    """A name is longer than the record format can hold (32767 bytes)."""


class OffsetKey(NamedTuple):
    """Whose offset of which partition."""

    group_id: str
    topic_partition: TopicPartition


class GroupKey(NamedTuple):
    """Which group."""

    group_id: str


class CommittedOffset(NamedTuple):
    """A committed offset and what the consumer said with it."""

    offset: int
    leader_epoch: int = NO_EPOCH
    """Epoch of the last consumed record (KIP-320), -1 when the consumer did not say."""
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP
    """When a commit before version 5 asked for a retention of its own; -1: offsets.retention.minutes."""
    topic_id: bytes | None = None
    """Of 16 bytes: another topic of that name has another. None in records of versions before 4."""


class StoredMember(NamedTuple):
    """One member of a stored generation. Times in milliseconds."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    """One generation of a group."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    """When the group came into its present state; -1 in records older than KIP-211."""
    members: Sequence[StoredMember]


def offset_key(group_id: str, topic_partition: TopicPartition) -> bytes:
    """``OffsetCommitKey`` v1."""
    return _int16(1) + _string(group_id) + _string(topic_partition.topic) + _INT32.pack(topic_partition.partition)


def offset_value(committed: CommittedOffset) -> bytes:
    """``OffsetCommitValue`` v4."""
    tags = []
    if committed.topic_id is not None:
        tags.append((_TOPIC_ID_TAG, committed.topic_id))
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        tags.append((_EXPIRE_TAG, _INT64.pack(committed.expire_timestamp_ms)))
    return (
        _int16(4)
        + _INT64.pack(committed.offset)
        + _INT32.pack(committed.leader_epoch)
        + _compact_string(committed.metadata)
        + _INT64.pack(committed.commit_timestamp_ms)
        + uvarint(len(tags))
        + b"".join(uvarint(tag) + uvarint(len(value)) + value for tag, value in tags)
    )


def group_key(group_id: str) -> bytes:
    """``GroupMetadataKey`` v2."""
    return _int16(2) + _string(group_id)


def group_value(group: StoredGroup) -> bytes:
    """``GroupMetadataValue`` v3."""
    out = bytearray(_int16(3))
    out += _string(group.protocol_type)
    out += _INT32.pack(group.generation)
    out += _nullable_string(group.protocol)
    out += _nullable_string(group.leader)
    out += _INT64.pack(group.state_timestamp_ms)
    out += _INT32.pack(len(group.members))
    for member in group.members:
        out += _string(member.member_id)
        out += _nullable_string(member.group_instance_id)
        out += _string(member.client_id)
        out += _string(member.client_host)
        out += _INT32.pack(member.rebalance_timeout_ms)
        out += _INT32.pack(member.session_timeout_ms)
        out += _INT32.pack(len(member.subscription)) + member.subscription
        out += _INT32.pack(len(member.assignment)) + member.assignment
    return bytes(out)


def read_key(key: bytes) -> OffsetKey | GroupKey | None:
    """What a record is about; None for a key of a newer group protocol. Raises MalformedGroupRecord."""
    reader = _Reader(key, flexible_from=None)
    if reader.version in (0, 1):
        group_id, topic = reader.string(), reader.string()
        return OffsetKey(group_id, TopicPartition(topic, reader.int32()))
    if reader.version == 2:
        return GroupKey(reader.string())
    return None


def read_offset_value(value: bytes) -> CommittedOffset:
    """``OffsetCommitValue`` of any version. Raises MalformedGroupRecord."""
    reader = _Reader(value, flexible_from=4)
    version = reader.known_version(4)
    offset = reader.int64()
    epoch = reader.int32() if version >= 3 else NO_EPOCH
    metadata = reader.string()
    committed_at = reader.int64()
    expires_at = reader.int64() if version == 1 else NO_TIMESTAMP
    tags = reader.tags() if reader.flexible else {}
    topic_id, expire = tags.get(_TOPIC_ID_TAG), tags.get(_EXPIRE_TAG)
    if topic_id is not None and len(topic_id) != _TOPIC_ID_BYTES:
        raise MalformedGroupRecord(f"a topic id of {len(topic_id)} bytes")
    if expire is not None:
        if len(expire) != _INT64.size:
            raise MalformedGroupRecord(f"an expiry of {len(expire)} bytes")
        (expires_at,) = _INT64.unpack(expire)
    return CommittedOffset(offset, epoch, metadata, committed_at, expires_at, topic_id)


def read_group_value(value: bytes) -> StoredGroup:
    """``GroupMetadataValue`` of any version. Raises MalformedGroupRecord."""
    reader = _Reader(value, flexible_from=4)
    version = reader.known_version(4)
    protocol_type = reader.string()
    generation = reader.int32()
    protocol, leader = reader.nullable_string(), reader.nullable_string()
    timestamp = reader.int64() if version >= 2 else NO_TIMESTAMP
    members = [_read_member(reader, version) for _ in range(reader.array_size())]
    return StoredGroup(protocol_type, generation, protocol, leader, timestamp, members)


def _read_member(reader: _Reader, version: int) -> StoredMember:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout = reader.int32() if version >= 1 else -1
    session_timeout = reader.int32()
    subscription, assignment = reader.blob(), reader.blob()
    if reader.flexible:
        reader.tags()
    if rebalance_timeout < 0:  # version 0 had one timeout for both
        rebalance_timeout = session_timeout
    return StoredMember(
        member_id, instance_id, client_id, client_host, rebalance_timeout, session_timeout, subscription, assignment
    )


def offset_records(
    group_id: str, offsets: Mapping[TopicPartition, CommittedOffset | None]
) -> list[tuple[bytes, bytes | None]]:
    """One record a partition; None makes a tombstone. Raises UnstorableGroupRecord."""
    return [
        (offset_key(group_id, partition), None if committed is None else offset_value(committed))
        for partition, committed in offsets.items()
    ]


class _Reader:
    """Walks over one versioned key or value; anything past its end is MalformedGroupRecord."""

    def __init__(self, data: bytes, flexible_from: int | None) -> None:
        self._data = data
        self._position = 0
        self.version = self.int16()
        self.flexible = flexible_from is not None and self.version >= flexible_from

    def known_version(self, highest: int) -> int:
        if not 0 <= self.version <= highest:
            raise MalformedGroupRecord(f"value version {self.version}, 0 to {highest} are known")
        return self.version

    def _take(self, size: int) -> bytes:
        start = self._position
        end = start + size
        if size < 0 or end > len(self._data):
            raise MalformedGroupRecord(f"{size} bytes wanted at byte {start} of {len(self._data)}")
        self._position = end
        return self._data[start:end]

    def int16(self) -> int:
        return int(_INT16.unpack(self._take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self._take(4))[0])

    def int64(self) -> int:
        return int(_INT64.unpack(self._take(8))[0])

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise MalformedGroupRecord("a length of more than five bytes")

    def nullable_string(self) -> str | None:
        size = self.uvarint() - 1 if self.flexible else self.int16()
        if size < 0:
            return None
        return self._take(size).decode(errors="replace")

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise MalformedGroupRecord("null where a string must be")
        return text

    def blob(self) -> bytes:
        return self._take(self.uvarint() - 1 if self.flexible else self.int32())

    def array_size(self) -> int:
        size = self.uvarint() - 1 if self.flexible else self.int32()
        if not 0 <= size <= len(self._data):
            raise MalformedGroupRecord(f"an array of {size} members in {len(self._data)} bytes")
        return size

    def tags(self) -> dict[int, bytes]:
        """The tagged fields (KIP-482), by their numbers."""
        return {self.uvarint(): self._take(self.uvarint()) for _ in range(self.uvarint())}


def _int16(value: int) -> bytes:
    return _INT16.pack(value)


def _string(text: str) -> bytes:
    raw = _encoded(text)
    return _INT16.pack(len(raw)) + raw


def _compact_string(text: str) -> bytes:
    raw = _encoded(text)
    return uvarint(len(raw) + 1) + raw


def _encoded(text: str) -> bytes:
    """What fits into answers that are not flexible, too."""
    raw = text.encode(errors="replace")
    if len(raw) > _STRING_BYTES_MAX:
        raise UnstorableGroupRecord(f"{text[:40]!r}... has {len(raw)} bytes, at most {_STRING_BYTES_MAX} can be stored")
    return raw


def _nullable_string(text: str | None) -> bytes:
    return _INT16.pack(-1) if text is None else _string(text)
