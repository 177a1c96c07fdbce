"""Batches as wrong or old clients send them: headers that do not tell the truth, and records that are none.

What is wrong with a batch follows from its place among all of its producer: no chance is spent on it, so a schedule goes as it
would go without.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from minikafka.protocol.compression import Codec, compress
from minikafka.protocol.records import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    CRC_POSITION,
    EPOCH_POSITION,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAX_TIMESTAMP_POSITION,
    RECORDS_COUNT_POSITION,
    set_crc,
)

WRONG_TIMESTAMPS = (None, None, -1, None, 0, None, 1 << 62)
"""MaxTimestamp in the headers of a producer's batches in turn: the right one, unset (Sarama before 1.45.1), 1970, far ahead."""
SPOILED_EVERY = 8
LENGTH_POSITION = 8
LAST_DELTA_POSITION = 23
PRODUCER_EPOCH_POSITION = 51
SEQUENCE_POSITION = 53


def as_sent(batch: bytes, order: int) -> bytes:
    """The batch with the header that the client sends; a leader is to put it right.

    It always claims a leader epoch. Where MaxTimestamp is right, every other one claims to be stamped by the broker.
    """
    sent = bytearray(batch)
    struct.pack_into(">i", sent, EPOCH_POSITION, order)
    timestamp = WRONG_TIMESTAMPS[order % len(WRONG_TIMESTAMPS)]
    if timestamp is not None:
        struct.pack_into(">q", sent, MAX_TIMESTAMP_POSITION, timestamp)
        set_crc(sent)
    elif order % 2:
        sent[ATTRIBUTES_POSITION] |= LOG_APPEND_TIME_FLAG
        set_crc(sent)
    return bytes(sent)


def spoiled(batch: bytes, order: int) -> list[bytes]:
    """For some batches another one, which every leader has to refuse, each time for another reason."""
    if order % SPOILED_EVERY:
        return []
    return [SPOILS[order // SPOILED_EVERY % len(SPOILS)](bytearray(batch))]


def _header_missing(batch: bytearray) -> bytes:
    batch[-1] ^= 0x02  # the last record has a header more than there is
    return _sealed(batch)


def _wrong_delta(batch: bytearray) -> bytes:
    batch[HEADER_BYTES + 3] ^= 0x02  # the first record's offset delta
    return _sealed(batch)


def _no_gzip(batch: bytearray) -> bytes:
    batch[ATTRIBUTES_POSITION] |= Codec.GZIP
    return _sealed(batch)


def _too_few_compressed(batch: bytearray) -> bytes:
    """Its header counts a record more than there is in the compressed part."""
    for position in (LAST_DELTA_POSITION, RECORDS_COUNT_POSITION):
        (said,) = struct.unpack_from(">i", batch, position)
        struct.pack_into(">i", batch, position, said + 1)
    return _sealed(_compressed(batch, Codec.GZIP))


def _wrong_delta_compressed(batch: bytearray) -> bytes:
    return _sealed(_compressed(bytearray(_wrong_delta(batch)), Codec.LZ4))


def _cut_compressed(batch: bytearray) -> bytes:
    return _sealed(_compressed(batch, Codec.ZSTD)[:-1])


def _control(batch: bytearray) -> bytes:
    batch[ATTRIBUTES_POSITION] |= CONTROL_FLAG
    return _sealed(batch)


def _damaged(batch: bytearray) -> bytes:
    batch[CRC_POSITION] ^= 0x02
    return bytes(batch)


def _later_offset(batch: bytearray) -> bytes:
    struct.pack_into(">q", batch, 0, 77)
    return bytes(batch)


def _two(batch: bytearray) -> bytes:
    return bytes(batch + batch)


def _no_sequence(batch: bytearray) -> bytes:
    struct.pack_into(">i", batch, SEQUENCE_POSITION, -1)
    return _sealed(batch)


def _epoch_below_all(batch: bytearray) -> bytes:
    struct.pack_into(">h", batch, PRODUCER_EPOCH_POSITION, -5)
    return _sealed(batch)


def _compressed(batch: bytearray, codec: Codec) -> bytearray:
    batch[ATTRIBUTES_POSITION] |= codec
    return batch[:HEADER_BYTES] + compress(codec, bytes(batch[HEADER_BYTES:]))


def _sealed(batch: bytearray) -> bytes:
    struct.pack_into(">i", batch, LENGTH_POSITION, len(batch) - LOG_OVERHEAD_BYTES)
    set_crc(batch)
    return bytes(batch)


SPOILS: tuple[Callable[[bytearray], bytes], ...] = (
    _header_missing,
    _wrong_delta,
    _no_gzip,
    _control,
    _too_few_compressed,
    _damaged,
    _wrong_delta_compressed,
    _later_offset,
    _cut_compressed,
    _two,
    _no_sequence,
    _epoch_below_all,
)
