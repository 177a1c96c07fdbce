"""Opening a log: after a clean shutdown by trusting its files, else by reading every batch that may not have been
flushed.

Recovery keeps the longest prefix of valid batches and deletes everything after it (`LogLoader.recoverLog`,
`LogSegment.recover`). A batch is valid when its CRC-32C matches and it continues the one before: the base offset and
the leader epoch lie outside the CRC, so that continuity is all that protects them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from minikafka.log.availability import FSYNC_FAILED
from minikafka.log.checkpoints import PARTITION_METADATA, parse_whole_number
from minikafka.log.config import LogConfig
from minikafka.log.epochs import CHECKPOINT_NAME, UNDEFINED_EPOCH, LeaderEpochCache
from minikafka.log.errors import CorruptBatch, DataDirRefused, MalformedCheckpoint
from minikafka.log.filesystem import FileSystem
from minikafka.log.flushing import Flusher
from minikafka.log.index import CorruptIndex
from minikafka.log.producer_state import ProducerStateManager
from minikafka.log.results import RecoveryInfo
from minikafka.log.segment import RELATIVE_OFFSET_MAX, Segment, segment_path
from minikafka.log.segments import SegmentList
from minikafka.log.truncation import RESTART, forget_restart, interrupted_restart
from minikafka.log.unflushed import parse_tail_name, restore_tails
from minikafka.log.unflushed_volume import UnflushedVolume
from minikafka.protocol.checksum import crc32c
from minikafka.protocol.records import CRC_START, HEADER_BYTES, OFFSET_MAX, BatchHeader

if TYPE_CHECKING:
    from minikafka.log.log import Log

LOG_FILE_KINDS = ("log", "index", "timeindex", "snapshot", "txnindex")
LEFTOVER_SUFFIXES = (".tmp", ".deleted", ".cleaned")
"""What an interrupted write, deletion or compaction leaves behind; never needed again."""


def parse_segment_name(name: str) -> tuple[int, str] | None:
    """(offset, kind) of a file that belongs to a segment, or None."""
    stem, _, kind = name.partition(".")
    offset = parse_whole_number(stem) if len(stem) == 20 else None
    return (offset, kind) if offset is not None and offset <= OFFSET_MAX and kind in LOG_FILE_KINDS else None


_BASE_OFFSET = attrgetter("base_offset")


class LoadedLog(NamedTuple):
    """The parts of a log as its files have them."""

    segments: SegmentList
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    """Empty: the log has to know its start and its end before they are rebuilt."""
    flusher: Flusher
    log_start_offset: int


class _EpochsContradicted(Exception):
    """The epoch checkpoint is not what the records say."""


class LogLoader:
    """Opens one log: `load` makes the parts, and `finish` has the log that was made of them do the rest.

    `recovery_point` and `log_start_offset` come from the checkpoints. Both steps raise OSError, FsyncFailed among them.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        tail_directory: str | None = None,
        volume: UnflushedVolume | None = None,
    ) -> None:
        self.fs = fs
        self.directory = directory
        self.config = config
        self.clean = clean
        self.recovery_point = recovery_point
        self.flushed_until = recovery_point
        self.gaps_until = recovery_point
        self.log_start_offset = log_start_offset
        self.segments = SegmentList(fs, directory, config, tail_directory, volume)
        self.epochs = LeaderEpochCache(fs, directory)
        self.producers = ProducerStateManager(fs, directory, config.producer_id_expiration_ms)
        self.flusher: Flusher
        self.restart: int | None = None
        self.fsync_failed = False
        self.notes: list[str] = []
        self.truncated_bytes = 0
        self.restored_bytes = 0
        self.unflushed_lost = False
        self.recovered: list[Segment] = []
        self.last_epoch = UNDEFINED_EPOCH
        """Of the last batch of the segments so far."""
        self.unsynced: list[str] = []
        """Indexes that were written anew."""

    def load(self) -> LoadedLog:
        """Read the files, and cut off what is damaged. Raises DataDirRefused for files that are not a log's, OSError."""
        fs, segments = self.fs, self.segments
        fs.makedirs(self.directory)
        self.restart = interrupted_restart(fs, self.directory)
        if self.restart is not None:
            self._drop_everything(self.restart)
            self.log_start_offset = self.restart
        bases = self._list_segments()
        self._restore_unflushed()
        self.fsync_failed = fs.exists(f"{self.directory}/{FSYNC_FAILED}")
        if self.fsync_failed:
            self.clean = False
            self._write_again(bases)
        self._load_epochs(bases)
        if self.restart is not None:
            self.epochs.clear()
        segments.open(self._without_deleted(bases))
        self._load_segments()
        if not self.clean and segments and self.gaps_until > segments.active.next_offset:
            self.notes.append(f"the recovery point {self.gaps_until} is beyond the end: everything is recovered")
            self.recovery_point = self.gaps_until = 0
            self._load_segments()
        if not segments:
            segments.add(self.log_start_offset)
            fs.fsync_dir(self.directory)
        for segment in self.recovered:
            if segment is not segments.active:
                segment.seal()
                segment.forget_positions()
        end = segments.active.next_offset
        self.flusher = Flusher(fs, self.directory, segments, self.epochs, self.config)
        self.flusher.skip_to(end if self.clean else min(self.recovery_point, end))
        self.flusher.add_files(self.unsynced)
        start = max(segments[0].base_offset, self.log_start_offset)
        return LoadedLog(segments, self.epochs, self.producers, self.flusher, start)

    def finish(self, log: Log, now_ms: int) -> RecoveryInfo:
        """Make start, epochs and producers fit the records, and what survived the process as safe as what was flushed.

        `now_ms` expires producers. Raises LogDirFailure, OSError.
        """
        fs = self.fs
        if log.log_start_offset > log.log_end_offset:
            self.notes.append(f"the log ended at {log.log_end_offset}, below its start {log.log_start_offset}: emptied")
            log.truncate_fully_and_start_at(log.log_start_offset)
        self.epochs.truncate_from_end(log.log_end_offset)
        self.epochs.truncate_from_start(log.log_start_offset)
        if not self.clean:
            self.epochs.mark_dirty()  # what the process before wrote need not be on the disk
            whole, problems = self.producers.check_snapshots()
            self.flusher.add_files(whole)
            self.notes += [f"{problem}: removed" for problem in problems]
        self.producers.rebuild(self.segments, log.log_start_offset, log.log_end_offset, now_ms)
        if not self.clean or self.restored_bytes:
            self.flusher.lower(self.recovery_point)
            self.segments.mark_new_files()
            log.flush()
        self.epochs.release()  # last: as long as the checkpoint is damaged a crash has all indexes written anew
        if self.fsync_failed:
            fs.remove(f"{self.directory}/{FSYNC_FAILED}")
            fs.fsync_dir(self.directory)
        if self.restart is not None:
            if self.segments.tail_directory is not None:
                fs.fsync_dir(self.segments.tail_directory)
            forget_restart(fs, self.directory)
        return RecoveryInfo(
            self.clean,
            self.recovery_point,
            log.log_end_offset,
            self.truncated_bytes,
            self.restored_bytes,
            len(self.recovered),
            tuple(self.notes),
            lost=log.log_end_offset < self.flushed_until,
            unflushed_lost=self.unflushed_lost,
            restarted=self.restart is not None,
        )

    def _drop_everything(self, start: int) -> None:
        """Finish a restart. Tails on the unflushed volume go with the segments that they belong to."""
        self.notes.append(f"it was about to drop everything and begin anew at {start}: finished")
        for name in self.fs.listdir(self.directory):
            if parse_segment_name(name) is not None:
                self.fs.remove(f"{self.directory}/{name}")

    # -- files

    def _list_segments(self) -> list[int]:
        fs = self.fs
        bases = []
        for name in fs.listdir(self.directory):
            parsed = parse_segment_name(name)
            if name.endswith(LEFTOVER_SUFFIXES):
                fs.remove(f"{self.directory}/{name}")
            elif parsed is not None:
                if parsed[1] == "log":
                    bases.append(parsed[0])
            elif name not in (CHECKPOINT_NAME, PARTITION_METADATA, RESTART, FSYNC_FAILED):
                raise DataDirRefused(f"{self.directory}/{name}: not a file of a log; move it away")
        for name in fs.listdir(self.directory):
            parsed = parse_segment_name(name)
            if parsed is not None and parsed[1] in ("index", "timeindex", "txnindex") and parsed[0] not in bases:
                fs.remove(f"{self.directory}/{name}")
        return bases

    def _without_deleted(self, bases: list[int]) -> list[int]:
        """Remove the segments below the log start, which were being deleted: there may be holes between them."""
        first = max((n for n, base in enumerate(bases) if base <= self.log_start_offset), default=0)
        if first:
            self.fs.fsync_dir(self.directory)  # the names of those that stay come first
        for base in bases[:first]:
            for kind in ("log", "index", "timeindex"):
                self.fs.remove(segment_path(self.directory, base, kind))
        return bases[first:]

    def _write_again(self, bases: list[int]) -> None:
        """Give what may be in memory only to the disk: the segments from the recovery point on, and the epochs."""
        self.notes.append("an fsync had failed: what was not flushed is written again")
        fs = self.fs
        first = max((base for base in bases if base <= self.recovery_point), default=0)
        paths = [segment_path(self.directory, base, "log") for base in bases if base >= first]
        epochs = f"{self.directory}/{CHECKPOINT_NAME}"
        for path in [*paths, *([epochs] if fs.exists(epochs) else [])]:
            fs.write_again(path)

    def _restore_unflushed(self) -> None:
        fs, tails = self.fs, self.segments.tail_directory
        if tails is None:
            return
        if fs.is_dir(tails):
            for name in fs.listdir(tails):
                if parse_tail_name(name) is None:
                    raise DataDirRefused(f"{tails}/{name}: not a file of the unflushed volume; move it away")
        elif not self.clean:  # it was made when the log was made; gone with the volume (or the setting is new)
            self.unflushed_lost = True
            self.notes.append("the unflushed volume was empty: what was not flushed is gone")
        self.restored_bytes = restore_tails(fs, tails, self.directory)
        fs.makedirs(tails)
        if self.restored_bytes:
            self.notes.append(f"{self.restored_bytes} unflushed bytes restored")

    def _load_epochs(self, bases: list[int]) -> None:
        path = f"{self.directory}/{CHECKPOINT_NAME}"
        if not self.fs.exists(path) and any(
            self.fs.file_size(segment_path(self.directory, base, "log")) for base in bases
        ):
            self._rebuild_epochs(f"{path}: it is not there")
            return
        try:
            self.epochs = LeaderEpochCache.load(self.fs, self.directory)
        except MalformedCheckpoint as error:
            self._rebuild_epochs(str(error))

    def _rebuild_epochs(self, problem: str) -> None:
        self.notes.append(f"{problem}: rebuilt from the records")
        self.clean = False
        self.recovery_point = 0
        self.epochs.hold()  # the damaged file says that this is to be done, until it is done

    # -- segments

    def _load_segments(self) -> None:
        try:
            self._load_each()
        except _EpochsContradicted as contradiction:
            self._rebuild_epochs(f"{self.directory}/{CHECKPOINT_NAME}: {contradiction}")
            self._load_each()

    def _load_each(self) -> None:
        segments = self.segments
        self.recovered.clear()
        self.last_epoch = UNDEFINED_EPOCH
        first_unsafe = len(segments)
        if not self.clean:
            # One that ends at the recovery point, too: it was completed since, and its indexes may not be on the disk.
            first_unsafe = max([n for n, s in enumerate(segments) if s.base_offset < self.recovery_point], default=0)
        for n in range(len(segments)):
            segment = segments[n]
            if n == first_unsafe:
                self._check_epochs(segments[:n])
            if n > 0 and (n >= first_unsafe or not segment.size) and self._gap(segments[n - 1], segment):
                whole = segments[n - 1] in self.recovered or self._recover_after_all(n - 1)
                problem = f"{segment.base_offset} does not continue {segments[n - 1].next_offset}"
                self._drop_from(n, problem if whole else "it follows a damaged segment")
                return
            if n >= first_unsafe:
                whole = self._recover(segment)
            else:
                whole = self._load(n)
            if not whole:
                self._drop_from(n + 1, "it follows a damaged segment")
                return

    def _gap(self, before: Segment, segment: Segment) -> bool:
        """Whether records are missing between two segments. Of a compacted log that is no damage where they had been flushed.

        Above that a power loss may have taken the end of one, and left the name of the next.
        """
        if self.config.compact and segment.base_offset <= self.gaps_until:
            return segment.base_offset < before.next_offset
        return segment.base_offset != before.next_offset

    def _load(self, n: int) -> bool:
        segment = self.segments[n]
        try:
            segment.load()
        except (CorruptIndex, CorruptBatch) as error:
            self.notes.append(f"{error}: segment recovered")
            self._check_epochs(self.segments[:n])
            return self._recover(segment)
        self.last_epoch = self.epochs.epoch_for_offset(segment.next_offset - 1)
        return True

    def _recover_after_all(self, n: int) -> bool:
        """Recover a segment that was trusted: what follows it contradicts its end, which may be damaged, and be too high."""
        self._check_epochs(self.segments[:n])
        self.last_epoch = self.epochs.epoch_for_offset(self.segments[n].base_offset - 1) if n else UNDEFINED_EPOCH
        return self._recover(self.segments[n])

    def _recover(self, segment: Segment) -> bool:
        """Rebuild the indexes from the batches and cut at the first invalid one; whether all were valid."""
        self.recovered.append(segment)
        self.unsynced += [segment.index.path, segment.time_index.path]
        epochs, size = self.epochs, segment.data.size
        batches = segment.scan()
        segment.reset()
        offset_max = min(OFFSET_MAX, segment.base_offset + RELATIVE_OFFSET_MAX)
        last_epoch = self.last_epoch
        for _, header, batch in batches:
            base, epoch = header.base_offset, header.partition_leader_epoch
            if (
                crc32c(batch[CRC_START:]) != header.crc
                or header.last_offset_delta < 0
                or header.last_offset > offset_max
                or (base != segment.next_offset and not (self.config.compact and base > segment.next_offset))
                or not self._epoch_fits(header, last_epoch)
            ):
                break
            if epoch > epochs.latest:
                epochs.assign(epoch, base)
            last_epoch = epoch
            segment.note(header.size, header.last_offset, header.max_timestamp)
        self.last_epoch = last_epoch
        end = segment.size
        if end < size:
            self.truncated_bytes += size - end
            self.notes.append(f"{segment.path}: cut from {size} to {end} bytes, offset {segment.next_offset}")
            segment.truncate(end, segment.next_offset)
        return end == size

    def _check_epochs(self, segments: Sequence[Segment]) -> None:
        """Compare the epoch checkpoint with the records of segments that are not read whole: their ends, and the last entry's.

        A power loss may have torn what was written since the last flush so that it still looks like a checkpoint. Raises
        _EpochsContradicted.
        """
        if not segments:
            return
        start, end = max(segments[0].base_offset, self.log_start_offset), segments[-1].next_offset
        last = [offset for _, offset in self.epochs.entries if start < offset < end][-1:]
        for offset in (start, *(each + n for each in last for n in (-1, 0)), end - 1):
            batch = _batch_at(segments, offset)
            if batch is None:
                continue
            at, epoch = max(offset, batch.base_offset), batch.partition_leader_epoch
            before, after = _batch_at(segments, batch.base_offset - 1), _batch_at(segments, batch.next_offset)
            is_damaged = (before is not None and before.partition_leader_epoch > epoch) or (
                after is not None and after.partition_leader_epoch < epoch
            )
            if not is_damaged and self.epochs.epoch_for_offset(at) != epoch and not self._is_unknown(epoch, at):
                raise _EpochsContradicted(f"offset {at} is of epoch {epoch}")

    def _is_unknown(self, epoch: int, offset: int) -> bool:
        """Whether an epoch is one of those before the first that the checkpoint knows."""
        first = self.epochs.earliest_entry
        return first is None or (offset < first.start_offset and epoch < first.epoch)

    def _epoch_fits(self, header: BatchHeader, last_epoch: int) -> bool:
        """Whether a batch may have its epoch: what the checkpoint says, or later than all it knows.

        The checkpoint is written before the first batch of an epoch, but fsynced only with the next flush. So a power loss may
        have taken its newest entries; or it has torn the last one, which then seems to be of another epoch, or to begin
        elsewhere. Raises _EpochsContradicted for that. Any other epoch is damage: it lies outside the CRC.
        """
        epoch = header.partition_leader_epoch
        offset = max(header.base_offset, self.log_start_offset)  # the checkpoint does not speak of what lies below
        if epoch < last_epoch or epoch < UNDEFINED_EPOCH:
            return False
        epochs = self.epochs
        if epoch > epochs.latest or header.last_offset < offset or self._is_unknown(epoch, offset):
            return True
        known = epochs.epoch_for_offset(offset)
        goes_on = epoch == last_epoch
        begins_there = self.config.compact or epochs.start_offset_of(epoch) == offset
        if known == epoch == epochs.epoch_for_offset(header.last_offset) and (goes_on or begins_there):
            return True
        if goes_on or known in (UNDEFINED_EPOCH, epoch) or epochs.latest in (known, epoch):
            raise _EpochsContradicted(f"epoch {epoch} {'goes on' if goes_on else 'begins'} at offset {offset}")
        return False

    def _drop_from(self, n: int, reason: str) -> None:
        while len(self.segments) > n:
            segment = self.segments.remove_last()
            self.recovered = [each for each in self.recovered if each is not segment]
            self.truncated_bytes += segment.size
            self.notes.append(f"{segment.path}: deleted, {reason}")


def _batch_at(segments: Sequence[Segment], offset: int) -> BatchHeader | None:
    """Return the batch that holds an offset, or the next one of its segment, or None where there is none."""
    if offset < segments[0].base_offset:
        return None
    segment = segments[bisect_right(segments, offset, key=_BASE_OFFSET) - 1]
    try:
        return next((found.header for found in segment.walk(segment.locate(offset), HEADER_BYTES)), None)
    except CorruptBatch:
        return None
