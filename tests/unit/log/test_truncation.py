"""Cutting the end of a log: data, indexes, epochs and producer state go back together."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest
from minikafka.log.errors import LogDirFailure
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.log import LogConfig
from minikafka.protocol.records import read_header

from tests.unit.log.build import DIR, NOW_MS, assert_sound, batch, contents, filled, open_log

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=0)


@pytest.mark.slow
@pytest.mark.parametrize("unflushed", [False, True])
@pytest.mark.parametrize("flushed", [False, True])
def test_truncation_to_every_offset(unflushed: bool, flushed: bool) -> None:
    for offset in range(31):
        fs, log = filled(10, SMALL, unflushed=unflushed)
        log.append_as_leader(batch(1, producer=9, sequence=0), 1, NOW_MS)
        everything = contents(log)
        if flushed:
            log.flush()
        removed = log.truncate_to(offset)
        end = 31 if offset == 31 else (30 if offset == 30 else offset - offset % 3)
        assert log.log_end_offset == end
        assert removed == 31 - end
        assert contents(log) == [each for each in everything if read_header(each).last_offset < end]
        assert log.flushed_offset <= end
        assert log.size_bytes == sum(segment.size for segment in log.segments)
        assert len(log.producers) == 0
        assert log.epochs.entries == ([(0, 0)] if end else [])
        assert log.append_as_leader(batch(2, timestamp=NOW_MS + 50), 2, NOW_MS).first_offset == end
        assert_sound(fs, log)
        fs.kill()
        again = open_log(fs, SMALL, clean=False, unflushed=unflushed)
        assert again.log_end_offset == end + 2


def test_truncation_at_or_beyond_the_end_only_forgets_an_epoch_without_records() -> None:
    """An epoch may have been assigned with no record in it."""
    for offset in (9, 50):
        _, log = filled(3)
        log.assign_epoch(4, 9)
        assert log.truncate_to(offset) == 0
        assert log.log_end_offset == 9
        assert log.epochs.entries == [(0, 0)]


def test_truncation_below_the_first_segment_begins_anew_there() -> None:
    fs, log = filled(3)
    log.truncate_fully_and_start_at(20)
    assert (log.log_start_offset, log.log_end_offset, log.flushed_offset, log.size_bytes) == (20, 20, 20, 0)
    assert log.epochs.entries == []
    log.append_as_leader(batch(5), 3, NOW_MS)
    assert log.truncate_to(10) == 15
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert [name for name in fs.listdir(DIR) if name.endswith(".log")] == [f"{10:020d}.log"]


def test_the_start_never_lies_beyond_the_end() -> None:
    _, log = filled(3)
    log.increment_log_start_offset(7)
    log.truncate_to(3)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)


def test_producer_state_goes_back_to_what_the_log_holds() -> None:
    _, log = filled(0, SMALL)
    for n in range(20):
        log.append_as_leader(batch(1, size=60, producer=5, sequence=n), 0, NOW_MS)
    log.truncate_to(13)
    state = log.producers.get(5)
    assert state is not None
    assert state.last_sequence == 12
    assert log.append_as_leader(batch(1, producer=5, sequence=13), 1, NOW_MS).first_offset == 13
    assert log.append_as_leader(batch(1, producer=5, sequence=13), 1, NOW_MS).duplicate


def test_lowering_the_recovery_point_is_announced() -> None:
    """A higher one on disk would make the next recovery trust what was never flushed."""
    calls: list[int] = []
    checkpoints: Any = SimpleNamespace(
        lower_recovery_point=lambda _, offset: calls.append(offset), log_start_moved=lambda _: None
    )
    _, log = filled(4, checkpoints=checkpoints)
    log.flush()
    log.truncate_to(12)
    assert calls == []
    log.truncate_to(6)
    assert calls == [6]
    log.truncate_fully_and_start_at(0)
    assert calls == [6, 0]


@pytest.mark.parametrize("unflushed", [False, True])
def test_a_flush_under_way_is_settled_first(unflushed: bool) -> None:
    fs, log = filled(4, unflushed=unflushed)
    never_run = log.start_flush()
    log.truncate_to(6)
    never_run.run()
    assert not never_run.done
    log.complete_flush(never_run)
    assert log.flushed_offset == 0
    was_run = log.start_flush()
    was_run.run()
    log.truncate_to(3)
    log.complete_flush(was_run)
    assert log.flushed_offset == 3
    log.append_as_leader(batch(2), 0, NOW_MS)
    assert log.flushed_offset == 3
    assert_sound(fs, log)


@pytest.mark.parametrize("operation", ["truncate", "remove", "fsync"])
def test_a_disk_that_refuses_is_a_typed_error(operation: str) -> None:
    fs, log = filled(10, SMALL)

    def refuse(what: str, path: str) -> None:
        if what == operation:
            raise OSError(errno.EIO, "Input/output error", path)

    fs.fault_hook = refuse
    with pytest.raises(LogDirFailure):
        log.truncate_to(4)


def test_beginning_anew_on_a_refusing_disk_is_a_typed_error() -> None:
    fs, log = filled(3)

    def refuse(what: str, path: str) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    fs.fault_hook = refuse
    with pytest.raises(LogDirFailure) as failure:
        log.truncate_fully_and_start_at(5)
    assert failure.value.topic_partition == log.topic_partition
    assert log.failure is not None


def test_a_power_loss_does_not_undo_a_truncation() -> None:
    """Else it could leave a mixture of old and new batches that looks whole."""
    fs, log = filled(6, SMALL)
    log.flush()
    log.truncate_to(6)
    replacement = batch(3, fill=b"n")
    log.append_as_leader(replacement, 1, NOW_MS)
    fs.power_loss()
    recovered = open_log(fs, SMALL, clean=False)
    assert recovered.log_end_offset == 6
    assert recovered.epochs.entries == [(0, 0)]


def test_a_power_loss_brings_no_later_segment_snapshot_or_epoch_back() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, SMALL)
    for n in range(12):
        log.append_as_leader(batch(3, producer=5, sequence=3 * n), n // 4, NOW_MS)
    log.flush()
    log.truncate_to(9)
    fs.power_loss()
    assert not [name for name in fs.listdir(DIR) if name[:20].isdigit() and int(name[:20]) > 9]
    assert fs.read_bytes(f"{DIR}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"


def test_a_snapshot_of_what_was_cut_is_not_used_later() -> None:
    """The offsets are the same, the records are not."""
    fs = MemoryFileSystem()
    log = open_log(fs)
    log.append_as_leader(batch(2, producer=5, sequence=0), 0, NOW_MS)
    log.close()
    log = open_log(fs, recovery_point=2)
    log.truncate_to(0)
    log.append_as_leader(batch(1, producer=5, sequence=0), 0, NOW_MS)
    log.append_as_leader(batch(2, producer=5, sequence=1), 0, NOW_MS)
    for crash in (fs.kill, fs.power_loss):
        log.flush()
        crash()
        log = open_log(fs, clean=False)
        state = log.producers.get(5)
        assert state is not None
        assert state.last_sequence == 2
