"""One replica's log: an append-only sequence of record batches in segments, with epochs and producer state.

Single-threaded: all methods are called from one thread, except `FlushJob.run`. A batch costs one header unpack, one CRC, one
stamp outside the CRC, one write and a few attribute updates, and on the leader one walk over its records, in compiled code.

The log end offset is that of the *next* record. What lies below `flushed_offset` survives a power loss.

`Log` checks, appends and reads, and says in which order its parts do everything else. Each has its own state, which nobody else
changes: `SegmentList` the segments, `LeaderEpochCache` the epochs, `ProducerStateManager` the producers and their snapshots,
`Flusher` what is durable, `LogTruncator` and `Retention` what goes at either end, `LogLoader` how it is opened. They raise
OSError; what that means for the log (`Availability`) is said here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from minikafka.log import timestamps, validation
from minikafka.log.availability import Availability
from minikafka.log.config import FOREVER, LogConfig
from minikafka.log.errors import (
    CorruptBatch,
    FencedLeaderEpoch,
    FsyncFailed,
    LogDirFailure,
    OffsetOutOfRange,
    RecordListTooLarge,
    UnexpectedAppendOffset,
)
from minikafka.log.filesystem import File, FileSystem
from minikafka.log.flushing import FlushJob
from minikafka.log.record_validation import RecordsAhead, largest_timestamp
from minikafka.log.recovery import LoadedLog, LogLoader
from minikafka.log.results import AppendInfo, FetchSlice, RecoveryInfo, TimestampOffset
from minikafka.log.retention import Retention
from minikafka.log.segment import RELATIVE_OFFSET_MAX, Segment
from minikafka.log.truncation import LogTruncator
from minikafka.log.unflushed_volume import UnflushedVolume
from minikafka.protocol.checksum import crc32c
from minikafka.protocol.records import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    STAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Codec,
    RecordBatch,
    set_create_time,
    set_log_append_time,
)
from minikafka.protocol.types import TopicPartition

__all__ = ["AppendInfo", "Log", "LogConfig"]

EMPTY_SLICE = FetchSlice([], 0)
_unpack_header = HEADER.unpack_from
_stamp = STAMP.pack_into


SCARCE_SEGMENT_BYTES = 1 << 20
"""The least that `segment.bytes` may be in Kafka since 4.0 (KIP-1030)."""


class LogCheckpoints(Protocol):
    """Who writes the checkpoints of a log, and has them on disk in time. Both raise LogDirFailure when they are not."""

    def log_start_moved(self, log: Log) -> None:
        """The start has moved inside a segment. Were it not durable, a crash would bring back records whose epochs are
        forgotten, and which other replicas may hold differently (found by simulation)."""

    def lower_recovery_point(self, log: Log, offset: int) -> None:
        """Before the log is cut there: the recovery point on disk must be no higher."""


class Log:
    """See the module. Open one with `Log.open`, not by the constructor."""

    __slots__ = (
        "_availability", "_checkpoints", "_flush_messages", "_flusher", "_fs", "_log_append_time", "_max_message_bytes",
        "_retention", "_segment_bytes", "_segment_ms", "_truncation", "config", "directory", "epochs", "log_end_offset",
        "log_start_offset", "producers", "recovery", "segments", "topic_partition",
    )  # fmt: skip

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        availability: Availability,
        loaded: LoadedLog,
    ) -> None:
        self._fs = fs
        self.directory = directory
        self.topic_partition = topic_partition
        self.segments, self.epochs, self.producers, self._flusher, self.log_start_offset = loaded
        self.log_end_offset = self.segments.active.next_offset
        self._availability = availability
        self._truncation = LogTruncator(fs, directory, self.segments, self.epochs, self.producers)
        self._retention = Retention(fs, directory, self.segments, self.producers, config)
        self.recovery = RecoveryInfo(True, 0, 0, 0, 0, 0, ())
        self._checkpoints: LogCheckpoints | None = None
        """None also while the log is opened: what is found on the disk then is not new."""
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
        checkpoints: LogCheckpoints | None,
        unflushed_dir: str | None = None,
        volume: UnflushedVolume | None = None,
        log_start_offset: int = 0,
    ) -> Log:
        """Open the log in directory `dir` (made when absent), recovering it unless the last shutdown was `clean`.

        `recovery_point` and `log_start_offset` come from the checkpoints; `checkpoints` writes them (None: nobody does).
        `unflushed_dir` is the root of the unflushed volume, and `volume` what is known of it. Raises LogDirFailure, and
        DataDirRefused for files that are not a log's.
        """
        availability = Availability(fs, dir, topic_partition)
        loader = LogLoader(
            fs, dir, config, clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset,
            tail_directory=None if unflushed_dir is None else f"{unflushed_dir}/{topic_partition}",
            volume=volume,
        )  # fmt: skip
        try:
            log = Log(fs, dir, topic_partition, config, availability, loader.load())
            log.recovery = loader.finish(log, now_ms)
            log._checkpoints = checkpoints
        except FsyncFailed as error:
            raise availability.go_offline("cannot be opened", error) from error
        except OSError as error:
            raise availability.refused("cannot be opened", error) from error
        return log

    def configure(self, config: LogConfig) -> None:
        """Apply changed topic settings."""
        self.config = config
        self.segments.configure(config)
        self._flusher.configure(config)
        self._retention.configure(config)
        self._flush_messages = config.flush_interval_messages
        self._max_message_bytes = config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._segment_ms = config.segment_ms
        self._log_append_time = config.log_append_time

    # -- whether it is online

    @property
    def failure(self) -> LogDirFailure | None:
        """Why the log is offline; then everything raises it."""
        return self._availability.failure

    def check_online(self) -> None:
        """Raises LogDirFailure when the log is offline."""
        self._availability.check_online()

    def refused(self, what: str, error: OSError) -> LogDirFailure:
        """The disk refused something to who holds a range of this log. The error to raise."""
        return self._availability.refused(what, error)

    def go_offline(self, what: str, error: OSError, *, permanent: bool = False) -> LogDirFailure:
        """Refuse everything from now on. The error to raise."""
        return self._availability.go_offline(what, error, permanent=permanent)

    # -- append

    def append_as_leader(
        self,
        records: memoryview | bytearray,
        leader_epoch: int,
        now_ms: int,
        *,
        internal: bool = False,
        ahead: RecordsAhead | None = None,
    ) -> AppendInfo:
        """Append one batch of a client, stamping offset and epoch in place in the given, writable buffer.

        `internal` allows several batches, control batches and any base offset: for what brokers themselves write. `ahead` is what
        `walk_ahead` has found in the batch.
        Raises CorruptBatch, UnsupportedMagic, UnsupportedCodec, InvalidRecord, InvalidTimestamp, RecordTooLarge,
        RecordListTooLarge, OutOfOrderSequence, InvalidProducerEpoch, FencedLeaderEpoch, LogDirFailure; nothing of that batch is
        then written.
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
        max_timestamp = largest_timestamp(view, header, self.config, now_ms, ahead)
        return self._append_one(view, size, header, max_timestamp, leader_epoch, now_ms)

    def _append_one(
        self, view: memoryview, size: int, header: tuple[int, ...], max_timestamp: int, leader_epoch: int, now_ms: int
    ) -> AppendInfo:
        _, length, _, _, _, attributes, last_delta, _, said, producer_id, epoch, sequence, count = header
        if self._availability.failure is not None:
            self.check_online()
        append_time = -1
        if self._log_append_time:
            append_time = max_timestamp = now_ms
            set_log_append_time(view, now_ms)
        elif max_timestamp != said or attributes & LOG_APPEND_TIME_FLAG:
            set_create_time(view, max_timestamp)
        last_sequence = -1
        if producer_id >= 0 and not attributes & CONTROL_FLAG:
            last_sequence = (sequence + last_delta) & 0x7FFFFFFF
            seen = self.producers.check(producer_id, epoch, sequence, last_sequence)
            if seen is not None:
                return AppendInfo(
                    seen.first_offset, seen.last_offset, seen.timestamp, 1, count, size, True, seen.timestamp
                )
        first = self.log_end_offset
        last = first + last_delta
        if leader_epoch != self.epochs.latest:
            self.assign_epoch(leader_epoch, first)
        segment = self.segments.active
        if not segment.has_room(size, last, max_timestamp, self._segment_bytes, self._segment_ms):
            segment = self._make_room(size, last, max_timestamp)
        _stamp(view, 0, first, length, leader_epoch)
        try:
            segment.append(view, size, last, max_timestamp)
        except OSError as error:
            raise self._repaired(segment, error) from error
        self.log_end_offset = last + 1
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
        infos = [
            self._append_one(b.data, len(b.data), b.header, b.header.max_timestamp, leader_epoch, now_ms)
            for b in batches
        ]
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
        if self._availability.failure is not None:
            self.check_online()
        view = memoryview(records)
        headers = validation.follower_batches(view, fetch_leader_epoch, self._check_gap)
        leo = self.log_end_offset
        if not headers:
            return AppendInfo(leo, leo - 1, -1, 0, 0, 0, False, -1)
        if headers[0].base_offset != leo:
            self._meet(headers[0])
        try:
            size = self._append_replicated(view, headers)
        except LogDirFailure:
            if self.log_end_offset < self.log_start_offset and self.failure is None:
                self.truncate_fully_and_start_at(self.log_start_offset)  # `_meet` had moved the end only
            raise
        return AppendInfo(
            headers[0].base_offset, headers[-1].last_offset, max([header.max_timestamp for header in headers]),
            len(headers), sum([header.records_count for header in headers]), size, False, -1,
        )  # fmt: skip

    def _append_replicated(self, view: memoryview, headers: list[BatchHeader]) -> int:
        """How many bytes were written, in as few writes as segments. Raises LogDirFailure; what was written before it stays."""
        try:
            self.epochs.assign_batches(headers)
        except OSError as error:
            raise self.refused("cannot note leader epochs", error) from error
        start = 0
        while headers:
            segment = self.segments.active
            n, size = segment.fitting(headers, *self._segment_limits())
            if not n:
                self.roll()
                continue
            records, fit, headers = view[start : start + size], headers[:n], headers[n:]
            try:
                segment.append_batches(records, fit)
            except OSError as error:
                raise self._repaired(segment, error) from error
            self.log_end_offset = segment.next_offset
            self.producers.apply_batches(records, fit)
            start += size
        return start

    def _meet(self, header: BatchHeader) -> None:
        """The leader's first batch does not begin at the log end offset.

        An empty log moves to where the leader begins: its start may lie inside a batch after DeleteRecords.
        """
        first, leo, start = header.base_offset, self.log_end_offset, self.log_start_offset
        if start == leo and (first > leo or header.last_offset >= leo):
            self._begin_anew(first, max(first, start))
        else:
            self._check_gap(header, leo)

    def _check_gap(self, header: BatchHeader, end: int) -> None:
        """A compacted topic may have gaps, as far as the offsets of an index reach. Anything else would make replicas differ."""
        first = header.base_offset
        if first < end or not self.config.compact or header.last_offset - end > RELATIVE_OFFSET_MAX:
            raise UnexpectedAppendOffset(f"{self}: batch at {first} cannot follow offset {end}", first, end)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Begin a leader epoch. A new leader calls this with its log end offset before any append (KIP-279).

        Raises FencedLeaderEpoch for an epoch below the latest, LogDirFailure.
        """
        self.check_online()
        if epoch < self.epochs.latest:
            raise FencedLeaderEpoch(f"{self}: leader epoch {epoch} is older than {self.epochs.latest}")
        with self._availability.refusing(f"cannot note leader epoch {epoch}"):
            self.epochs.assign(epoch, start_offset)

    def _repaired(self, segment: Segment, error: OSError) -> LogDirFailure:
        """After a failed append: the file is cut back to what is whole. The error to raise."""
        try:
            segment.cut_back()
        except OSError as second:
            return self.go_offline(f"append failed ({error}), and so did its repair", second)
        return self.refused("append failed", error)

    def _make_room(self, size: int, last_offset: int, max_timestamp: int) -> Segment:
        if size > self._segment_bytes:
            raise RecordListTooLarge(f"{size} bytes do not fit into a segment of {self._segment_bytes}")
        segment = self.segments.active
        if not segment.size or segment.has_room(size, last_offset, max_timestamp, *self._segment_limits()):
            return segment
        return self.roll()

    def _segment_limits(self) -> tuple[int, int]:
        """Bytes and milliseconds of a segment. Each keeps a file open: where few more can be, none is smaller than Kafka allows.

        Or whoever sets `segment.ms=1` takes all descriptors of the broker with 20,000 records.
        """
        if self._fs.descriptors_are_scarce:
            return max(self._segment_bytes, SCARCE_SEGMENT_BYTES), FOREVER
        return self._segment_bytes, self._segment_ms

    def roll(self) -> Segment:
        """Begin a new segment at the log end offset. Raises LogDirFailure.

        When it is refused nothing is left of it. An empty file would be a segment for whoever opens the log, and by then what
        was before it may be cut off: a hole in the log (found by simulation). Where not even that can be removed the log is
        offline, and opened anew with that segment.
        """
        old, base = self.segments.active, self.log_end_offset
        what = "cannot roll to a new segment"
        with self._availability.refusing(what):
            old.seal()
            snapshot = self.producers.take_snapshot(base, durable=False)
        try:
            segment = self.segments.add(base)
        except OSError as error:
            with self._availability.offline_unless_done(what):
                self.segments.discard(base)
            raise self._availability.refused(what, error) from error
        self._flusher.add_files([old.index.path, old.time_index.path, snapshot])
        return segment

    # -- read

    @property
    def size_bytes(self) -> int:
        """Bytes of records, of all segments."""
        return self.segments.size_bytes

    def read(self, offset: int, max_bytes: int, upper_bound: int, min_one: bool = True) -> FetchSlice:
        """Whole batches of one segment from the one that holds `offset` on, all below `upper_bound`.

        The first batch may exceed `max_bytes` when `min_one` (KIP-74), and may begin before `offset`.
        Raises OffsetOutOfRange below the log start offset and above the log end offset, LogDirFailure.
        """
        leo = self.log_end_offset
        if self._availability.failure is not None:
            self.check_online()
        if offset < self.log_start_offset or offset > leo:
            raise OffsetOutOfRange(f"{self}: offset {offset} is outside {self.log_start_offset}..{leo}")
        if upper_bound > leo:  # noqa: PLR1730 - min() costs a call on the hot path
            upper_bound = leo
        if offset >= upper_bound:
            return EMPTY_SLICE
        segments = self.segments
        segment = segments.active
        try:
            if offset >= segment.base_offset:
                position, length = segment.slice(offset, upper_bound, max_bytes, min_one)
            else:
                n = segments.number(offset)
                segment = segments[n]
                position, length = segment.slice(offset, upper_bound, max_bytes, min_one)
                while position == segment.size and segment is not segments.active:  # a gap at a segment's end
                    n += 1
                    segment = segments[n]
                    position, length = segment.slice(segment.base_offset, upper_bound, max_bytes, min_one)
        except OSError as error:
            raise self.refused("read failed", error) from error
        return FetchSlice(segment.ranges(position, length), length) if length else EMPTY_SLICE

    def reads_from(self, file: File) -> bool:
        """Whether this file is one of its segments', as a range of `read` names it."""
        return self.segments.reads_from(file)

    def read_batches(self, offset: int, upper_bound: int) -> Iterator[RecordBatch]:
        """The batches from the one that holds `offset` on, with their bytes, up to those that end below `upper_bound`.

        For loaders and verifiers: reads one batch at a time. Raises OffsetOutOfRange, LogDirFailure, and CorruptBatch where
        the log goes on with something else: who asks for all must not take the first half for it.
        """
        self.check_online()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"{self}: offset {offset} is outside {self.log_start_offset}..{self.log_end_offset}")
        with self._availability.refusing("read failed"):
            for batch in self.segments.batches(offset, upper_bound):
                yield batch
                self.check_online()

    def offset_for_timestamp(
        self, timestamp_ms: int, upper_bound: int, search: timestamps.Search | None = None
    ) -> TimestampOffset | None:
        """The first record below `upper_bound` whose timestamp is at or after `timestamp_ms`.

        Raises UnsupportedCodec and CorruptBatch for a batch that cannot be looked into, LogDirFailure; where `search` is
        given LargeBatch, for one that holds much and is not known there, and LongWalk.
        """
        self.check_online()
        with self._availability.refusing("read failed"):
            return timestamps.offset_for_timestamp(
                self.segments, timestamp_ms, self.log_start_offset, upper_bound, search
            )

    def max_timestamp(self, search: timestamps.Search | None = None) -> TimestampOffset | None:
        """The first record with the largest timestamp (ListOffsets -3, KIP-734); None when the log is empty.

        Raises like `offset_for_timestamp`.
        """
        self.check_online()
        with self._availability.refusing("read failed"):
            return timestamps.max_timestamp(self.segments, self.log_start_offset, self.log_end_offset, search)

    # -- cut

    def truncate_to(self, offset: int) -> int:
        """Remove the records at and above `offset`, durably; returns how many offsets were given up.

        An offset inside a batch removes that whole batch. Also forgets epochs that begin there, even when there was
        nothing to remove: an epoch may have been assigned without a record. Raises LogDirFailure.
        """
        self.check_online()
        self.settle_flush()
        before = self.log_end_offset
        if offset >= before:
            with self._availability.refusing("truncation failed"):
                self.epochs.truncate_from_end(before)
        elif offset < self.segments[0].base_offset:
            self._begin_anew(offset, offset)
        else:
            with self._availability.refusing("truncation failed"):
                boundary = self.segments.boundary(offset)
            self._lower_recovery_point(boundary.offset)
            # First: whatever fails below, nobody may count on more than this.
            was_flushed = self._flusher.lower(boundary.offset)
            self.log_end_offset = boundary.offset
            is_below_start = boundary.offset < self.log_start_offset
            self.log_start_offset = min(self.log_start_offset, boundary.offset)
            with self._availability.offline_unless_done("truncation failed"):
                self._truncation.cut(boundary, self.log_start_offset, was_flushed=was_flushed)
                if is_below_start and self._checkpoints is not None:
                    self._checkpoints.log_start_moved(self)  # not before: deleted records would be there again
        return before - self.log_end_offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything and begin anew at `offset`. Raises LogDirFailure."""
        self._begin_anew(offset, offset)

    def _begin_anew(self, offset: int, log_start_offset: int) -> None:
        """The log start may lie inside the first batch that is to come."""
        self.check_online()
        self.settle_flush()
        self._lower_recovery_point(offset)
        self._flusher.lower(min(self.log_start_offset, offset))
        with self._availability.offline_unless_done("truncation failed"):
            self._truncation.begin_anew(offset)
            self.log_end_offset = offset
            self.log_start_offset = log_start_offset
            self._flusher.skip_to(offset)
            self._truncation.make_durable()
            if self._checkpoints is not None:
                # While it is still to be finished: the checkpoint may hold the start it had before.
                self._checkpoints.log_start_moved(self)
            self._truncation.finish()

    def _lower_recovery_point(self, offset: int) -> None:
        """Before the log is cut to `offset`. Raises LogDirFailure; nothing was changed then."""
        if self._checkpoints is not None:
            self._checkpoints.lower_recovery_point(self, offset)

    def increment_log_start_offset(self, offset: int) -> bool:
        """Hide the records below `offset` (DeleteRecords, or the leader's start); whether it moved.

        Their segments go with the next `delete_old_segments`. Raises OffsetOutOfRange beyond the log end offset.
        """
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(f"{self}: start offset {offset} is beyond the end {self.log_end_offset}")
        if offset <= self.log_start_offset:
            return False
        self.check_online()
        before, self.log_start_offset = self.log_start_offset, offset
        if self._checkpoints is not None and offset > self.segments[0].base_offset:
            try:
                self._checkpoints.log_start_moved(self)  # on disk before the epochs below it are forgotten
            except LogDirFailure:
                self.log_start_offset = before
                raise
        with self._availability.refusing("cannot note leader epochs"):
            self.epochs.truncate_from_start(offset)
        return True

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> int:
        """Apply retention.ms, retention.bytes and the log start offset; how many segments went. Raises
        LogDirFailure."""
        self.check_online()
        with self._availability.refusing("cannot tell what to delete"):
            gone = self._retention.deletable(now_ms, high_watermark, self.log_start_offset)
        if not gone:
            return 0
        if gone == len(self.segments):
            self.roll()  # a log always has an active segment
        self.settle_flush()
        if gone > 1:  # a power loss may bring any of them back, which would be a hole in the log
            self.increment_log_start_offset(self.segments[gone].base_offset)
        with self._availability.offline_unless_done("deleting old segments failed"):
            self._retention.delete(gone)
        self.increment_log_start_offset(max(self.log_start_offset, self.segments[0].base_offset))
        self._flusher.skip_to(self.log_start_offset)
        return gone

    # -- flush

    @property
    def flushed_offset(self) -> int:
        """All records below it survive a power loss."""
        return self._flusher.flushed_offset

    def needs_flush(self, now: float) -> bool:
        """Whether flush.messages or flush.ms ask for one, or a segment was completed, which bounds the next recovery.

        `now` is monotonic seconds.
        """
        return self._flusher.is_due(now, self.log_end_offset)

    @property
    def unflushed_volume(self) -> UnflushedVolume | None:
        """Where there has to be room for what is appended, None when it goes to the data files at once."""
        return self.segments.volume

    @property
    def unflushed_bytes(self) -> int:
        """What it counts for on the unflushed volume."""
        return self.segments.held(self._flusher.flushed_offset)

    @property
    def owes_flush(self) -> bool:
        """Whether so many records are not flushed that flush.messages wants a flush before the last append counts (R17).

        Kafka flushes inside such an append (``UnifiedLog.append``), so that nobody is told of it before. Here the append
        returns at once, for others share its thread, and it is the caller who keeps quiet about it until a flush is done.
        """
        return self.log_end_offset - self._flusher.flushed_offset >= self._flush_messages

    @property
    def vouched_offset(self) -> int:
        """Up to where this replica may say that it has the records: its end, or what is flushed while it owes a flush."""
        return self._flusher.flushed_offset if self.owes_flush else self.log_end_offset

    def start_flush(self) -> FlushJob:
        """First step of a flush up to the present log end offset (see `minikafka.log.flushing`).

        While one is under way, that one is returned again. Raises LogDirFailure after an earlier failure.
        """
        self.check_online()
        return self._flusher.start(self.log_end_offset)

    @property
    def flush_under_way(self) -> bool:
        """Whether a flush has begun and is not completed."""
        return self._flusher.under_way

    def complete_flush(self, job: FlushJob) -> float:
        """Last step: advance `flushed_offset`. Returns the seconds that `run` took, when it was given a clock.

        Raises LogDirFailure when the disk refused: the flushed offset then never advances again, because the kernel
        may have dropped the pages that it could not write.
        """
        with self._availability.offline_unless_done("flush failed", permanent=True):
            return self._flusher.complete(job)

    def flush(self) -> None:
        """All three steps at once; for closing, and tests. Raises LogDirFailure."""
        self.check_online()
        with self._availability.offline_unless_done("flush failed", permanent=True):
            self._flusher.flush(self.log_end_offset)

    @property
    def recovery_point(self) -> int:
        """Below it recovery trusts the files: records and indexes are flushed. `flushed_offset` is that of the records alone,
        and may be ahead when a segment was completed after a flush had begun."""
        return self._flusher.recovery_point

    def settle_flush(self) -> None:
        """Let a flush that is under way end, or never begin, before files are cut. Raises LogDirFailure."""
        with self._availability.offline_unless_done("flush failed", permanent=True):
            self._flusher.settle()

    def close(self) -> None:
        """Flush everything, write indexes and a producer snapshot, release the files. Raises LogDirFailure."""
        try:
            self.settle_flush()
            active = self.segments.active
            active.seal()
            self._flusher.add_files([active.index.path, active.time_index.path])
            self.flush()
            self.producers.take_snapshot(self.log_end_offset, durable=True)
        except OSError as error:
            raise self.refused("cannot be closed", error) from error
        finally:
            self.release()

    def release(self) -> None:
        """Close the files without flushing: after a failure, or to drop a log that is being deleted."""
        self.segments.close()

    def __str__(self) -> str:
        return str(self.topic_partition)

    def __repr__(self) -> str:
        span = f"{self.log_start_offset}..{self.log_end_offset}"
        return f"Log({self.topic_partition}, {span}, flushed {self.flushed_offset})"
