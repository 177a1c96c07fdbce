"""Record batches, format v2 (magic 2), the only one this broker stores.

A batch is a 61-byte header and its records, which may be compressed as a whole. The broker looks at headers only;
single records are parsed lazily, on cold paths (timestamp lookup inside a batch, internal topics, dump-log).

Layout: Kafka's `DefaultRecordBatch` and `DefaultRecord`. The CRC-32C covers everything from `attributes` on, so that
base offset and partition leader epoch can be stamped without recomputing it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from minikafka.protocol.checksum import crc32c
from minikafka.protocol.compression import Codec, UnsupportedCompression, compress, decompress

__all__ = [
    "BatchHeader",
    "Codec",
    "MalformedRecords",
    "Record",
    "RecordBatch",
    "UnsupportedCompression",
    "build_batch",
    "build_control_batch",
    "crc_matches",
    "decompressed_body",
    "iterate_batches",
    "parse_records",
    "read_header",
]

MAGIC = 2
HEADER = struct.Struct(">qiibIhiqqqhii")
"""base offset, batch length, partition leader epoch, magic, CRC, attributes, last offset delta, base timestamp, max
timestamp, producer id, producer epoch, base sequence, records count"""
HEADER_BYTES = HEADER.size
LOG_OVERHEAD_BYTES = 12
"""Base offset and length, which the length field does not count."""
STAMP = struct.Struct(">qii")
"""What the broker stamps: base offset, (unchanged) length, partition leader epoch."""
EPOCH_POSITION = 12
MAGIC_POSITION = 16
CRC_POSITION = 17
CRC_START = 21
"""First byte that the CRC covers: the attributes."""
ATTRIBUTES_POSITION = CRC_START + 1
"""The low byte of the attributes, which holds all that are in use."""
MAX_TIMESTAMP_POSITION = 35
RECORDS_COUNT_POSITION = 57

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

INT64_MIN, INT64_MAX, UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1
OFFSET_MAX = 2**62
"""No record has a higher offset: what says so is damaged. The offsets behind it would soon not fit into their 64 bits."""
DECOMPRESSED_STORED_BYTES_MAX = 2**31 - 1
"""How much a stored batch may hold: its leader has held it against the topic's settings, and no Java client could hold more."""

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1


class MalformedRecords(ValueError):
    """The bytes are not what their header promises."""


class BatchHeader(NamedTuple):
    """The fixed part of a batch. Times in milliseconds; `batch_length` does not count its own first 12 bytes."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def codec(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_FLAG)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def last_sequence(self) -> int:
        return add_sequence(self.base_sequence, self.last_offset_delta) if self.base_sequence >= 0 else NO_SEQUENCE


class RecordBatch(NamedTuple):
    """One batch inside a buffer."""

    header: BatchHeader
    position: int
    """Where it begins in the buffer (or file) it was found in."""
    data: memoryview
    """The whole batch."""

    def crc_matches(self) -> bool:
        return crc_matches(self.data)

    def records(self) -> Iterator[Record]:
        """See `parse_records`."""
        return parse_records(self.data)


class Record(NamedTuple):
    """One record. The timestamp is the batch's when the topic uses LogAppendTime."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def add_sequence(sequence: int, increment: int) -> int:
    """Sequence numbers wrap from 2^31-1 to 0 (`DefaultRecordBatch.incrementSequence`)."""
    return (sequence + increment) & 0x7FFFFFFF


def read_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """The header at `position`. Raises MalformedRecords when fewer than 61 bytes are left."""
    if len(buffer) - position < HEADER_BYTES:
        raise MalformedRecords(f"{len(buffer) - position} bytes where a batch header of {HEADER_BYTES} should be")
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


def crc_matches(batch: bytes | bytearray | memoryview) -> bool:
    """Whether the CRC-32C of one whole batch is right."""
    view = memoryview(batch)
    return bool(crc32c(view[CRC_START:]) == int.from_bytes(view[CRC_POSITION:CRC_START], "big"))


def iterate_batches(buffer: bytes | bytearray | memoryview) -> Iterator[RecordBatch]:
    """The whole batches of a buffer, headers checked for plausibility, CRCs not. An incomplete last batch is left out.

    Raises MalformedRecords at an impossible length or another magic.
    """
    view = memoryview(buffer)
    position, end = 0, len(view)
    while end - position >= HEADER_BYTES:
        header = BatchHeader._make(HEADER.unpack_from(view, position))
        size = header.size
        if header.magic != MAGIC:
            raise MalformedRecords(f"magic {header.magic} at byte {position}, only {MAGIC} is known")
        if size < HEADER_BYTES:
            raise MalformedRecords(f"batch length {header.batch_length} at byte {position} is too small")
        if size > end - position:
            return
        yield RecordBatch(header, position, view[position : position + size])
        position += size


def read_varint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """A zigzag varint: (value, next position). Raises MalformedRecords when it does not end within 10 bytes."""
    shift = result = 0
    try:
        while True:
            byte = buffer[position]
            position += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                result &= UINT64_MAX  # the tenth byte may hold more, which Java drops
                return (result >> 1) ^ -(result & 1), position
            shift += 7
            if shift > 63:
                raise MalformedRecords("a varint is longer than 10 bytes")
    except IndexError:
        raise MalformedRecords("a varint runs past the end") from None


def varint(value: int) -> bytes:
    """Zigzag-encode a signed 64-bit integer."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decompressed_body(
    batch: memoryview, header: BatchHeader, bytes_max: int = DECOMPRESSED_STORED_BYTES_MAX
) -> bytes | bytearray | memoryview:
    """The bytes of a batch's records, at most `bytes_max` of them, decompressed when need be.

    Raises CorruptCompression, DecompressedTooLarge, and UnsupportedCompression when the package for the codec is missing.
    """
    return decompress(header.codec, batch[HEADER_BYTES : header.size], bytes_max)


def parse_records(batch: bytes | bytearray | memoryview) -> Iterator[Record]:
    """The records of one whole batch, decompressed when need be.

    Raises MalformedRecords, CorruptCompression, DecompressedTooLarge, and UnsupportedCompression when the package for the codec
    is missing.
    """
    view = memoryview(batch)
    header = read_header(view)
    body = bytes(decompressed_body(view, header))
    position = 0
    for _ in range(header.records_count):
        size, position = read_varint(body, position)
        end = position + size
        if size < 0 or end > len(body):
            raise MalformedRecords(f"a record of {size} bytes does not fit into its batch")
        yield _parse_record(body, position, end, header)
        position = end
    if position != len(body):
        raise MalformedRecords(f"{len(body) - position} bytes follow the last record")


def _parse_record(body: bytes, position: int, end: int, header: BatchHeader) -> Record:
    position += 1  # record attributes: unused by Kafka
    timestamp_delta, position = read_varint(body, position)
    offset_delta, position = read_varint(body, position)
    key, position = _read_bytes(body, position, end)
    value, position = _read_bytes(body, position, end)
    count, position = read_varint(body, position)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_bytes(body, position, end)
        content, position = _read_bytes(body, position, end)
        if name is None:
            raise MalformedRecords("a record header without a name")
        headers.append((name.decode(errors="surrogateescape"), content))
    if position != end or count < 0:
        raise MalformedRecords("a record does not end where its length says")
    timestamp = header.max_timestamp if header.log_append_time else header.base_timestamp + timestamp_delta
    if not INT64_MIN <= timestamp <= INT64_MAX:  # Java's addition wraps
        timestamp = (timestamp - INT64_MIN) % 2**64 + INT64_MIN
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers)


def _read_bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(body, position)
    if size < 0:
        return None, position
    if position + size > end:
        raise MalformedRecords("a field is longer than its record")
    return body[position : position + size], position + size


def _encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    body = bytearray(b"\0")
    body += varint(record.timestamp - base_timestamp)
    body += varint(record.offset - base_offset)
    for content in (record.key, record.value):
        body += varint(-1) if content is None else varint(len(content)) + content
    body += varint(len(record.headers))
    for name, content in record.headers:
        encoded = name.encode(errors="surrogateescape")
        body += varint(len(encoded)) + encoded
        body += varint(-1) if content is None else varint(len(content)) + content
    return varint(len(body)) + bytes(body)


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int | None = None,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """One batch of the given records, whose offsets increase; `base_offset` defaults to the first record's.

    Raises ValueError for no records, UnsupportedCompression.
    """
    rows = list(records)
    if not rows:
        raise ValueError("a batch needs at least one record")
    base = rows[0].offset if base_offset is None else base_offset
    base_timestamp = rows[0].timestamp
    body = compress(codec, b"".join(_encode_record(row, base, base_timestamp) for row in rows))
    attributes = int(codec) | (TRANSACTIONAL_FLAG if transactional else 0) | (CONTROL_FLAG if control else 0)
    batch = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        batch, 0, base, HEADER_BYTES - LOG_OVERHEAD_BYTES + len(body), leader_epoch, MAGIC, 0, attributes,
        rows[-1].offset - base, base_timestamp, max(row.timestamp for row in rows),
        producer_id, producer_epoch, base_sequence, len(rows),
    )  # fmt: skip
    batch += body
    set_crc(batch)
    return batch


def build_control_batch(
    *, commit: bool, producer_id: int, producer_epoch: int, timestamp_ms: int, coordinator_epoch: int
) -> bytearray:
    """A transaction marker (`EndTransactionMarker`, version 0): the batch that commits or aborts a transaction."""
    key = struct.pack(">hh", 0, 1 if commit else 0)
    value = struct.pack(">hi", 0, coordinator_epoch)
    return build_batch(
        [Record(0, timestamp_ms, key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def set_crc(batch: bytearray | memoryview) -> None:
    """Recompute the CRC-32C of one whole, writable batch."""
    struct.pack_into(">I", batch, CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))


def set_log_append_time(batch: bytearray | memoryview, now_ms: int) -> None:
    """Stamp the broker's time on one whole, writable batch, and recompute its CRC
    (message.timestamp.type=LogAppendTime)."""
    batch[ATTRIBUTES_POSITION] |= LOG_APPEND_TIME_FLAG
    struct.pack_into(">q", batch, MAX_TIMESTAMP_POSITION, now_ms)
    set_crc(batch)


def set_create_time(batch: bytearray | memoryview, max_timestamp_ms: int) -> None:
    """Write the largest timestamp of its records into the header of one whole, writable batch, and recompute its CRC
    (message.timestamp.type=CreateTime)."""
    batch[ATTRIBUTES_POSITION] &= 0xFF ^ LOG_APPEND_TIME_FLAG
    struct.pack_into(">q", batch, MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    set_crc(batch)
