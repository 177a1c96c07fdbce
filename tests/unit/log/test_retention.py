"""What goes at the old end: by time, by size, by the log start offset; never at or above the high watermark."""

from __future__ import annotations

import errno
import random

import pytest
from minikafka.log.errors import LogDirFailure, OffsetOutOfRange
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.log import Log, LogConfig

from tests.unit.log.build import DIR, NOW_MS, TAILS, assert_sound, batch, filled, open_log
from tests.unit.log.managed import ID_A, A, open_manager

DAY_MS = 24 * 3600 * 1000


def segments_of_three(config: LogConfig, *, unflushed: bool = False) -> tuple[MemoryFileSystem, Log]:
    """Ten batches of three records, one segment each; record times one second apart."""
    config.segment_bytes = 200
    fs = MemoryFileSystem()
    log = open_log(fs, config, unflushed=unflushed)
    for n in range(10):
        log.append_as_leader(batch(3, timestamp=NOW_MS + 1000 * n), n // 3, NOW_MS + 1000 * n)
    assert len(log.segments) == 10
    return fs, log


def test_by_age_of_the_newest_record() -> None:
    fs, log = segments_of_three(LogConfig(retention_ms=5000))
    assert log.delete_old_segments(NOW_MS + 5002, 30) == 0
    assert log.delete_old_segments(NOW_MS + 8003, 30) == 4
    assert (log.log_start_offset, len(log.segments)) == (12, 6)
    assert log.size_bytes == sum(segment.size for segment in log.segments)
    assert log.epochs.entries[0] == (1, 12)
    assert not [name for name in fs.listdir(DIR) if "." in name and name[:20].isdigit() and int(name[:20]) < 12]
    assert_sound(fs, log)


def test_everything_may_go_but_the_end_offset_stays() -> None:
    fs, log = segments_of_three(LogConfig(retention_ms=5000))
    assert log.delete_old_segments(NOW_MS + DAY_MS, 30) == 10
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (30, 30, 0)
    assert log.delete_old_segments(NOW_MS + DAY_MS, 30) == 0
    assert log.flushed_offset == 30
    fs.kill()
    again = open_log(fs, log.config, clean=False)
    assert (again.log_start_offset, again.log_end_offset) == (30, 30)


def test_nothing_at_or_above_the_high_watermark() -> None:
    _, log = segments_of_three(LogConfig(retention_ms=5000))
    assert log.delete_old_segments(NOW_MS + DAY_MS, 8) == 2
    assert log.log_start_offset == 6
    assert log.delete_old_segments(NOW_MS + DAY_MS, 8) == 0


def test_by_size_without_falling_below_the_limit() -> None:
    _, log = segments_of_three(LogConfig(retention_ms=-1, retention_bytes=500))
    size = log.segments[0].size
    log.delete_old_segments(NOW_MS, 30)
    assert log.size_bytes >= 500
    assert log.size_bytes - size < 500


def test_without_limits_nothing_goes() -> None:
    _, log = segments_of_three(LogConfig(retention_ms=-1))
    assert log.delete_old_segments(NOW_MS + 10 * DAY_MS, 30) == 0


def test_compacted_topics_keep_their_records() -> None:
    _, log = segments_of_three(LogConfig(retention_ms=1, cleanup_policy="compact"))
    assert log.delete_old_segments(NOW_MS + DAY_MS, 30) == 0
    log.increment_log_start_offset(7)
    assert log.delete_old_segments(NOW_MS + DAY_MS, 30) == 2


def test_below_the_log_start_offset() -> None:
    """DeleteRecords hides at once; the bytes go with the segments that lie below it as a whole."""
    fs, log = segments_of_three(LogConfig(retention_ms=-1), unflushed=True)
    assert log.increment_log_start_offset(8)
    assert not log.increment_log_start_offset(8)
    assert not log.increment_log_start_offset(2)
    assert log.delete_old_segments(NOW_MS, 30) == 2
    assert (log.log_start_offset, log.segments[0].base_offset) == (8, 6)
    assert len(fs.listdir(TAILS)) == 8
    with pytest.raises(OffsetOutOfRange):
        log.increment_log_start_offset(31)
    log.increment_log_start_offset(30)
    assert log.delete_old_segments(NOW_MS, 30) == 7
    assert [segment.base_offset for segment in log.segments] == [27]


def test_records_without_timestamps_age_by_their_file() -> None:
    fs = MemoryFileSystem()
    fs.now_ms = NOW_MS
    log = open_log(fs, LogConfig(retention_ms=5000))
    log.append_as_leader(batch(timestamp=-1), 0, NOW_MS)
    assert log.delete_old_segments(NOW_MS + 5000, 1) == 0
    assert log.delete_old_segments(NOW_MS + 5001, 1) == 1


def test_a_flush_under_way_is_settled_first() -> None:
    _, log = segments_of_three(LogConfig(retention_ms=5000), unflushed=True)
    job = log.start_flush()
    log.delete_old_segments(NOW_MS + 8003, 30)
    job.run()
    log.complete_flush(job)
    log.flush()
    assert log.flushed_offset == 30


def test_a_power_loss_brings_no_segment_back() -> None:
    fs, log = segments_of_three(LogConfig(retention_ms=5000))
    log.flush()
    log.delete_old_segments(NOW_MS + 8003, 30)
    fs.power_loss()
    assert open_log(fs, log.config, clean=False, recovery_point=30).log_start_offset == 12


def test_a_disk_that_refuses_is_a_typed_error() -> None:
    fs, log = segments_of_three(LogConfig(retention_ms=5000))

    def hook(operation: str, path: str) -> None:
        if operation in ("remove", "write_atomic"):
            raise OSError(errno.EIO, "Input/output error", path)

    fs.fault_hook = hook
    with pytest.raises(LogDirFailure):
        log.delete_old_segments(NOW_MS + DAY_MS, 30)
    with pytest.raises(LogDirFailure):
        log.increment_log_start_offset(20)
    assert filled(1)[1].delete_old_segments(NOW_MS, 0) == 0


def test_a_process_that_dies_while_it_deletes_loses_nothing_else() -> None:
    """Found by crash states: a data file that was left without its tails ended the log, and all behind it was dropped."""
    for refused in range(20):
        fs, log = segments_of_three(LogConfig(retention_ms=5000), unflushed=True)
        removed = 0

        def die(operation: str, path: str, refused: int = refused) -> None:
            nonlocal removed
            if operation == "remove":
                removed += 1
                if removed > refused:
                    raise OSError(errno.EIO, "Input/output error", path)

        fs.fault_hook = die
        with pytest.raises(LogDirFailure):
            log.delete_old_segments(NOW_MS + DAY_MS, 27)
        fs.fault_hook = None
        fs.kill()
        again = open_log(fs, log.config, clean=False, unflushed=True)
        assert again.log_end_offset == 30, refused


def test_segments_that_a_power_loss_brings_back_are_no_hole_in_the_log() -> None:
    """Found by crash states: of several deleted segments the later may be gone and the earlier back, until the folder is
    fsynced."""
    config = LogConfig(segment_bytes=200, retention_ms=5000)
    for seed in range(20):
        fs = MemoryFileSystem()
        log = open_manager(fs, config=config).create(A, ID_A)
        for n in range(10):
            log.append_as_leader(batch(3, timestamp=NOW_MS + 1000 * n), 0, NOW_MS + 1000 * n)
        log.flush()

        def refuse(operation: str, path: str, directory: str = log.directory) -> None:
            if (operation, path) == ("fsync_dir", directory):
                raise OSError(errno.EIO, "Input/output error", path)

        fs.fault_hook = refuse
        with pytest.raises(LogDirFailure):
            log.delete_old_segments(NOW_MS + 10_003, 30)
        fs.fault_hook = None
        fs.crash(random.Random(seed))
        again = open_manager(fs, config=config).logs[A]
        assert (again.log_start_offset, again.log_end_offset) == (18, 30), seed


def test_a_power_loss_while_it_deletes_does_not_take_what_is_left() -> None:
    """Found by crash states: the name of the next segment was not durable yet, and the log began anew at 0."""
    fs, log = segments_of_three(LogConfig(retention_ms=5000))
    done: list[tuple[str, str]] = []
    fs.fault_hook = lambda operation, path: done.append((operation, path))
    assert log.delete_old_segments(NOW_MS + DAY_MS, 30) == 10
    removed = [n for n, (operation, _) in enumerate(done) if operation == "remove"]
    assert ("fsync_dir", DIR) in done[: removed[0]]
    assert ("fsync_dir", DIR) in done[removed[-1] :]
