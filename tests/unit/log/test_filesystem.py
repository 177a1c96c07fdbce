"""The real and the simulated disk behave alike; the simulated one loses what POSIX lets a disk lose."""

from __future__ import annotations

import os
import random
import resource
from pathlib import Path

import pytest
from minikafka.log.filesystem import FileSystem, MemoryFileSystem, RealFileSystem


@pytest.fixture(params=["real", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    if request.param == "real":
        return RealFileSystem(), str(tmp_path)
    fs = MemoryFileSystem()
    fs.makedirs("/root")
    return fs, "/root"


class TestBoth:
    def test_append_read_truncate(self, disk: tuple[FileSystem, str]) -> None:
        fs, root = disk
        file = fs.open_append(f"{root}/f")
        file.append(b"abc")
        file.append(bytearray(b"de"), memoryview(b"xfx")[1:2], b"g")
        assert file.size == 7
        assert file.pread(4, 2) == b"cdef"
        assert file.pread(10, 5) == b"fg"
        assert file.pread(10, 50) == b""
        file.truncate(3)
        file.append(b"Z")
        file.fsync()
        assert fs.read_bytes(f"{root}/f") == b"abcZ"
        assert fs.open_read(f"{root}/f").size == fs.file_size(f"{root}/f") == 4
        file.truncate(6)
        assert file.pread(6, 0) == b"abcZ\0\0"
        file.close()
        file.close()
        again = fs.open_append(f"{root}/f")
        again.append(b"!")
        assert fs.read_bytes(f"{root}/f") == b"abcZ\0\0!"
        fs.write_again(f"{root}/f")
        assert fs.read_bytes(f"{root}/f") == b"abcZ\0\0!"
        large = bytes(range(256)) * 10_000
        fs.write_atomic(f"{root}/large", large)
        fs.write_again(f"{root}/large")
        assert fs.read_bytes(f"{root}/large") == large

    def test_directories_and_names(self, disk: tuple[FileSystem, str]) -> None:
        fs, root = disk
        fs.makedirs(f"{root}/a/b/c")
        fs.makedirs(f"{root}/a/b/c")
        assert fs.is_dir(f"{root}/a/b")
        fs.write_atomic(f"{root}/a/x", b"1")
        fs.write_atomic(f"{root}/a/x", b"2", durable=False)
        fs.fsync_path(f"{root}/a/x")
        fs.fsync_path(f"{root}/a/none")
        assert fs.read_bytes(f"{root}/a/x") == b"2"
        assert fs.listdir(f"{root}/a") == ["b", "x"]
        fs.rename(f"{root}/a/x", f"{root}/a/y")
        assert fs.exists(f"{root}/a/y")
        assert not fs.exists(f"{root}/a/x")
        assert not fs.is_dir(f"{root}/a/y")
        fs.write_atomic(f"{root}/a/b/c/z", b"3")
        fs.rename(f"{root}/a/b", f"{root}/q")
        assert fs.listdir(f"{root}/q/c") == ["z"]
        assert fs.listdir(f"{root}/a") == ["y"]
        fs.rmtree(f"{root}/q")
        fs.rmtree(f"{root}/q")
        fs.remove(f"{root}/a/y")
        fs.remove(f"{root}/a/y")
        assert fs.listdir(root) == ["a"]
        assert fs.disk_free(root) > 0
        assert fs.modified_ms(fs_file(fs, f"{root}/m")) >= 0

    @pytest.mark.parametrize(
        "action", ["open_read", "read_bytes", "listdir", "file_size", "modified_ms", "open_append"]
    )
    def test_what_is_absent_is_an_error(self, disk: tuple[FileSystem, str], action: str) -> None:
        fs, root = disk
        with pytest.raises(FileNotFoundError):
            getattr(fs, action)(f"{root}/none/none")

    def test_a_lock_excludes_others_until_released(self, disk: tuple[FileSystem, str]) -> None:
        fs, root = disk
        lock = fs.lock(f"{root}/.lock")
        with pytest.raises(BlockingIOError):
            fs.lock(f"{root}/.lock")
        lock.release()
        lock.release()
        fs.lock(f"{root}/.lock").release()


def fs_file(fs: FileSystem, path: str) -> str:
    fs.write_atomic(path, b"x")
    return path


class TestReal:
    def test_a_dropped_file_is_closed(self, tmp_path: Path) -> None:
        fs = RealFileSystem()
        file = fs.open_append(f"{tmp_path}/f")
        fd = file.fileno()
        assert "f" in repr(file)
        del file
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)

    def test_a_partial_write_is_completed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = RealFileSystem().open_append(f"{tmp_path}/f")
        write = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:3]))
        monkeypatch.setattr(os, "writev", lambda fd, data: write(fd, b"".join(map(bytes, data))[:4]))
        file.append(b"abcdefgh")
        file.append(b"12", b"345", b"6789")
        assert file.size == 17
        assert (tmp_path / "f").read_bytes() == b"abcdefgh123456789"
        monkeypatch.setattr(os, "write", lambda fd, data: 0)
        with pytest.raises(OSError, match="no more bytes"):
            file.append(b"x")

    def test_a_file_in_the_place_of_a_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "f").write_text("x")
        with pytest.raises(FileExistsError):
            RealFileSystem().makedirs(f"{tmp_path}/f")
        made = os.mkdir

        def raced(path: str) -> None:
            made(path)
            raise FileExistsError(path)

        monkeypatch.setattr(os, "mkdir", raced)
        RealFileSystem().makedirs(f"{tmp_path}/raced")


class TestSimulatedLoss:
    def disk(self) -> MemoryFileSystem:
        fs = MemoryFileSystem()
        fs.makedirs("/d")
        return fs

    def test_unflushed_bytes_are_lost(self) -> None:
        fs = self.disk()
        file = fs.open_append("/d/f")
        file.append(b"abc")
        file.fsync()
        fs.fsync_dir("/d")
        file.append(b"def")
        fs.power_loss()
        assert fs.read_bytes("/d/f") == b"abc"

    def test_a_new_name_needs_its_directory_fsynced(self) -> None:
        fs = self.disk()
        file = fs.open_append("/d/f")
        file.append(b"abc")
        file.fsync()
        fs.power_loss()
        assert not fs.exists("/d/f")

    def test_a_removed_name_comes_back(self) -> None:
        fs = self.disk()
        fs.write_atomic("/d/f", b"abc")
        fs.remove("/d/f")
        fs.power_loss()
        assert fs.read_bytes("/d/f") == b"abc"
        fs.remove("/d/f")
        fs.fsync_dir("/d")
        fs.power_loss()
        assert not fs.exists("/d/f")

    def test_a_truncation_is_undone(self) -> None:
        fs = self.disk()
        fs.write_atomic("/d/f", b"abcdef")
        file = fs.open_append("/d/f")
        file.truncate(4)
        file.truncate(2)
        file.append(b"XY")
        fs.power_loss()
        assert fs.read_bytes("/d/f") == b"abcdef"

    def test_a_dead_process_loses_nothing_but_its_handles(self) -> None:
        fs = self.disk()
        file = fs.open_append("/d/f")
        file.append(b"abc")
        fs.kill()
        assert fs.read_bytes("/d/f") == b"abc"
        for use in (
            lambda: file.append(b"x"),
            lambda: file.pread(1, 0),
            lambda: file.truncate(0),
            file.fsync,
            file.fileno,
        ):
            with pytest.raises(OSError, match=r"dead|no descriptor"):
                use()

    def test_a_crash_keeps_what_was_flushed_and_perhaps_more(self) -> None:
        seen = set()
        for seed in range(300):
            fs = self.disk()
            file = fs.open_append("/d/f")
            file.append(b"abc")
            file.fsync()
            fs.fsync_dir("/d")
            file.append(b"defghi")
            fs.open_append("/d/new").append(b"n")
            fs.crash(random.Random(seed))
            data = fs.read_bytes("/d/f")
            assert data.startswith(b"abc")
            assert len(data) <= 9
            seen.add((len(data), b"abcdefghi".startswith(data), fs.exists("/d/new")))
        assert {length for length, _, _ in seen} == set(range(3, 10))
        assert {whole for _, whole, _ in seen} == {whole for _, _, whole in seen} == {True, False}
        for seed in range(50):
            fs = self.disk()
            fs.write_atomic("/d/f", b"abc")
            file = fs.open_append("/d/f")
            file.truncate(1)
            file.append(b"XYZ")
            fs.crash(random.Random(seed), tear=False)
            assert fs.read_bytes("/d/f") in (b"abc", b"a", b"aX", b"aXY", b"aXYZ")

    def test_a_full_disk_takes_what_fits(self) -> None:
        fs = MemoryFileSystem(capacity=10)
        fs.makedirs("/d")
        file = fs.open_append("/d/f")
        file.append(b"12345678")
        assert fs.disk_free("/d") == 2
        with pytest.raises(OSError, match="No space"):
            file.append(b"9", b"abc")
        assert file.size == 10
        with pytest.raises(OSError, match="No space"):
            fs.write_atomic("/d/g", b"x")
        assert MemoryFileSystem().disk_free("/") > 10**9


def test_descriptors_are_scarce_from_half_of_them_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of connections count, and one that is free again is noticed with the next file."""
    disk = RealFileSystem()
    file = disk.open_append(str(tmp_path / "f"))
    for limit, is_scarce in ((file.fileno() * 2 - 1, True), (file.fileno() * 2, False)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        assert disk.descriptors_are_scarce is is_scarce
    others = [os.open(os.devnull, os.O_RDONLY) for _ in range(5)]
    disk.write_atomic(str(tmp_path / "g"), b"", durable=False)
    assert disk.descriptors_are_scarce
    for each in others:
        os.close(each)
    disk.write_atomic(str(tmp_path / "g"), b"", durable=False)
    file.close()
    disk.open_read(str(tmp_path / "g")).close()
    assert not disk.descriptors_are_scarce
