"""One replica's log: an append-only sequence of record batches in segments, with epochs and producer state.

Single-threaded: all methods are called from one thread, except `FlushJob.run`. Batches are opaque: a batch costs one
header unpack, one CRC, one stamp outside the CRC, one write and a few attribute updates, whatever it holds.

The log end offset is that of the *next* record. What lies below `flushed_offset` survives a power loss.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from crc32c import crc32c

from minikafka.log import flushing, replicated, retention, timestamps, truncation, validation
from minikafka.log.config import LogConfig
from minikafka.log.epochs import CHECKPOINT_NAME, LeaderEpochCache
from minikafka.log.errors import (
    CorruptBatch,
    FencedLeaderEpoch,
    FsyncFailed,
    InvalidTimestamp,
    LogDirFailure,
    OffsetOutOfRange,
    RecordListTooLarge,
)
from minikafka.log.filesystem import File, FileSystem
from minikafka.log.flushing import FlushJob
from minikafka.log.producer_state import ProducerStateManager
from minikafka.log.results import AppendInfo, FetchSlice, RecoveryInfo, TimestampOffset
from minikafka.log.segment import Segment, segment_path
from minikafka.log.unflushed import FileRange
from minikafka.protocol.records import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    STAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Codec,
    RecordBatch,
    set_log_append_time,
)
from minikafka.protocol.types import TopicPartition

__all__ = ["AppendInfo", "FetchSlice", "File", "FileRange", "Log", "LogConfig", "RecoveryInfo", "TimestampOffset"]

EMPTY_SLICE = FetchSlice([], 0)
_unpack_header = HEADER.unpack_from
_stamp = STAMP.pack_into


class Log:
    """See the module. Open one with `Log.open`, not by the constructor."""

    __slots__ = (
        "_flush_messages", "_log_append_time", "_max_message_bytes",
        "_segment_bytes", "_segment_ms", "active", "config", "directory",
        "epochs", "failure", "flush_job", "flushed_at", "flushed_offset", "fs", "log_end_offset", "log_start_offset",
        "new_files", "on_log_start_moved", "on_recovery_point_lowered", "producers", "recovery", "segments",
        "size_bytes", "tail_directory", "topic_partition", "unsynced_paths",
    )  # fmt: skip

    def __init__(self, fs: FileSystem, directory: str, topic_partition: TopicPartition, config: LogConfig) -> None:
        self.fs = fs
        self.directory = directory
        self.topic_partition = topic_partition
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.flushed_offset = 0
        self.size_bytes = 0
        self.segments: list[Segment] = []
        self.active: Segment
        self.tail_directory: str | None = None
        self.epochs = LeaderEpochCache(fs, f"{directory}/{CHECKPOINT_NAME}")
        self.producers = ProducerStateManager(fs, config.producer_id_expiration_ms)
        self.recovery = RecoveryInfo(True, 0, 0, 0, 0, 0, ())
        self.failure: LogDirFailure | None = None
        """Why the log is offline: an operation was left half done, so that memory and disk may differ, or nothing unflushed
        can be trusted any more (`permanent`). Everything raises it; `LogManager.reopen` makes the log anew."""
        self.on_log_start_moved: Callable[[], None] | None = None
        """Called when the start moves inside a segment. Were it not durable, a crash would bring back records whose epochs
        are forgotten, and which other replicas may hold differently (found by simulation)."""
        self.on_recovery_point_lowered: Callable[[int], None] | None = None
        """Called with the new end before the log is cut: makes the recovery point on disk no higher. Raises LogDirFailure."""
        self.flush_job: FlushJob | None = None
        self.flushed_at: float | None = None
        self.new_files = False
        self.unsynced_paths: list[str] = []
        """Indexes and snapshots of completed segments, for the next flush. The active segment's are rebuilt instead."""
        self.configure(config)

    @staticmethod
    def open(
        dir: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        fs: FileSystem,
        *,
        clean: bool,
        recovery_point: int,
        now_ms: int,
        unflushed_dir: str | None = None,
        log_start_offset: int = 0,
    ) -> Log:
        """Open the log in directory `dir` (made when absent), recovering it unless the last shutdown was `clean`.

        `recovery_point` and `log_start_offset` come from the checkpoints. `unflushed_dir` is the root of the unflushed
        volume. Raises LogDirFailure, and DataDirRefused for files that are not a log's.
        """
        from minikafka.log.recovery import open_log

        return open_log(
            Log(fs, dir, topic_partition, config), clean=clean, recovery_point=recovery_point, now_ms=now_ms,
            unflushed_dir=unflushed_dir, log_start_offset=log_start_offset,
        )  # fmt: skip

    def configure(self, config: LogConfig) -> None:
        """Apply changed topic settings."""
        self.config = config
        self._flush_messages = config.flush_interval_messages
        self._max_message_bytes = config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._segment_ms = config.segment_ms
        self._log_append_time = config.log_append_time

    # -- append

    def append_as_leader(
        self, records: memoryview | bytearray, leader_epoch: int, now_ms: int, *, internal: bool = False
    ) -> AppendInfo:
        """Append one batch of a client, stamping offset and epoch in place in the given, writable buffer.

        `internal` allows several batches, control batches and any base offset: for what brokers themselves write.
        Raises CorruptBatch, UnsupportedMagic, InvalidRecord, InvalidTimestamp, RecordTooLarge, RecordListTooLarge,
        OutOfOrderSequence, InvalidProducerEpoch, FencedLeaderEpoch, LogDirFailure; nothing of that batch is then
        written.
        """
        size = len(records)
        view = memoryview(records)
        if internal:
            return self._append_several(view, leader_epoch, now_ms)
        header = _unpack_header(view) if size >= HEADER_BYTES else ()
        if not header or header[1] + LOG_OVERHEAD_BYTES != size or header[3] != MAGIC:
            view = validation.single_batch(view)
            size = len(view)
            header = _unpack_header(view)
        (base_offset, _, _, _, crc, attributes, last_delta, _, _, producer_id, _, sequence, count) = header
        if (
            size > self._max_message_bytes
            or base_offset != 0
            or count <= 0
            or count != last_delta + 1
            or attributes & COMPRESSION_MASK > Codec.ZSTD
            or attributes & CONTROL_FLAG
            or producer_id >= 0 > sequence
        ):
            validation.refuse_client_batch(view, self._max_message_bytes)
        if crc32c(view[CRC_START:]) != crc:
            raise CorruptBatch("the CRC of the batch does not match")
        return self._append_one(view, size, header, leader_epoch, now_ms)

    def _append_one(
        self, view: memoryview, size: int, header: tuple[int, ...], leader_epoch: int, now_ms: int
    ) -> AppendInfo:
        (
            _,
            length,
            _,
            _,
            _,
            attributes,
            last_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            epoch,
            sequence,
            count,
        ) = header
        if self.failure is not None:
            self.check_online()
        append_time = -1
        if self._log_append_time:
            append_time = max_timestamp = now_ms
            set_log_append_time(view, now_ms)
        elif (
            max_timestamp - now_ms > self.config.message_timestamp_after_max_ms
            or now_ms - base_timestamp > self.config.message_timestamp_before_max_ms
        ):
            raise InvalidTimestamp(
                f"timestamps {base_timestamp}..{max_timestamp} are too far from the broker's {now_ms}"
            )
        last_sequence = -1
        if producer_id >= 0 and not attributes & CONTROL_FLAG:
            last_sequence = (sequence + last_delta) & 0x7FFFFFFF
            seen = self.producers.check(producer_id, epoch, sequence, last_sequence)
            if seen is not None:
                return AppendInfo(
                    seen.first_offset, seen.last_offset, seen.timestamp, 1, count, size, True, append_time
                )
        first = self.log_end_offset
        last = first + last_delta
        if leader_epoch != self.epochs.latest:
            self.assign_epoch(leader_epoch, first)
        segment = self.active
        if not segment.has_room(size, last, max_timestamp, self._segment_bytes, self._segment_ms):
            segment = self._make_room(size)
        _stamp(view, 0, first, length, leader_epoch)
        try:
            segment.append(view, size, last, max_timestamp)
        except OSError as error:
            raise self.repair(segment, error) from error
        self.log_end_offset = last + 1
        self.size_bytes += size
        if last_sequence >= 0:
            transactional = attributes & TRANSACTIONAL_FLAG != 0
            self.producers.update(
                producer_id, epoch, sequence, last_sequence, first, last, max_timestamp, transactional
            )
        elif producer_id >= 0:
            self.producers.apply(BatchHeader._make(_unpack_header(view)), view)
        return AppendInfo(first, last, max_timestamp, 1, count, size, False, append_time)

    def _append_several(self, view: memoryview, leader_epoch: int, now_ms: int) -> AppendInfo:
        batches = validation.whole_batches(view)
        infos = [self._append_one(b.data, len(b.data), b.header, leader_epoch, now_ms) for b in batches]
        return AppendInfo(
            infos[0].first_offset, infos[-1].last_offset, max(i.max_timestamp for i in infos), len(infos),
            sum(i.records for i in infos), len(view), all(i.duplicate for i in infos), infos[-1].log_append_time,
        )  # fmt: skip

    def append_as_follower(self, records: memoryview | bytearray, fetch_leader_epoch: int) -> AppendInfo:
        """Append batches of the leader at their own offsets, in one write.

        A batch of a later epoch than this fetch's, and all after it, are left for a fetch in that epoch
        (KAFKA-18723); an incomplete last batch is ignored. Raises CorruptBatch, UnsupportedMagic,
        UnexpectedAppendOffset, LogDirFailure; nothing is appended when the batches themselves are at fault.
        """
        return replicated.append_as_follower(self, records, fetch_leader_epoch)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Begin a leader epoch. A new leader calls this with its log end offset before any append (KIP-279).

        Raises FencedLeaderEpoch for an epoch below the latest, LogDirFailure.
        """
        self.check_online()
        if epoch < self.epochs.latest:
            raise FencedLeaderEpoch(f"{self}: leader epoch {epoch} is older than {self.epochs.latest}")
        try:
            self.epochs.assign(epoch, start_offset)
        except OSError as error:
            raise self.refused(f"cannot note leader epoch {epoch}", error) from error

    def check_online(self) -> None:
        """Raises LogDirFailure when the log is offline: a new one each time, for a raised one keeps its callers."""
        found = self.failure
        if found is not None:
            raise LogDirFailure(str(found), permanent=found.permanent, topic_partition=self.topic_partition)

    def refused(self, what: str, error: OSError | LogDirFailure, *, permanent: bool = False) -> LogDirFailure:
        """The disk refused, and nothing has changed. The error to raise."""
        return LogDirFailure(f"{self}: {what}: {error}", permanent=permanent, topic_partition=self.topic_partition)

    def go_offline(self, what: str, error: OSError | LogDirFailure, *, permanent: bool = False) -> LogDirFailure:
        """Something was left half done, or cannot be trusted: refuse everything from now on. The error to raise."""
        permanent |= isinstance(error, FsyncFailed)
        if permanent:
            self._note_failed_fsync()
        if self.failure is None or permanent > self.failure.permanent:
            self.failure = self.refused(what, error, permanent=permanent)
        return self.refused(what, error, permanent=permanent)

    def _note_failed_fsync(self) -> None:
        """For the next opening (`flushing.FSYNC_FAILED`). A disk that takes no file either leaves nothing to be noted."""
        try:
            self.fs.write_atomic(f"{self.directory}/{flushing.FSYNC_FAILED}", b"", durable=False)
        except OSError:
            pass

    def lower_recovery_point(self, offset: int) -> None:
        """Before the log is cut to `offset`. Raises LogDirFailure; nothing was changed then."""
        if self.on_recovery_point_lowered is not None:
            self.on_recovery_point_lowered(offset)

    def repair(self, segment: Segment, error: OSError) -> LogDirFailure:
        """After a failed append: cut the file back to what is whole. The error to raise."""
        try:
            segment.data.truncate(segment.size)
        except OSError as second:
            return self.go_offline(f"append failed ({error}), and so did its repair", second)
        return self.refused("append failed", error)

    def _make_room(self, size: int) -> Segment:
        if size > self._segment_bytes:
            raise RecordListTooLarge(f"{size} bytes do not fit into a segment of {self._segment_bytes}")
        return self.roll() if self.active.size else self.active

    def roll(self) -> Segment:
        """Begin a new segment at the log end offset. Raises LogDirFailure."""
        old, base = self.active, self.log_end_offset
        try:
            old.seal()
            snapshot = segment_path(self.directory, base, "snapshot")
            self.producers.take_snapshot(snapshot, durable=False)
            segment = self.new_segment(base)
        except OSError as error:
            raise self.refused("cannot roll to a new segment", error) from error
        if len(self.segments) > 1:
            self.segments[-2].forget_positions()
        self.unsynced_paths += [old.index.path, old.time_index.path, snapshot]
        self.segments.append(segment)
        self.active = segment
        return segment

    def new_segment(self, base_offset: int) -> Segment:
        """Files for a segment at `base_offset`; not yet part of the log. Raises OSError."""
        segment = Segment(self.fs, self.directory, base_offset, self.config, self.tail_directory)
        segment.create_index_files()
        self.new_files = True
        return segment

    # -- read

    def read(self, offset: int, max_bytes: int, upper_bound: int, min_one: bool = True) -> FetchSlice:
        """Whole batches of one segment from the one that holds `offset` on, all below `upper_bound`.

        The first batch may exceed `max_bytes` when `min_one` (KIP-74), and may begin before `offset`.
        Raises OffsetOutOfRange below the log start offset and above the log end offset, LogDirFailure.
        """
        leo = self.log_end_offset
        if self.failure is not None:
            self.check_online()
        if offset < self.log_start_offset or offset > leo:
            raise OffsetOutOfRange(f"{self}: offset {offset} is outside {self.log_start_offset}..{leo}")
        if upper_bound > leo:  # noqa: PLR1730 - min() costs a call on the hot path
            upper_bound = leo
        if offset >= upper_bound:
            return EMPTY_SLICE
        segment = self.active
        try:
            if offset >= segment.base_offset:
                position, length = segment.slice(offset, upper_bound, max_bytes, min_one)
            else:
                n = self.segment_number(offset)
                segment = self.segments[n]
                position, length = segment.slice(offset, upper_bound, max_bytes, min_one)
                while position == segment.size and segment is not self.active:  # a gap at a segment's end
                    n += 1
                    segment = self.segments[n]
                    position, length = segment.slice(segment.base_offset, upper_bound, max_bytes, min_one)
        except OSError as error:
            raise self.refused("read failed", error) from error
        return FetchSlice(segment.ranges(position, length), length) if length else EMPTY_SLICE

    def reads_from(self, file: File) -> bool:
        """Whether this file is one of its segments', as a range of `read` names it."""
        return any(part.file is file for segment in self.segments for part in segment.ranges(0, segment.size))

    def segment_number(self, offset: int) -> int:
        """Which segment holds `offset`."""
        return max(0, bisect_right(self.segments, offset, key=_base_offset) - 1)

    def read_batches(self, offset: int, upper_bound: int) -> Iterator[RecordBatch]:
        """The batches from the one that holds `offset` on, with their bytes, up to those that end below `upper_bound`.

        For loaders and verifiers: reads one batch at a time. Raises OffsetOutOfRange, LogDirFailure, and CorruptBatch where
        the log goes on with something else: who asks for all must not take the first half for it.
        """
        self.check_online()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"{self}: offset {offset} is outside {self.log_start_offset}..{self.log_end_offset}")
        for segment in self.segments[self.segment_number(offset) :]:
            try:
                size = segment.size  # of now: others may append between two batches
                end = segment.locate(offset)
                for position, header, data in segment.scan(end):
                    if header.last_offset >= upper_bound:
                        return
                    yield RecordBatch(header, position, data)
                    self.check_online()
                    end = position + header.size
            except OSError as error:
                raise self.refused("read failed", error) from error
            if end < size:
                raise CorruptBatch(f"{segment.path}: no batch at byte {end}")

    def offset_for_timestamp(self, timestamp_ms: int, upper_bound: int) -> TimestampOffset | None:
        """The first record below `upper_bound` whose timestamp is at or after `timestamp_ms`.

        Raises UnsupportedCodec and CorruptBatch for a batch that cannot be looked into, LogDirFailure.
        """
        return timestamps.offset_for_timestamp(self, timestamp_ms, upper_bound)

    def max_timestamp(self) -> TimestampOffset | None:
        """The first record with the largest timestamp (ListOffsets -3, KIP-734); None when the log is empty.

        Raises like `offset_for_timestamp`.
        """
        return timestamps.max_timestamp(self)

    # -- cut

    def truncate_to(self, offset: int) -> int:
        """Remove the records at and above `offset`, durably; returns how many offsets were given up.

        An offset inside a batch removes that whole batch. Also forgets epochs that begin there, even when there was
        nothing to remove: an epoch may have been assigned without a record. Raises LogDirFailure.
        """
        return truncation.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything and begin anew at `offset`. Raises LogDirFailure."""
        truncation.truncate_fully_and_start_at(self, offset)

    def increment_log_start_offset(self, offset: int) -> bool:
        """Hide the records below `offset` (DeleteRecords, or the leader's start); whether it moved.

        Their segments go with the next `delete_old_segments`. Raises OffsetOutOfRange beyond the log end offset.
        """
        return retention.increment_log_start_offset(self, offset)

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> int:
        """Apply retention.ms, retention.bytes and the log start offset; how many segments went. Raises
        LogDirFailure."""
        return retention.delete_old_segments(self, now_ms, high_watermark)

    # -- flush

    def needs_flush(self, now: float) -> bool:
        """Whether flush.messages or flush.ms ask for one, or a segment was completed, which bounds the next recovery.

        `now` is monotonic seconds.
        """
        unflushed = self.log_end_offset - self.flushed_offset
        if self.unsynced_paths:
            return True
        if not unflushed:
            self.flushed_at = now
            return False
        if self.flushed_at is None:
            self.flushed_at = now
        config = self.config
        return (
            unflushed >= config.flush_interval_messages
            or (now - self.flushed_at) * 1000 >= config.flush_interval_ms
            or self.flushed_offset < self.active.base_offset
        )

    @property
    def owes_flush(self) -> bool:
        """Whether so many records are not flushed that flush.messages wants a flush before the last append counts (R17).

        Kafka flushes inside such an append (``UnifiedLog.append``), so that nobody is told of it before. Here the append
        returns at once, for others share its thread, and it is the caller who keeps quiet about it until a flush is done.
        """
        return self.log_end_offset - self.flushed_offset >= self._flush_messages

    @property
    def vouched_offset(self) -> int:
        """Up to where this replica may say that it has the records: its end, or what is flushed while it owes a flush."""
        return self.flushed_offset if self.owes_flush else self.log_end_offset

    def start_flush(self) -> FlushJob:
        """First step of a flush up to the present log end offset (see `minikafka.log.flushing`).

        While one is under way, that one is returned again. Raises LogDirFailure after an earlier failure.
        """
        self.check_online()
        if self.flush_job is None:
            self.flush_job = flushing.plan(self)
        return self.flush_job

    def complete_flush(self, job: FlushJob) -> float:
        """Last step: advance `flushed_offset`. Returns the seconds that `run` took, when it was given a clock.

        Raises LogDirFailure when the disk refused: the flushed offset then never advances again, because the kernel
        may have dropped the pages that it could not write.
        """
        return flushing.complete(self, job)

    def flush(self) -> None:
        """All three steps at once; for closing, tests and the simulator. Raises LogDirFailure."""
        job = self.start_flush()
        job.run()
        self.complete_flush(job)
        if self.flushed_offset < self.log_end_offset or self.unsynced_paths:  # that was one from before the last append
            self.flush()

    @property
    def recovery_point(self) -> int:
        """Below it recovery trusts the files: records and indexes are flushed. `flushed_offset` is that of the records alone,
        and may be ahead when a segment was completed after a flush had begun."""
        waiting = self.unsynced_paths if self.flush_job is None else [*self.unsynced_paths, *self.flush_job.paths]
        if waiting:
            for segment in self.segments:
                if segment.index.path in waiting:
                    return min(self.flushed_offset, segment.base_offset)
        return self.flushed_offset

    def settle_flush(self) -> None:
        """Let a flush that is under way end, or never begin, before files are cut. Raises LogDirFailure."""
        if self.flush_job is not None:
            job = self.flush_job
            job.cancel()
            flushing.complete(self, job)

    def close(self) -> None:
        """Flush everything, write indexes and a producer snapshot, release the files. Raises LogDirFailure."""
        try:
            self.settle_flush()
            self.active.seal()
            self.unsynced_paths += [self.active.index.path, self.active.time_index.path]
            self.flush()
            self.producers.take_snapshot(segment_path(self.directory, self.log_end_offset, "snapshot"), durable=True)
        except OSError as error:
            raise self.refused("cannot be closed", error) from error
        finally:
            self.release()

    def release(self) -> None:
        """Close the files without flushing: after a failure, or to drop a log that is being deleted."""
        for segment in self.segments:
            segment.close()

    def __str__(self) -> str:
        return str(self.topic_partition)

    def __repr__(self) -> str:
        span = f"{self.log_start_offset}..{self.log_end_offset}"
        return f"Log({self.topic_partition}, {span}, flushed {self.flushed_offset})"


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
