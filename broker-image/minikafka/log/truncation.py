"""Cutting a log back to what the leader has.

Order matters for a crash in between: later segments go first, newest before oldest, so that what is left is always a
prefix; then the data is cut and fsynced, then the epochs. Recovery finishes the rest. The data is fsynced even when
none of it had been flushed: else a power loss could leave a mixture of old and new batches that looks whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.log.errors import LogDirFailure
from minikafka.log.segment import segment_path

if TYPE_CHECKING:
    from minikafka.log.log import Log


def truncate_to(log: Log, offset: int) -> int:
    """See `Log.truncate_to`."""
    log.settle_flush()
    before = log.log_end_offset
    try:
        if offset >= before:
            log.epochs.truncate_from_end(before)
            return 0
        if offset < log.segments[0].base_offset:
            truncate_fully_and_start_at(log, offset)
            return before - offset
        _cut(log, offset)
    except OSError as error:
        raise LogDirFailure(f"{log}: truncation failed: {error}", permanent=False) from error
    if log.on_recovery_point_lowered is not None:
        log.on_recovery_point_lowered()
    return before - log.log_end_offset


def _cut(log: Log, offset: int) -> None:
    while log.segments[-1].base_offset > offset:
        segment = log.segments.pop()
        log.size_bytes -= segment.size
        segment.remove()
    segment = log.active = log.segments[-1]
    position = segment.locate(offset)
    for found in segment.walk(position):
        offset = min(offset, found.header.base_offset)  # inside a batch: the whole batch goes
        break
    log.size_bytes -= segment.size - position
    segment.truncate(position, offset)
    durable = offset < log.flushed_offset
    log.log_end_offset = offset
    log.flushed_offset = min(log.flushed_offset, offset)
    log.log_start_offset = min(log.log_start_offset, offset)
    log.epochs.truncate_from_end(offset, durable=durable)
    remove_snapshots(log, above=offset)
    log.fs.fsync_dir(log.directory)  # a later segment or snapshot must not come back after a power loss
    if len(log.producers):
        from minikafka.log.recovery import rebuild_producers

        rebuild_producers(log, now_ms=0)


def truncate_fully_and_start_at(log: Log, offset: int) -> None:
    """See `Log.truncate_fully_and_start_at`."""
    log.settle_flush()
    try:
        while log.segments:
            segment = log.segments[-1]
            segment.remove()
            log.segments.pop()
        log.size_bytes = 0
        remove_snapshots(log, above=-1)
        log.producers.clear()
        log.epochs.clear()
        log.active = log.new_segment(offset)
        log.segments.append(log.active)
        log.fs.fsync_dir(log.directory)
    except OSError as error:
        raise LogDirFailure(f"{log}: truncation failed: {error}", permanent=True) from error
    log.log_start_offset = log.log_end_offset = log.flushed_offset = offset
    if log.on_recovery_point_lowered is not None:
        log.on_recovery_point_lowered()


def remove_snapshots(log: Log, above: int) -> None:
    """Delete producer snapshots of offsets above `above`. Raises OSError."""
    for offset in snapshot_offsets(log):
        if offset > above:
            log.fs.remove(segment_path(log.directory, offset, "snapshot"))


def snapshot_offsets(log: Log) -> list[int]:
    """Offsets of the producer snapshots on disk, ascending."""
    names = log.fs.listdir(log.directory)
    return sorted(
        int(stem)
        for stem, dot, kind in (name.partition(".") for name in names)
        if kind == "snapshot" and stem.isdigit()
    )
