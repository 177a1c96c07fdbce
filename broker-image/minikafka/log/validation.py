"""Checks of batches before they are appended. The hot path only finds out that something is wrong; what, is said
here."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from minikafka.log.errors import CorruptBatch, InvalidRecord, NotOneBatch, RecordTooLarge, UnsupportedMagic
from minikafka.protocol.checksum import crc32c
from minikafka.protocol.records import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    OFFSET_MAX,
    BatchHeader,
    Codec,
    RecordBatch,
)

MAGIC_END = 17
"""Bytes up to and with the magic of a batch or of an old message."""

LEGACY_HEADER_BYTES = 14
"""Kafka's ``LegacyRecord.RECORD_OVERHEAD_V0``: no length field may be smaller."""


def single_batch(view: memoryview) -> memoryview:
    """The one whole batch of a produce request whose bytes do not fit its length field, without what follows it.

    Walks like Kafka's `ByteBufferLogInputStream.nextBatch`, so that the same mistakes get the same errors: bytes that
    cannot be a batch are corrupt (worth a retry), none or several batches and old formats are invalid (not worth one).
    Raises CorruptBatch, NotOneBatch.
    """
    position = count = 0
    first = view[:0]
    while len(view) - position >= LOG_OVERHEAD_BYTES:
        length = int.from_bytes(view[position + 8 : position + 12], "big", signed=True)
        if length < LEGACY_HEADER_BYTES:
            raise CorruptBatch(f"a batch of {length} bytes is smaller than any can be")
        if len(view) - position < MAGIC_END:
            break
        if view[position + 16] > MAGIC:
            raise CorruptBatch(f"message format {view[position + 16]} is unknown")
        if len(view) - position < LOG_OVERHEAD_BYTES + length:
            break
        if count == 0:
            first = view[: LOG_OVERHEAD_BYTES + length]
        count += 1
        position += LOG_OVERHEAD_BYTES + length
    if count != 1:
        raise NotOneBatch(f"a produce request must hold exactly one batch for each partition, not {count}")
    if first[16] != MAGIC or len(first) < HEADER_BYTES:
        raise NotOneBatch(f"message format {first[16]}: only {MAGIC} is accepted")
    return first


def refuse_client_batch(view: memoryview, max_message_bytes: int) -> NoReturn:
    """Say why a producer's batch is refused (`UnifiedLog.analyzeAndValidateRecords`, `LogValidator.validateBatch`).

    A batch that was damaged on its way must be said to be corrupt, which is worth a retry, not invalid, which is not.
    """
    header, size = BatchHeader._make(HEADER.unpack_from(view)), len(view)
    if size > max_message_bytes:
        raise RecordTooLarge(f"a batch of {size} bytes; max.message.bytes is {max_message_bytes}")
    if header.base_offset != 0:
        raise InvalidRecord(f"the base offset must be 0, not {header.base_offset}")
    if crc32c(view[CRC_START:]) != header.crc:
        raise CorruptBatch("the CRC of the batch does not match")
    if header.records_count <= 0 or header.records_count != header.last_offset_delta + 1:
        raise InvalidRecord(f"{header.records_count} records do not span offsets 0..{header.last_offset_delta}")
    if header.control:
        raise InvalidRecord("clients must not write control records")
    if header.codec > Codec.ZSTD:
        raise InvalidRecord(f"compression codec {header.codec} is unknown")
    raise InvalidRecord(f"producer {header.producer_id} sends sequence {header.base_sequence}")


def whole_batches(view: memoryview) -> list[RecordBatch]:
    """Several batches that fill a buffer. Raises CorruptBatch, UnsupportedMagic."""
    batches = []
    position = 0
    while position < len(view):
        header = _next_header(view, position)
        end = position + header.size
        if end > len(view):
            raise CorruptBatch(f"{len(view) - position} of the last batch's {header.size} bytes came")
        batches.append(RecordBatch(header, position, view[position:end]))
        position = end
    return batches


def follower_batches(
    view: memoryview, fetch_leader_epoch: int, check_gap: Callable[[BatchHeader, int], None]
) -> list[BatchHeader]:
    """Headers of the whole batches of a fetch, up to the first of a later epoch than the fetch's.

    `check_gap` is called with a batch that begins after the end of the one before it, and with that end; it may raise.

    Raises CorruptBatch, UnsupportedMagic.
    """
    headers: list[BatchHeader] = []
    position, end, next_offset = 0, len(view), 0
    unpack, make = HEADER.unpack_from, BatchHeader._make
    while end - position >= HEADER_BYTES:
        header = make(unpack(view, position))
        base_offset, length, epoch, magic, crc, _, last_delta = header[:7]
        after = position + length + LOG_OVERHEAD_BYTES
        if after > end or epoch > fetch_leader_epoch:
            break
        if (
            magic != MAGIC
            or length < HEADER_BYTES - LOG_OVERHEAD_BYTES
            or last_delta < 0
            or crc32c(view[position + CRC_START : after]) != crc
        ):
            _next_header(view, position)
        if base_offset != next_offset:
            if base_offset < next_offset:
                raise CorruptBatch(f"offset {base_offset} after {next_offset - 1}")
            if headers:
                check_gap(header, next_offset)
        if base_offset + last_delta > OFFSET_MAX:
            raise CorruptBatch(f"offset {base_offset} is beyond all that a log may reach, {OFFSET_MAX}")
        headers.append(header)
        next_offset = base_offset + last_delta + 1
        position = after
    return headers


def _next_header(view: memoryview, position: int) -> BatchHeader:
    if len(view) - position < HEADER_BYTES:
        raise CorruptBatch(f"{len(view) - position} bytes are no record batch")
    header = BatchHeader._make(HEADER.unpack_from(view, position))
    if header.magic != MAGIC:
        raise UnsupportedMagic(f"message format {header.magic}: only {MAGIC} is accepted")
    size = header.size
    if size < HEADER_BYTES:
        raise CorruptBatch(f"batch length {header.batch_length} is too small")
    if size <= len(view) - position and crc32c(view[position + CRC_START : position + size]) != header.crc:
        raise CorruptBatch(f"the CRC of the batch at offset {header.base_offset} does not match")
    if header.last_offset_delta < 0:
        raise CorruptBatch(f"the batch at offset {header.base_offset} ends before it begins")
    return header
