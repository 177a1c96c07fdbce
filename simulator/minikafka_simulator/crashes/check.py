"""Starts the broker's logs from what a crash has left, and says what is not as it must be."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.groups.replay import Replay
from minikafka.log.inspection import inspect_log
from minikafka.log.log import Log
from minikafka.log.manager import LogManager
from minikafka.log.producer_state import BATCHES_RETAINED, BatchMetadata
from minikafka.log.segment import Segment
from minikafka.protocol.records import add_sequence, parse_records
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.crashes.disk import RecordedDisk, RecordedFileSystem
from minikafka_simulator.crashes.expected import Expected, ExpectedLog, WrittenBatch
from minikafka_simulator.crashes.life import OFFSETS, alternatives_of, open_manager
from minikafka_simulator.crashes.operations import Contents


class Wrong(Exception):
    """A promise is broken. One line."""


@dataclass(slots=True)
class Recovered:
    """A broker's logs after a crash, and the disk they were recovered on."""

    disk: RecordedDisk
    manager: LogManager
    expected: Expected
    """What is there, which from now on must stay."""


def recover(
    contents: Contents,
    is_directory: set[int],
    expected: Expected,
    *,
    directories: tuple[str, ...],
    unflushed: bool,
) -> Recovered:
    """Start from these contents. Raises Wrong."""
    disk = RecordedDisk(contents, is_directory)
    try:
        manager = open_manager(disk, directories, unflushed)
    except Exception as error:
        raise Wrong(f"the broker does not start: {type(error).__name__}: {error}") from error
    found = manager.previous_broker_epoch if manager.clean else None
    if found not in expected.clean:
        raise Wrong(f"clean stop of broker epoch {found}, allowed: {_listed(expected.clean)}")
    there = Expected(high_watermarks=expected.high_watermarks)
    for tp in {*manager.logs, *expected.logs}:
        log = manager.logs.get(tp)
        left = _check_log(disk, manager, tp, log, alternatives_of(expected, tp))
        there.logs[tp] = (left,)
        allowed = expected.high_watermarks.get(tp, frozenset({0}))
        if manager.high_watermarks.get(tp, 0) not in allowed:
            raise Wrong(f"{tp}: high watermark {manager.high_watermarks.get(tp, 0)}, allowed: {_listed(allowed)}")
    return Recovered(disk, manager, there)


def _listed(values: frozenset[int] | frozenset[int | None]) -> str:
    return ", ".join(sorted("none" if value is None else str(value) for value in values))


def _check_log(
    disk: RecordedDisk,
    manager: LogManager,
    tp: TopicPartition,
    log: Log | None,
    allowed: tuple[ExpectedLog | None, ...],
) -> ExpectedLog | None:
    """What of the alternatives is there. Raises Wrong."""
    problems = []
    for expected in allowed:
        try:
            return _check_alternative(disk, manager, tp, log, expected)
        except Wrong as error:
            problems.append(str(error))
    raise Wrong(f"{tp}: {' / '.join(dict.fromkeys(problems))}")


def _check_alternative(
    disk: RecordedDisk, manager: LogManager, tp: TopicPartition, log: Log | None, expected: ExpectedLog | None
) -> ExpectedLog | None:
    if expected is None:
        if log is not None and (tp in manager.topic_ids or log.log_end_offset):
            raise Wrong("a log that is deleted, or was never made, is there")
        return None
    if log is None:
        raise Wrong("the log is not there")
    if manager.topic_ids.get(tp) != expected.topic_id:
        raise Wrong(f"topic id {manager.topic_ids.get(tp)}, not {expected.topic_id}")
    start, end = log.log_start_offset, log.log_end_offset
    if end < expected.flushed:
        raise Wrong(f"ends at {end}, {expected.flushed} was flushed")
    if not expected.start <= start <= expected.start_max:
        raise Wrong(f"starts at {start}, not at {expected.start} to {expected.start_max}")
    there = [bytes(each.data) for each in log.read_batches(start, end)]
    written = [batch for batch in expected.batches if start < batch.header.next_offset <= end]
    if there != [batch.data for batch in written]:
        raise Wrong(f"its batches from {start} to {end} are not those that were written")
    if end != (written[-1].header.next_offset if written else start):
        raise Wrong(f"ends at {end}, behind its last record")
    kept = tuple(batch for batch in expected.batches if batch.header.next_offset <= end)
    _check_epochs(log, written)
    _check_indexes(log)
    _check_producers(log, kept, start)
    if log.flushed_offset != end or log.recovery_point > end:
        raise Wrong(f"flushed to {log.flushed_offset}, recovery point {log.recovery_point}, but it ends at {end}")
    report = inspect_log(RecordedFileSystem(disk), log.directory)
    if report.damaged:
        raise Wrong("; ".join([*report.problems, *(p for segment in report.segments for p in segment.problems)]))
    if tp == OFFSETS:
        _check_offsets(there)
    return ExpectedLog(expected.topic_id, kept, end, start, start, expected.begins)


def _check_epochs(log: Log, written: list[WrittenBatch]) -> None:
    for batch in written:
        offset = max(batch.header.base_offset, log.log_start_offset)
        known = log.epochs.epoch_for_offset(offset)
        if known != batch.header.partition_leader_epoch:
            raise Wrong(f"epoch {known} for offset {offset}, the batch has {batch.header.partition_leader_epoch}")
    entry = log.epochs.latest_entry
    if entry is not None and entry.start_offset >= max(log.log_start_offset + 1, log.log_end_offset):
        raise Wrong(f"{entry} begins at the end {log.log_end_offset}, or behind it")


def _check_indexes(log: Log) -> None:
    for segment in log.segments:
        largest = -1
        for found in segment.walk():
            largest = max(largest, found.header.max_timestamp)
            _check_located(segment, found.header.last_offset, found.position)
        if segment.max_timestamp != largest:
            raise Wrong(f"largest timestamp {segment.max_timestamp} in {segment.path}, its batches have {largest}")


def _check_located(segment: Segment, offset: int, position: int) -> None:
    if segment.locate(offset) != position:
        raise Wrong(
            f"offset {offset} is sought at byte {segment.locate(offset)} of {segment.path}, it is at {position}"
        )
    if segment.index.position_before(offset) > position:
        raise Wrong(f"{segment.index.path} says that offset {offset} begins behind byte {position}")


def _check_producers(log: Log, kept: tuple[WrittenBatch, ...], start: int) -> None:
    """A producer with records in the log is known by its last batches; one without may be forgotten."""
    written: dict[int, list[BatchMetadata]] = {}
    for batch in kept:
        header = batch.header
        if header.producer_id >= 0:
            last = add_sequence(header.base_sequence, header.last_offset_delta)
            row = BatchMetadata(
                header.base_sequence, last, header.base_offset, header.last_offset, header.max_timestamp
            )
            if row.first_sequence == 0:
                written[header.producer_id] = []  # it was forgotten, with all its records
            written.setdefault(header.producer_id, []).append(row)
    known = {producer: list(state.batches) for producer, state in log.producers}
    for producer, rows in written.items():
        expected = rows[-BATCHES_RETAINED:]
        must = [row for row in expected if row.last_offset >= start]
        found = known.pop(producer, [])[-len(expected) :]
        if found != expected[len(expected) - len(found) :] or len(found) < len(must):
            raise Wrong(f"producer {producer}: {len(found)} batches up to {found[-1:]}, written were {expected[-1:]}")
    if known:
        raise Wrong(f"producers {sorted(known)} are known that have written nothing")


def _check_offsets(batches: list[bytes]) -> None:
    """A coordinator can read every commit."""
    replay = Replay()
    for data in batches:
        for record in parse_records(data):
            replay.add(record.offset, record.key, record.value)
    if replay.malformed:
        raise Wrong(f"a committed offset cannot be read: {replay.malformed[0]}")
