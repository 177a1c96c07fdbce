"""Appends of a follower: the leader's batches at the leader's offsets, or nothing."""

from __future__ import annotations

import struct

import pytest
from minikafka.log.errors import CorruptBatch, LogDirFailure, UnexpectedAppendOffset, UnsupportedMagic
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.log import Log, LogConfig
from minikafka.protocol.records import OFFSET_MAX, build_control_batch, set_crc

from tests.unit.log.build import DIR, NOW_MS, assert_sound, batch, contents, open_log, replicated


def follower(config: LogConfig | None = None) -> tuple[MemoryFileSystem, Log]:
    fs = MemoryFileSystem()
    return fs, open_log(fs, config)


def test_many_batches_are_one_write_and_bring_their_epochs() -> None:
    fs, log = follower()
    parts = [replicated(2, 0, 1), replicated(3, 2, 1), replicated(1, 5, 4)]
    writes = 0

    def count(operation: str, path: str) -> None:
        nonlocal writes
        writes += operation == "append" and path.endswith(".log")

    fs.fault_hook = count
    info = log.append_as_follower(memoryview(b"".join(parts)), 4)
    assert writes == 1
    assert (info.first_offset, info.last_offset, info.batches, info.records) == (0, 5, 3, 6)
    assert info.bytes == log.size_bytes == sum(map(len, parts))
    assert info.max_timestamp == NOW_MS + 2
    assert log.log_end_offset == 6
    assert log.epochs.entries == [(1, 0), (4, 5)]
    assert contents(log) == [bytes(part) for part in parts]


def test_a_batch_of_a_later_epoch_than_the_fetch_waits() -> None:
    """KAFKA-18723: it may belong to a leader that this follower has not reconciled with yet."""
    _, log = follower()
    info = log.append_as_follower(replicated(1, 0, 1) + replicated(1, 1, 2) + replicated(1, 2, 1), 1)
    assert (info.batches, log.log_end_offset) == (1, 1)
    info = log.append_as_follower(replicated(1, 1, 2), 1)
    assert (info.batches, info.first_offset, info.last_offset, info.bytes) == (0, 1, 0, 0)


def test_an_incomplete_last_batch_is_left_for_the_next_fetch() -> None:
    _, log = follower()
    whole, cut = replicated(2, 0, 1), replicated(2, 2, 1)
    for size in range(len(cut)):
        assert log.append_as_follower(memoryview(whole + cut[:size]), 1).bytes == len(whole)
        log.truncate_to(0)
    assert log.append_as_follower(b"", 1).batches == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("first", [0, 1, 3, 100])
def test_what_does_not_continue_the_log_is_refused(first: int) -> None:
    _, log = follower()
    log.append_as_follower(replicated(2, 0, 1), 1)
    with pytest.raises(UnexpectedAppendOffset) as refused:
        log.append_as_follower(replicated(1, first, 1), 1)
    assert (refused.value.first_offset, refused.value.log_end_offset) == (first, 2)
    assert log.log_end_offset == 2


@pytest.mark.parametrize(("policy", "first"), [("delete", 3), ("compact", 2**31 + 2)])
def test_a_gap_inside_of_a_fetch_is_refused_before_anything_is_appended(policy: str, first: int) -> None:
    """An index holds 31 bits of an offset: a wider gap broke the time index when the segment was sealed (found by fuzzing)."""
    _, log = follower(LogConfig(cleanup_policy=policy))
    with pytest.raises(UnexpectedAppendOffset) as refused:
        log.append_as_follower(replicated(2, 0, 1) + replicated(1, first, 1), 1)
    assert (refused.value.first_offset, refused.value.log_end_offset) == (first, 2)
    assert log.log_end_offset == 0
    log.append_as_follower(replicated(2, 0, 1), 1)
    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(replicated(1, first, 1), 1)
    if policy == "compact":
        assert log.append_as_follower(replicated(1, first - 1, 1), 1).last_offset == first - 1


def test_an_empty_log_does_not_begin_before_offset_0() -> None:
    """No CRC covers a base offset. The log began there, followed nobody from then on, and no broker could open it again."""
    _, log = follower()
    rotten = bytearray(replicated(11, 0, 1))
    struct.pack_into(">q", rotten, 0, -5)
    with pytest.raises(CorruptBatch, match="offset -5 after -1"):
        log.append_as_follower(rotten, 1)
    assert log.append_as_follower(replicated(1, 0, 1), 1).last_offset == 0


def test_an_empty_log_begins_where_the_leader_begins() -> None:
    fs, log = follower()
    log.append_as_follower(replicated(2, 50, 3), 3)
    assert (log.log_start_offset, log.log_end_offset) == (50, 52)
    assert f"{50:020d}.log" in fs.listdir(DIR)
    assert f"{0:020d}.log" not in fs.listdir(DIR)
    assert_sound(fs, log)


def test_an_empty_log_accepts_the_batch_that_its_start_lies_in() -> None:
    """After DeleteRecords the leader's start may lie inside a batch, which is sent whole."""
    _, log = follower()
    log.truncate_fully_and_start_at(5)
    log.append_as_follower(replicated(4, 3, 1), 1)
    assert (log.log_start_offset, log.log_end_offset, log.segments.active.base_offset) == (5, 7, 3)
    log.truncate_fully_and_start_at(9)
    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(replicated(4, 3, 1), 1)


def test_a_disk_that_refuses_the_batch_in_which_the_log_begins_leaves_no_end_below_the_start() -> None:
    """Found by the simulator (seed 2003803): the log had moved its end to the batch, and had no room for it."""
    fs, log = follower()
    log.truncate_fully_and_start_at(5)
    refusing = True

    def hook(operation: str, path: str) -> None:
        if refusing and operation == "append" and path.endswith(".log"):
            raise OSError(28, "No space left on device", path)

    fs.fault_hook = hook
    with pytest.raises(LogDirFailure):
        log.append_as_follower(replicated(4, 3, 1), 1)
    assert log.failure is None
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    refusing = False
    log.append_as_follower(replicated(4, 3, 1), 1)
    assert (log.log_start_offset, log.log_end_offset, log.segments.active.base_offset) == (5, 7, 3)
    assert_sound(fs, log)


def test_a_disk_that_refuses_even_to_begin_anew_takes_the_log_offline() -> None:
    fs, log = follower()
    log.truncate_fully_and_start_at(5)
    full = False

    def hook(operation: str, path: str) -> None:
        nonlocal full
        full |= operation == "append" and path.endswith(".log")
        if full:
            raise OSError(28, "No space left on device", path)

    fs.fault_hook = hook
    with pytest.raises(LogDirFailure):
        log.append_as_follower(replicated(4, 3, 1), 1)
    assert log.failure is not None
    fs.fault_hook = None
    fs.kill()
    opened = open_log(fs, clean=False)
    assert opened.log_start_offset <= opened.log_end_offset
    opened.append_as_follower(replicated(4, 3, 1), 1)
    assert opened.log_end_offset == 7


def test_a_compacted_topic_may_have_gaps_but_never_goes_back() -> None:
    fs, log = follower(LogConfig(cleanup_policy="compact"))
    log.append_as_follower(replicated(1, 0, 1) + replicated(1, 7, 1), 1)
    log.append_as_follower(replicated(1, 20, 2), 2)
    assert log.log_end_offset == 21
    assert log.read(3, 10**6, 21).read() == log.read(7, 10**6, 21).read()
    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(replicated(1, 20, 2), 2)
    written = contents(log)
    fs.kill()
    recovered = open_log(fs, LogConfig(cleanup_policy="compact"), clean=False)
    assert contents(recovered) == written
    assert recovered.truncate_to(10) == 11
    assert recovered.log_end_offset == 10
    assert recovered.read(9, 10**6, 10).size == 0
    assert recovered.read(9, 10**6, 9).size == 0
    recovered.append_as_leader(batch(), 3, NOW_MS)
    assert recovered.read(8, 10**6, 11).read() == recovered.read(10, 10**6, 11).read()


def damaged(position: int, form: str, value: int, fix: bool = True) -> bytearray:
    data = replicated(2, 2, 1)
    struct.pack_into(form, data, position, value)
    if fix:
        set_crc(data)
    return data


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (damaged(40, ">b", 99, fix=False), CorruptBatch),
        (damaged(16, ">b", 1), UnsupportedMagic),
        (damaged(8, ">i", 3), CorruptBatch),
        (damaged(8, ">i", -70), CorruptBatch),
        (damaged(23, ">i", -1), CorruptBatch),
        (damaged(0, ">q", 1), CorruptBatch),
    ],
)
def test_damaged_batches_are_refused_and_nothing_is_appended(data: bytearray, error: type[Exception]) -> None:
    _, log = follower()
    with pytest.raises(error):
        log.append_as_follower(replicated(2, 0, 1) + data + replicated(2, 4, 1), 1)
    assert log.log_end_offset == 0
    assert log.size_bytes == 0


def test_a_batch_beyond_all_that_a_log_may_reach_is_damaged() -> None:
    """An empty log begins where its leader begins; nothing could follow this one."""
    _, log = follower()
    with pytest.raises(CorruptBatch, match="beyond all that a log may reach"):
        log.append_as_follower(replicated(2, OFFSET_MAX, 1), 1)
    assert log.log_end_offset == 0


def test_a_fetch_larger_than_a_segment_is_spread_over_several() -> None:
    config = LogConfig(segment_bytes=400)
    fs, log = follower(config)
    parts = [replicated(2, 2 * n, 1, timestamp=NOW_MS + n) for n in range(20)]
    big = replicated(1, 40, 1, size=900)
    log.append_as_follower(b"".join([*parts, big, replicated(1, 41, 1)]), 1)  # type: ignore[arg-type]
    assert len(log.segments) > 5
    assert log.log_end_offset == 42
    assert_sound(fs, log)


def test_a_batch_larger_than_a_segment_gets_one_of_its_own() -> None:
    """The leader accepted it under another segment.bytes; refusing it would stop replication for ever."""
    fs, log = follower(LogConfig(segment_bytes=300))
    log.append_as_follower(replicated(1, 0, 1, size=900) + replicated(1, 1, 1, size=900), 1)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert_sound(fs, log)


def test_producer_state_is_replicated() -> None:
    _, leader = follower()
    for n in range(7):
        leader.append_as_leader(batch(2, producer=3, sequence=2 * n), 1, NOW_MS)
    leader.append_as_leader(batch(1, producer=4, sequence=0, transactional=True), 1, NOW_MS)
    _, log = follower()
    log.append_as_follower(memoryview(leader.read(0, 10**6, 15).read()), 1)
    duplicate = log.append_as_leader(batch(2, producer=3, sequence=10), 2, NOW_MS)
    assert duplicate.duplicate
    assert (duplicate.first_offset, duplicate.last_offset) == (10, 11)
    assert log.producers.first_unstable_offset == 14
    marker = build_control_batch(commit=True, producer_id=4, producer_epoch=0, timestamp_ms=NOW_MS, coordinator_epoch=8)
    leader.append_as_leader(marker, 1, NOW_MS, internal=True)
    log.append_as_follower(memoryview(leader.read(15, 10**6, 16).read()), 1)
    assert log.producers.first_unstable_offset is None
    state = log.producers.get(4)
    assert state is not None
    assert state.coordinator_epoch == 8


def test_a_full_disk_leaves_no_torn_batch() -> None:
    fs, log = follower()
    log.append_as_follower(replicated(2, 0, 1), 1)
    fs.capacity = fs.used() + 150
    with pytest.raises(LogDirFailure):
        log.append_as_follower(replicated(2, 2, 1) + replicated(2, 4, 1), 1)
    assert log.log_end_offset == 2
    fs.capacity = None
    log.append_as_follower(replicated(2, 2, 1) + replicated(2, 4, 1), 1)
    assert_sound(fs, log)


def test_an_epoch_that_cannot_be_written_refuses_the_batches() -> None:
    fs, log = follower()
    log.append_as_follower(replicated(2, 0, 1), 1)

    def hook(operation: str, path: str) -> None:
        if operation == "write_atomic":
            raise OSError(28, "No space left on device", path)

    fs.fault_hook = hook
    with pytest.raises(LogDirFailure):
        log.append_as_follower(replicated(2, 2, 1) + replicated(2, 4, 2), 2)
    assert log.log_end_offset == 2
    fs.fault_hook = None
    log.append_as_follower(replicated(2, 2, 1) + replicated(2, 4, 2), 2)
    assert log.epochs.entries == [(1, 0), (2, 4)]
    assert_sound(fs, log)


def test_an_epoch_assigned_without_a_record_gives_way_to_the_leaders() -> None:
    _, log = follower()
    log.append_as_follower(replicated(2, 0, 1) + replicated(2, 2, 3), 3)
    log.assign_epoch(5, 4)
    log.append_as_follower(replicated(2, 4, 3), 6)
    assert log.epochs.entries == [(1, 0), (3, 2)]


def test_epochs_of_a_fetch_that_could_not_be_written_fit_it_the_next_time() -> None:
    fs, log = follower()
    log.append_as_follower(replicated(2, 0, 1), 1)
    fetched = replicated(2, 2, 1) + replicated(2, 4, 2)

    def hook(operation: str, path: str) -> None:
        if operation == "append":
            raise OSError(28, "No space left on device", path)

    fs.fault_hook = hook
    with pytest.raises(LogDirFailure):
        log.append_as_follower(fetched, 2)
    assert log.log_end_offset == 2
    fs.fault_hook = None
    log.append_as_follower(fetched, 2)
    assert log.epochs.entries == [(1, 0), (2, 4)]
    assert_sound(fs, log)


def test_a_leader_and_its_follower_hold_the_same_bytes() -> None:
    _, leader = follower(LogConfig(segment_bytes=700))
    for n in range(40):
        leader.append_as_leader(batch(n % 4 + 1, timestamp=NOW_MS + n), n // 10, NOW_MS)
    fs, log = follower(LogConfig(segment_bytes=1000))
    while log.log_end_offset < leader.log_end_offset:
        found = leader.read(log.log_end_offset, 333, leader.log_end_offset)
        log.append_as_follower(memoryview(found.read()), 9)
    assert contents(log) == contents(leader)
    assert log.epochs.entries == leader.epochs.entries
    assert_sound(fs, log)
