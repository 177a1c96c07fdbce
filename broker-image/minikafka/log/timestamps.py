"""Finding records by their timestamp (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from minikafka.log.errors import CorruptBatch, LogError, UnsupportedCodec
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


class LargeBatches:
    """What is known of batches that hold much, in one search that is made again and again, for the log may change meanwhile.

    Args:
        bytes_max: as much as a batch may hold to be looked into on the spot.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._found: dict[BatchSearch, TimestampOffset | LogError | None] = {}

    def look_into(self, large: LargeBatch) -> None:
        """Look into one of them, in any thread; the next search knows what is in it."""
        try:
            with _looking_into(f"the batch at offset {large.search.header.base_offset}"):
                self._found[large.search] = large.search.find(large.batch)
        except LogError as error:
            self._found[large.search] = error

    def find(self, segment: Segment, at: BatchAt, search: BatchSearch) -> TimestampOffset | None:
        """See `BatchSearch.find`. Raises LargeBatch where the batch holds much, and is not known."""
        if search in self._found:
            known = self._found[search]
            if isinstance(known, LogError):
                raise known
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
    large: LargeBatches | None = None,
) -> TimestampOffset | None:
    """The first record from the log start on and below `upper_bound` whose timestamp is at or after `timestamp_ms`.

    Raises UnsupportedCodec and CorruptBatch for a batch that cannot be looked into, OSError; where `large` is given LargeBatch,
    for one that holds much and is not known there.
    """
    with _looking_into(segments):
        for segment in segments:
            if segment.max_timestamp < timestamp_ms or segment.next_offset <= log_start_offset:
                continue
            found = _in_segment(segment, timestamp_ms, log_start_offset, upper_bound, large)
            if found is not None:
                return found
    return None


def max_timestamp(
    segments: SegmentList, log_start_offset: int, log_end_offset: int, large: LargeBatches | None = None
) -> TimestampOffset | None:
    """The first record with the largest timestamp from the log start on; None when there is none.

    Raises like `offset_for_timestamp`.
    """
    live = [s for s in segments if s.size and s.max_timestamp >= 0 and s.next_offset > log_start_offset]
    if not live:
        return None
    largest = max(segment.max_timestamp for segment in live)
    found = offset_for_timestamp(segments, largest, log_start_offset, log_end_offset, large)
    if found is not None:
        return found
    with _looking_into(segments):
        return _max_visible(segments, log_start_offset, large)


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
    segment: Segment, timestamp_ms: int, start: int, upper_bound: int, large: LargeBatches | None
) -> TimestampOffset | None:
    first = max(segment.time_index.offset_before(timestamp_ms), start)
    for found in segment.walk(segment.locate(first)):
        header = found.header
        if header.base_offset >= upper_bound:
            return None
        if header.max_timestamp < timestamp_ms:
            continue
        record = _first_record(segment, found, timestamp_ms, start, large)
        if record is not None:
            return record if record.offset < upper_bound else None
    return None


def _first_record(
    segment: Segment, batch: BatchAt, timestamp_ms: int, start: int, large: LargeBatches | None
) -> TimestampOffset | None:
    header = batch.header
    if header.log_append_time and header.base_offset >= start:
        return TimestampOffset(header.max_timestamp, header.base_offset, header.partition_leader_epoch)
    found = _find(segment, batch, timestamp_ms, start, large)
    return found if found is not None and found.timestamp >= timestamp_ms else None


def _find(
    segment: Segment, batch: BatchAt, timestamp_ms: int, start: int, large: LargeBatches | None
) -> TimestampOffset | None:
    header = batch.header
    first = min(max(start - header.base_offset, 0), RELATIVE_OFFSET_MAX)  # that of a rotten header fits into no 64 bits
    search = BatchSearch(header, timestamp_ms, first)
    return search.find(segment.read_batch(batch)) if large is None else large.find(segment, batch, search)


def _max_visible(segments: SegmentList, start: int, large: LargeBatches | None) -> TimestampOffset | None:
    """The slow way, when the record with the largest timestamp lies below the log start offset: over all headers.

    Records are looked at in two batches: one that begins before the start, and the one whose header has the largest timestamp.
    """
    best: TimestampOffset | None = None
    largest: tuple[Segment, BatchAt] | None = None
    for segment in segments.since(start):
        for found in segment.walk(segment.locate(start)):
            if found.header.base_offset < start:
                best = _find(segment, found, INT64_MAX, start, large)
            elif largest is None or found.header.max_timestamp > largest[1].header.max_timestamp:
                largest = segment, found
    if largest is None or (best is not None and best.timestamp >= largest[1].header.max_timestamp):
        return best
    return _find(*largest, INT64_MAX, start, large)
