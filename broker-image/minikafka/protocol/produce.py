"""Hot codec of Produce, versions 3 to 12: one pass over the request, records left where they are.

Versions 0 to 2 are advertised (clients decide on their compression codecs by that range, KAFKA-18659) but carry message
formats that were removed by KIP-896, so they answer UNSUPPORTED_VERSION, as Apache Kafka 4 does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    MAGIC,
    MAGIC_POSITION,
    Codec,
)
from minikafka.protocol.wire import (
    MalformedRequest,
    compact_string,
    counted,
    legacy_string,
    read_uvarint,
    skip_tags,
    uvarint,
)

MIN_SUPPORTED = 3
MAX_SUPPORTED = 12
ZSTD_VERSION_MIN = 7
"""The first version whose batches may be compressed by zstd (KIP-110)."""
BATCHES_MAX = 10_000
"""What one request may hold: it is worked on at one go, a quarter of a second for so many, and no other client is served then."""
RECORD_ERRORS_VERSION = 8
"""The first version that names the records an error is about (KIP-467)."""

_i16 = struct.Struct(">h").unpack_from
_i32 = struct.Struct(">i").unpack_from
_acks_timeout = struct.Struct(">hi").unpack_from
_result = struct.Struct(">ihqqq").pack
_result_v2 = struct.Struct(">ihqq").pack
_leader_tag = struct.Struct(">BBBiiB").pack

ProduceTopics = list[tuple[str, list[tuple[int, "memoryview | None"]]]]


class ProduceRequest:
    """A decoded Produce request; ``records`` are views into the receive buffer, valid until the handler returns."""

    __slots__ = ("acks", "timeout_ms", "topics", "transactional_id")

    def __init__(self, transactional_id: str | None, acks: int, timeout_ms: int, topics: ProduceTopics) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics = topics


class PartitionResult:
    """The answer for one partition; offsets are -1 when nothing was appended."""

    __slots__ = (
        "base_offset", "current_leader", "error", "index", "log_append_time", "log_start_offset", "message", "record_errors",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        error: int,
        base_offset: int = -1,
        log_append_time: int = -1,
        log_start_offset: int = -1,
        message: str | None = None,
        current_leader: tuple[int, int] | None = None,
        record_errors: Sequence[tuple[int, str]] = (),
    ) -> None:
        self.index = index
        self.error = error
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self.log_start_offset = log_start_offset
        self.message = message
        self.current_leader = current_leader
        self.record_errors = record_errors

    def take(self, other: PartitionResult) -> None:
        """Be the answer that the other one is."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))


def decode_produce(frame: memoryview, position: int, version: int, rows_max: int = BATCHES_MAX) -> ProduceRequest:
    """Decode the body of a Produce request.

    Raises:
        TooManyRows: it holds more; nothing behind those has been read.
        MalformedRequest: lengths run over the end of the request.
    """
    try:
        if version >= 9:
            return _decode_flexible(frame, skip_tags(frame, position), rows_max)
        return _decode_legacy(frame, position, rows_max)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise MalformedRequest(f"Produce v{version} ends early") from error


def _decode_flexible(frame: memoryview, position: int, rows_max: int) -> ProduceRequest:
    end = len(frame)
    length, position = read_uvarint(frame, position)
    transactional_id = None
    if length:
        transactional_id = str(frame[position : position + length - 1], "utf-8")
        position += length - 1
    acks, timeout_ms = _acks_timeout(frame, position)
    topic_count, position = read_uvarint(frame, position + 6)
    topics: ProduceTopics = []
    batches = 0
    counted(0, topic_count - 1, rows_max)
    for _ in range(topic_count - 1):
        length, position = read_uvarint(frame, position)
        if length == 0:
            raise MalformedRequest("a topic without a name")
        name = str(frame[position : position + length - 1], "utf-8")
        position += length - 1
        partition_count, position = read_uvarint(frame, position)
        batches = counted(batches, partition_count - 1, rows_max)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count - 1):
            (index,) = _i32(frame, position)
            length, position = read_uvarint(frame, position + 4)
            if length == 0:
                partitions.append((index, None))
            else:
                stop = position + length - 1
                if stop > end:
                    raise MalformedRequest("records run over the end of the request")
                partitions.append((index, frame[position:stop]))
                position = stop
            position = skip_tags(frame, position)
        position = skip_tags(frame, position)
        topics.append((name, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _decode_legacy(frame: memoryview, position: int, rows_max: int) -> ProduceRequest:
    end = len(frame)
    (length,) = _i16(frame, position)
    position += 2
    transactional_id = None
    if length >= 0:
        transactional_id = str(frame[position : position + length], "utf-8")
        position += length
    acks, timeout_ms = _acks_timeout(frame, position)
    (topic_count,) = _i32(frame, position + 6)
    position += 10
    topics: ProduceTopics = []
    batches = 0
    counted(0, topic_count, rows_max)
    for _ in range(topic_count):
        (length,) = _i16(frame, position)
        if length < 0:  # it would lead back, for ever
            raise MalformedRequest("a topic without a name")
        name = str(frame[position + 2 : position + 2 + length], "utf-8")
        position += 2 + length
        (partition_count,) = _i32(frame, position)
        batches = counted(batches, partition_count, rows_max)
        position += 4
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            (index,) = _i32(frame, position)
            (length,) = _i32(frame, position + 4)
            position += 8
            if length < 0:
                partitions.append((index, None))
                continue
            stop = position + length
            if stop > end:
                raise MalformedRequest("records run over the end of the request")
            partitions.append((index, frame[position:stop]))
            position = stop
        topics.append((name, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: list[tuple[str, list[PartitionResult]]],
    endpoints: list[tuple[int, str, int, str | None]] | None = None,
    throttle_ms: int = 0,
) -> bytes:
    """A whole response frame.

    Args:
        throttle_ms: for how long the connection is muted.
        endpoints: brokers named by ``current_leader`` hints (KIP-951, from version 10 on): (id, host, port, rack).
    """
    out = bytearray(8)
    flexible = version >= 9
    if flexible:
        out.append(0)
        out += uvarint(len(topics) + 1)
    else:
        out += struct.pack(">i", len(topics))
    for name, partitions in topics:
        if flexible:
            out += compact_string(name)
            out += uvarint(len(partitions) + 1)
        else:
            out += legacy_string(name)
            out += struct.pack(">i", len(partitions))
        for result in partitions:
            _encode_result(out, version, result)
        if flexible:
            out.append(0)
    out += throttle_ms.to_bytes(4, "big")
    if flexible:
        if version >= 10 and endpoints:
            payload = uvarint(len(endpoints) + 1) + b"".join(
                struct.pack(">i", node) + compact_string(host) + struct.pack(">i", port) + compact_string(rack) + b"\0"
                for node, host, port, rack in endpoints
            )
            out += b"\x01\0" + uvarint(len(payload)) + payload
        else:
            out.append(0)
    struct.pack_into(">ii", out, 0, len(out) - 4, correlation_id)
    return bytes(out)


def _encode_result(out: bytearray, version: int, result: PartitionResult) -> None:
    if version < 5:
        out += _result_v2(result.index, result.error, result.base_offset, result.log_append_time)
        return
    out += _result(result.index, result.error, result.base_offset, result.log_append_time, result.log_start_offset)
    if version < RECORD_ERRORS_VERSION:
        return
    if version < 9:
        out += struct.pack(">i", len(result.record_errors))
        for index, why in result.record_errors:
            out += struct.pack(">i", index) + legacy_string(why)
        out += legacy_string(result.message)
        return
    out += uvarint(len(result.record_errors) + 1)
    for index, why in result.record_errors:
        out += struct.pack(">i", index) + compact_string(why) + b"\0"
    out += compact_string(result.message) if result.message is not None else b"\0"
    if version >= 10 and result.current_leader is not None:
        out += _leader_tag(1, 0, 9, *result.current_leader, 0)
    else:
        out.append(0)


def attributes_of_any(request: ProduceRequest) -> int:
    """The lower attributes that any partition's batch has. Only the first of each partition counts: there may be no other."""
    found = 0
    for _, _, records in _batches(request):
        found |= records[ATTRIBUTES_POSITION]
    return found


def has_zstd_records(request: ProduceRequest) -> bool:
    """Whether the batch of a partition is compressed by zstd."""
    return any(records[ATTRIBUTES_POSITION] & COMPRESSION_MASK == Codec.ZSTD for _, _, records in _batches(request))


def compressed_batches(request: ProduceRequest) -> list[tuple[str, int, memoryview]]:
    """Topic, partition and records of each compressed batch."""
    return [found for found in _batches(request) if found[2][ATTRIBUTES_POSITION] & COMPRESSION_MASK]


def _batches(request: ProduceRequest) -> Iterator[tuple[str, int, memoryview]]:
    """Topic, partition and records where these begin as a batch; the log says what is wrong with what is none."""
    for topic, partitions in request.topics:
        for index, records in partitions:
            if records is not None and len(records) > ATTRIBUTES_POSITION and records[MAGIC_POSITION] == MAGIC:
                yield topic, index, records


def errors_for(request: ProduceRequest, code: ErrorCode) -> list[tuple[str, list[PartitionResult]]]:
    """Every partition of the request answered with one error."""
    return [(name, [PartitionResult(index, code) for index, _ in parts]) for name, parts in request.topics]
