"""Lookups by timestamp against brute force."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minikafka.log.errors import CorruptBatch
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.log import Log, LogConfig
from minikafka.log.results import TimestampOffset
from minikafka.log.segments import SegmentList
from minikafka.log.timestamps import LargeBatch, LongWalk, Search
from minikafka.protocol.compression import Codec
from minikafka.protocol.record_walk import find_record
from minikafka.protocol.records import Record, RecordBatch, build_batch

from tests.unit.log.build import NOW_MS, batch, filled, open_log

batches = st.lists(st.lists(st.integers(-5, 60), min_size=1, max_size=4), min_size=1, max_size=25)


def write(log: Log, times: list[list[int]]) -> list[TimestampOffset]:
    """Append one batch for each list of record times (relative to NOW_MS); all records, in order."""
    records = []
    for n, row in enumerate(times):
        data = build_batch(
            [Record(i, NOW_MS + t, None, b"v" * 20) for i, t in enumerate(row)],
            codec=Codec.GZIP if n % 2 else Codec.NONE,
        )
        info = log.append_as_leader(data, n // 5, NOW_MS)
        records += [TimestampOffset(NOW_MS + t, info.first_offset + i, n // 5) for i, t in enumerate(row)]
    return records


def searched(search: Callable[[Search], TimestampOffset | None]) -> TimestampOffset | None:
    """What a search finds where almost every batch is looked into elsewhere, and few headers at once."""
    known, looks = Search(30, 3), 0
    for _ in range(100):
        try:
            return search(known)
        except LargeBatch as found:
            looks += 1
            assert looks < 10, "more and more batches are looked into"
            known.look_into(found)
        except LongWalk:
            pass
    pytest.fail("there is no end of it")


@settings(max_examples=120, deadline=None)
@given(
    times=batches,
    interval=st.sampled_from([0, 300, 4096]),
    start=st.integers(0, 30),
    below=st.integers(0, 10),
    reopened=st.booleans(),
    cut=st.integers(0, 20),
)
def test_lookups_agree_with_brute_force(
    *, times: list[list[int]], interval: int, start: int, below: int, reopened: bool, cut: int
) -> None:
    fs = MemoryFileSystem()
    config = LogConfig(segment_bytes=600, index_interval_bytes=interval)
    log = open_log(fs, config)
    records = write(log, times)
    log.truncate_to(max(0, log.log_end_offset - cut))
    log.increment_log_start_offset(min(start, log.log_end_offset))
    if reopened:
        log.close()
        log = open_log(fs, config, recovery_point=log.log_end_offset, log_start_offset=log.log_start_offset)
    live = [r for r in records if log.log_start_offset <= r.offset < log.log_end_offset]
    upper = max(0, log.log_end_offset - below)
    for target in range(-6, 62):
        wanted = next((r for r in live if r.timestamp >= NOW_MS + target), None)
        if wanted is not None and wanted.offset >= upper:
            wanted = None
        assert log.offset_for_timestamp(NOW_MS + target, upper) == wanted, target
        if target % 16 == 0:
            assert searched(lambda known: log.offset_for_timestamp(NOW_MS + target, upper, known)) == wanted, target  # noqa: B023
    largest = max((r.timestamp for r in live), default=None)
    assert log.max_timestamp() == next((r for r in live if r.timestamp == largest), None) == searched(log.max_timestamp)


def test_with_log_append_time_no_batch_is_opened() -> None:
    log = open_log(MemoryFileSystem(), LogConfig(message_timestamp_type="LogAppendTime"))
    for n in range(3):
        log.append_as_leader(batch(3, timestamp=1), 0, NOW_MS + n)
    assert log.offset_for_timestamp(NOW_MS + 1, 9) == TimestampOffset(NOW_MS + 1, 3, 0)
    assert log.max_timestamp() == TimestampOffset(NOW_MS + 2, 6, 0)
    log.increment_log_start_offset(4)
    assert log.offset_for_timestamp(NOW_MS + 1, 9) == TimestampOffset(NOW_MS + 1, 4, 0)


def test_an_empty_log_and_records_without_timestamps() -> None:
    _, log = filled(0)
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0, 100) is None
    log.append_as_leader(build_batch([Record(0, -1, None, b"")]), 0, NOW_MS)
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0, 100) is None


def test_the_largest_timestamp_below_the_start_is_not_found() -> None:
    log = open_log(MemoryFileSystem())
    write(log, [[50], [7, 9], [8]])
    log.increment_log_start_offset(1)
    assert log.max_timestamp() == TimestampOffset(NOW_MS + 9, 2, 0)


def test_a_search_makes_nothing_of_the_records_that_it_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte may hold a million: one ListOffsets stopped the broker for six seconds of CPU, and others with it."""
    monkeypatch.setattr(RecordBatch, "records", lambda batch: pytest.fail("parsed"))
    monkeypatch.setattr("minikafka.protocol.records.parse_records", lambda batch: pytest.fail("parsed"))
    log = open_log(MemoryFileSystem())
    write(log, [[5, 1, 9], [7, 8], [2, 3]])
    assert log.offset_for_timestamp(NOW_MS + 8, 7) == TimestampOffset(NOW_MS + 9, 2, 0)
    log.increment_log_start_offset(1)
    assert log.offset_for_timestamp(NOW_MS, 7) == TimestampOffset(NOW_MS + 1, 1, 0)
    log.increment_log_start_offset(4)
    assert log.max_timestamp() == TimestampOffset(NOW_MS + 8, 4, 0)


def test_the_largest_timestamp_is_looked_for_in_two_batches_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(MemoryFileSystem())
    write(log, [[99, 4], *[[n] for n in range(5, 20)]])
    log.increment_log_start_offset(1)
    opened = []

    def find(*args: int) -> tuple[int, int, int]:
        opened.append(args)
        return find_record(*args)  # type: ignore[arg-type]

    monkeypatch.setattr("minikafka.log.timestamps.find_record", find)
    monkeypatch.setattr(SegmentList, "batches", lambda *_: pytest.fail("all of the log is read"))
    assert log.max_timestamp() == TimestampOffset(NOW_MS + 19, 16, 3)
    assert len(opened) <= 3, "the one with the largest of all, which is gone, and two"


def test_what_cannot_be_looked_into_elsewhere_is_not_looked_into_again() -> None:
    log = open_log(MemoryFileSystem())
    log.append_as_leader(build_batch([Record(0, NOW_MS, None, bytes(100))]), 0, NOW_MS)
    known = Search(10)
    with pytest.raises(LargeBatch) as found:
        log.max_timestamp(known)
    found.value.batch = found.value.batch[:-1]
    known.look_into(found.value)
    with pytest.raises(CorruptBatch, match="the batch at offset 0"):
        log.max_timestamp(known)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_long_walk_goes_on_where_it_ended(is_cut: bool) -> None:
    """One over 540,000 batches held the event loop for 0.6 s (found by an attack). Where the log is cut it begins anew."""
    log = open_log(MemoryFileSystem())
    write(log, [[9], *[[n % 3] for n in range(10)], [20]])
    known = Search(1_000, 4)
    for _ in range(2):
        with pytest.raises(LongWalk):
            log.offset_for_timestamp(NOW_MS + 10, 99, known)
    if is_cut:
        log.truncate_to(5)
        write(log, [[1, 10], *[[n % 3] for n in range(10)], [20]])
        with pytest.raises(LongWalk):
            log.offset_for_timestamp(NOW_MS + 10, 99, known)
    found = log.offset_for_timestamp(NOW_MS + 10, 99, known)
    assert found is not None and found.offset == (6 if is_cut else 11)


def test_records_that_are_deleted_during_a_long_walk_are_not_the_newest() -> None:
    """Where nothing of what was found so far was left a full log was said to be empty (found by an attack)."""
    log = open_log(MemoryFileSystem())
    write(log, [[99, 4], [50], *[[n] for n in range(8)]])
    log.increment_log_start_offset(1)
    known = Search(1_000, 6)
    for _ in range(2):
        with pytest.raises(LongWalk):
            log.max_timestamp(known)
    log.increment_log_start_offset(5)
    while True:
        with suppress(LongWalk):
            assert log.max_timestamp(known) == TimestampOffset(NOW_MS + 7, 10, 1)
            break


def test_an_offset_far_below_its_segment_is_passed_over() -> None:
    """A base offset lies outside the CRC, and a trusted segment is not read whole."""
    config = LogConfig(segment_bytes=900, index_interval_bytes=100)
    fs, log = filled(14, config, count=1)
    third = [found.position for found in log.segments[0].walk()][2]
    path = log.segments[0].path
    log.close()
    data = bytearray(fs.read_bytes(path))
    struct.pack_into(">q", data, third, -(2**63))
    fs.write_atomic(path, bytes(data))
    opened = open_log(fs, config, clean=True, recovery_point=14)
    assert opened.offset_for_timestamp(NOW_MS + 2, 14) == TimestampOffset(NOW_MS + 3, 3, 0)
