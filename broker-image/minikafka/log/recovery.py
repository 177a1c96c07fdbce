"""Opening a log: after a clean shutdown by trusting its files, else by reading every batch that may not have been
flushed.

Recovery keeps the longest prefix of valid batches and deletes everything after it (`LogLoader.recoverLog`,
`LogSegment.recover`). A batch is valid when its CRC-32C matches and it continues the one before: the base offset and
the leader epoch lie outside the CRC, so that continuity is all that protects them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crc32c import crc32c

from minikafka.log.checkpoints import PARTITION_METADATA
from minikafka.log.epochs import CHECKPOINT_NAME, LeaderEpochCache
from minikafka.log.errors import CorruptBatch, DataDirRefused, FsyncFailed, MalformedCheckpoint
from minikafka.log.flushing import FSYNC_FAILED
from minikafka.log.index import CorruptIndex
from minikafka.log.producer_state import CorruptSnapshot, decode_snapshot
from minikafka.log.results import RecoveryInfo
from minikafka.log.segment import Segment, segment_path
from minikafka.log.truncation import (
    RESTART,
    forget_restart,
    interrupted_restart,
    snapshot_offsets,
    truncate_fully_and_start_at,
)
from minikafka.log.unflushed import parse_tail_name, restore_tails
from minikafka.protocol.records import CRC_START

if TYPE_CHECKING:
    from minikafka.log.log import Log

LOG_FILE_KINDS = ("log", "index", "timeindex", "snapshot", "txnindex")
LEFTOVER_SUFFIXES = (".tmp", ".deleted", ".cleaned")
"""What an interrupted write, deletion or compaction leaves behind; never needed again."""
REBUILD_READ_BYTES = 1 << 16


def open_log(
    log: Log, *, clean: bool, recovery_point: int, now_ms: int, unflushed_dir: str | None, log_start_offset: int
) -> Log:
    """See `Log.open`."""
    try:
        return _Loader(log, clean, recovery_point, now_ms).open(unflushed_dir, log_start_offset)
    except FsyncFailed as error:
        raise log.go_offline("cannot be opened", error) from error
    except OSError as error:
        raise log.refused("cannot be opened", error) from error


def parse_segment_name(name: str) -> tuple[int, str] | None:
    """(offset, kind) of a file that belongs to a segment, or None."""
    stem, _, kind = name.partition(".")
    return (int(stem), kind) if len(stem) == 20 and stem.isdigit() and kind in LOG_FILE_KINDS else None


class _Loader:
    def __init__(self, log: Log, clean: bool, recovery_point: int, now_ms: int) -> None:
        self.log = log
        self.fs = log.fs
        self.clean = clean
        self.recovery_point = recovery_point
        self.flushed_until = recovery_point
        self.now_ms = now_ms
        self.notes: list[str] = []
        self.truncated_bytes = 0
        self.unflushed_lost = False
        self.recovered: list[Segment] = []

    def open(self, unflushed_dir: str | None, log_start_offset: int) -> Log:
        log, fs = self.log, self.fs
        fs.makedirs(log.directory)
        restart = interrupted_restart(fs, log.directory)
        if restart is not None:
            self._drop_everything(restart)
            log_start_offset = restart
        bases = self._list_segments()
        restored = self._restore_unflushed(unflushed_dir)
        fsync_failed = fs.exists(f"{log.directory}/{FSYNC_FAILED}")
        if fsync_failed:
            self.clean = False
            self._write_again(bases)
        self._load_epochs()
        if restart is not None:
            log.epochs.clear()
        log.segments = [Segment(fs, log.directory, base, log.config, log.tail_directory) for base in bases]
        self._load_segments()
        if not self.clean and log.segments and self.recovery_point > log.segments[-1].next_offset:
            self.notes.append(f"the recovery point {self.recovery_point} is beyond the end: everything is recovered")
            self.recovery_point = 0
            self.recovered.clear()
            self._load_segments()
        if not log.segments:
            log.segments.append(log.new_segment(log_start_offset))
            fs.fsync_dir(log.directory)
        log.active = log.segments[-1]
        for segment in self.recovered:
            if segment is not log.active:
                segment.seal()
                segment.forget_positions()
        log.log_end_offset = log.active.next_offset
        log.size_bytes = sum(segment.size for segment in log.segments)
        log.log_start_offset = max(log.segments[0].base_offset, log_start_offset)
        log.flushed_offset = log.log_end_offset if self.clean else min(self.recovery_point, log.log_end_offset)
        if log.log_start_offset > log.log_end_offset:
            self.notes.append(f"the log ended at {log.log_end_offset}, below its start {log.log_start_offset}: emptied")
            truncate_fully_and_start_at(log, log.log_start_offset)
        log.epochs.truncate_from_end(log.log_end_offset)
        log.epochs.truncate_from_start(log.log_start_offset)
        log.epochs.release()
        if not self.clean:
            log.epochs.dirty = True  # what the process before wrote need not be on the disk
            self._check_snapshots()
        rebuild_producers(log, self.now_ms)
        if not self.clean or restored:
            log.flushed_offset = min(log.flushed_offset, self.recovery_point)
            log.new_files = True
            log.flush()  # what survived the process is from now on as safe as what was flushed
        if fsync_failed:
            fs.remove(f"{log.directory}/{FSYNC_FAILED}")
            fs.fsync_dir(log.directory)
        if restart is not None:
            if log.tail_directory is not None:
                fs.fsync_dir(log.tail_directory)
            forget_restart(fs, log.directory)
        log.recovery = RecoveryInfo(
            self.clean,
            self.recovery_point,
            log.log_end_offset,
            self.truncated_bytes,
            restored,
            len(self.recovered),
            tuple(self.notes),
            lost=log.log_end_offset < self.flushed_until,
            unflushed_lost=self.unflushed_lost,
            restarted=restart is not None,
        )
        return log

    def _drop_everything(self, start: int) -> None:
        """Finish a restart. Tails on the unflushed volume go with the segments that they belong to."""
        self.notes.append(f"it was about to drop everything and begin anew at {start}: finished")
        for name in self.fs.listdir(self.log.directory):
            if parse_segment_name(name) is not None:
                self.fs.remove(f"{self.log.directory}/{name}")

    # -- files

    def _list_segments(self) -> list[int]:
        log, fs = self.log, self.fs
        bases = []
        for name in fs.listdir(log.directory):
            parsed = parse_segment_name(name)
            if name.endswith(LEFTOVER_SUFFIXES):
                fs.remove(f"{log.directory}/{name}")
            elif parsed is not None:
                if parsed[1] == "log":
                    bases.append(parsed[0])
            elif name not in (CHECKPOINT_NAME, PARTITION_METADATA, RESTART, FSYNC_FAILED):
                raise DataDirRefused(f"{log.directory}/{name}: not a file of a log; move it away")
        for name in fs.listdir(log.directory):
            parsed = parse_segment_name(name)
            if parsed is not None and parsed[1] in ("index", "timeindex", "txnindex") and parsed[0] not in bases:
                fs.remove(f"{log.directory}/{name}")
        return bases

    def _write_again(self, bases: list[int]) -> None:
        """Give what may be in memory only to the disk: the segments from the recovery point on, and the epochs."""
        self.notes.append("an fsync had failed: what was not flushed is written again")
        log, fs = self.log, self.fs
        first = max((base for base in bases if base <= self.recovery_point), default=0)
        paths = [segment_path(log.directory, base, "log") for base in bases if base >= first]
        epochs = f"{log.directory}/{CHECKPOINT_NAME}"
        for path in [*paths, *([epochs] if fs.exists(epochs) else [])]:
            fs.write_again(path)

    def _restore_unflushed(self, unflushed_dir: str | None) -> int:
        if unflushed_dir is None:
            return 0
        log, fs = self.log, self.fs
        log.tail_directory = f"{unflushed_dir}/{log.topic_partition}"
        if fs.is_dir(log.tail_directory):
            for name in fs.listdir(log.tail_directory):
                if parse_tail_name(name) is None:
                    raise DataDirRefused(
                        f"{log.tail_directory}/{name}: not a file of the unflushed volume; move it away"
                    )
        elif not self.clean:  # it was made when the log was made; gone with the volume (or the setting is new)
            self.unflushed_lost = True
            self.notes.append("the unflushed volume was empty: what was not flushed is gone")
        restored = restore_tails(fs, log.tail_directory, log.directory)
        fs.makedirs(log.tail_directory)
        if restored:
            self.notes.append(f"{restored} unflushed bytes restored")
        return restored

    def _load_epochs(self) -> None:
        log = self.log
        try:
            log.epochs = LeaderEpochCache.load(self.fs, log.directory)
        except MalformedCheckpoint as error:
            self.notes.append(f"{error}: rebuilt from the records")
            self.clean = False
            self.recovery_point = 0
            log.epochs.hold()  # the damaged file says that this is to be done, until it is done

    # -- segments

    def _load_segments(self) -> None:
        segments = self.log.segments
        first_unsafe = len(segments)
        if not self.clean:
            first_unsafe = max([n for n, s in enumerate(segments) if s.base_offset <= self.recovery_point], default=0)
        for n in range(len(segments)):
            segment = segments[n]
            if n > 0 and n >= first_unsafe and self._gap(segments[n - 1], segment):
                self._drop_from(n, f"{segment.base_offset} does not continue {segments[n - 1].next_offset}")
                return
            if n >= first_unsafe:
                whole = self._recover(segment)
            else:
                whole = self._load(segment)
            if not whole:
                self._drop_from(n + 1, "it follows a damaged segment")
                return

    def _gap(self, before: Segment, segment: Segment) -> bool:
        if self.log.config.compact:
            return segment.base_offset < before.next_offset
        return segment.base_offset != before.next_offset

    def _load(self, segment: Segment) -> bool:
        try:
            segment.load()
        except (CorruptIndex, CorruptBatch) as error:
            self.notes.append(f"{error}: segment recovered")
            return self._recover(segment)
        return True

    def _recover(self, segment: Segment) -> bool:
        """Rebuild the indexes from the batches and cut at the first invalid one; whether all were valid."""
        self.recovered.append(segment)
        self.log.unsynced_paths += [segment.index.path, segment.time_index.path]
        log, epochs, size = self.log, self.log.epochs, segment.size
        batches = segment.scan()
        segment.reset()
        last_epoch = -1
        for _, header, batch in batches:
            base, epoch = header.base_offset, header.partition_leader_epoch
            if (
                crc32c(batch[CRC_START:]) != header.crc
                or header.last_offset_delta < 0
                or (base != segment.next_offset and not (log.config.compact and base > segment.next_offset))
                or not self._epoch_fits(epoch, base, last_epoch)
            ):
                break
            if epoch > epochs.latest:
                epochs.assign(epoch, base)
            last_epoch = epoch
            segment.note(header.size, header.last_offset, header.max_timestamp)
        end = segment.size
        if end < size:
            self.truncated_bytes += size - end
            self.notes.append(f"{segment.path}: cut from {size} to {end} bytes, offset {segment.next_offset}")
            segment.truncate(end, segment.next_offset)
        return end == size

    def _check_snapshots(self) -> None:
        """Snapshots are written without fsync when a segment is completed: a power loss may have damaged any."""
        for offset in snapshot_offsets(self.log):
            path = segment_path(self.log.directory, offset, "snapshot")
            try:
                decode_snapshot(self.fs.read_bytes(path), path)
            except CorruptSnapshot as error:
                self.notes.append(f"{error}: removed")
                self.fs.remove(path)
            else:
                self.log.unsynced_paths.append(path)

    def _epoch_fits(self, epoch: int, offset: int, last_epoch: int) -> bool:
        """Whether a batch may have this epoch: what the checkpoint says, or later than all it knows.

        The checkpoint is written before the first batch of an epoch, but fsynced only with the next flush, so a power
        loss may have taken its newest entries; it never lags behind what was flushed.
        """
        if epoch < last_epoch or epoch < -1:
            return False
        known = self.log.epochs.epoch_for_offset(offset)
        return known in (-1, epoch) or epoch > self.log.epochs.latest

    def _drop_from(self, n: int, reason: str) -> None:
        segments = self.log.segments
        while len(segments) > n:
            segment = segments.pop()
            self.recovered = [each for each in self.recovered if each is not segment]
            self.truncated_bytes += segment.size
            self.notes.append(f"{segment.path}: deleted, {reason}")
            segment.remove()


def rebuild_producers(log: Log, now_ms: int) -> None:
    """Load the newest usable snapshot at or below the log end offset, and replay the batches after it. Raises OSError.

    `now_ms` expires old producers; 0 expires none.
    """
    log.producers.clear()
    start = log.segments[0].base_offset
    for offset in reversed(snapshot_offsets(log)):
        path = segment_path(log.directory, offset, "snapshot")
        if offset <= log.log_end_offset and offset >= start:
            try:
                log.producers.load_snapshot(path, now_ms)
            except CorruptSnapshot:
                pass
            else:
                start = offset
                break
        log.fs.remove(path)
    replay_producers(log, max(start, log.log_start_offset))
    if now_ms:
        log.producers.remove_expired(now_ms)


def replay_producers(log: Log, start: int) -> None:
    """Feed the batches from `start` on to the producer state: headers only, but for transaction markers."""
    for segment in log.segments[log.segment_number(start) :]:
        for found in segment.walk(segment.locate(start), REBUILD_READ_BYTES):
            if found.header.producer_id >= 0 and found.header.last_offset >= start:  # the log may start inside it
                batch = segment.read_batch(found) if found.header.control else None
                log.producers.apply(found.header, batch)
