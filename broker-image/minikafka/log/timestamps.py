"""Finding records by their timestamp (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from minikafka.log.errors import CorruptBatch, UnsupportedCodec
from minikafka.log.results import TimestampOffset
from minikafka.log.segment import Segment
from minikafka.log.segments import SegmentList
from minikafka.protocol.compression import CorruptCompression, UnsupportedCompression
from minikafka.protocol.records import BatchHeader, MalformedRecords, parse_records


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
    for record in parse_records(batch):
        if record.timestamp >= timestamp_ms and record.offset >= start:
            return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def _max_visible(segments: SegmentList, start: int, end: int) -> TimestampOffset | None:
    """The slow way, when the record with the largest timestamp lies below the log start offset."""
    best: TimestampOffset | None = None
    for batch in segments.batches(start, end):
        for record in batch.records():
            if record.offset >= start and (best is None or record.timestamp > best.timestamp):
                best = TimestampOffset(record.timestamp, record.offset, batch.header.partition_leader_epoch)
    return best
