"""Whose a data directory is, and what is refused before anything is changed."""

from __future__ import annotations

import errno
import multiprocessing
from pathlib import Path

import pytest
from minikafka.log.errors import DataDirRefused, LogDirFailure
from minikafka.log.filesystem import FileSystem, MemoryFileSystem, RealFileSystem
from minikafka.log.manager import LogManager
from minikafka.protocol.types import TopicPartition

from tests.unit.log.managed import DATA, ID_A, A, fill, open_manager, two_logs


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
            "version=1\ncluster.id=c\nnode.id=\N{SUPERSCRIPT TWO}",
            "version=1\ncluster.id=c\nnode.id=" + "9" * 5000,
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
        for damage in (b"x", b"9223372036854775807", b"9" * 5000):
            fs.write_atomic(f"{DATA}/{name}", b"0\n1\na 0 " + damage + b"\n")
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


@pytest.mark.slow
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
