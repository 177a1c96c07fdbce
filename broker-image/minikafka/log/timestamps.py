"""Finding records by their timestamp (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from minikafka.log.errors import CorruptBatch, UnsupportedCodec
from minikafka.log.results import TimestampOffset
from minikafka.log.segment import RELATIVE_OFFSET_MAX, Segment
from minikafka.log.segments import SegmentList
from minikafka.protocol.compression import CorruptCompression, UnsupportedCompression
from minikafka.protocol.record_walk import INT64_MAX, INT64_MIN, NOTHING, find_record
from minikafka.protocol.records import BatchHeader, MalformedRecords, RecordBatch, decompressed_body


def offset_for_timestamp(
    segments: SegmentList, timestamp_ms: int, log_start_offset: int, upper_bound: int
) -> TimestampOffset | None:
    """The first record from the log start on and below `upper_bound` whose timestamp is at or after `timestamp_ms`.

    Raises UnsupportedCodec and CorruptBatch for a batch that cannot be looked into, OSError.
    """
    with _looking_into(segments):
        for segment in segments:
            if segment.max_timestamp < timestamp_ms or segment.next_offset <= log_start_offset:
                continue
            found = _in_segment(segment, timestamp_ms, log_start_offset, upper_bound)
            if found is not None:
                return found
    return None


def max_timestamp(segments: SegmentList, log_start_offset: int, log_end_offset: int) -> TimestampOffset | None:
    """The first record with the largest timestamp from the log start on; None when there is none.

    Raises like `offset_for_timestamp`.
    """
    live = [s for s in segments if s.size and s.max_timestamp >= 0 and s.next_offset > log_start_offset]
    if not live:
        return None
    largest = max(segment.max_timestamp for segment in live)
    found = offset_for_timestamp(segments, largest, log_start_offset, log_end_offset)
    if found is not None:
        return found
    with _looking_into(segments):
        return _max_visible(segments, log_start_offset, log_end_offset)


@contextmanager
def _looking_into(segments: SegmentList) -> Iterator[None]:
    """What a broker never looks at otherwise may be anything: a client's codec, or nonsense under a right CRC."""
    try:
        yield
    except UnsupportedCompression as error:
        raise UnsupportedCodec(f"{segments}: timestamps of its records cannot be read: {error}") from error
    except (CorruptCompression, MalformedRecords) as error:
        raise CorruptBatch(f"{segments}: timestamps of its records cannot be read: {error}") from error


def _in_segment(segment: Segment, timestamp_ms: int, start: int, upper_bound: int) -> TimestampOffset | None:
    first = max(segment.time_index.offset_before(timestamp_ms), start)
    for found in segment.walk(segment.locate(first)):
        header = found.header
        if header.base_offset >= upper_bound:
            return None
        if header.max_timestamp < timestamp_ms:
            continue
        record = _first_record(segment.read_batch(found), header, timestamp_ms, start)
        if record is not None:
            return record if record.offset < upper_bound else None
    return None


def _first_record(batch: bytes, header: BatchHeader, timestamp_ms: int, start: int) -> TimestampOffset | None:
    if header.log_append_time and header.base_offset >= start:
        return TimestampOffset(header.max_timestamp, header.base_offset, header.partition_leader_epoch)
    found = _find(batch, header, timestamp_ms, start)
    return found if found is not None and found.timestamp >= timestamp_ms else None


def _find(batch: bytes | memoryview, header: BatchHeader, timestamp_ms: int, start: int) -> TimestampOffset | None:
    """The first record from `start` on whose timestamp is at or after `timestamp_ms`, else the first with the largest one.

    It makes nothing of the records that it passes, of which a megabyte may hold a million.
    """
    body = decompressed_body(memoryview(batch), header)
    wanted = INT64_MIN if header.log_append_time else timestamp_ms
    first = min(start - header.base_offset, RELATIVE_OFFSET_MAX)  # that of a rotten header fits into no 64 bits
    problem, delta, timestamp = find_record(body, 0, header.records_count, header.base_timestamp, wanted, first)
    if problem != NOTHING:
        raise MalformedRecords(f"the batch at offset {header.base_offset} does not hold {header.records_count} records")
    if delta < 0:
        return None
    if header.log_append_time:
        timestamp = header.max_timestamp
    return TimestampOffset(timestamp, header.base_offset + delta, header.partition_leader_epoch)


def _max_visible(segments: SegmentList, start: int, end: int) -> TimestampOffset | None:
    """The slow way, when the record with the largest timestamp lies below the log start offset: over all headers.

    Records are looked at in two batches: one that begins before the start, and the one whose header has the largest timestamp.
    """
    best: TimestampOffset | None = None
    largest: RecordBatch | None = None
    for batch in segments.batches(start, end):
        if batch.header.base_offset < start:
            best = _find(batch.data, batch.header, INT64_MAX, start)
        elif largest is None or batch.header.max_timestamp > largest.header.max_timestamp:
            largest = batch
    if largest is None or (best is not None and best.timestamp >= largest.header.max_timestamp):
        return best
    return _find(largest.data, largest.header, INT64_MAX, start)
