"""Looking at a log's files from outside, without opening it: what `minikafka dump-log` prints.

Nothing is changed and nothing is trusted: every batch is read, every CRC computed, and indexes, epochs and snapshots
are compared with the batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from posixpath import basename

from minikafka.log.checkpoints import PARTITION_METADATA, parse_partition_metadata
from minikafka.log.epochs import CHECKPOINT_NAME, EpochEntry, LeaderEpochCache
from minikafka.log.errors import MalformedCheckpoint
from minikafka.log.filesystem import File, FileSystem
from minikafka.log.index import OFFSET_ENTRY, TIME_ENTRY
from minikafka.log.producer_state import CorruptSnapshot, decode_snapshot
from minikafka.log.recovery import LEFTOVER_SUFFIXES, parse_segment_name
from minikafka.log.segment import segment_path
from minikafka.log.unflushed import parse_tail_name
from minikafka.protocol.checksum import crc32c
from minikafka.protocol.records import CRC_START, HEADER, HEADER_BYTES, MAGIC, BatchHeader


@dataclass(slots=True)
class BatchReport:
    """One batch as it lies in the file. `problem` is None when it is whole, its CRC matches and it continues the
    last."""

    position: int
    header: BatchHeader
    data: bytes
    problem: str | None


@dataclass(slots=True)
class SegmentReport:
    """One `.log` file. `valid_bytes` is how much recovery would keep of it."""

    path: str
    base_offset: int
    size: int
    valid_bytes: int = 0
    next_offset: int = 0
    batches: int = 0
    records: int = 0
    max_timestamp: int = -1
    problems: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    """Offsets that are missing between batches: what compaction leaves, or damage in a topic that is not compacted."""


@dataclass(slots=True)
class LogReport:
    """A partition's directory."""

    path: str
    segments: list[SegmentReport] = field(default_factory=list)
    epochs: list[EpochEntry] = field(default_factory=list)
    topic_id: str | None = None
    problems: list[str] = field(default_factory=list)
    """What concerns more than one file."""

    @property
    def damaged(self) -> bool:
        return bool(self.problems) or any(segment.problems for segment in self.segments)


class NotALog(ValueError):
    """The path is not a segment or a partition's directory. The message is one line."""


def segment_offset(path: str) -> int:
    """The base offset in the name of a `.log` file or of a tail file of the unflushed volume. Raises NotALog."""
    name = basename(path)
    parsed, tail = parse_segment_name(name), parse_tail_name(name)
    if parsed is not None and parsed[1] == "log":
        return parsed[0]
    if tail is not None:
        return tail[0]
    raise NotALog(f"{path}: not a segment; its name must be 20 digits and .log")


def read_segment(fs: FileSystem, path: str) -> Iterator[BatchReport]:
    """Every batch of a file in order; ends after the first whose length cannot be believed. Raises NotALog, OSError."""
    name = basename(path)
    tail = parse_tail_name(name)
    expected = None if tail is not None and tail[1] else segment_offset(path)
    file = fs.open_read(path)
    try:
        yield from _read_batches(file, expected)
    finally:
        file.close()


def _read_batches(file: File, expected: int | None) -> Iterator[BatchReport]:
    position, end, epoch = 0, file.size, -1
    while position < end:
        head = file.pread(HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            header = BatchHeader._make(HEADER.unpack(head.ljust(HEADER_BYTES, b"\0")))
            yield BatchReport(position, header, head, f"only {len(head)} bytes of a batch header")
            return
        header = BatchHeader._make(HEADER.unpack(head))
        problem = _length_problem(header, end - position)
        if problem is not None:
            yield BatchReport(position, header, head, problem)
            return
        data = file.pread(header.size, position)
        if crc32c(memoryview(data)[CRC_START:]) != header.crc:
            problem = "CRC mismatch"
        elif expected is not None and header.base_offset < expected:
            problem = f"base offset {header.base_offset}, at least {expected} was expected"
        elif header.partition_leader_epoch < epoch:
            problem = f"leader epoch {header.partition_leader_epoch} after {epoch}"
        yield BatchReport(position, header, data, problem)
        epoch = max(epoch, header.partition_leader_epoch)
        expected = header.next_offset
        position += header.size


def _length_problem(header: BatchHeader, left: int) -> str | None:
    if header.magic != MAGIC:
        return f"magic {header.magic}, only {MAGIC} is known"
    if header.size < HEADER_BYTES:
        return f"batch length {header.batch_length} is impossible"
    if header.size > left:
        return f"only {left} of the batch's {header.size} bytes"
    return None


def inspect_segment(fs: FileSystem, path: str, epochs: list[EpochEntry] | None = None) -> SegmentReport:
    """Check one file, its indexes when it has any, and its batches' epochs against a checkpoint. Raises NotALog,
    OSError."""
    report = SegmentReport(path, segment_offset(path), fs.file_size(path))
    report.next_offset = report.base_offset
    positions: dict[int, BatchHeader] = {}
    for batch in read_segment(fs, path):
        if batch.problem is not None:
            report.problems.append(f"byte {batch.position}: {batch.problem}")
            continue
        header = batch.header
        if header.base_offset > report.next_offset and positions:
            report.gaps.append(f"byte {batch.position}: {header.base_offset} follows {report.next_offset - 1}")
        if epochs is not None:
            _check_epoch(report, header, epochs)
        positions[batch.position] = header
        report.batches += 1
        report.records += header.records_count
        report.max_timestamp = max(report.max_timestamp, header.max_timestamp)
        if not report.problems:
            report.valid_bytes = batch.position + header.size
            report.next_offset = header.next_offset
    if parse_tail_name(basename(path)) is None:
        directory = path.rpartition("/")[0] or "."
        _check_offset_index(fs, report, segment_path(directory, report.base_offset, "index"), positions)
        _check_time_index(fs, report, segment_path(directory, report.base_offset, "timeindex"), positions)
    return report


def _check_epoch(report: SegmentReport, header: BatchHeader, epochs: list[EpochEntry]) -> None:
    known = max((e.epoch for e in epochs if e.start_offset <= header.base_offset), default=None)
    if known is not None and known != header.partition_leader_epoch:
        report.problems.append(
            f"offset {header.base_offset}: leader epoch {header.partition_leader_epoch}, the checkpoint says {known}"
        )


def _check_offset_index(fs: FileSystem, report: SegmentReport, path: str, batches: dict[int, BatchHeader]) -> None:
    if not fs.exists(path):
        return
    data = fs.read_bytes(path)
    if len(data) % OFFSET_ENTRY.size:
        report.problems.append(f"{path}: {len(data)} bytes are not whole entries")
        return
    for n, (relative, position) in enumerate(OFFSET_ENTRY.iter_unpack(data)):
        header = batches.get(position)
        if n and not relative and not position:
            return  # Kafka preallocates index files: zeros follow the last entry of one that was not closed
        if header is None or header.last_offset != report.base_offset + relative:
            report.problems.append(f"{path}: entry {n} says offset {report.base_offset + relative} at byte {position}")


def _check_time_index(fs: FileSystem, report: SegmentReport, path: str, batches: dict[int, BatchHeader]) -> None:
    if not fs.exists(path):
        return
    data = fs.read_bytes(path)
    if len(data) % TIME_ENTRY.size:
        report.problems.append(f"{path}: {len(data)} bytes are not whole entries")
        return
    timestamps = {header.last_offset: header.max_timestamp for header in batches.values()}
    before = -1
    for n, (timestamp, relative) in enumerate(TIME_ENTRY.iter_unpack(data)):
        if n and not timestamp and not relative:
            return
        if timestamps.get(report.base_offset + relative) != timestamp or timestamp < before:
            report.problems.append(f"{path}: entry {n} says timestamp {timestamp} at {report.base_offset + relative}")
        before = timestamp


def inspect_log(fs: FileSystem, directory: str) -> LogReport:
    """Check a partition's directory: all segments, that they continue each other, epochs, snapshots, topic id.

    Raises NotALog when there is no segment in it, OSError.
    """
    report = LogReport(directory)
    names = fs.listdir(directory)
    bases = [parsed[0] for name in names if (parsed := parse_segment_name(name)) is not None and parsed[1] == "log"]
    if not bases:
        raise NotALog(f"{directory}: no segment (*.log) in it")
    try:
        report.epochs = LeaderEpochCache.load(fs, directory).entries
    except MalformedCheckpoint as error:
        report.problems.append(str(error))
    next_offset = None
    for base in bases:
        segment = inspect_segment(fs, segment_path(directory, base, "log"), report.epochs)
        if next_offset is not None and base < next_offset:
            report.problems.append(f"segment {base} overlaps the one before, which ends at {next_offset}")
        next_offset = segment.next_offset
        report.segments.append(segment)
    for name in names:
        _check_other(fs, report, name)
    if next_offset is not None and report.epochs and report.epochs[-1].start_offset > next_offset:
        report.problems.append(f"{CHECKPOINT_NAME}: {report.epochs[-1]} lies beyond the log end offset {next_offset}")
    return report


def _check_other(fs: FileSystem, report: LogReport, name: str) -> None:
    path = f"{report.path}/{name}"
    parsed = parse_segment_name(name)
    try:
        if parsed is not None and parsed[1] == "snapshot":
            decode_snapshot(fs.read_bytes(path), path)
        elif name == PARTITION_METADATA:
            report.topic_id = str(parse_partition_metadata(fs.read_bytes(path), path))
        elif parsed is None and name != CHECKPOINT_NAME and not name.endswith(LEFTOVER_SUFFIXES):
            report.problems.append(f"{path}: not a file of a log")
    except (CorruptSnapshot, MalformedCheckpoint) as error:
        report.problems.append(str(error))
