"""What a refusal of the disk means for a log."""

from __future__ import annotations

import errno

import pytest
from minikafka.log.availability import FSYNC_FAILED, Availability
from minikafka.log.errors import FsyncFailed, LogDirFailure
from minikafka.log.filesystem import MemoryFileSystem

from tests.unit.log.build import DIR, TP

ERROR = OSError(errno.EIO, "Input/output error")


def made() -> tuple[MemoryFileSystem, Availability]:
    fs = MemoryFileSystem()
    fs.makedirs(DIR)
    return fs, Availability(fs, DIR, TP)


def test_a_refusal_is_only_told() -> None:
    _, availability = made()
    with (
        pytest.raises(LogDirFailure, match=r"^t-0: read failed: .*Input/output error") as raised,
        availability.refusing("read failed"),
    ):
        raise ERROR
    assert (raised.value.topic_partition, raised.value.permanent) == (TP, False)
    assert raised.value.__cause__ is ERROR
    assert availability.failure is None
    availability.check_online()


@pytest.mark.parametrize("error", [ERROR, LogDirFailure("no checkpoint", permanent=False)])
def test_half_done_is_offline(error: Exception) -> None:
    fs, availability = made()
    with pytest.raises(LogDirFailure, match="truncation failed"), availability.offline_unless_done("truncation failed"):
        raise error
    with pytest.raises(LogDirFailure, match="truncation failed") as raised:
        availability.check_online()
    assert raised.value is not availability.failure, "a raised one keeps its callers"
    assert not fs.exists(f"{DIR}/{FSYNC_FAILED}")


def test_done_is_online() -> None:
    _, availability = made()
    with availability.offline_unless_done("truncation failed"):
        pass
    assert availability.failure is None


@pytest.mark.parametrize(("error", "permanent"), [(FsyncFailed(errno.EIO, "x"), False), (ERROR, True)])
def test_after_a_failed_fsync_it_is_permanent_and_the_next_process_is_told(error: OSError, permanent: bool) -> None:
    fs, availability = made()
    assert availability.go_offline("flush failed", error, permanent=permanent).permanent
    assert availability.failure is not None and availability.failure.permanent
    assert fs.exists(f"{DIR}/{FSYNC_FAILED}")


def test_what_could_not_be_opened_is_no_failed_fsync() -> None:
    """A broker whose descriptors strangers had taken ended itself."""
    fs, availability = made()
    error = OSError(errno.EMFILE, "Too many open files")
    assert not availability.go_offline("flush failed", error, permanent=True).permanent
    assert not fs.exists(f"{DIR}/{FSYNC_FAILED}")


def test_a_disk_that_takes_no_file_either() -> None:
    fs, availability = made()

    def refuse(operation: str, path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", path)

    fs.fault_hook = refuse
    assert availability.go_offline("flush failed", ERROR, permanent=True).permanent


def test_it_only_gets_worse() -> None:
    _, availability = made()
    availability.go_offline("first", ERROR)
    availability.go_offline("second", ERROR)
    assert "first" in str(availability.failure)
    availability.go_offline("third", ERROR, permanent=True)
    assert "third" in str(availability.failure)
    availability.go_offline("fourth", ERROR)
    assert "third" in str(availability.failure)
