"""A disk that refuses in the middle of something: no term is led without its epoch, nothing is served from a log of which
memory and disk differ, and when the disk is well again so is the replica (audit t3, t5, t10)."""

from __future__ import annotations

import contextlib
import errno
import struct
import uuid
from collections.abc import Callable

import pytest
from minikafka.log.config import LogConfig
from minikafka.log.errors import LogDirFailure
from minikafka.log.log import Log
from minikafka.log.manager import LogManager
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.partition import Partition, ReplicationConfig, Role

from .cluster import NOW_MS, TP, AllAlive, Replica, batch, fetch

Refuses = Callable[[str, str], bool]
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=1)
OTHER = TopicPartition("other", 0)
FOLLOWING = PartitionState((1, 2), (1, 2), 1)
LEADING = PartitionState((1, 2), (2,), 2, leader_epoch=1, partition_epoch=1)


def replicated(value: str, offset: int, epoch: int = 1) -> memoryview:
    """A batch as a leader sends it; both lie outside the CRC."""
    found = batch(value)
    struct.pack_into(">qii", found, 0, offset, len(found) - 12, epoch)
    return found


class Managed:
    """Replica 2 over a log manager, so that checkpoints are written and logs reopened as in a broker."""

    def __init__(self, unflushed_dir: str | None = None) -> None:
        self.disk = MemoryFileSystem()
        self.unflushed_dir = unflushed_dir
        self.logs = self.open()
        self.logs.create(TP, uuid.UUID(int=1))
        self.host()

    def open(self) -> LogManager:
        return LogManager.open(
            ["/data"],
            self.disk,
            cluster_id="c",
            node_id=2,
            config_for=lambda _: CONFIG,
            now_ms=NOW_MS,
            unflushed_dir=self.unflushed_dir,
        )

    def host(self) -> None:
        log = self.logs.logs[TP]
        self.partition = Partition(TP, b"i" * 16, 2, log, ReplicationConfig(1, 10.0), AllAlive())

    def lead(self, records: int, epoch: int = 0) -> None:
        self.partition.apply_state(PartitionState((1, 2), (2,), 2, epoch, epoch), 0.0)
        assert self.partition.leader is not None
        for number in range(records):
            self.partition.leader.append(batch(f"m{number}"), NOW_MS, 0.0)

    def follow(self) -> None:
        self.partition.apply_state(PartitionState((1, 2), (1,), 1, 2, 2), 0.0)

    def refuse_nth(self, operation: str, nth: int) -> None:
        """The disk refuses one operation of a kind, counted from 0."""
        calls = 0

        def once(what: str, path: str) -> bool:
            nonlocal calls
            calls += what == operation
            return what == operation and calls == nth + 1

        self.refuse(once)

    def refuse(self, refuses: Refuses) -> None:
        def hook(operation: str, path: str) -> None:
            if refuses(operation, path):
                raise OSError(errno.ENOSPC, "No space left on device", path)

        self.disk.fault_hook = hook

    def reopened(self) -> None:
        self.disk.fault_hook = None
        self.partition.log = self.logs.reopen(TP, now_ms=NOW_MS)


def test_a_leader_whose_log_has_failed_commits_nothing_more() -> None:
    """Until others lead it is a leader. What it committed then was checkpointed, and counted after a restart (found by
    simulation)."""
    at = Managed()
    state = PartitionState((1, 2), (1, 2), 2)
    at.partition.apply_state(state, 0.0)
    assert at.partition.leader is not None
    for number in range(3):
        at.partition.leader.append(batch(f"m{number}"), NOW_MS, 0.0)
    at.refuse(lambda operation, path: operation == "fsync")
    with pytest.raises(LogDirFailure):
        at.partition.log.flush()
    assert at.partition.log.failure is not None and at.partition.high_watermark == 0
    at.partition.apply_state(PartitionState((1, 2), (2,), 2, 0, 1), 100.0)
    at.partition.leader.maybe_advance_high_watermark(100.0)
    assert at.partition.high_watermark == 0


class TestTakingLeadership:
    def refusing(self) -> Managed:
        at = Managed()
        at.refuse(lambda operation, path: operation == "write_atomic" and "epoch" in path)
        return at

    def test_a_term_whose_epoch_cannot_be_noted_is_not_led(self) -> None:
        at = self.refusing()
        at.partition.apply_state(FOLLOWING, 0.0)
        with pytest.raises(LogDirFailure):
            at.partition.apply_state(LEADING, 1.0)
        assert at.partition.role is Role.NONE
        assert at.partition.check_leader(-1) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_it_is_led_when_there_is_room_again(self) -> None:
        """Audit t3: nobody tried again."""
        at = self.refusing()
        at.partition.apply_state(FOLLOWING, 0.0)
        with pytest.raises(LogDirFailure):
            at.partition.apply_state(LEADING, 1.0)
        at.disk.fault_hook = None
        assert at.partition.apply_state(LEADING, 2.0)
        assert at.partition.leader is not None
        assert at.partition.log.epochs.latest == 1

    def test_the_same_leader_does_not_go_on_in_the_epoch_before(self) -> None:
        """Audit t3: its batches carried epoch 0 while it answered for epoch 1."""
        at = Managed()
        at.lead(3)
        at.refuse(lambda operation, path: operation == "write_atomic" and "epoch" in path)
        with pytest.raises(LogDirFailure):
            at.partition.apply_state(LEADING, 1.0)
        assert at.partition.leader is None
        assert at.partition.check_leader(1) is not ErrorCode.NONE
        assert at.partition.check_leader(0) is not ErrorCode.NONE

    def test_a_term_that_was_given_up_is_never_led_again(self) -> None:
        """Its ISR change in flight is forgotten, and may have been written: the high watermark could pass a member."""
        at = Managed()
        at.lead(1, epoch=3)
        at.partition.resign()
        assert not at.partition.apply_state(PartitionState((1, 2), (2,), 2, 3, 4), 1.0)
        assert at.partition.role is Role.NONE
        assert at.partition.apply_state(PartitionState((1, 2), (2,), 2, 4, 5), 2.0)
        assert at.partition.leader is not None


class TestTruncation:
    """Replica 2 led epochs 0 and 1 alone, flushed all of it, and must cut everything from offset 4 on for leader 1."""

    def diverged(self) -> Managed:
        at = Managed()
        at.lead(4)
        at.lead(8, epoch=1)
        at.partition.log.flush()
        at.logs.checkpoint_recovery_points()
        at.follow()
        return at

    def cut(self, at: Managed) -> None:
        follower = at.partition.follower
        assert follower is not None
        follower.answered(follower.position(), ErrorCode.NONE, (0, 4), 4, 0, memoryview(b""))

    def test_a_recovery_point_that_cannot_be_lowered_leaves_all_as_it_was(self) -> None:
        """Audit t5: the log was cut first, the high watermark stayed above its end, and the disk kept the higher point."""
        at = self.diverged()
        at.refuse(lambda operation, path: operation == "write_atomic" and "recovery-point" in path)
        with pytest.raises(LogDirFailure):
            self.cut(at)
        assert at.partition.log.log_end_offset == 12
        assert at.partition.high_watermark <= at.partition.log.log_end_offset
        at.disk.fault_hook = None
        self.cut(at)
        assert at.partition.log.log_end_offset == 4
        assert b"t 0 4" in at.disk.read_bytes("/data/recovery-point-offset-checkpoint")

    @pytest.mark.parametrize("operation", ["truncate", "remove", "write_atomic", "fsync_dir", "open"])
    @pytest.mark.parametrize("nth", range(5))
    def test_a_truncation_that_is_left_half_done_takes_the_log_offline_until_it_is_opened_anew(
        self, operation: str, nth: int
    ) -> None:
        """Audit t10: the log in memory was no longer the log on disk, and the broker went on."""
        at = self.diverged()
        at.refuse_nth(operation, nth)
        with contextlib.suppress(LogDirFailure):
            self.cut(at)
        partition = at.partition
        assert partition.high_watermark <= partition.log.log_end_offset
        if partition.log.failure is not None:
            with pytest.raises(LogDirFailure):
                partition.log.read(0, 100, 4)
            with pytest.raises(LogDirFailure):
                partition.log.append_as_follower(batch("x"), 2)
            at.reopened()
            assert partition.log.log_end_offset >= partition.high_watermark, "it would seem to lack what was committed"
        at.disk.fault_hook = None
        if partition.log.log_end_offset > 4:
            self.cut(at)
        log = partition.log
        assert log.log_end_offset == 4 == log.segments.active.next_offset
        assert [whole.header.base_offset for whole in log.read_batches(0, 4)] == [0, 1, 2, 3]
        assert log.epochs.latest == 0
        at.disk.power_loss()
        assert at.open().logs[TP].log_end_offset == 4

    def test_a_replica_that_went_on_after_it_agrees_with_its_leader(self) -> None:
        at, leader = self.diverged(), Replica(1)
        leader.partition.apply_state(PartitionState((1, 2), (1,), 1), 0.0)
        for number in range(4):
            leader.produce(f"m{number}")
        leader.partition.apply_state(PartitionState((1, 2), (1,), 1, 2, 2), 0.0)
        for number in range(3):
            leader.produce(f"n{number}")
        two = Replica(2)
        two.partition = at.partition
        at.refuse(lambda operation, path: operation == "truncate" and path.endswith("index"))
        with pytest.raises(LogDirFailure):
            fetch(two, leader)
        at.reopened()
        for _ in range(6):
            fetch(two, leader)
        assert two.values() == leader.values()

    def test_after_a_failed_fsync_only_a_restart_is_safe(self) -> None:
        """The kernel may have dropped what it could not write, and says so once."""
        at = self.diverged()
        at.refuse(lambda operation, path: operation == "fsync" and path.endswith(".log"))
        with pytest.raises(LogDirFailure) as failure:
            self.cut(at)
        assert failure.value.permanent
        at.disk.fault_hook = None
        with pytest.raises(LogDirFailure) as again:
            at.logs.reopen(TP, now_ms=NOW_MS)
        assert again.value.permanent


class TestRestart:
    """Replica 2 has records 5 to 11, and must drop them all: leader 1 has a log from 2 on that parts from it at 4."""

    def diverged(self, unflushed: bool = False) -> Managed:
        at = Managed("/unflushed" if unflushed else None)
        at.lead(12)
        log = at.partition.log
        log.increment_log_start_offset(5)
        assert log.segments[0].base_offset < 5, "only then the start is in a checkpoint"
        log.flush()
        at.logs.checkpoint_recovery_points()
        at.follow()
        return at

    def begin_anew(self, at: Managed) -> None:
        follower = at.partition.follower
        assert follower is not None
        follower.answered(follower.position(), ErrorCode.NONE, (0, 4), 4, 2, memoryview(b""))

    def is_empty_at_2(self, log: Log) -> bool:
        return (log.log_start_offset, log.log_end_offset, log.epochs.latest) == (2, 2, -1)

    @pytest.mark.parametrize("crash", ["kill", "power_loss"])
    def test_its_start_is_durable(self, crash: str) -> None:
        """Else records 2 to 4 would be hidden after a crash, on a replica that may be in the ISR and lead."""
        at = self.diverged()
        self.begin_anew(at)
        assert self.is_empty_at_2(at.partition.log)
        at.partition.log.append_as_follower(replicated("m", 2), 2)
        at.partition.log.flush()
        getattr(at.disk, crash)()
        log = at.open().logs[TP]
        assert (log.log_start_offset, log.log_end_offset) == (2, 3)

    @pytest.mark.parametrize("unflushed", [False, True])
    @pytest.mark.parametrize("operation", ["truncate", "remove", "write_atomic", "fsync_dir", "open"])
    @pytest.mark.parametrize("nth", range(8))
    def test_one_that_is_left_half_done_is_finished_when_the_log_is_opened_anew(
        self, operation: str, nth: int, unflushed: bool
    ) -> None:
        """The log came back shorter than its high watermark, and the broker ended for that with exit code 3."""
        at = self.diverged(unflushed)
        before = at.partition.log
        at.refuse_nth(operation, nth)
        with contextlib.suppress(LogDirFailure):
            self.begin_anew(at)
        log = at.partition.log
        if log.failure is not None:
            at.logs.checkpoint_log_start_offsets()  # what other logs on this disk ask for meanwhile
            at.logs.checkpoint_recovery_points()
            at.reopened()
            log = at.partition.log
            assert log.recovery.restarted or log.log_end_offset >= at.partition.high_watermark
        at.disk.fault_hook = None
        if not self.is_empty_at_2(log):
            assert [b.header.base_offset for b in log.read_batches(5, 12)] == list(range(5, 12)), "all or nothing"
            at.partition.set_high_watermark(12)
            self.begin_anew(at)
            log = at.partition.log
        assert self.is_empty_at_2(log)
        assert not log.recovery.restarted or log is not before
        at.disk.power_loss()
        assert self.is_empty_at_2(at.open().logs[TP])

    @pytest.mark.parametrize("unflushed", [False, True])
    @pytest.mark.parametrize("crash", ["kill", "power_loss"])
    @pytest.mark.parametrize("operation", ["remove", "write_atomic", "fsync_dir", "open"])
    @pytest.mark.parametrize("nth", range(8))
    def test_a_crash_in_the_middle_leaves_all_or_nothing(
        self, operation: str, nth: int, crash: str, unflushed: bool
    ) -> None:
        """An empty log that began at its old start, 5, would be let into the ISR without records 2 to 4."""
        at = self.diverged(unflushed)
        at.refuse_nth(operation, nth)
        with contextlib.suppress(LogDirFailure):
            self.begin_anew(at)
        getattr(at.disk, crash)()
        at.disk.fault_hook = None
        log = at.open().logs[TP]
        if not self.is_empty_at_2(log):
            assert (log.log_start_offset, log.log_end_offset) == (5, 12)
            assert log.epochs.latest == 0
        at.disk.kill()
        again = at.open().logs[TP]
        assert (again.log_start_offset, again.log_end_offset) == (log.log_start_offset, log.log_end_offset)

    def test_what_is_appended_after_it_is_kept(self) -> None:
        at = self.diverged()
        at.refuse_nth("remove", 1)
        with pytest.raises(LogDirFailure):
            self.begin_anew(at)
        at.reopened()
        at.partition.log.append_as_follower(replicated("m", 2), 2)
        at.disk.kill()
        log = at.open().logs[TP]
        assert (log.log_start_offset, log.log_end_offset) == (2, 3)

    def test_the_checkpoints_of_other_logs_are_written_meanwhile(self) -> None:
        """They asked a log that had no segment at the moment where its first one begins."""
        at = self.diverged()
        other = at.logs.create(OTHER, uuid.UUID(int=2))
        at.refuse(lambda operation, path: operation == "write_atomic" and path.endswith("epoch-checkpoint"))
        with pytest.raises(LogDirFailure):
            self.begin_anew(at)
        at.disk.fault_hook = None
        for number in range(3):
            other.append_as_leader(batch(f"o{number}"), 0, NOW_MS)
        assert other.increment_log_start_offset(2)
        at.reopened()
        at.disk.power_loss()
        assert self.is_empty_at_2(at.open().logs[TP])


def test_an_epoch_that_cannot_be_forgotten_is_a_failure_of_the_disk() -> None:
    """It was raised as what nobody expected, and the log stayed in use."""
    at = Managed()
    at.lead(3)
    at.partition.log.assign_epoch(1, 3)
    at.follow()
    follower = at.partition.follower
    assert follower is not None
    at.refuse(lambda operation, path: operation == "write_atomic" and "epoch" in path)
    with pytest.raises(LogDirFailure):
        follower.answered(follower.position(), ErrorCode.NONE, (0, 3), 3, 0, memoryview(b""))


def test_a_log_start_that_cannot_be_made_durable_stays() -> None:
    at = Managed()
    at.lead(10)
    at.refuse(lambda operation, path: operation == "write_atomic" and "log-start" in path)
    with pytest.raises(LogDirFailure):
        at.partition.log.increment_log_start_offset(5)
    assert at.partition.log.log_start_offset == 0
    at.disk.fault_hook = None
    assert at.partition.log.increment_log_start_offset(5)


def test_old_segments_that_cannot_all_be_deleted_go_when_the_log_is_reopened() -> None:
    at = Managed()
    at.lead(12)
    at.partition.log.increment_log_start_offset(11)
    calls = 0

    def third(operation: str, path: str) -> bool:
        nonlocal calls
        calls += operation == "remove"
        return operation == "remove" and calls == 3

    at.refuse(third)
    with pytest.raises(LogDirFailure):
        at.partition.log.delete_old_segments(NOW_MS, 12)
    at.reopened()
    log = at.partition.log
    assert (log.log_start_offset, log.log_end_offset) == (11, 12)
    data = [name for name in at.disk.listdir(log.directory) if name.endswith(".log")]
    assert data == [f"{segment.base_offset:020d}.log" for segment in log.segments]
    assert all(after.base_offset > log.log_start_offset for after in log.segments[1:])
    assert log.delete_old_segments(NOW_MS, 12) == 0


def test_a_log_that_is_well_is_not_reopened() -> None:
    with pytest.raises(ValueError, match="not offline"):
        Managed().logs.reopen(TP, now_ms=NOW_MS)
