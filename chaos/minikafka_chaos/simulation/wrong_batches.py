"""Batches as wrong or old clients send them: headers that do not tell the truth, and records that are none.

What is wrong with a batch follows from its place among all of its producer: no chance is spent on it, so a schedule goes as it
would go without.
"""

from __future__ import annotations

import struct

from minikafka.protocol.records import (
    HEADER_BYTES,
    MAX_TIMESTAMP_POSITION,
    set_crc,
)

WRONG_TIMESTAMPS = (None, None, -1, None, 0, None, 1 << 62)
"""MaxTimestamp in the headers of a producer's batches in turn: the right one, unset (Sarama before 1.45.1), 1970, far ahead."""
SPOILED_EVERY = 8


def as_sent(batch: bytes, order: int) -> bytes:
    """The batch with the header that the client sends; a leader is to put it right."""
    timestamp = WRONG_TIMESTAMPS[order % len(WRONG_TIMESTAMPS)]
    if timestamp is None:
        return batch
    sent = bytearray(batch)
    struct.pack_into(">q", sent, MAX_TIMESTAMP_POSITION, timestamp)
    set_crc(sent)
    return bytes(sent)


def spoiled(batch: bytes, order: int) -> bytes | None:
    """For some batches another one, which every leader has to refuse: its records are not what the header says."""
    if order % SPOILED_EVERY:
        return None
    sent = bytearray(batch)
    if order // SPOILED_EVERY % 2:
        sent[HEADER_BYTES + 3] ^= 0x02  # the first record's offset delta
    else:
        sent[-1] ^= 0x02  # the last record has a header more than there is
    set_crc(sent)
    return bytes(sent)
