"""Injected faults: a file that another process writes decides over writes, fsyncs and the clock, at once and until it says so."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from minikafka.log.filesystem import FileSystem
from minikafka.log.injection import BYTES, FaultFile, FaultyFileSystem, InjectedFaults, step_clock


@pytest.fixture
def told(tmp_path: Path) -> Path:
    path = tmp_path / "faults"
    path.touch()
    return path


@pytest.fixture
def disk(told: Path) -> FaultyFileSystem:
    return FaultyFileSystem(FaultFile(str(told)))


def test_an_empty_file_is_no_fault(told: Path, disk: FaultyFileSystem, tmp_path: Path) -> None:
    assert FaultFile(str(told)).now == InjectedFaults()
    assert told.stat().st_size == BYTES
    file = disk.open_append(f"{tmp_path}/log")
    file.append(b"ab", b"c")
    file.fsync()
    assert file.pread(3, 0) == b"abc"


def test_without_the_file_the_broker_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FaultFile(f"{tmp_path}/nowhere")


WRITES: dict[str, Callable[[FileSystem, str], object]] = {
    "append": lambda disk, folder: disk.open_append(f"{folder}/old").append(b"x"),
    "a new file": lambda disk, folder: disk.open_append(f"{folder}/new"),
    "a new folder": lambda disk, folder: disk.makedirs(f"{folder}/a/b"),
    "a checkpoint": lambda disk, folder: disk.write_atomic(f"{folder}/old", b"x"),
}
SYNCS: dict[str, Callable[[FileSystem, str], object]] = {
    "a file": lambda disk, folder: disk.open_append(f"{folder}/old").fsync(),
    "a path": lambda disk, folder: disk.fsync_path(f"{folder}/old"),
    "a folder": lambda disk, folder: disk.fsync_dir(folder),
    "a rename": lambda disk, folder: disk.rename(f"{folder}/old", f"{folder}/renamed"),
    "a checkpoint": lambda disk, folder: disk.write_atomic(f"{folder}/other", b"x"),
}


@pytest.mark.parametrize("operation", WRITES)
def test_a_full_disk_takes_nothing_and_gives_what_it_has(
    told: Path, disk: FaultyFileSystem, tmp_path: Path, operation: str
) -> None:
    (tmp_path / "old").write_bytes(b"before")
    InjectedFaults(write_errno=errno.ENOSPC).write(told)
    with pytest.raises(OSError, match=r"No space left on device \(injected\)") as refused:
        WRITES[operation](disk, str(tmp_path))
    assert refused.value.errno == errno.ENOSPC
    assert disk.read_bytes(f"{tmp_path}/old") == b"before"
    assert not (tmp_path / "new").exists()
    disk.fsync_path(f"{tmp_path}/old")
    InjectedFaults().write(told)
    WRITES[operation](disk, str(tmp_path))


@pytest.mark.parametrize("operation", SYNCS)
def test_every_fsync_fails_while_the_file_says_so(
    told: Path, disk: FaultyFileSystem, tmp_path: Path, operation: str
) -> None:
    (tmp_path / "old").write_bytes(b"before")
    InjectedFaults(fsync_errno=errno.EIO).write(told)
    with pytest.raises(OSError, match="injected") as refused:
        SYNCS[operation](disk, str(tmp_path))
    assert refused.value.errno == errno.EIO


def test_a_slow_fsync_ends_with_the_fault(told: Path, disk: FaultyFileSystem, tmp_path: Path) -> None:
    file = disk.open_append(f"{tmp_path}/log")
    InjectedFaults(fsync_millis=3_600_000).write(told)
    done = threading.Event()
    syncing = threading.Thread(target=lambda: (file.fsync(), done.set()))
    syncing.start()
    assert not done.wait(0.1)
    InjectedFaults().write(told)
    assert done.wait(30)
    syncing.join()


def test_the_clock_is_off_and_the_monotonic_one_is_not(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = time.time
    for name in ("time", "time_ns"):
        monkeypatch.setattr(time, name, getattr(time, name))  # put back afterwards
    step_clock(FaultFile(str(told)))
    before = time.monotonic()
    InjectedFaults(clock_millis=-7_200_000).write(told)
    assert -7201 < time.time() - true() < -7199
    assert -7201 < time.time_ns() / 1e9 - true() < -7199
    assert time.monotonic() - before < 3600
    InjectedFaults().write(told)
    assert abs(time.time() - true()) < 1
