"""Partitions come and go, whenever power goes or the disk refuses."""

from __future__ import annotations

import contextlib
import errno
import uuid
from pathlib import Path

import pytest
from minikafka.log.errors import DataDirRefused, InconsistentTopicId, LogDirFailure
from minikafka.log.filesystem import MemoryFileSystem, RealFileSystem
from minikafka.log.log import LogConfig
from minikafka.log.manager import LogManager
from minikafka.protocol.types import TopicPartition

from tests.unit.log.build import NOW_MS, UNFLUSHED
from tests.unit.log.managed import DATA, ID_A, ID_B, A, B, fill, open_manager, two_logs


class TestCreateAndDelete:
    def test_creating_again_gives_the_same_log(self) -> None:
        _, manager = two_logs()
        assert manager.create(A, ID_A) is manager.logs[A]
        with pytest.raises(InconsistentTopicId) as refused:
            manager.create(A, ID_B)
        assert refused.value.code.name == "INCONSISTENT_TOPIC_ID"

    def test_the_config_may_be_given(self) -> None:
        manager = open_manager(MemoryFileSystem())
        assert manager.create(A, ID_A, LogConfig(segment_bytes=4321)).config.segment_bytes == 4321
        assert manager.create(B, ID_B).config.segment_bytes == 1 << 30

    def test_a_created_log_survives_a_power_loss(self) -> None:
        fs = MemoryFileSystem()
        open_manager(fs).create(A, ID_A)
        fs.power_loss()
        again = open_manager(fs)
        assert again.topic_ids == {A: ID_A}
        assert again.logs[A].log_end_offset == 0

    def test_deletion_is_at_once_out_of_sight_and_later_out_of_the_disk(self) -> None:
        fs, manager = two_logs(unflushed=True, config=LogConfig(file_delete_delay_ms=1000))
        found = manager.logs[A].read(0, 10**6, 15)
        wanted = found.read()
        job = manager.logs[A].start_flush()
        manager.delete(A, now_ms=NOW_MS)
        manager.delete(A, now_ms=NOW_MS)
        job.run()
        assert not job.done
        assert A not in manager.logs
        assert A not in manager.topic_ids
        assert found.read() == wanted if not found.ranges[0].file.size else True
        assert not fs.exists(f"{UNFLUSHED}/a-0")
        (doomed,) = [name for name in fs.listdir(DATA) if name.endswith("-delete")]
        assert doomed.startswith("a-0.")
        assert manager.prepare_purge(NOW_MS + 999) == []
        (remove,) = manager.prepare_purge(NOW_MS + 1000)
        remove()
        assert manager.prepare_purge(NOW_MS + 1000) == []
        assert doomed not in fs.listdir(DATA)

    def test_a_later_topic_of_the_same_name_starts_from_nothing(self) -> None:
        """Recovery would else trust what the new log never flushed."""
        fs, manager = two_logs()
        manager.logs[A].flush()
        manager.logs[A].increment_log_start_offset(4)
        manager.checkpoint_recovery_points()
        manager.checkpoint_log_start_offsets()
        manager.checkpoint_high_watermarks({A: 12})
        manager.delete(A)
        log = manager.create(A, uuid.UUID(int=9))
        assert (log.log_start_offset, log.log_end_offset) == (0, 0)
        fs.power_loss()
        again = open_manager(fs)
        assert again.logs[A].recovery.recovery_point == 0
        assert A not in again.high_watermarks
        assert again.topic_ids[A] == uuid.UUID(int=9)

    @pytest.mark.parametrize("thread", ["idle", "not-there-yet", "late"])
    def test_it_starts_from_nothing_wherever_the_checkpoints_are_under_way(self, thread: str) -> None:
        """Deletion leaves them to the next write by the clock, which runs on a thread."""
        fs, manager = two_logs()
        manager.logs[A].flush()
        manager.checkpoint_recovery_points()
        manager.checkpoint_high_watermarks({A: 12, B: 3})
        stale = [*manager.prepare_high_watermarks({A: 12}), *manager.prepare_recovery_points()]
        manager.delete(A)
        fresh = [*manager.prepare_high_watermarks({B: 3}), *manager.prepare_recovery_points()]
        if thread == "idle":
            for write in (*stale, *fresh):
                write()
        manager.create(A, uuid.UUID(int=9))
        if thread == "late":
            for write in (*stale, *fresh):
                write()
        fs.power_loss()
        again = open_manager(fs)
        assert again.logs[A].recovery.recovery_point == 0
        assert again.high_watermarks == {B: 3}

    def test_deleting_a_partition_writes_no_checkpoint(self) -> None:
        """Three of them, each fsynced, for each partition of a topic: all others would wait meanwhile."""
        fs, manager = two_logs()
        manager.logs[A].flush()
        manager.checkpoint_recovery_points()
        before = {name: fs.read_bytes(f"{DATA}/{name}") for name in fs.listdir(DATA) if name.endswith("checkpoint")}
        manager.delete(A)
        assert before == {name: fs.read_bytes(f"{DATA}/{name}") for name in before}

    @pytest.mark.parametrize("step", range(12))
    def test_a_topic_made_again_has_nothing_of_the_old_one_whenever_power_goes(self, step: int) -> None:
        """Audit t4: checkpoints are by name. An empty replica that starts at the dead topic's 60 is let into the ISR."""
        fs = MemoryFileSystem()
        manager = open_manager(fs)
        log = manager.create(A, ID_A)
        fill(log, 30)
        log.flush()
        manager.checkpoint_recovery_points()
        manager.checkpoint_high_watermarks({A: 90})
        log.increment_log_start_offset(60)
        manager.delete(A)
        left = step

        def hook(operation: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.EIO, "power goes here", path)

        fs.fault_hook = hook
        try:
            manager.create(A, ID_B)
        except LogDirFailure:
            assert A not in manager.logs
        fs.fault_hook = None
        fs.power_loss()
        again = open_manager(fs)
        made = again.create(A, ID_B)
        assert (made.log_start_offset, made.log_end_offset) == (0, 0)
        assert again.high_watermarks.get(A, 0) == 0
        assert again.topic_ids[A] == ID_B

    def test_a_folder_that_the_process_died_over_belongs_to_the_topic_that_is_made_next(self) -> None:
        """Without its id on disk, a third topic of this name would take the second's records for its own."""
        fs = MemoryFileSystem()
        fs.makedirs(f"{DATA}/{A}")
        fs.write_atomic(f"{DATA}/meta.properties", b"version=1\ncluster.id=cluster\nnode.id=1\n")
        manager = open_manager(fs)
        fill(manager.create(A, ID_A), 1)
        manager.close()
        with pytest.raises(InconsistentTopicId):
            open_manager(fs).create(A, ID_B)

    def test_what_was_being_deleted_is_removed_at_the_next_start(self) -> None:
        fs, manager = two_logs()
        manager.delete(A)
        manager.close()
        again = open_manager(fs)
        assert list(again.logs) == [B]
        assert not [name for name in fs.listdir(DATA) if name.endswith("-delete")]

    def test_a_failed_log_can_be_deleted(self) -> None:
        fs, manager = two_logs()
        job = manager.logs[A].start_flush()

        def hook(operation: str, path: str) -> None:
            if operation == "fsync":
                raise OSError(errno.EIO, "Input/output error", path)

        fs.fault_hook = hook
        job.run()
        fs.fault_hook = None
        manager.delete(A)
        assert A not in manager.logs

    @pytest.mark.parametrize("length", [1, 213, 214, 249])
    @pytest.mark.parametrize("partition", [0, 99_999])
    def test_a_topic_of_any_legal_name(self, tmp_path: Path, length: int, partition: int) -> None:
        """KAFKA-4893: what is added to the name of a partition's folder must fit into a file name, too."""
        data = tmp_path / "data"

        def opened() -> LogManager:
            return LogManager.open(
                [str(data)],
                RealFileSystem(),
                cluster_id="c",
                node_id=1,
                config_for=lambda _: LogConfig(),
                now_ms=NOW_MS,
                unflushed_dir=str(tmp_path / "tails"),
            )

        manager = opened()
        long = TopicPartition("x" * length, partition)
        for _ in range(2):
            fill(manager.create(long, uuid.uuid4()), 1)
            manager.delete(long)
        doomed = [p.name for p in data.iterdir() if p.name.endswith("-delete")]
        assert len(doomed) == 2
        assert all(name.startswith("x") and f"-{partition}." in name for name in doomed)
        manager.close()
        again = opened()
        assert again.clean
        assert again.logs == {}
        assert not [p.name for p in data.iterdir() if p.is_dir()]
        again.close()

    def test_one_that_cannot_be_deleted_now_is_deleted_later(self) -> None:
        """It was forgotten although its folder was there, and a later topic of its name would have found the records."""
        fs, manager = two_logs()

        def hook(operation: str, path: str) -> None:
            if operation == "rename":
                raise OSError(errno.EIO, "Input/output error", path)

        fs.fault_hook = hook
        with pytest.raises(LogDirFailure, match="cannot be deleted"):
            manager.delete(A)
        with pytest.raises(InconsistentTopicId):
            manager.create(A, uuid.uuid4())
        fs.fault_hook = None
        manager.delete(A)
        assert manager.create(A, uuid.uuid4()).log_end_offset == 0
        manager.close()
        assert open_manager(fs).clean

    @pytest.mark.parametrize("fails", [False, True])
    def test_one_that_is_being_opened_anew_is_deleted_afterwards(self, fails: bool) -> None:
        """Else the thread that opens it makes the folder again, and a later topic of this name starts where this one did."""
        fs, manager = two_logs()
        manager.logs[A].increment_log_start_offset(3)
        manager.logs[A].go_offline("left half done", OSError(errno.EIO, "Input/output error"))
        opened = manager.prepare_reopen(A, NOW_MS)
        with contextlib.suppress(LogDirFailure):
            manager.delete(A)
        if fails:
            fs.write_atomic(f"{DATA}/{A}/notes.txt", b"")
            with pytest.raises(DataDirRefused):
                opened()
        else:
            manager.replace(A, opened())
        manager.delete(A)
        log = manager.create(A, ID_B)
        assert (log.log_start_offset, log.log_end_offset) == (0, 0)

    def test_tails_of_a_log_whose_data_volume_is_gone_are_not_restored(self) -> None:
        fs, manager = two_logs(unflushed=True)
        manager.close(clean=False)
        fs.rmtree(DATA)
        again = open_manager(fs, unflushed=True)
        assert again.logs == {}
        assert again.create(A, ID_A).log_end_offset == 0

    def test_a_disk_that_refuses_is_a_typed_error(self) -> None:
        fs, manager = two_logs()
        manager.delete(B)

        def hook(operation: str, path: str) -> None:
            if operation in ("rename", "remove", "write_atomic"):
                raise OSError(errno.EIO, "Input/output error", path)

        fs.fault_hook = hook
        with pytest.raises(LogDirFailure):
            manager.delete(A)
        with pytest.raises(LogDirFailure):
            manager.create(TopicPartition("c", 0), ID_A)
        (remove,) = manager.prepare_purge(NOW_MS + 10**9)
        with pytest.raises(LogDirFailure):
            remove()
        assert len(manager.prepare_purge(NOW_MS + 10**9)) == 1, "it is tried again"
        with pytest.raises(LogDirFailure):
            manager.checkpoint_recovery_points()
