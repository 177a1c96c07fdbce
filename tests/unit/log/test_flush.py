"""Flushing: what is reported as flushed survives; after a failed fsync nothing is reported any more."""

from __future__ import annotations

import errno
import threading

import pytest
from minikafka.log.errors import LogDirFailure
from minikafka.log.filesystem import MemoryFileSystem, RealFileSystem
from minikafka.log.log import Log, LogConfig
from minikafka.log.unflushed import parse_tail_name, restore_tails

from tests.unit.log.build import (
    DIR,
    NOW_MS,
    TAILS,
    TP,
    UNFLUSHED,
    assert_sound,
    batch,
    contents,
    filled,
    open_log,
)

SMALL = LogConfig(segment_bytes=400)


def refuse_fsync(fs: MemoryFileSystem, suffix: str = "") -> None:
    def hook(operation: str, path: str) -> None:
        if operation == "fsync" and path.endswith(suffix):
            raise OSError(errno.EIO, "Input/output error", path)

    fs.fault_hook = hook


class TestSteps:
    def test_records_appended_during_a_flush_are_not_reported(self) -> None:
        _, log = filled(3)
        job = log.start_flush()
        log.append_as_leader(batch(2), 0, NOW_MS)
        assert log.start_flush() is job
        job.run()
        assert log.flushed_offset == 0
        log.complete_flush(job)
        assert log.flushed_offset == 9
        log.flush()
        assert log.flushed_offset == 11

    def test_run_takes_the_time_once(self) -> None:
        _, log = filled(3)
        ticks = iter([5.0, 7.5, 100.0, 200.0])
        job = log.start_flush()
        job.run(lambda: next(ticks))
        job.run(lambda: next(ticks))
        assert log.complete_flush(job) == 2.5
        assert log.complete_flush(job) == 2.5

    def test_flush_completes_one_that_is_under_way(self) -> None:
        _, log = filled(3)
        log.start_flush()
        log.append_as_leader(batch(2), 0, NOW_MS)
        log.flush()
        assert log.flushed_offset == 11

    def test_a_flush_of_nothing_touches_no_file(self) -> None:
        fs, log = filled(3)
        log.flush()
        before = fs.fsyncs
        log.flush()
        assert fs.fsyncs == before

    def test_all_completed_segments_are_flushed(self) -> None:
        fs, log = filled(12, SMALL)
        log.flush()
        fs.power_loss()
        recovered = open_log(fs, SMALL, clean=False, recovery_point=36)
        assert recovered.log_end_offset == 36
        assert recovered.recovery.segments_recovered == 1
        assert recovered.epochs.entries == [(0, 0)]
        assert_sound(fs, recovered)


class TestNeedsFlush:
    def test_by_messages(self) -> None:
        _, log = filled(0, LogConfig(flush_interval_messages=5))
        assert not log.needs_flush(0.0)
        log.append_as_leader(batch(4), 0, NOW_MS)
        assert not log.needs_flush(0.0)
        log.append_as_leader(batch(1), 0, NOW_MS)
        assert log.needs_flush(0.0)
        log.flush()
        assert not log.needs_flush(0.0)

    def test_by_time(self) -> None:
        _, log = filled(1, LogConfig(flush_interval_ms=1000))
        assert not log.needs_flush(10.0)
        assert not log.needs_flush(10.9)
        assert log.needs_flush(11.0)

    def test_by_a_completed_segment(self) -> None:
        """It bounds how much the next recovery has to read."""
        _, log = filled(4, SMALL)
        assert log.needs_flush(0.0)

    def test_never_by_default(self) -> None:
        _, log = filled(4)
        assert not log.needs_flush(0.0)
        assert not log.needs_flush(10.0**6)


class TestFailedFsync:
    """The kernel forgets pages that it could not write: a later fsync that succeeds proves nothing ("fsyncgate")."""

    @pytest.mark.parametrize("unflushed", [False, True])
    def test_data_is_never_reported_as_flushed_again(self, unflushed: bool) -> None:
        fs, log = filled(3, unflushed=unflushed)
        refuse_fsync(fs)
        with pytest.raises(LogDirFailure) as failure:
            log.flush()
        assert failure.value.permanent
        fs.fault_hook = None
        for operation in (log.flush, log.start_flush, lambda: log.append_as_leader(batch(), 0, NOW_MS)):
            with pytest.raises(LogDirFailure):
                operation()
        assert log.flushed_offset == 0
        with pytest.raises(LogDirFailure):
            log.close()
        fs.power_loss()
        fs.rmtree(UNFLUSHED)
        assert open_log(fs, clean=False, unflushed=unflushed).log_end_offset == 0

    @pytest.mark.parametrize("unflushed", [False, True])
    @pytest.mark.parametrize("suffix", [".log", "leader-epoch-checkpoint", ".timeindex"])
    def test_the_next_process_writes_again_what_it_reads(self, suffix: str, unflushed: bool) -> None:
        """Its fsync would succeed, for the kernel takes those pages for written (simulated schedules 102010 and 102948)."""
        fs, log = filled(12, SMALL, unflushed=unflushed)
        refuse_fsync(fs, suffix)
        with pytest.raises(LogDirFailure):
            log.flush()
        fs.fault_hook = None
        fs.kill()
        found = open_log(fs, SMALL, clean=False, recovery_point=log.recovery_point, unflushed=unflushed)
        assert (found.log_end_offset, found.flushed_offset) == (log.log_end_offset, log.log_end_offset)
        assert any("fsync had failed" in note for note in found.recovery.notes)
        before = contents(found)
        fs.power_loss()
        after = open_log(fs, SMALL, clean=False, recovery_point=found.recovery_point, unflushed=unflushed)
        assert contents(after) == before
        assert after.epochs.entries == found.epochs.entries
        assert not any("fsync" in note for note in after.recovery.notes), "it is done"

    @pytest.mark.parametrize("unflushed", [False, True])
    def test_one_in_the_middle_of_recovery_counts_too(self, unflushed: bool) -> None:
        """Found by an attack: the next opening was told that all is well, and trusted what it read."""
        fs, log = filled(3, unflushed=unflushed)
        if not unflushed:
            fs.open_append(f"{DIR}/{0:020d}.log").append(b"x" * 40)  # to be cut off, durably
        fs.kill()
        refuse_fsync(fs, ".log")
        with pytest.raises(LogDirFailure) as failure:
            open_log(fs, clean=False, unflushed=unflushed)
        assert failure.value.permanent
        fs.fault_hook = None
        fs.kill()
        found = open_log(fs, clean=False, unflushed=unflushed)
        assert found.flushed_offset == log.log_end_offset
        fs.power_loss()
        again = open_log(fs, clean=False, recovery_point=found.recovery_point, unflushed=unflushed)
        assert again.log_end_offset == log.log_end_offset and not again.recovery.lost

    def test_a_disk_without_room_is_no_obstacle(self) -> None:
        """When the disk was full, that may be why the fsync failed: what is there is written again where it is."""
        fs, log = filled(50)
        refuse_fsync(fs, ".log")
        with pytest.raises(LogDirFailure):
            log.flush()
        fs.fault_hook, fs.capacity = None, fs.used() + 2000
        fs.kill()
        found = open_log(fs, clean=False)
        fs.power_loss()
        assert open_log(fs, clean=False, recovery_point=found.recovery_point).log_end_offset == log.log_end_offset

    def test_a_disk_that_takes_no_file_either(self) -> None:
        """Then nothing is noted; the log is as offline as it was."""
        fs, log = filled(3)

        def hook(operation: str, path: str) -> None:
            if operation in ("fsync", "write_atomic"):
                raise OSError(errno.EIO, "Input/output error", path)

        fs.fault_hook = hook
        with pytest.raises(LogDirFailure) as failure:
            log.flush()
        assert failure.value.permanent

    def test_an_epoch_checkpoint_that_cannot_be_fsynced_counts_too(self) -> None:
        fs, log = filled(3)
        refuse_fsync(fs, "leader-epoch-checkpoint")
        with pytest.raises(LogDirFailure):
            log.flush()
        assert log.flushed_offset == 0

    def test_a_truncation_learns_of_the_failure(self) -> None:
        fs, log = filled(3)
        job = log.start_flush()
        refuse_fsync(fs)
        job.run()
        fs.fault_hook = None
        with pytest.raises(LogDirFailure):
            log.truncate_to(3)
        assert log.complete_flush(job) == 0.0
        assert log.failure is not None

    def test_the_simulated_disk_forgets_as_the_kernel_does(self) -> None:
        fs = MemoryFileSystem()
        file = fs.open_append("/x")
        file.append(b"abcd")
        refuse_fsync(fs)
        with pytest.raises(OSError, match="Input/output"):
            file.fsync()
        fs.fault_hook = None
        file.append(b"ef")
        file.fsync()
        fs.fsync_dir("/")
        assert fs.read_bytes("/x") == b"abcdef"
        fs.power_loss()
        assert fs.read_bytes("/x") == b"\0\0\0\0ef"

    def test_what_is_cut_and_written_again_is_written(self) -> None:
        fs = MemoryFileSystem()
        file = fs.open_append("/x")
        file.append(b"abcd")
        refuse_fsync(fs)
        with pytest.raises(OSError, match="Input/output"):
            file.fsync()
        fs.fault_hook = None
        file.truncate(2)
        file.append(b"CD")
        file.fsync()
        fs.fsync_dir("/")
        fs.power_loss()
        assert fs.read_bytes("/x") == b"\0\0CD"


class TestUnflushedVolume:
    def test_appends_go_to_a_tail_file_and_reads_span_both(self) -> None:
        fs, log = filled(3, unflushed=True)
        assert fs.file_size(f"{DIR}/{0:020d}.log") == 0
        assert [parse_tail_name(name) for name in fs.listdir(TAILS)] == [(0, 0)]
        log.flush()
        flushed = log.size_bytes
        assert fs.file_size(f"{DIR}/{0:020d}.log") == flushed
        assert fs.listdir(TAILS) == []
        log.append_as_leader(batch(3), 0, NOW_MS)
        assert [parse_tail_name(name) for name in fs.listdir(TAILS)] == [(0, flushed)]
        found = log.read(0, 10**6, 12)
        assert [part.length for part in found.ranges] == [flushed, log.size_bytes - flushed]
        job = log.start_flush()
        log.append_as_leader(batch(3), 0, NOW_MS)
        assert len(log.read(0, 10**6, 15).ranges) == 3
        job.run()
        wanted = log.read(0, 10**6, 15).read()
        log.complete_flush(job)
        assert len(log.read(0, 10**6, 15).ranges) == 2
        assert log.read(0, 10**6, 15).read() == wanted
        assert found.read() == wanted[: found.size]
        with pytest.raises(OSError, match="no single descriptor"):
            log.segments.active.data.fileno()

    def test_an_emptied_volume_is_told(self) -> None:
        fs, log = filled(5, SMALL, unflushed=True)
        log.flush()
        log.append_as_leader(batch(3, timestamp=NOW_MS), 1, NOW_MS)
        fs.kill()
        fs.rmtree(TAILS)
        again = open_log(fs, SMALL, clean=False, recovery_point=15, unflushed=True)
        assert (again.recovery.unflushed_lost, again.log_end_offset) == (True, 15)
        fs.kill()
        assert not open_log(fs, SMALL, clean=False, recovery_point=15, unflushed=True).recovery.unflushed_lost
        assert not filled(1, SMALL, unflushed=True)[1].recovery.unflushed_lost, "a new log has lost nothing"

    def test_a_dead_process_loses_nothing(self) -> None:
        fs, log = filled(5, SMALL, unflushed=True)
        log.flush()
        for n in range(5):
            log.append_as_leader(batch(3, timestamp=NOW_MS + n), 1, NOW_MS)
        wanted = contents(log)
        fs.kill()
        again = open_log(fs, SMALL, clean=False, recovery_point=15, unflushed=True)
        assert contents(again) == wanted
        assert again.recovery.restored_bytes > 0
        assert not again.recovery.unflushed_lost
        assert again.flushed_offset == 30
        assert fs.listdir(TAILS) == []
        assert_sound(fs, again)

    def test_a_wiped_volume_loses_exactly_what_was_not_flushed(self) -> None:
        for flushed_batches in range(12):
            fs = MemoryFileSystem()
            log = open_log(fs, SMALL, unflushed=True)
            for n in range(12):
                if n == flushed_batches:
                    log.flush()
                log.append_as_leader(batch(3, timestamp=NOW_MS + n), n, NOW_MS)
            wanted = contents(log)[:flushed_batches]
            fs.kill()
            fs.rmtree(UNFLUSHED)
            again = open_log(fs, SMALL, clean=False, recovery_point=0, unflushed=True)
            assert contents(again) == wanted
            assert again.log_end_offset == 3 * flushed_batches
            assert again.epochs.latest == flushed_batches - 1
            assert_sound(fs, again)

    def test_a_crash_at_every_byte_of_the_copy_loses_nothing(self) -> None:
        fs, log = filled(3, unflushed=True)
        log.flush()
        start = log.size_bytes
        log.append_as_leader(batch(3), 0, NOW_MS)
        wanted = contents(log)
        (tail_name,) = fs.listdir(TAILS)
        tail = fs.read_bytes(f"{TAILS}/{tail_name}")
        fs.kill()
        for copied in range(len(tail) + 1):
            data = fs.open_append(f"{DIR}/{0:020d}.log")
            data.truncate(start)
            data.append(tail[:copied])
            fs.write_atomic(f"{TAILS}/{tail_name}", tail)
            again = open_log(fs, clean=False, unflushed=True, recovery_point=9)
            assert contents(again) == wanted, copied
            assert again.recovery.restored_bytes == len(tail) - copied
            fs.kill()

    def test_what_is_restored_is_durable_before_its_tail_is_removed(self) -> None:
        fs, log = filled(3, unflushed=True)
        fs.fsync_dir(DIR)
        size = log.size_bytes
        fs.kill()
        assert restore_tails(fs, TAILS, DIR) == size
        assert fs.listdir(TAILS) == []
        fs.power_loss()
        assert fs.file_size(f"{DIR}/{0:020d}.log") == size

    def test_a_full_data_volume_stops_the_flush_and_loses_nothing(self) -> None:
        fs, log = filled(3, unflushed=True)
        wanted = contents(log)
        fs.capacity = fs.used() + 40
        with pytest.raises(LogDirFailure):
            log.flush()
        assert log.flushed_offset == 0
        fs.kill()
        fs.capacity = None
        assert contents(open_log(fs, clean=False, unflushed=True)) == wanted

    def test_half_a_copy_is_cut_off_before_the_next(self) -> None:
        fs, log = filled(3, unflushed=True)
        unflushed = log.segments.active.unflushed
        assert unflushed is not None
        tails = unflushed.begin_flush()
        refuse_fsync(fs)
        with pytest.raises(OSError, match="Input/output"):
            unflushed.copy(tails)
        fs.fault_hook = None
        unflushed.copy(tails)
        unflushed.finish_flush(tails)
        assert fs.file_size(f"{DIR}/{0:020d}.log") == log.size_bytes
        assert log.read(0, 10**6, 9).read() == fs.read_bytes(f"{DIR}/{0:020d}.log")

    def test_a_tail_that_cannot_be_removed_stops_the_log(self) -> None:
        """Left behind, it would be copied over newer records after a truncation."""
        fs, log = filled(3, unflushed=True)

        def hook(operation: str, path: str) -> None:
            if operation == "remove":
                raise OSError(errno.EIO, "Input/output error", path)

        fs.fault_hook = hook
        with pytest.raises(LogDirFailure) as failure:
            log.flush()
        assert failure.value.permanent

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            (f"{0:020d}.log.100000", b"beyond the data file"),
            (f"{0:020d}.log.0", b"copied already"),
            (f"{77:020d}.log.0", b"of a segment that is gone"),
        ],
    )
    def test_stale_tails_are_dropped(self, name: str, content: bytes) -> None:
        fs, log = filled(3, unflushed=True)
        log.flush()
        wanted = contents(log)
        fs.kill()
        fs.write_atomic(f"{TAILS}/{name}", content)
        again = open_log(fs, clean=False, unflushed=True, recovery_point=9)
        assert contents(again) == wanted
        assert fs.listdir(TAILS) == []

    def test_a_tail_that_contradicts_the_data_file_is_dropped(self) -> None:
        fs, log = filled(3, unflushed=True)
        log.flush()
        wanted = contents(log)
        fs.kill()
        fs.write_atomic(f"{TAILS}/{0:020d}.log.{log.size_bytes - 10}", b"x" * 500)
        again = open_log(fs, clean=False, unflushed=True, recovery_point=9)
        assert contents(again) == wanted

    def test_foreign_files_are_refused(self) -> None:
        fs, log = filled(3, unflushed=True)
        log.close()
        fs.write_atomic(f"{TAILS}/readme", b"mine")
        with pytest.raises(LogDirFailure.__mro__[1], match="readme"):
            open_log(fs, unflushed=True)
        assert fs.read_bytes(f"{TAILS}/readme") == b"mine"

    def test_truncation_into_every_part(self) -> None:
        for offset in range(0, 19, 3):
            fs, log = filled(2, unflushed=True)
            log.flush()
            for _ in range(2):
                log.append_as_leader(batch(3), 0, NOW_MS)
            log.start_flush()
            for _ in range(2):
                log.append_as_leader(batch(3), 0, NOW_MS)
            everything = contents(log)
            log.truncate_to(offset)
            assert contents(log) == everything[: offset // 3]
            log.append_as_leader(batch(3), 2, NOW_MS)
            written = contents(log)
            fs.kill()
            again = open_log(fs, clean=False, unflushed=True)
            assert contents(again) == written
            assert_sound(fs, again)

    def test_deleting_a_segment_removes_its_data_file_first(self) -> None:
        fs, log = filled(12, SMALL, unflushed=True)
        order: list[str] = []

        def hook(operation: str, path: str) -> None:
            if operation == "remove" and ".log" in path:
                order.append(path)

        fs.fault_hook = hook
        log.truncate_fully_and_start_at(100)
        assert fs.listdir(TAILS) == []
        assert order[0].startswith(DIR)
        assert order[1].startswith(TAILS)

    def test_a_truncated_tail_does_not_come_back_after_a_power_loss(self) -> None:
        """Found by crash states: the volume may be a disk, which keeps what was once written back."""
        fs, log = filled(3, unflushed=True)
        for name in fs.listdir(TAILS):
            fs.fsync_path(f"{TAILS}/{name}")
        fs.fsync_dir(TAILS)
        log.truncate_to(3)
        fs.power_loss()
        assert open_log(fs, clean=False, unflushed=True).log_end_offset == 3

    def test_reads_beyond_the_end_are_empty(self) -> None:
        _, log = filled(1, unflushed=True)
        assert log.segments.active.data.pread(10, 10**6) == b""


@pytest.mark.slow
def test_a_flush_on_another_thread_of_a_real_disk(tmp_path: object) -> None:
    """Appends go on while the fsync runs; what is reported is what was there when it began."""
    fs = RealFileSystem()
    log = Log.open(
        f"{tmp_path}/data/t-0", TP, LogConfig(), fs,
        clean=True, recovery_point=0, now_ms=NOW_MS, checkpoints=None, unflushed_dir=f"{tmp_path}/unflushed",
    )  # fmt: skip
    for _ in range(20):
        for _ in range(10):
            log.append_as_leader(batch(3, size=500), 0, NOW_MS)
        job = log.start_flush()
        end = log.log_end_offset
        thread = threading.Thread(target=job.run)
        thread.start()
        for _ in range(10):
            log.append_as_leader(batch(3, size=500), 0, NOW_MS)
            assert log.read(max(0, log.log_end_offset - 30), 10**6, log.log_end_offset).size
        thread.join()
        log.complete_flush(job)
        assert log.flushed_offset == end
    written = contents(log)
    assert len(written) == 400
    log.close()
    again = Log.open(
        f"{tmp_path}/data/t-0", TP, LogConfig(), fs,
        clean=True, recovery_point=1200, now_ms=NOW_MS, checkpoints=None, unflushed_dir=f"{tmp_path}/unflushed",
    )  # fmt: skip
    assert contents(again) == written


def test_the_recovery_point_waits_for_the_indexes_of_a_completed_segment() -> None:
    """A power loss would leave an index that is short, and recovery would trust it. Found by the crash model."""
    _, log = filled(2)
    log.start_flush()
    log.roll()
    job = log.start_flush()
    job.run()
    log.complete_flush(job)
    assert (log.flushed_offset, log.recovery_point) == (6, 0)
    assert log.needs_flush(0.0)
    log.flush()
    assert (log.flushed_offset, log.recovery_point) == (6, 6)
    assert not log.needs_flush(0.0)
