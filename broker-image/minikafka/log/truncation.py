"""Cutting a log back to what the leader has.

Order matters for a crash in between: the recovery point is lowered before anything is cut, for a higher one would hide
damage below it. Later segments go first, newest before oldest, so that what is left is always a
prefix; then the data is cut and fsynced, then the epochs. Recovery finishes the rest. The data is fsynced even when
none of it had been flushed: else a power loss could leave a mixture of old and new batches that looks whole.

To begin anew at another offset has no such prefix: an empty log does not tell where it begins, and the checkpoint of log
starts may still say where it began before. So the offset is put down first, in a file of its own (`RESTART`), which goes
when all is done; opening a log finds it, and finishes. (Kafka has no such file; a crash in the middle of its
``truncateFullyAndStartAt`` leaves a log at its old start.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.log.errors import DataDirRefused, LogDirFailure
from minikafka.log.filesystem import FileSystem
from minikafka.log.segment import segment_path

if TYPE_CHECKING:
    from minikafka.log.log import Log
    from minikafka.log.segment import Segment

RESTART = "log-restart"
"""In the log's directory while it is to begin anew: the offset where, in digits."""


def truncate_to(log: Log, offset: int) -> int:
    """See `Log.truncate_to`."""
    log.check_online()
    log.settle_flush()
    before = log.log_end_offset
    if offset >= before:
        try:
            log.epochs.truncate_from_end(before)
        except OSError as error:
            raise log.refused("truncation failed", error) from error
        return 0
    if offset < log.segments[0].base_offset:
        truncate_fully_and_start_at(log, offset)
        return before - offset
    try:
        segment, position, offset = _where(log, offset)
    except OSError as error:
        raise log.refused("truncation failed", error) from error
    log.lower_recovery_point(offset)
    try:
        _cut(log, segment, position, offset)
    except OSError as error:
        raise log.go_offline("truncation failed", error) from error
    return before - offset


def _where(log: Log, offset: int) -> tuple[Segment, int, int]:
    """The segment to cut, the position in it, and the offset that the log then ends at. Raises OSError."""
    segment = log.segments[log.segment_number(offset)]
    position = segment.locate(offset)
    for found in segment.walk(position):
        return segment, position, min(offset, found.header.base_offset)  # inside a batch: the whole batch goes
    return segment, position, offset


def _cut(log: Log, segment: Segment, position: int, offset: int) -> None:
    durable = offset < log.flushed_offset
    # First: whatever fails below, nobody may count on more than this.
    log.flushed_offset = min(log.flushed_offset, offset)
    log.log_end_offset = offset
    while log.segments[-1] is not segment:
        later = log.segments.pop()
        log.size_bytes -= later.size
        later.remove()
    log.active = segment
    log.size_bytes -= segment.size - position
    segment.truncate(position, offset)
    log.log_start_offset = min(log.log_start_offset, offset)
    log.epochs.truncate_from_end(offset, durable=durable)
    remove_snapshots(log, above=offset)
    log.fs.fsync_dir(log.directory)  # a later segment or snapshot must not come back after a power loss
    if len(log.producers):
        from minikafka.log.recovery import rebuild_producers

        rebuild_producers(log, now_ms=0)


def truncate_fully_and_start_at(log: Log, offset: int, log_start_offset: int | None = None) -> None:
    """See `Log.truncate_fully_and_start_at`. The log start may lie inside the first batch that is to come."""
    log.check_online()
    log.settle_flush()
    log.lower_recovery_point(offset)
    log.flushed_offset = min(log.flushed_offset, log.log_start_offset, offset)
    try:
        log.fs.write_atomic(f"{log.directory}/{RESTART}", f"{offset}\n".encode())
        while log.segments:
            log.segments[-1].remove()
            log.segments.pop()
        log.size_bytes = 0
        remove_snapshots(log, above=-1)
        log.producers.clear()
        log.epochs.clear()
        log.active = log.new_segment(offset)
        log.segments.append(log.active)
        log.log_end_offset = log.flushed_offset = offset
        log.log_start_offset = offset if log_start_offset is None else log_start_offset
        log.fs.fsync_dir(log.directory)
        if log.tail_directory is not None:
            log.fs.fsync_dir(log.tail_directory)  # a tail that came back would fit a new segment of the same name
        if log.on_log_start_moved is not None:
            log.on_log_start_moved()  # while the file is still there: the checkpoint may hold the start it had before
        forget_restart(log.fs, log.directory)
    except (OSError, LogDirFailure) as error:
        raise log.go_offline("truncation failed", error) from error


def interrupted_restart(fs: FileSystem, directory: str) -> int | None:
    """Where a log was about to begin anew when something came in between; None when nothing did.

    Raises DataDirRefused, OSError.
    """
    path = f"{directory}/{RESTART}"
    if not fs.exists(path):
        return None
    try:
        return int(fs.read_bytes(path))
    except ValueError:
        raise DataDirRefused(f"{path}: holds no offset; remove it to keep the log as it is") from None


def forget_restart(fs: FileSystem, directory: str) -> None:
    """It is done, durably: a power loss must not bring it back over what is appended from now on. Raises OSError."""
    fs.remove(f"{directory}/{RESTART}")
    fs.fsync_dir(directory)


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
