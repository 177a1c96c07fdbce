"""A walk over the records of a batch that makes nothing of them: it finds out what a broker must know of records it stores.

A leader validates every batch of a client (Kafka's `LogValidator`), which has to visit each record: the one place of the hot
path that costs something for each of them. A search by time visits those of one batch, which may be a million.
`_record_walk.c` has the same functions, compiled when the project is installed where there is a C compiler; `walk_records` and
`find_record` are those, where they are there, and let other threads run over more than a megabyte.
`tests/unit/protocol/test_record_walk.py` holds both to the same answers on sound, damaged and random batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = [
    "INT64_MAX",
    "INT64_MIN",
    "MALFORMED",
    "NOTHING",
    "OFFSETS",
    "Walked",
    "find_record",
    "find_record_in_python",
    "record_heads",
    "walk_records",
    "walk_records_in_python",
]

NOTHING, MALFORMED, OFFSETS = range(3)
"""What is wrong with a batch: nothing; its bytes are no records, or not as many as are asked for; their offset deltas are
not 0, 1, 2, ..."""

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Walked(NamedTuple):
    """What `walk_records` has found, up to the first problem. Timestamps in milliseconds."""

    problem: int
    """NOTHING, MALFORMED or OFFSETS."""
    record: int
    """The index of the one with the problem; the number of records when there is none, or when something follows the last."""
    largest_timestamp: int
    """-1 when no record has one."""
    smallest_timestamp: int
    """Without those that are -1, which is no timestamp; 2**63-1 when no record has one."""
    first_without_key: int
    """The index of the first record without a key, or -1."""


def walk_records_in_python(
    body: bytes | bytearray | memoryview, position: int, count: int, base_timestamp: int
) -> tuple[int, int, int, int, int]:
    """Walk over `count` records, not compressed, from `position` to the end of `body`; the fields of a `Walked`.

    Layout and checks of Kafka's `DefaultRecord.readFrom`, with its wrapping 64-bit timestamps.
    """
    end = len(body)
    if not 0 <= position <= end:
        raise ValueError("the position lies outside the buffer")
    largest, smallest, keyless = -1, INT64_MAX, -1
    for index in range(count):
        try:
            delta, offset_delta, key_length, position = _record(body, position, end)
        except _DoesNotFit:
            return MALFORMED, index, largest, smallest, keyless
        if key_length < 0 and keyless < 0:
            keyless = index
        if offset_delta != index:
            return OFFSETS, index, largest, smallest, keyless
        timestamp = _wrapping_sum(base_timestamp, delta)
        largest = max(largest, timestamp)
        if timestamp != -1:
            smallest = min(smallest, timestamp)
    return NOTHING if position == end else MALFORMED, max(count, 0), largest, smallest, keyless


def find_record_in_python(
    body: bytes | bytearray | memoryview,
    position: int,
    count: int,
    base_timestamp: int,
    timestamp: int,
    first_delta: int,
) -> tuple[int, int, int]:
    """Find the first record at or after `timestamp` among those whose offset delta is `first_delta` or more.

    Returns (NOTHING or MALFORMED, its offset delta, its timestamp). Where there is none, it is the first one with the largest
    timestamp; (…, -1, INT64_MIN) where there is no record at all. What comes after the one that is found is not looked at.
    """
    end = len(body)
    if not 0 <= position <= end:
        raise ValueError("the position lies outside the buffer")
    found, largest = -1, INT64_MIN
    for _ in range(count):
        try:
            delta, offset_delta, _, position = _record(body, position, end)
        except _DoesNotFit:
            return MALFORMED, found, largest
        of_record = _wrapping_sum(base_timestamp, delta)
        if offset_delta < first_delta or (found >= 0 and of_record <= largest):
            continue
        found, largest = offset_delta, of_record
        if of_record >= timestamp:
            break
    return NOTHING, found, largest


def record_heads(
    body: bytes | bytearray | memoryview, position: int, count: int, base_timestamp: int
) -> Iterator[tuple[int, bool]]:
    """(timestamp, whether there is a key) of each record of a body in which `walk_records` has found nothing wrong."""
    for _ in range(count):
        delta, _, key_length, position = _record(body, position, len(body))
        yield _wrapping_sum(base_timestamp, delta), key_length >= 0


def _record(body: bytes | bytearray | memoryview, position: int, end: int) -> tuple[int, int, int, int]:
    """(timestamp delta, offset delta, length of the key, the position after the record). Raises _DoesNotFit."""
    size, position = _varint(body, position, end, 32)
    stop = position + size
    if size < 1 or stop > end:
        raise _DoesNotFit
    delta, position = _varint(body, position + 1, stop, 64)
    offset_delta, position = _varint(body, position, stop, 32)
    key_length, position = _skip_field(body, position, stop)
    _, position = _skip_field(body, position, stop)
    if _skip_headers(body, position, stop) != stop:
        raise _DoesNotFit
    return delta, offset_delta, key_length, stop


def _wrapping_sum(base: int, delta: int) -> int:
    return (base + delta + 2**63) % 2**64 - 2**63


class _DoesNotFit(Exception):
    """A number or a field runs over the end of its record."""


def _varint(body: bytes | bytearray | memoryview, position: int, end: int, bits_max: int) -> tuple[int, int]:
    raw = 0
    for shift in range(0, bits_max, 7):
        if position >= end:
            break
        byte = body[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw %= 1 << bits_max
            return (raw >> 1) ^ -(raw & 1), position
    raise _DoesNotFit


def _skip_field(body: bytes | bytearray | memoryview, position: int, end: int) -> tuple[int, int]:
    length, position = _varint(body, position, end, 32)
    if length > end - position:
        raise _DoesNotFit
    return length, position + max(length, 0)


def _skip_headers(body: bytes | bytearray | memoryview, position: int, end: int) -> int:
    count, position = _varint(body, position, end, 32)
    if not 0 <= count <= end - position:
        raise _DoesNotFit
    for _ in range(count):
        length, position = _skip_field(body, position, end)
        if length < 0:
            raise _DoesNotFit  # a header must have a name
        _, position = _skip_field(body, position, end)
    return position


try:
    from minikafka.protocol._record_walk import find_record, walk_records
except ImportError:
    walk_records, find_record = walk_records_in_python, find_record_in_python
