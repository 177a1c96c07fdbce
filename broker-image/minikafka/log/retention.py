"""What goes at the old end of a log: retention by time, by size, and by the log start offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.log.errors import LogDirFailure, OffsetOutOfRange
from minikafka.log.segment import Segment, segment_path
from minikafka.log.truncation import snapshot_offsets

if TYPE_CHECKING:
    from minikafka.log.log import Log


def increment_log_start_offset(log: Log, offset: int) -> bool:
    """See `Log.increment_log_start_offset`."""
    if offset > log.log_end_offset:
        raise OffsetOutOfRange(f"{log}: start offset {offset} is beyond the end {log.log_end_offset}")
    if offset <= log.log_start_offset:
        return False
    log.check_online()
    before, log.log_start_offset = log.log_start_offset, offset
    if log.on_log_start_moved is not None and offset > log.segments[0].base_offset:
        try:
            log.on_log_start_moved()  # on disk before the epochs below it are forgotten: see `Log.on_log_start_moved`
        except LogDirFailure:
            log.log_start_offset = before
            raise
    try:
        log.epochs.truncate_from_start(offset)
    except OSError as error:
        raise log.refused("cannot note leader epochs", error) from error
    return True


def delete_old_segments(log: Log, now_ms: int, high_watermark: int) -> int:
    """See `Log.delete_old_segments`."""
    log.check_online()
    try:
        gone = _deletable(log, now_ms, high_watermark)
    except OSError as error:
        raise log.refused("cannot tell what to delete", error) from error
    if not gone:
        return 0
    if gone == len(log.segments):
        log.roll()  # a log always has an active segment
    if log.flush_job is not None:
        log.settle_flush()
    try:
        for _ in range(gone):
            segment = log.segments[0]
            segment.remove()
            del log.segments[0]
            log.size_bytes -= segment.size
        start = max(log.log_start_offset, log.segments[0].base_offset)
        for offset in snapshot_offsets(log):
            if offset < log.segments[0].base_offset:
                log.fs.remove(segment_path(log.directory, offset, "snapshot"))
        log.fs.fsync_dir(log.directory)  # some of them coming back after a power loss would leave a hole
    except OSError as error:
        raise log.go_offline("deleting old segments failed", error) from error
    increment_log_start_offset(log, start)
    log.flushed_offset = max(log.flushed_offset, log.log_start_offset)
    return gone


def _deletable(log: Log, now_ms: int, high_watermark: int) -> int:
    """How many of the oldest segments go. Never one that holds something at or above the high watermark."""
    config = log.config
    excess = log.size_bytes - config.retention_bytes if config.retention_bytes >= 0 else -1
    for n, segment in enumerate(log.segments):
        end = log.segments[n + 1].base_offset if segment is not log.active else log.log_end_offset
        if end > high_watermark or not segment.size:
            return n
        excess -= segment.size
        below_start = end <= log.log_start_offset and segment is not log.active
        too_much = config.delete and excess >= 0
        if not (below_start or too_much or (config.delete and _too_old(log, segment, now_ms))):
            return n
    return len(log.segments)


def _too_old(log: Log, segment: Segment, now_ms: int) -> bool:
    if log.config.retention_ms < 0:
        return False
    latest = segment.max_timestamp if segment.max_timestamp >= 0 else log.fs.modified_ms(segment.path)
    return now_ms - latest > log.config.retention_ms
