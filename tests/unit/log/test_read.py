"""Reads against brute force: whole batches, below the bound, within the size, one at least."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minikafka.log import segment as segment_module
from minikafka.log.errors import CorruptBatch, LogDirFailure, OffsetOutOfRange
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.log import Log, LogConfig
from minikafka.protocol.records import iterate_batches, read_header

from tests.unit.log.build import NOW_MS, batch, contents, filled, open_log

batches = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 80)), min_size=1, max_size=40)


def expected(all_batches: list[bytes], log: Log, offset: int, *, max_bytes: int, upper: int, min_one: bool) -> bytes:
    """By the rules of Fetch (KIP-74), from the batches of the segment that holds the offset."""
    number = log.segments.number(offset)
    end = log.segments[number + 1].base_offset if number + 1 < len(log.segments) else log.log_end_offset
    found = b""
    for each in all_batches:
        header = read_header(each)
        if header.last_offset < offset or header.base_offset >= end:
            continue
        if header.last_offset >= min(upper, log.log_end_offset):
            break
        if len(found) + len(each) > max_bytes and (found or not min_one):
            break
        found += each
    return found


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    written=batches,
    segment_bytes=st.sampled_from([300, 1000, 10**6]),
    interval=st.sampled_from([0, 200, 4096]),
    unflushed=st.booleans(),
    cache=st.sampled_from(["tail cache", "cold", "reopened", "small"]),
    max_bytes=st.integers(0, 1500),
    min_one=st.booleans(),
    below=st.integers(0, 20),
)
def test_every_read_agrees_with_brute_force(
    *,
    written: list[tuple[int, int]],
    segment_bytes: int,
    interval: int,
    unflushed: bool,
    cache: str,
    max_bytes: int,
    min_one: bool,
    below: int,
) -> None:
    fs = MemoryFileSystem()
    config = LogConfig(segment_bytes=max(segment_bytes, 600), index_interval_bytes=interval)
    before = segment_module.TAIL_CACHE_BATCHES
    segment_module.TAIL_CACHE_BATCHES = 4 if cache == "small" else before
    try:
        log = open_log(fs, config, unflushed=unflushed)
        for n, (count, size) in enumerate(written):
            log.append_as_leader(batch(count, size=size), 0, NOW_MS)
            if n == len(written) // 2:
                log.flush()
    finally:
        segment_module.TAIL_CACHE_BATCHES = before
    if cache == "cold":
        for segment in log.segments:
            segment.forget_positions()
    elif cache == "reopened":
        log.close()
        log = open_log(fs, config, recovery_point=log.log_end_offset, unflushed=unflushed)
    everything = contents(log)
    upper = max(0, log.log_end_offset - below)
    for offset in range(log.log_end_offset + 1):
        found = log.read(offset, max_bytes, upper, min_one)
        data = found.read()
        assert found.size == len(data) == sum(part.length for part in found.ranges)
        assert data == expected(everything, log, offset, max_bytes=max_bytes, upper=upper, min_one=min_one), offset


@pytest.mark.parametrize("offset", [-1, 3, 4, 10])
def test_offsets_outside_the_log_are_refused(offset: int) -> None:
    _, log = filled(3)
    log.increment_log_start_offset(4)
    if offset in (4,):
        assert log.read(offset, 100, 9).size
        return
    with pytest.raises(OffsetOutOfRange) as refused:
        log.read(offset, 100, 9)
    assert refused.value.code == 1
    with pytest.raises(OffsetOutOfRange):
        list(log.read_batches(offset, 9))


def test_the_end_and_what_lies_above_the_bound_are_empty() -> None:
    """Between high watermark and log end a consumer gets nothing, not an error."""
    _, log = filled(3)
    assert log.read(9, 100, 9).size == 0
    assert log.read(9, 100, 100) == ([], 0)
    assert log.read(6, 100, 6).size == 0
    assert log.read(6, 100, 8).size == 0
    assert log.read(0, 100, 0).size == 0


@pytest.mark.parametrize("interval", [0, 10**6])
def test_the_tail_cache_is_bounded(monkeypatch: pytest.MonkeyPatch, interval: int) -> None:
    monkeypatch.setattr(segment_module, "TAIL_CACHE_BATCHES", 4)
    _, log = filled(50, LogConfig(index_interval_bytes=interval))
    everything = contents(log)
    for n, each in enumerate(everything):
        assert log.read(3 * n + 1, 1, 150).read() == each
    log.truncate_to(60)
    for n, each in enumerate(everything[:20]):
        assert log.read(3 * n + 1, 1, 60).read() == each
    log.append_as_leader(batch(3), 0, NOW_MS)
    assert log.read(59, 10**6, 63).size == len(everything[19]) + len(log.read(60, 10**6, 63).read())


def test_a_range_survives_the_deletion_of_its_segment() -> None:
    fs, log = filled(10, LogConfig(segment_bytes=400))
    found = log.read(0, 10**6, 30)
    wanted = found.read()
    log.flush()
    log.truncate_fully_and_start_at(100)
    assert found.read() == wanted
    del fs


def test_read_batches_crosses_segments_and_stops_at_the_bound() -> None:
    _, log = filled(10, LogConfig(segment_bytes=400))
    found = list(log.read_batches(4, 20))
    assert [each.header.base_offset for each in found] == [3, 6, 9, 12, 15]
    assert all(each.crc_matches() for each in found)
    assert [record.offset for record in found[0].records()] == [3, 4, 5]


def test_large_batches_are_scanned_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "SCAN_BYTES", 100)
    fs, log = filled(4)
    assert len(contents(log)) == 4
    fs.kill()
    assert open_log(fs, clean=False).log_end_offset == 12


def test_a_disk_error_is_typed() -> None:
    fs, log = filled(3)
    log.segments.active.forget_positions()

    def refuse(operation: str, path: str) -> None:
        if operation == "pread":
            raise OSError(errno.EIO, "Input/output error", path)

    fs.fault_hook = refuse
    with pytest.raises(LogDirFailure):
        log.read(0, 100, 9)
    with pytest.raises(LogDirFailure):
        list(log.read_batches(0, 9))
    with pytest.raises(LogDirFailure):
        log.offset_for_timestamp(0, 9)


def test_a_file_that_shrinks_under_a_walk_ends_it() -> None:
    fs, log = filled(3)
    fs.open_append(f"{log.directory}/{0:020d}.log").truncate(30)
    assert list(log.segments.active.walk()) == []
    assert list(iterate_batches(log.read(0, 10**6, 9).read())) == []


def test_what_is_appended_between_two_batches_is_no_damage() -> None:
    _, log = filled(3)
    reading = log.read_batches(0, 9)
    next(reading)
    log.append_as_leader(batch(3), 0, NOW_MS)
    assert [each.header.base_offset for each in reading] == [3, 6]


def test_a_log_that_goes_offline_between_two_batches_is_read_no_further() -> None:
    """Its files are closed before it is opened anew, and their descriptors may be somebody else's."""
    _, log = filled(3)
    reading = log.read_batches(0, 9)
    next(reading)
    log.go_offline("left half done", OSError(errno.EIO, "Input/output error"))
    with pytest.raises(LogDirFailure):
        next(reading)
    for read in (lambda: list(log.read_batches(0, 9)), lambda: log.offset_for_timestamp(0, 9), log.max_timestamp):
        with pytest.raises(LogDirFailure):
            read()


@pytest.mark.parametrize("segment_bytes", [400, 10**6])
def test_a_log_that_ends_in_the_middle_is_not_taken_for_a_shorter_one(segment_bytes: int) -> None:
    """A coordinator would load half of its groups, and consumers start over where the rest is missing."""
    fs, log = filled(10, LogConfig(segment_bytes=segment_bytes))
    second = next(each for each in log.read_batches(3, 30))
    fs.corrupt(f"{log.directory}/{0:020d}.log", second.position + 16, 0xFF)  # the byte of its format
    reading = log.read_batches(0, 30)
    assert next(reading).header.base_offset == 0
    with pytest.raises(CorruptBatch):
        next(reading)


@pytest.mark.parametrize("unflushed", [False, True])
def test_a_log_knows_the_files_of_its_ranges(unflushed: bool) -> None:
    _, log = filled(10, LogConfig(segment_bytes=400), unflushed=unflushed)
    _, other = filled(1)
    files = [part.file for offset in range(0, 30, 3) for part in log.read(offset, 1, 30).ranges]
    assert files and all(log.reads_from(file) and not other.reads_from(file) for file in files)
