"""All logs of a broker: whose they are, how they were left, what the checkpoints say."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import uuid
from pathlib import Path

import pytest
from minikafka.log.errors import DataDirRefused, InconsistentTopicId, LogDirFailure
from minikafka.log.filesystem import FileSystem, MemoryFileSystem, RealFileSystem
from minikafka.log.log import Log, LogConfig
from minikafka.log.manager import LogManager
from minikafka.protocol.types import TopicPartition

from tests.unit.log.build import NOW_MS, UNFLUSHED, batch, contents

DATA = "/data"
A, B = TopicPartition("a", 0), TopicPartition("b-with-dash", 12)
ID_A, ID_B = uuid.UUID(int=1), uuid.UUID(int=2)


def open_manager(
    fs: FileSystem,
    *,
    dirs: tuple[str, ...] = (DATA,),
    cluster_id: str = "cluster",
    node_id: int = 1,
    config: LogConfig | None = None,
    unflushed: bool = False,
) -> LogManager:
    return LogManager.open(
        dirs,
        fs,
        cluster_id=cluster_id,
        node_id=node_id,
        config_for=lambda topic: config or LogConfig(),
        now_ms=NOW_MS,
        unflushed_dir=UNFLUSHED if unflushed else None,
    )


def two_logs(*, unflushed: bool = False, config: LogConfig | None = None) -> tuple[MemoryFileSystem, LogManager]:
    fs = MemoryFileSystem()
    manager = open_manager(fs, unflushed=unflushed, config=config)
    fill(manager.create(A, ID_A), 5)
    fill(manager.create(B, ID_B), 2)
    return fs, manager


def fill(log: Log, batches: int) -> None:
    for _ in range(batches):
        log.append_as_leader(batch(3), 0, NOW_MS)


class TestShutdown:
    def stopped(self) -> tuple[MemoryFileSystem, str]:
        """A clean shutdown under broker epoch 7, and the path of the data of a's only segment."""
        fs, manager = two_logs()
        manager.close(broker_epoch=7)
        fs.kill()
        return fs, f"{DATA}/{A}/{0:020}.log"

    def test_a_marker_beside_a_log_that_is_short_is_not_clean(self) -> None:
        """Audit t9, KIP-966: the broker would be trusted, and might lead, with half of what it acknowledged."""
        fs, path = self.stopped()
        handle = fs.open_append(path)
        handle.truncate(handle.size // 2 + 10)
        handle.fsync()
        manager = open_manager(fs)
        assert manager.logs[A].recovery.lost and not manager.logs[B].recovery.lost
        assert (manager.clean, manager.previous_broker_epoch) == (False, -1)

    def test_a_marker_beside_a_log_that_ends_early_at_a_whole_batch_is_not_clean(self) -> None:
        fs, path = self.stopped()
        handle = fs.open_append(path)
        handle.truncate(handle.size // 5 * 4)
        handle.fsync()
        manager = open_manager(fs)
        assert manager.logs[A].log_end_offset == 12
        assert (manager.clean, manager.previous_broker_epoch) == (False, -1)

    def test_a_marker_beside_a_log_that_is_gone_is_not_clean(self) -> None:
        fs, _ = self.stopped()
        fs.rmtree(f"{DATA}/{A}")
        manager = open_manager(fs)
        assert (manager.clean, manager.previous_broker_epoch) == (False, -1)

    def test_topics_deleted_before_a_clean_shutdown_are_not_missed(self) -> None:
        fs, manager = two_logs()
        manager.logs[A].flush()
        manager.checkpoint_recovery_points()
        manager.delete(A)
        manager.close(broker_epoch=7)
        assert open_manager(fs).previous_broker_epoch == 7

    def test_a_clean_one_spares_recovery_and_tells_the_broker_epoch(self) -> None:
        fs, manager = two_logs()
        wanted = contents(manager.logs[A])
        manager.checkpoint_high_watermarks({A: 9, B: 3})
        manager.close(broker_epoch=77)
        assert fs.read_bytes(f"{DATA}/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":77}'
        fs.power_loss()
        again = open_manager(fs)
        assert again.clean
        assert again.previous_broker_epoch == 77
        assert again.high_watermarks == {A: 9, B: 3}
        assert again.topic_ids == {A: ID_A, B: ID_B}
        assert contents(again.logs[A]) == wanted
        assert again.logs[A].recovery.segments_recovered == 0

    def test_one_directory_without_a_marker_spoils_all(self) -> None:
        """KIP-966: the broker may have lost the tails of the logs in it, so it must not say that it stopped cleanly."""
        fs = MemoryFileSystem()
        dirs = ("/one", "/two")
        manager = open_manager(fs, dirs=dirs)
        fill(manager.create(A, ID_A), 2)
        fill(manager.create(B, ID_B), 2)
        manager.close(broker_epoch=77)
        again = open_manager(fs, dirs=dirs)
        assert (again.clean, again.previous_broker_epoch) == (True, 77)
        again.close(broker_epoch=78)
        fs.remove("/two/.kafka_cleanshutdown")
        found = open_manager(fs, dirs=dirs)
        assert (found.clean, found.previous_broker_epoch) == (False, -1)
        assert {tp: log.recovery.clean for tp, log in found.logs.items()} == {A: True, B: False}

    def test_the_marker_is_gone_before_the_logs_are_loaded(self) -> None:
        """KAFKA-10471: a crash while loading must not look clean the next time. Bug seed clean-marker-stays."""
        fs, manager = two_logs()
        manager.close(broker_epoch=5)

        def hook(operation: str, path: str) -> None:
            if operation == "open":
                raise OSError(errno.EIO, "Input/output error", path)

        fs.fault_hook = hook
        with pytest.raises(LogDirFailure):
            open_manager(fs)
        fs.fault_hook = None
        fs.power_loss()
        again = open_manager(fs)
        assert not again.clean
        assert again.previous_broker_epoch == -1
        assert again.logs[A].log_end_offset == 15

    def test_after_a_crash_every_log_is_recovered_from_its_recovery_point(self) -> None:
        fs, manager = two_logs()
        manager.logs[A].flush()
        manager.checkpoint_recovery_points()
        fill(manager.logs[A], 1)
        fs.power_loss()
        again = open_manager(fs)
        assert not again.clean
        assert again.logs[A].recovery.recovery_point == 15
        assert again.logs[A].log_end_offset == 15
        assert again.logs[B].log_end_offset == 0

    def test_closing_as_if_the_process_had_died(self) -> None:
        fs, manager = two_logs()
        manager.close(clean=False)
        assert not fs.exists(f"{DATA}/.kafka_cleanshutdown")
        assert open_manager(fs).logs[A].log_end_offset == 15

    @pytest.mark.parametrize("failing", ["fsync", "write_atomic"])
    def test_a_log_that_cannot_be_flushed_leaves_no_marker(self, failing: str) -> None:
        fs, manager = two_logs()

        def hook(operation: str, path: str) -> None:
            if operation == failing and "a-0" in path:
                raise OSError(errno.EIO, "Input/output error", path)

        fs.fault_hook = hook
        with pytest.raises(LogDirFailure):
            manager.close(broker_epoch=5)
        fs.fault_hook = None
        assert not fs.exists(f"{DATA}/.kafka_cleanshutdown")
        assert not open_manager(fs).clean

    def test_a_log_that_failed_before_leaves_no_marker(self) -> None:
        fs, manager = two_logs()
        manager.logs[A].failure = LogDirFailure("x", permanent=True)
        with pytest.raises(LogDirFailure):
            manager.close()
        assert not open_manager(fs).clean

    def test_a_marker_that_cannot_be_written_is_told(self) -> None:
        fs, manager = two_logs()

        def hook(operation: str, path: str) -> None:
            if operation == "write_atomic" and path.endswith("cleanshutdown"):
                raise OSError(errno.ENOSPC, "No space left on device", path)

        fs.fault_hook = hook
        with pytest.raises(LogDirFailure, match="marker"):
            manager.close()
        fs.fault_hook = None
        assert not open_manager(fs).clean

    def test_an_old_empty_marker_is_clean_without_an_epoch(self) -> None:
        fs, manager = two_logs()
        manager.close()
        fs.write_atomic(f"{DATA}/.kafka_cleanshutdown", b"")
        again = open_manager(fs)
        assert again.clean
        assert again.previous_broker_epoch == -1


class TestRefusals:
    """One clear line, and nothing was changed."""

    def refused(self, fs: FileSystem, **options: object) -> str:
        with pytest.raises(DataDirRefused) as refused:
            open_manager(fs, **options)  # type: ignore[arg-type]
        assert "\n" not in str(refused.value)
        return str(refused.value)

    def test_another_cluster(self) -> None:
        fs, manager = two_logs()
        manager.close()
        line = self.refused(fs, cluster_id="other")
        assert "cluster.id cluster" in line
        assert "other" in line
        assert open_manager(fs).clean

    def test_another_node(self) -> None:
        fs, manager = two_logs()
        manager.close()
        assert "node.id 1, this broker is 2" in self.refused(fs, node_id=2)

    def test_a_directory_in_use(self) -> None:
        fs, _ = two_logs()
        assert "lock" in self.refused(fs)

    @pytest.mark.parametrize("name", ["notes.txt", "photos", "a-0.txt"])
    def test_foreign_files_and_directories(self, name: str) -> None:
        fs, manager = two_logs()
        manager.close()
        if name == "photos":
            fs.makedirs(f"{DATA}/photos")
        else:
            fs.write_atomic(f"{DATA}/{name}", b"mine")
        assert f"{DATA}/{name}" in self.refused(fs)
        assert fs.exists(f"{DATA}/.kafka_cleanshutdown")

    def test_a_home_directory_is_not_taken_over(self) -> None:
        fs = MemoryFileSystem()
        fs.makedirs(f"{DATA}/Documents")
        self.refused(fs)
        assert not fs.exists(f"{DATA}/meta.properties")

    def test_logs_without_an_owner(self) -> None:
        fs, manager = two_logs()
        manager.close()
        fs.remove(f"{DATA}/meta.properties")
        assert "meta.properties" in self.refused(fs)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "version=0\n",
            "version=1\nnode.id=1\n",
            "version=1\ncluster.id=cluster\n",
            "version=1\ncluster.id=c\nnode.id=x",
        ],
    )
    def test_an_owner_that_cannot_be_read(self, text: str) -> None:
        fs, manager = two_logs()
        manager.close()
        fs.write_atomic(f"{DATA}/meta.properties", text.encode())
        assert "meta.properties" in self.refused(fs)

    @pytest.mark.parametrize(
        "name", ["replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"]
    )
    def test_a_damaged_checkpoint(self, name: str) -> None:
        fs, manager = two_logs()
        manager.close()
        fs.write_atomic(f"{DATA}/{name}", b"0\n1\na 0 x\n")
        assert name in self.refused(fs)
        fs.write_atomic(f"{DATA}/{name}", b"")
        open_manager(fs)

    def test_a_damaged_topic_id(self) -> None:
        fs, manager = two_logs()
        manager.close()
        for damage in (b"", b"version: 0\ntopic_id: \xff\n", b"version: 0\ntopic_id: abc\n"):
            fs.write_atomic(f"{DATA}/a-0/partition.metadata", damage)
            assert "partition.metadata" in self.refused(fs)

    def test_what_a_volume_brings_along_is_ignored(self) -> None:
        fs = MemoryFileSystem()
        fs.makedirs(f"{DATA}/lost+found")
        manager = open_manager(fs)
        manager.close()
        fs.write_atomic(f"{DATA}/recovery-point-offset-checkpoint.tmp", b"")
        open_manager(fs)

    def test_a_disk_that_refuses_is_a_typed_error(self) -> None:
        for operation in ("write_atomic", "pread"):
            fs, manager = two_logs()
            manager.close()
            if operation == "write_atomic":
                fs = MemoryFileSystem()

            def hook(what: str, path: str, wanted: str = operation) -> None:
                if what == wanted:
                    raise OSError(errno.EIO, "Input/output error", path)

            fs.fault_hook = hook
            with pytest.raises(LogDirFailure):
                open_manager(fs)
            fs.fault_hook = None
            open_manager(fs)

    def test_a_path_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(LogDirFailure):
            open_manager(RealFileSystem(), dirs=(str(tmp_path / "file"),))


def hold_lock(path: str, ready: multiprocessing.synchronize.Event, done: multiprocessing.synchronize.Event) -> None:
    manager = open_manager(RealFileSystem(), dirs=(path,))
    ready.set()
    done.wait(30)
    manager.close()


def test_the_lock_ends_with_the_process(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    process = context.Process(target=hold_lock, args=(str(tmp_path / "d"), ready, done))
    process.start()
    try:
        assert ready.wait(30)
        with pytest.raises(DataDirRefused, match="lock"):
            open_manager(RealFileSystem(), dirs=(str(tmp_path / "d"),))
    finally:
        process.kill()
        process.join(30)
    manager = open_manager(RealFileSystem(), dirs=(str(tmp_path / "d"),))
    manager.close()


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


class TestCheckpoints:
    """R11, in Kafka's text formats."""

    def test_formats(self) -> None:
        fs, manager = two_logs()
        manager.logs[A].flush()
        manager.logs[A].increment_log_start_offset(4)
        manager.checkpoint_high_watermarks({A: 9, B: 3})
        manager.checkpoint_recovery_points()
        manager.checkpoint_log_start_offsets()
        assert fs.read_bytes(f"{DATA}/replication-offset-checkpoint") == b"0\n2\na 0 9\nb-with-dash 12 3\n"
        assert fs.read_bytes(f"{DATA}/recovery-point-offset-checkpoint") == b"0\n1\na 0 15\n"
        assert fs.read_bytes(f"{DATA}/log-start-offset-checkpoint") == b"0\n1\na 0 4\n"
        assert fs.read_bytes(f"{DATA}/meta.properties") == b"#\ncluster.id=cluster\nnode.id=1\nversion=1\n"
        assert fs.read_bytes(f"{DATA}/a-0/partition.metadata") == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"

    def test_a_partition_without_a_leader_keeps_its_high_watermark(self) -> None:
        """KAFKA-1647. Bug seed drop-leaderless-hw."""
        fs, manager = two_logs()
        manager.checkpoint_high_watermarks({A: 9, B: 3})
        manager.close()
        again = open_manager(fs)
        again.checkpoint_high_watermarks({B: 5, TopicPartition("gone", 0): 7})
        again.close()
        assert open_manager(fs).high_watermarks == {A: 9, B: 5}

    def test_an_older_write_never_replaces_a_newer_one(self) -> None:
        """A thread may run its write after the loop has written a lower recovery point."""
        fs, manager = two_logs()
        manager.logs[A].flush()
        (slow,) = manager.prepare_recovery_points()
        manager.logs[A].truncate_to(6)
        slow()
        assert fs.read_bytes(f"{DATA}/recovery-point-offset-checkpoint") == b"0\n1\na 0 6\n"
        fs.power_loss()
        assert open_manager(fs).logs[A].log_end_offset == 6

    def test_the_log_start_survives_a_restart(self) -> None:
        fs, manager = two_logs()
        manager.logs[A].increment_log_start_offset(4)
        manager.close()
        assert open_manager(fs).logs[A].log_start_offset == 4

    def test_nothing_is_written_when_the_recovery_point_on_disk_is_low_anyway(self) -> None:
        fs, manager = two_logs()
        manager.logs[A].truncate_to(6)
        assert not fs.exists(f"{DATA}/recovery-point-offset-checkpoint")


class TestSeveralDirectories:
    DIRS = ("/disk1/", "/disk2")

    def test_logs_are_spread_and_found_again(self) -> None:
        fs = MemoryFileSystem()
        manager = open_manager(fs, dirs=self.DIRS)
        for n in range(4):
            fill(manager.create(TopicPartition("t", n), ID_A), n)
        manager.checkpoint_high_watermarks({TopicPartition("t", n): n for n in range(4)})
        manager.close(broker_epoch=3)
        assert len([name for name in fs.listdir("/disk1") if name.startswith("t-")]) == 2
        again = open_manager(fs, dirs=self.DIRS)
        assert again.previous_broker_epoch == 3
        assert {tp.partition: log.log_end_offset for tp, log in again.logs.items()} == {0: 0, 1: 3, 2: 6, 3: 9}
        assert {tp.partition: hw for tp, hw in again.high_watermarks.items()} == {0: 0, 1: 1, 2: 2, 3: 3}

    def test_a_partition_in_two_places_is_refused(self) -> None:
        fs = MemoryFileSystem()
        manager = open_manager(fs, dirs=self.DIRS)
        manager.create(A, ID_A)
        manager.close()
        fs.makedirs("/disk2/a-0")
        with pytest.raises(DataDirRefused, match="both"):
            open_manager(fs, dirs=self.DIRS)

    def test_one_unclean_directory_makes_the_start_unclean(self) -> None:
        fs = MemoryFileSystem()
        open_manager(fs, dirs=self.DIRS).close(broker_epoch=4)
        fs.remove("/disk2/.kafka_cleanshutdown")
        again = open_manager(fs, dirs=self.DIRS)
        assert not again.clean
        assert again.previous_broker_epoch == -1

    def test_a_refused_directory_releases_the_others(self) -> None:
        fs = MemoryFileSystem()
        fs.makedirs("/disk2/photos")
        with pytest.raises(DataDirRefused):
            open_manager(fs, dirs=self.DIRS)
        open_manager(fs, dirs=("/disk1",))


def test_the_cluster_can_be_learned_before_opening() -> None:
    fs = MemoryFileSystem()
    assert LogManager.cluster_id_on_disk([DATA], fs) is None
    open_manager(fs).close()
    assert LogManager.cluster_id_on_disk([f"{DATA}/"], fs) == "cluster"
