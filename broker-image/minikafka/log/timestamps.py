"""Finding records by their timestamp (ListOffsets)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import NamedTuple

from minikafka.log.errors import CorruptBatch, LogError, UnsupportedCodec, remembered
from minikafka.log.results import TimestampOffset
from minikafka.log.segment import RELATIVE_OFFSET_MAX, BatchAt, Segment
from minikafka.log.segments import SegmentList
from minikafka.protocol.compression import CorruptCompression, DecompressedTooLarge, UnsupportedCompression
from minikafka.protocol.record_walk import INT64_MAX, INT64_MIN, NOTHING, find_record
from minikafka.protocol.records import (
    DECOMPRESSED_STORED_BYTES_MAX,
    BatchHeader,
    MalformedRecords,
    decompressed_body,
)

HEADERS_MAX = 2000
"""Looked at on the spot: some milliseconds, and with what is read ahead as much of the disk as a fetch."""
BY_TIME, NEWEST = range(2)
"""Walks of one search: for a timestamp, and over all headers for the largest."""


class BatchSearch(NamedTuple):
    """A search in one batch, for which nothing but its bytes is needed."""

    header: BatchHeader
    timestamp_ms: int
    first: int
    """The first record that counts, from the base offset on."""

    def find(self, batch: bytes, bytes_max: int = DECOMPRESSED_STORED_BYTES_MAX) -> TimestampOffset | None:
        """The first record at or after the timestamp, else the first with the largest one.

        It makes nothing of the records that it passes, of which a megabyte may hold a million. Raises MalformedRecords and what
        `decompressed_body` raises.
        """
        header = self.header
        body = decompressed_body(memoryview(batch), header, bytes_max)
        wanted = INT64_MIN if header.log_append_time else self.timestamp_ms
        problem, delta, timestamp = find_record(
            body, 0, header.records_count, header.base_timestamp, wanted, self.first
        )
        if problem != NOTHING:
            raise MalformedRecords(
                f"the batch at offset {header.base_offset} does not hold {header.records_count} records"
            )
        if delta < 0:
            return None
        if header.log_append_time:
            timestamp = header.max_timestamp
        return TimestampOffset(timestamp, header.base_offset + delta, header.partition_leader_epoch)


class LargeBatch(Exception):
    """A batch holds more than may be looked into on the spot."""

    def __init__(self, search: BatchSearch, batch: bytes) -> None:
        super().__init__(f"the batch at offset {search.header.base_offset} holds much")
        self.search = search
        self.batch = batch


class LongWalk(Exception):
    """There are more headers than may be looked at on the spot."""


class _Newest:
    """What a walk over all headers, from a log start offset on, has found of the largest timestamp."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.before: TimestampOffset | None = None
        """In a batch that begins before the log start offset."""
        self.largest: tuple[Segment, BatchAt] | None = None


class Search:
    """What is known so far in one search, which is made again and again, for the log may change meanwhile.

    Args:
        bytes_max: as much as a batch may hold to be looked into on the spot.
        headers_max: as many as may be looked at on the spot.
    """

    def __init__(self, bytes_max: int, headers_max: int = HEADERS_MAX) -> None:
        self.bytes_max = bytes_max
        self._headers_max = self._headers_left = headers_max
        self._found: dict[BatchSearch, TimestampOffset | LogError | None] = {}
        self._passed: set[tuple[int, Segment]] = set()
        self._at: tuple[int, Segment, BatchAt] | None = None
        self._newest = _Newest(-1)

    def has_passed(self, walk: int, segment: Segment) -> bool:
        """Whether this walk has been through a segment."""
        return (walk, segment) in self._passed

    def headers(self, walk: int, segment: Segment, offset: int) -> Iterator[BatchAt]:
        """The batches of a segment from `offset` on, or from where this walk was ended last. Raises LongWalk where it ends."""
        position = self._position(walk, segment, offset)
        for found in segment.walk(segment.locate(offset) if position is None else position):
            self._at = walk, segment, found
            if self._headers_left == 0:
                self._headers_left = self._headers_max
                raise LongWalk
            self._headers_left -= 1
            yield found
        self._at = None
        self._passed.add((walk, segment))

    def newest(self, start: int) -> _Newest:
        """What is known of the largest timestamp from an offset on; what was found below that counts no more."""
        if self._newest.start != start:
            self._newest = _Newest(start)
            self._passed = {(walk, segment) for walk, segment in self._passed if walk != NEWEST}
            if self._at is not None and self._at[0] == NEWEST:
                self._at = None
        return self._newest

    def _position(self, walk: int, segment: Segment, offset: int) -> int | None:
        """Where a walk was ended in a segment; None where it was not, or the log has been cut since, before or behind that."""
        at = self._at
        if at is None or at[:2] != (walk, segment) or at[2].header.last_offset < offset:
            return None
        try:
            return at[2].position if next(segment.walk(at[2].position), None) == at[2] else None
        except CorruptBatch:
            return None

    def look_into(self, large: LargeBatch) -> None:
        """Look into a batch that holds much, in any thread; the next time it is known what is in it."""
        try:
            with _looking_into(f"the batch at offset {large.search.header.base_offset}"):
                self._found[large.search] = large.search.find(large.batch)
        except LogError as error:
            self._found[large.search] = remembered(error)

    def find(self, segment: Segment, at: BatchAt, search: BatchSearch) -> TimestampOffset | None:
        """See `BatchSearch.find`. Raises LargeBatch where the batch holds much, and is not known."""
        if search in self._found:
            known = self._found[search]
            if isinstance(known, LogError):
                raise copy(known)
            return known
        batch = segment.read_batch(at)
        if len(batch) > self.bytes_max:
            raise LargeBatch(search, batch)
        try:
            return search.find(batch, self.bytes_max)
        except DecompressedTooLarge:
            raise LargeBatch(search, batch) from None


def offset_for_timestamp(
    segments: SegmentList,
    timestamp_ms: int,
    log_start_offset: int,
    upper_bound: int,
    search: Search | None = None,
) -> TimestampOffset | None:
    """The first record from the log start on and below `upper_bound` whose timestamp is at or after `timestamp_ms`.

    Raises UnsupportedCodec and CorruptBatch for a batch that cannot be looked into, OSError; where `search` is given LargeBatch,
    for one that holds much and is not known there, and LongWalk.
    """
    search = search or Search(DECOMPRESSED_STORED_BYTES_MAX, sys.maxsize)
    with _looking_into(segments):
        for segment in segments:
            if segment.max_timestamp < timestamp_ms or segment.next_offset <= log_start_offset:
                continue
            if search.has_passed(BY_TIME, segment):
                continue
            found = _in_segment(segment, timestamp_ms, log_start_offset, upper_bound, search)
            if found is not None:
                return found
    return None


def max_timestamp(
    segments: SegmentList, log_start_offset: int, log_end_offset: int, search: Search | None = None
) -> TimestampOffset | None:
    """The first record with the largest timestamp from the log start on; None when there is none.

    Raises like `offset_for_timestamp`.
    """
    live = [s for s in segments if s.size and s.max_timestamp >= 0 and s.next_offset > log_start_offset]
    if not live:
        return None
    search = search or Search(DECOMPRESSED_STORED_BYTES_MAX, sys.maxsize)
    largest = max(segment.max_timestamp for segment in live)
    found = offset_for_timestamp(segments, largest, log_start_offset, log_end_offset, search)
    if found is not None:
        return found
    with _looking_into(segments):
        return _max_visible(segments, log_start_offset, search)


@contextmanager
def _looking_into(where: object) -> Iterator[None]:
    """What a broker never looks at otherwise may be anything: a client's codec, or nonsense under a right CRC."""
    try:
        yield
    except UnsupportedCompression as error:
        raise UnsupportedCodec(f"{where}: timestamps of its records cannot be read: {error}") from error
    except (CorruptCompression, MalformedRecords) as error:
        raise CorruptBatch(f"{where}: timestamps of its records cannot be read: {error}") from error


def _in_segment(
    segment: Segment, timestamp_ms: int, start: int, upper_bound: int, search: Search
) -> TimestampOffset | None:
    first = max(segment.time_index.offset_before(timestamp_ms), start)
    for found in search.headers(BY_TIME, segment, first):
        header = found.header
        if header.base_offset >= upper_bound:
            return None
        if header.max_timestamp < timestamp_ms:
            continue
        record = _first_record(segment, found, timestamp_ms, start, search)
        if record is not None:
            return record if record.offset < upper_bound else None
    return None


def _first_record(
    segment: Segment, batch: BatchAt, timestamp_ms: int, start: int, search: Search
) -> TimestampOffset | None:
    header = batch.header
    if header.log_append_time and header.base_offset >= start:
        return TimestampOffset(header.max_timestamp, header.base_offset, header.partition_leader_epoch)
    found = _find(segment, batch, timestamp_ms, start, search)
    return found if found is not None and found.timestamp >= timestamp_ms else None


def _find(segment: Segment, batch: BatchAt, timestamp_ms: int, start: int, search: Search) -> TimestampOffset | None:
    header = batch.header
    first = min(max(start - header.base_offset, 0), RELATIVE_OFFSET_MAX)  # that of a rotten header fits into no 64 bits
    return search.find(segment, batch, BatchSearch(header, timestamp_ms, first))


def _max_visible(segments: SegmentList, start: int, search: Search) -> TimestampOffset | None:
    """The slow way, when the record with the largest timestamp lies below the log start offset: over all headers.

    Records are looked at in two batches: one that begins before the start, and the one whose header has the largest timestamp.
    """
    newest = search.newest(start)
    for segment in segments.since(start):
        if search.has_passed(NEWEST, segment):
            continue
        for found in search.headers(NEWEST, segment, start):
            if found.header.base_offset < start:
                newest.before = _find(segment, found, INT64_MAX, start, search)
            elif newest.largest is None or found.header.max_timestamp > newest.largest[1].header.max_timestamp:
                newest.largest = segment, found
    before, largest = newest.before, newest.largest
    if largest is None or (before is not None and before.timestamp >= largest[1].header.max_timestamp):
        return before
    return _find(*largest, INT64_MAX, start, search)
