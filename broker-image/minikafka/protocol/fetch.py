"""Hot codec of Fetch, versions 4 to 17, for both ends: the broker that answers and the follower that asks.

Records never pass through Python: a response is a list of header bytes and file ranges, sent by ``sendfile``.
From version 13 on topics are named by their 16-byte id (KIP-516), before by name; both are kept as the *key* of a topic.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.wire import (
    ROWS_MAX,
    MalformedRequest,
    compact_string,
    counted,
    legacy_string,
    read_tag_count,
    read_uvarint,
    skip_tags,
    uvarint,
)

MIN_SUPPORTED = 4
MAX_SUPPORTED = 17

CONSUMER = -1
"""``replica_id`` of an ordinary client."""

_i16 = struct.Struct(">h").unpack_from
_i32 = struct.Struct(">i").unpack_from
_head = struct.Struct(">iiibii").unpack_from
_part_v12 = struct.Struct(">iiqiqi").unpack_from
_part_v9 = struct.Struct(">iiqqi").unpack_from
_part_v5 = struct.Struct(">iqqi").unpack_from
_part_v4 = struct.Struct(">iqi").unpack_from
_pack_part = struct.Struct(">iiqiqi").pack
_pack_data = struct.Struct(">ihqqq").pack

TopicKey = str | bytes


class FetchPartition(NamedTuple):
    """What is asked of one partition; epochs are -1 when not given."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchRequest:
    """A decoded Fetch request."""

    __slots__ = (
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack",
        "replica_epoch",
        "replica_id",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(
        self,
        replica_id: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        session_id: int,
        session_epoch: int,
        topics: list[tuple[TopicKey, list[FetchPartition]]],
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = -1
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics
        self.rack = ""


class PartitionData:
    """The answer for one partition."""

    __slots__ = (
        "current_leader",
        "diverging",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "preferred_read_replica",
        "ranges",
        "size",
    )

    def __init__(self, partition: int, error: int = 0, high_watermark: int = -1, log_start_offset: int = -1) -> None:
        self.partition = partition
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = high_watermark
        self.log_start_offset = log_start_offset
        self.ranges: Any = ()
        self.size = 0
        self.diverging: tuple[int, int] | None = None
        self.current_leader: tuple[int, int] | None = None
        self.preferred_read_replica = -1


def decode_fetch(frame: memoryview, position: int, version: int, rows_max: int = ROWS_MAX) -> FetchRequest:
    """Decode the body of a Fetch request.

    Raises:
        TooManyRows: it has more; nothing behind those has been read.
        MalformedRequest: lengths run over the end of the request.
    """
    try:
        if version >= 12:
            return _decode_flexible(frame, skip_tags(frame, position), version, rows_max)
        return _decode_legacy(frame, position, version, rows_max)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise MalformedRequest(f"Fetch v{version} ends early") from error


def _decode_flexible(frame: memoryview, position: int, version: int, rows_max: int) -> FetchRequest:
    replica_id = CONSUMER
    if version < 15:
        (replica_id,) = _i32(frame, position)
        position += 4
    max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch = _head(frame, position)
    topic_count, position = read_uvarint(frame, position + 21)
    topics: list[tuple[TopicKey, list[FetchPartition]]] = []
    rows = counted(0, topic_count - 1, rows_max)
    for _ in range(topic_count - 1):
        key: TopicKey
        if version >= 13:
            key = bytes(frame[position : position + 16])
            position += 16
        else:
            length, position = read_uvarint(frame, position)
            if length == 0:
                raise MalformedRequest("a topic without a name")
            key = str(frame[position : position + length - 1], "utf-8")
            position += length - 1
        count, position = read_uvarint(frame, position)
        rows = counted(rows, count - 1, rows_max)
        partitions = []
        for _ in range(count - 1):
            partitions.append(FetchPartition._make(_part_v12(frame, position)))
            position += 32
            if frame[position]:
                position = skip_tags(frame, position)
            else:
                position += 1
        position = skip_tags(frame, position)
        topics.append((key, partitions))
    request = FetchRequest(replica_id, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch, topics)
    forgotten, position = read_uvarint(frame, position)
    counted(rows, forgotten - 1, rows_max)
    for _ in range(forgotten - 1):
        if version >= 13:
            position += 16
        else:
            length, position = read_uvarint(frame, position)
            position += max(length - 1, 0)
        count, position = read_uvarint(frame, position)
        position = skip_tags(frame, position + 4 * max(count - 1, 0))
    length, position = read_uvarint(frame, position)
    request.rack = str(frame[position : position + length - 1], "utf-8") if length > 1 else ""
    position += max(length - 1, 0)
    if version >= 15:
        _read_replica_state(frame, position, request)
    return request


def _read_replica_state(frame: memoryview, position: int, request: FetchRequest) -> None:
    """Tag 1 since version 15: the follower's id and broker epoch (KIP-903)."""
    count, position = read_tag_count(frame, position)
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        if tag == 1:
            request.replica_id, request.replica_epoch = struct.unpack_from(">iq", frame, position)
        position += size


def _decode_legacy(frame: memoryview, position: int, version: int, rows_max: int) -> FetchRequest:
    (replica_id, max_wait, min_bytes, max_bytes, isolation) = struct.unpack_from(">iiiib", frame, position)
    position += 17
    session_id, session_epoch = 0, -1
    if version >= 7:
        session_id, session_epoch = struct.unpack_from(">ii", frame, position)
        position += 8
    (topic_count,) = _i32(frame, position)
    position += 4
    topics: list[tuple[TopicKey, list[FetchPartition]]] = []
    rows = counted(0, topic_count, rows_max)
    for _ in range(topic_count):
        (length,) = _i16(frame, position)
        if length < 0:  # it would lead back, for ever
            raise MalformedRequest("a topic without a name")
        name = str(frame[position + 2 : position + 2 + length], "utf-8")
        position += 2 + length
        (count,) = _i32(frame, position)
        position += 4
        rows = counted(rows, count, rows_max)
        partitions = []
        for _ in range(count):
            if version >= 9:
                index, epoch, offset, start, max_part = _part_v9(frame, position)
                position += 28
            elif version >= 5:
                index, offset, start, max_part = _part_v5(frame, position)
                epoch = -1
                position += 24
            else:
                index, offset, max_part = _part_v4(frame, position)
                epoch = start = -1
                position += 16
            partitions.append(FetchPartition(index, epoch, offset, -1, start, max_part))
        topics.append((name, partitions))
    request = FetchRequest(replica_id, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch, topics)
    if version >= 11:  # forgotten topics are only for sessions, which this broker does not open
        (count,) = _i32(frame, position)
        position += 4
        counted(rows, count, rows_max)
        for _ in range(count):
            (length,) = _i16(frame, position)
            length = max(length, 0)
            (parts,) = _i32(frame, position + 2 + length)
            position += 6 + length + 4 * max(parts, 0)
        (length,) = _i16(frame, position)
        request.rack = str(frame[position + 2 : position + 2 + max(length, 0)], "utf-8")
    return request


def encode_fetch_response(
    version: int,
    correlation_id: int,
    topics: list[tuple[TopicKey, list[PartitionData]]],
    error: int = 0,
    endpoints: list[tuple[int, str, int, str | None]] | None = None,
    throttle_ms: int = 0,
) -> list[Any]:
    """A whole response as a list of ``bytes`` and file ranges (anything with ``file``, ``position``, ``length``).

    The session id is always 0: no fetch session is opened, and the client sends full requests (KIP-227).
    """
    out: list[Any] = []
    flexible = version >= 12
    head = bytearray(8)
    if flexible:
        head.append(0)
    head += throttle_ms.to_bytes(4, "big")
    if version >= 7:
        head += struct.pack(">hi", error, 0)
    head += uvarint(len(topics) + 1) if flexible else struct.pack(">i", len(topics))
    total = 0
    for key, partitions in topics:
        if version >= 13:
            head += key  # type: ignore[arg-type]
        elif flexible:
            head += compact_string(key)  # type: ignore[arg-type]
        else:
            head += legacy_string(key)  # type: ignore[arg-type]
        head += uvarint(len(partitions) + 1) if flexible else struct.pack(">i", len(partitions))
        for data in partitions:
            _encode_partition_head(head, version, data)
            if data.size:
                out.append(head)
                total += len(head) + data.size
                out.extend(data.ranges)
                head = bytearray()
            if flexible:
                _encode_partition_tags(head, data)
        if flexible:
            head.append(0)
    if flexible:
        if version >= 16 and endpoints:
            payload = uvarint(len(endpoints) + 1) + b"".join(
                struct.pack(">i", node) + compact_string(host) + struct.pack(">i", port) + compact_string(rack) + b"\0"
                for node, host, port, rack in endpoints
            )
            head += b"\x01\0" + uvarint(len(payload)) + payload
        else:
            head.append(0)
    if head:
        out.append(head)
        total += len(head)
    struct.pack_into(">ii", out[0], 0, total - 4, correlation_id)
    return out


def _encode_partition_head(head: bytearray, version: int, data: PartitionData) -> None:
    if version >= 5:
        head += _pack_data(
            data.partition, data.error, data.high_watermark, data.last_stable_offset, data.log_start_offset
        )
    else:
        head += struct.pack(">ihqq", data.partition, data.error, data.high_watermark, data.last_stable_offset)
    if version >= 12:
        head += b"\0"  # aborted_transactions: null
        head += struct.pack(">i", data.preferred_read_replica)
        head += uvarint(data.size + 1)
    else:
        head += b"\xff\xff\xff\xff"
        if version >= 11:
            head += struct.pack(">i", data.preferred_read_replica)
        head += struct.pack(">i", data.size)


def _encode_partition_tags(head: bytearray, data: PartitionData) -> None:
    if data.diverging is None and data.current_leader is None:
        head.append(0)
        return
    head.append((data.diverging is not None) + (data.current_leader is not None))
    if data.diverging is not None:
        head += struct.pack(">BBiqB", 0, 13, *data.diverging, 0)
    if data.current_leader is not None:
        head += struct.pack(">BBiiB", 1, 9, *data.current_leader, 0)


FOLLOWER_VERSION = 16
"""What followers speak: topic ids (KIP-516), truncation on fetch (KIP-595) and the broker epoch (KIP-903)."""


def encode_follower_fetch(
    correlation_id: int,
    client_id: str,
    replica_id: int,
    replica_epoch: int,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    topics: list[tuple[bytes, list[tuple[int, int, int, int, int, int]]]],
) -> bytes:
    """A Fetch request frame of a follower, version :data:`FOLLOWER_VERSION`; partitions as in :class:`FetchPartition`."""
    raw = client_id.encode()
    out = bytearray(4)
    out += struct.pack(">hhih", ApiKey.FETCH, FOLLOWER_VERSION, correlation_id, len(raw)) + raw
    out.append(0)
    out += struct.pack(">iiibii", max_wait_ms, min_bytes, max_bytes, 0, 0, -1)
    out += uvarint(len(topics) + 1)
    for topic_id, partitions in topics:
        out += topic_id
        out += uvarint(len(partitions) + 1)
        for partition in partitions:
            out += _pack_part(*partition)
            out.append(0)
        out.append(0)
    out += b"\x01\x01"  # no forgotten topics, empty rack
    out += struct.pack(">BBBiqB", 1, 1, 13, replica_id, replica_epoch, 0)
    struct.pack_into(">i", out, 0, len(out) - 4)
    return bytes(out)


class FollowerData(NamedTuple):
    """One partition of a response, as a follower sees it; ``records`` is a view into the receive buffer."""

    topic_id: bytes
    partition: int
    error: int
    high_watermark: int
    log_start_offset: int
    diverging: tuple[int, int] | None
    records: memoryview


def decode_follower_response(frame: memoryview) -> tuple[int, list[FollowerData]]:
    """(top-level error, partitions) of a response of version :data:`FOLLOWER_VERSION`, header included.

    Raises:
        MalformedRequest: not such a response.
    """
    try:
        position = skip_tags(frame, 4) + 4
        error, _session = struct.unpack_from(">hi", frame, position)
        topic_count, position = read_uvarint(frame, position + 6)
        result: list[FollowerData] = []
        for _ in range(topic_count - 1):
            topic_id = bytes(frame[position : position + 16])
            count, position = read_uvarint(frame, position + 16)
            for _ in range(count - 1):
                index, code, high_watermark, _lso, start = struct.unpack_from(">ihqqq", frame, position)
                aborted, position = read_uvarint(frame, position + 30)
                if aborted > 1:
                    for _ in range(aborted - 1):
                        position = skip_tags(frame, position + 16)
                length, position = read_uvarint(frame, position + 4)
                stop = position + max(length - 1, 0)
                records = frame[position:stop]
                diverging, position = _read_diverging(frame, stop)
                result.append(FollowerData(topic_id, index, code, high_watermark, start, diverging, records))
            position = skip_tags(frame, position)
        return error, result
    except (IndexError, struct.error) as problem:
        raise MalformedRequest("a Fetch response ends early") from problem


def _read_diverging(frame: memoryview, position: int) -> tuple[tuple[int, int] | None, int]:
    count, position = read_uvarint(frame, position)
    diverging = None
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        if tag == 0:
            diverging = struct.unpack_from(">iq", frame, position)
        position += size
    return diverging, position
