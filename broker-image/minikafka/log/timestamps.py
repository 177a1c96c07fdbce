"""Finding records by their timestamp (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from minikafka.log.errors import CorruptBatch, UnsupportedCodec
from minikafka.log.results import TimestampOffset
from minikafka.log.segment import Segment
from minikafka.protocol.compression import CorruptCompression, UnsupportedCompression
from minikafka.protocol.records import BatchHeader, MalformedRecords, parse_records

if TYPE_CHECKING:
    from minikafka.log.log import Log


@contextmanager
def _looking_into(log: Log) -> Iterator[None]:
    """What a broker never looks at otherwise may be anything: a client's codec, or nonsense under a right CRC."""
    try:
        yield
    except OSError as error:
        raise log.refused("read failed", error) from error
    except UnsupportedCompression as error:
        raise UnsupportedCodec(f"{log}: timestamps of its records cannot be read: {error}") from error
    except (CorruptCompression, MalformedRecords) as error:
        raise CorruptBatch(f"{log}: timestamps of its records cannot be read: {error}") from error


def offset_for_timestamp(log: Log, timestamp_ms: int, upper_bound: int) -> TimestampOffset | None:
    """See `Log.offset_for_timestamp`."""
    log.check_online()
    with _looking_into(log):
        for segment in log.segments:
            if segment.max_timestamp < timestamp_ms or segment.next_offset <= log.log_start_offset:
                continue
            found = _in_segment(log, segment, timestamp_ms, upper_bound)
            if found is not None:
                return found
    return None


def _in_segment(log: Log, segment: Segment, timestamp_ms: int, upper_bound: int) -> TimestampOffset | None:
    start = max(segment.time_index.offset_before(timestamp_ms), log.log_start_offset)
    for found in segment.walk(segment.locate(start)):
        header = found.header
        if header.base_offset >= upper_bound:
            return None
        if header.max_timestamp < timestamp_ms:
            continue
        record = _first_record(segment.read_batch(found), header, timestamp_ms, log.log_start_offset)
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


def max_timestamp(log: Log) -> TimestampOffset | None:
    """See `Log.max_timestamp`."""
    log.check_online()
    live = [s for s in log.segments if s.size and s.max_timestamp >= 0 and s.next_offset > log.log_start_offset]
    if not live:
        return None
    largest = max(segment.max_timestamp for segment in live)
    found = offset_for_timestamp(log, largest, log.log_end_offset)
    if found is not None:
        return found
    with _looking_into(log):
        return _max_visible(log)


def _max_visible(log: Log) -> TimestampOffset | None:
    """The slow way, when the record with the largest timestamp lies below the log start offset."""
    best: TimestampOffset | None = None
    for batch in log.read_batches(log.log_start_offset, log.log_end_offset):
        for record in batch.records():
            if record.offset >= log.log_start_offset and (best is None or record.timestamp > best.timestamp):
                best = TimestampOffset(record.timestamp, record.offset, batch.header.partition_leader_epoch)
    return best
