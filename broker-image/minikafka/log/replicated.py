"""Appends of a follower: the leader's batches at the leader's offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.log import truncation, validation
from minikafka.log.errors import LogDirFailure, UnexpectedAppendOffset
from minikafka.log.results import AppendInfo
from minikafka.log.segment import Segment
from minikafka.protocol.records import CONTROL_FLAG, LOG_OVERHEAD_BYTES, BatchHeader

if TYPE_CHECKING:
    from minikafka.log.log import Log


def append_as_follower(log: Log, records: memoryview | bytearray, fetch_leader_epoch: int) -> AppendInfo:
    """See `Log.append_as_follower`."""
    log.check_online()
    view = memoryview(records)
    headers = validation.follower_batches(view, fetch_leader_epoch)
    leo = log.log_end_offset
    if not headers:
        return AppendInfo(leo, leo - 1, -1, 0, 0, 0, False, -1)
    if headers[0].base_offset != leo:
        _meet(log, headers[0])
    try:
        count, size = _append(log, view, headers)
    except LogDirFailure:
        if log.log_end_offset < log.log_start_offset and log.failure is None:
            truncation.truncate_fully_and_start_at(log, log.log_start_offset)  # `_meet` had moved the end only
        raise
    max_timestamp = max([header.max_timestamp for header in headers])
    return AppendInfo(
        headers[0].base_offset, headers[-1].last_offset, max_timestamp, len(headers), count, size, False, -1
    )


def _append(log: Log, view: memoryview, headers: list[BatchHeader]) -> tuple[int, int]:
    """How many records and bytes were written. Raises LogDirFailure; what was written before it stays."""
    _assign_epochs(log, headers)
    start = done = count = 0
    while done < len(headers):
        segment = log.active
        n, size = _fitting(log, segment, headers, done)
        if not n:
            log.roll()
            continue
        try:
            segment.data.append(view[start : start + size])
        except OSError as error:
            raise log.repair(segment, error) from error
        log.size_bytes += size
        for header in headers[done : done + n]:
            _note(log, segment, header, view, start)
            start += header[1] + LOG_OVERHEAD_BYTES
            count += header[12]
        done += n
    return count, start


def _meet(log: Log, header: BatchHeader) -> None:
    """The leader's first batch does not begin at the log end offset.

    An empty log moves to where the leader begins: its start may lie inside a batch after DeleteRecords. A compacted
    topic may have gaps. Anything else would make the replicas differ.
    """
    first, leo, start = header.base_offset, log.log_end_offset, log.log_start_offset
    if start == leo and (first > leo or header.last_offset >= leo):
        truncation.truncate_fully_and_start_at(log, first, max(first, start))
    elif first < leo or not log.config.compact:
        raise UnexpectedAppendOffset(f"{log}: batch at {first} cannot follow log end offset {leo}", first, leo)


def _assign_epochs(log: Log, headers: list[BatchHeader]) -> None:
    """Before the records are written: recovery relies on the checkpoint knowing every epoch that the records have.

    When that write then fails, the entries stay, and fit the same batches of the next fetch.
    """
    epochs, first, last = log.epochs, headers[0], headers[-1]
    if first[2] == last[2] == epochs.epoch_for_offset(first[0]) == epochs.epoch_for_offset(last[0]):
        return  # epochs never decrease along a log
    try:
        for header in headers:
            epoch, offset = header.partition_leader_epoch, header.base_offset
            if epoch >= 0 and epochs.epoch_for_offset(offset) != epoch:
                epochs.truncate_from_end(offset, durable=False)
                epochs.assign(epoch, offset)
    except OSError as error:
        raise log.refused("cannot note leader epochs", error) from error


def _fitting(log: Log, segment: Segment, headers: list[BatchHeader], first: int) -> tuple[int, int]:
    """How many batches from `first` on still go into this segment, and their bytes. An empty one takes one always."""
    segment_bytes, segment_ms = log.config.segment_bytes, log.config.segment_ms
    last = headers[-1]
    size = sum([header[1] for header in headers[first:]]) + LOG_OVERHEAD_BYTES * (len(headers) - first)
    if segment.has_room(size, last.last_offset, last.max_timestamp, segment_bytes, segment_ms):
        return len(headers) - first, size
    n = size = 0
    for header in headers[first:]:
        size_with = size + header.size
        room = segment.has_room(size_with, header.last_offset, header.max_timestamp, segment_bytes, segment_ms)
        if not room and (segment.size or n):
            break
        n, size = n + 1, size_with
    return n, size


def _note(log: Log, segment: Segment, header: BatchHeader, view: memoryview, start: int) -> None:
    base_offset, length, _, _, _, attributes, last_delta, _, max_timestamp, producer_id = header[:10]
    last_offset = base_offset + last_delta
    segment.note(length + LOG_OVERHEAD_BYTES, last_offset, max_timestamp)
    log.log_end_offset = last_offset + 1
    if producer_id >= 0:
        batch = view[start : start + header.size] if attributes & CONTROL_FLAG else None
        log.producers.apply(header, batch)
