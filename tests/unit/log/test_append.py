"""Appends of a leader: what is stamped, what is refused, when a segment is completed."""

from __future__ import annotations

import errno
import struct

import pytest
from minikafka.log.errors import (
    CorruptBatch,
    FencedLeaderEpoch,
    InvalidRecord,
    InvalidTimestamp,
    LogDirFailure,
    LogError,
    RecordListTooLarge,
    RecordTooLarge,
    UnsupportedMagic,
)
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.log import LogConfig
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import build_control_batch, crc_matches, iterate_batches, read_header, set_crc

from tests.unit.log.build import DIR, NOW_MS, assert_sound, batch, contents, filled, open_log


def test_offset_and_epoch_are_stamped_in_place_outside_the_crc() -> None:
    log = open_log(MemoryFileSystem())
    first = batch(3)
    info = log.append_as_leader(first, 5, NOW_MS)
    assert (info.first_offset, info.last_offset, info.batches, info.records) == (0, 2, 1, 3)
    assert (info.bytes, info.duplicate, info.log_append_time) == (len(first), False, -1)
    assert info.max_timestamp == NOW_MS + 2
    second = memoryview(batch(2))
    assert log.append_as_leader(second, 5, NOW_MS).first_offset == 3
    assert log.log_end_offset == 5
    assert log.size_bytes == len(first) + len(second)
    header = read_header(second)
    assert (header.base_offset, header.partition_leader_epoch) == (3, 5)
    assert crc_matches(second)
    assert contents(log) == [bytes(first), bytes(second)]
    assert log.epochs.entries == [(5, 0)]


def test_log_append_time_is_stamped_and_the_crc_recomputed() -> None:
    log = open_log(MemoryFileSystem(), LogConfig(message_timestamp_type="LogAppendTime"))
    written = batch(3, timestamp=5)
    info = log.append_as_leader(written, 0, NOW_MS)
    assert info.log_append_time == info.max_timestamp == NOW_MS
    (read,) = iterate_batches(log.read(0, 10**6, 3).read())
    assert read.crc_matches()
    assert read.header.log_append_time
    assert [record.timestamp for record in read.records()] == [NOW_MS] * 3


def patched(position: int, form: str, value: int, *, crc: bool = True, **options: int) -> bytearray:
    data = batch(3, **options)
    struct.pack_into(form, data, position, value)
    if crc:
        set_crc(data)
    return data


def flipped(position: int) -> bytearray:
    data = batch(3)
    data[position] ^= 0x40
    return data


REFUSED = {
    "nothing": (bytearray(), InvalidRecord, ErrorCode.INVALID_RECORD),
    "cut off": (batch(3)[:-1], InvalidRecord, ErrorCode.INVALID_RECORD),
    "half a header": (batch(3)[:30], InvalidRecord, ErrorCode.INVALID_RECORD),
    "less than a length": (batch(3)[:14], InvalidRecord, ErrorCode.INVALID_RECORD),
    "zeros": (bytearray(30), CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    "CRC": (flipped(-1), CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    "attributes damaged": (flipped(22), CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    "count damaged": (flipped(60), CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    "length too small": (patched(8, ">i", 10), CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    "negative length": (patched(8, ">i", -5), CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    "two batches": (batch(1) + batch(1), InvalidRecord, ErrorCode.INVALID_RECORD),
    "magic 1": (patched(16, ">b", 1), InvalidRecord, ErrorCode.INVALID_RECORD),
    "magic 3": (patched(16, ">b", 3), CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    "base offset": (patched(0, ">q", 7), InvalidRecord, ErrorCode.INVALID_RECORD),
    "no records": (patched(57, ">i", 0), InvalidRecord, ErrorCode.INVALID_RECORD),
    "count and delta differ": (patched(23, ">i", 5), InvalidRecord, ErrorCode.INVALID_RECORD),
    "control": (patched(21, ">h", 0x20), InvalidRecord, ErrorCode.INVALID_RECORD),
    "codec 5": (patched(21, ">h", 5), InvalidRecord, ErrorCode.INVALID_RECORD),
    "producer without sequence": (patched(43, ">q", 9), InvalidRecord, ErrorCode.INVALID_RECORD),
    "too large": (batch(1, size=1000), RecordTooLarge, ErrorCode.MESSAGE_TOO_LARGE),
    "from the future": (batch(1, timestamp=NOW_MS + 2 * 3600_000), InvalidTimestamp, ErrorCode.INVALID_TIMESTAMP),
    "too old": (batch(1, timestamp=NOW_MS - 5001), InvalidTimestamp, ErrorCode.INVALID_TIMESTAMP),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_client_must_not_send_is_refused_and_nothing_is_written(name: str) -> None:
    data, error, code = REFUSED[name]
    log = open_log(MemoryFileSystem(), LogConfig(max_message_bytes=900, message_timestamp_before_max_ms=5000))
    log.append_as_leader(batch(2), 1, NOW_MS)
    before = contents(log)
    with pytest.raises(error) as refused:
        log.append_as_leader(bytearray(data), 2, NOW_MS)
    assert refused.value.code == code
    assert isinstance(refused.value, LogError)
    assert str(refused.value)
    assert contents(log) == before
    assert log.log_end_offset == 2


def test_a_few_bytes_after_the_batch_are_ignored() -> None:
    """As Kafka does: they are too few to be a batch."""
    log = open_log(MemoryFileSystem())
    data = batch(2)
    assert log.append_as_leader(data + b"xyz", 0, NOW_MS).bytes == len(data)
    assert log.size_bytes == len(data)


def test_an_older_leader_epoch_is_fenced() -> None:
    log = open_log(MemoryFileSystem())
    log.append_as_leader(batch(), 4, NOW_MS)
    with pytest.raises(FencedLeaderEpoch):
        log.append_as_leader(batch(), 3, NOW_MS)
    with pytest.raises(FencedLeaderEpoch):
        log.assign_epoch(3, 1)


def test_a_new_leader_assigns_its_epoch_before_it_writes() -> None:
    """KIP-279: fast successive elections need the entry even when no record follows."""
    log = open_log(MemoryFileSystem())
    log.append_as_leader(batch(2), 1, NOW_MS)
    log.assign_epoch(2, log.log_end_offset)
    log.assign_epoch(3, log.log_end_offset)
    log.append_as_leader(batch(), 3, NOW_MS)
    assert log.epochs.entries == [(1, 0), (3, 2)]


def test_brokers_may_append_several_and_control_batches() -> None:
    log = open_log(MemoryFileSystem())
    log.append_as_leader(batch(2), 1, NOW_MS)
    several = batch(2) + batch(3)
    info = log.append_as_leader(several, 1, NOW_MS, internal=True)
    assert (info.first_offset, info.last_offset, info.batches, info.records, info.bytes) == (2, 6, 2, 5, len(several))
    marker = build_control_batch(
        commit=False, producer_id=1, producer_epoch=0, timestamp_ms=NOW_MS, coordinator_epoch=3
    )
    assert log.append_as_leader(marker, 1, NOW_MS, internal=True).last_offset == 7
    state = log.producers.get(1)
    assert state is not None
    assert state.coordinator_epoch == 3
    for damaged in (several[:-1], several[:20] + several, batch(2) + bytes(61), batch(2) + bytes(20)):
        with pytest.raises((CorruptBatch, UnsupportedMagic)):
            log.append_as_leader(bytearray(damaged), 1, NOW_MS, internal=True)
    assert log.log_end_offset == 8


class TestRoll:
    """A segment is completed by size, by age in record time, by a full index, by offsets that do not fit 32 bits."""

    def test_by_size(self) -> None:
        fs, log = filled(20, LogConfig(segment_bytes=500))
        assert len(log.segments) > 3
        assert all(segment.size <= 500 for segment in log.segments)
        assert log.segments.active is log.segments[-1]
        names = fs.listdir(log.directory)
        for segment in log.segments:
            for kind in ("log", "index", "timeindex"):
                assert f"{segment.base_offset:020d}.{kind}" in names
        for segment in log.segments[1:]:
            assert f"{segment.base_offset:020d}.snapshot" in names
        assert_sound(fs, log)

    def test_by_age(self) -> None:
        log = open_log(MemoryFileSystem(), LogConfig(segment_ms=1000))
        for timestamp in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001, NOW_MS + 2001, NOW_MS + 2002):
            log.append_as_leader(batch(timestamp=timestamp), 0, NOW_MS + 3000)
        assert [segment.base_offset for segment in log.segments] == [0, 2, 4]

    def test_records_without_timestamps_never_age(self) -> None:
        log = open_log(MemoryFileSystem(), LogConfig(segment_ms=1))
        for _ in range(5):
            log.append_as_leader(batch(timestamp=-1), 0, NOW_MS)
        assert len(log.segments) == 1

    def test_by_a_full_index(self) -> None:
        fs, log = filled(30, LogConfig(segment_index_bytes=36, index_interval_bytes=0))
        assert len(log.segments) > 5
        assert all(len(segment.index) <= 36 // 8 for segment in log.segments)
        assert_sound(fs, log)

    def test_by_relative_offsets_of_32_bits(self) -> None:
        log = open_log(MemoryFileSystem())
        log.truncate_fully_and_start_at(10)
        log.append_as_leader(batch(1), 0, NOW_MS)
        log.log_end_offset = log.segments.active.next_offset = 10 + 2**31 - 1
        log.append_as_leader(batch(1), 0, NOW_MS)
        assert len(log.segments) == 1
        log.append_as_leader(batch(1), 0, NOW_MS)
        assert [segment.base_offset for segment in log.segments] == [10, 10 + 2**31]

    def test_a_batch_larger_than_a_segment_is_refused(self) -> None:
        log = open_log(MemoryFileSystem(), LogConfig(segment_bytes=300))
        with pytest.raises(RecordListTooLarge):
            log.append_as_leader(batch(1, size=400), 0, NOW_MS)


class TestDiskFailure:
    """What the disk refuses is not in the log afterwards."""

    @pytest.mark.parametrize("unflushed", [False, True])
    def test_a_full_disk_leaves_no_torn_batch(self, unflushed: bool) -> None:
        fs, log = filled(3, unflushed=unflushed)
        before = contents(log)
        used = sum(
            fs.file_size(f"{d}/{n}") for d in ("/data/t-0", "/unflushed/t-0") if fs.is_dir(d) for n in fs.listdir(d)
        )
        fs.capacity = used + 50
        with pytest.raises(LogDirFailure) as failure:
            log.append_as_leader(batch(3), 0, NOW_MS)
        assert failure.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert not failure.value.permanent
        assert "No space left" in str(failure.value)
        assert contents(log) == before
        fs.capacity = None
        assert log.append_as_leader(batch(3), 0, NOW_MS).first_offset == 9
        assert_sound(fs, log)

    def test_a_failed_repair_stops_the_log(self) -> None:
        fs, log = filled(3)
        before = contents(log)

        def refuse(operation: str, path: str) -> None:
            if operation in ("append", "truncate"):
                raise OSError(errno.EIO, "Input/output error", path)

        fs.fault_hook = refuse
        with pytest.raises(LogDirFailure) as failure:
            log.append_as_leader(batch(), 0, NOW_MS)
        assert not failure.value.permanent  # the page cache still has all of it
        assert log.failure is not None
        fs.fault_hook = None
        with pytest.raises(LogDirFailure):
            log.append_as_leader(batch(), 0, NOW_MS)
        with pytest.raises(LogDirFailure):
            log.append_as_follower(batch(), 0)
        with pytest.raises(LogDirFailure):
            log.start_flush()
        with pytest.raises(LogDirFailure):
            contents(log)
        fs.kill()
        assert contents(open_log(fs, clean=False)) == before

    @pytest.mark.parametrize("operation", ["open", "write_atomic"])
    def test_a_segment_that_cannot_be_begun_refuses_the_batch(self, operation: str) -> None:
        fs, log = filled(1, LogConfig(segment_bytes=180))

        def refuse(what: str, path: str) -> None:
            if what == operation:
                raise OSError(errno.ENOSPC, "No space left on device", path)

        fs.fault_hook = refuse
        with pytest.raises(LogDirFailure):
            log.append_as_leader(batch(3), 0, NOW_MS)
        fs.fault_hook = None
        log.append_as_leader(batch(3), 0, NOW_MS)
        assert_sound(fs, log)

    def test_an_epoch_that_cannot_be_written_refuses_the_batch(self) -> None:
        fs, log = filled(1)

        def refuse(what: str, path: str) -> None:
            if what == "write_atomic":
                raise OSError(errno.ENOSPC, "No space left on device", path)

        fs.fault_hook = refuse
        with pytest.raises(LogDirFailure):
            log.append_as_leader(batch(3), 1, NOW_MS)
        assert log.log_end_offset == 3

    def test_a_full_disk_does_not_fail_appends_for_the_indexes_sake(self) -> None:
        fs, log = filled(0, LogConfig(index_interval_bytes=0))

        def refuse(what: str, path: str) -> None:
            if what == "append" and path.endswith("index"):
                raise OSError(errno.ENOSPC, "No space left on device", path)

        fs.fault_hook = refuse
        for n in range(200):
            log.append_as_leader(batch(timestamp=NOW_MS + n), 0, NOW_MS)
        assert len(log.segments.active.index) == 199
        fs.fault_hook = None
        assert_sound(fs, log)


def test_the_text_form_names_the_partition() -> None:
    _, log = filled(1)
    assert str(log) == "t-0"
    assert repr(log) == "Log(t-0, 0..3, flushed 0)"


@pytest.mark.parametrize("suffix", ["log", "index", "timeindex"])
def test_a_roll_that_is_refused_leaves_no_segment(suffix: str) -> None:
    """What was before it is cut off meanwhile, and a clean start would take the empty file for the end of the log."""
    fs, log = filled(4, LogConfig(segment_bytes=200))
    end = log.log_end_offset

    def refuse(what: str, path: str) -> None:
        if what == "open" and path.endswith(f"{end:020d}.{suffix}"):
            raise OSError(errno.EIO, "refused", path)

    fs.fault_hook = refuse
    with pytest.raises(LogDirFailure, match="cannot roll"):
        log.roll()
    fs.fault_hook = None
    log.truncate_to(end - 1)
    kept = log.log_end_offset
    log.close()
    fs.power_loss()  # nor does it come back
    again = open_log(fs, log.config, clean=True)
    assert (again.log_end_offset, again.log_start_offset) == (kept, 0)
    assert_sound(fs, again)


def test_a_roll_of_which_something_stays_takes_the_log_offline() -> None:
    fs, log = filled(4, LogConfig(segment_bytes=200))
    end = log.log_end_offset

    def refuse(what: str, path: str) -> None:
        if (what == "open" and path.endswith(f"{end:020d}.timeindex")) or what == "remove":
            raise OSError(errno.EIO, "refused", path)

    fs.fault_hook = refuse
    with pytest.raises(LogDirFailure):
        log.roll()
    assert log.failure is not None
    fs.fault_hook = None
    fs.kill()
    assert open_log(fs, log.config, clean=False).log_end_offset == end


def test_an_empty_segment_behind_a_hole_is_no_end_of_a_log() -> None:
    """As an earlier release left it."""
    fs, log = filled(4, LogConfig(segment_bytes=200))
    end = log.log_end_offset
    log.close()
    for suffix in ("log", "index", "timeindex"):
        fs.open_append(f"{DIR}/{end + 5:020d}.{suffix}").close()
    assert open_log(fs, log.config, clean=True).log_end_offset == end


@pytest.mark.parametrize("config", [LogConfig(segment_ms=1), LogConfig(segment_bytes=200)])
def test_segments_are_large_where_descriptors_are_scarce(config: LogConfig) -> None:
    """Each keeps a file open: 3,500 records of one user took as many, and then the broker could open nothing."""
    fs, leader = filled(10, config)
    before = len(leader.segments)
    assert before >= 5
    fs.descriptors_are_scarce = True
    copy = MemoryFileSystem()
    copy.descriptors_are_scarce = True
    follower = open_log(copy, config)
    for n in range(10, 40):
        leader.append_as_leader(batch(3, timestamp=NOW_MS + 10 * n), 0, NOW_MS)
    for each in contents(leader):
        follower.append_as_follower(memoryview(bytearray(each)), 0)
    assert (len(leader.segments), len(follower.segments)) == (before, 1)
    assert contents(follower) == contents(leader)
    fs.descriptors_are_scarce = False
    leader.append_as_leader(batch(3, timestamp=NOW_MS + 1000), 0, NOW_MS)
    assert len(leader.segments) == before + 1
    assert_sound(fs, leader)
