"""Cutting a log back to what the leader has.

Order matters for a crash in between: the recovery point is lowered before anything is cut, for a higher one would hide
damage below it. Later segments go first, newest before oldest, so that what is left is always a
prefix; then the data is cut and fsynced, then the epochs. Recovery finishes the rest. The data is fsynced even when
none of it had been flushed: else a power loss could leave a mixture of old and new batches that looks whole.

To begin anew at another offset has no such prefix: an empty log does not tell where it begins, and the checkpoint of log
starts may still say where it began before. So the offset is put down first, in a file of its own (`RESTART`), which goes
when all is done; opening a log finds it, and finishes. (Kafka has no such file; a crash in the middle of its
``truncateFullyAndStartAt`` leaves a log at its old start.)
"""

from __future__ import annotations

from minikafka.log.epochs import LeaderEpochCache
from minikafka.log.errors import DataDirRefused
from minikafka.log.filesystem import FileSystem
from minikafka.log.producer_state import ProducerStateManager
from minikafka.log.segments import Boundary, SegmentList
from minikafka.protocol.records import OFFSET_MAX

RESTART = "log-restart"
"""In the log's directory while it is to begin anew: the offset where, in digits."""


class LogTruncator:
    """Cuts the files of one log, and what is known of the records in them. Methods raise OSError, and have then done half.

    What comes before and in between is the log's business: a flush that is under way, the recovery point, its offsets.
    """

    __slots__ = ("_directory", "_epochs", "_fs", "_producers", "_segments")

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        segments: SegmentList,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._segments = segments
        self._epochs = epochs
        self._producers = producers

    def cut(self, boundary: Boundary, log_start_offset: int, *, was_flushed: bool) -> None:
        """Remove what lies behind a boundary. `was_flushed`: some of it was, so that its epochs are on the disk, too."""
        end = boundary.offset
        self._segments.cut(boundary)
        self._epochs.truncate_from_end(end, durable=was_flushed)
        self._producers.remove_snapshots(above=end)
        self._fs.fsync_dir(self._directory)  # a later segment or snapshot must not come back after a power loss
        if len(self._producers):
            self._producers.rebuild(self._segments, log_start_offset, end, now_ms=0)

    def begin_anew(self, offset: int) -> None:
        """First of three steps: everything is removed, and the log is empty and begins at `offset`."""
        self._fs.write_atomic(f"{self._directory}/{RESTART}", f"{offset}\n".encode())
        while self._segments:
            self._segments.remove_last()
        self._producers.remove_snapshots(above=-1)
        self._producers.clear()
        self._epochs.clear()
        self._segments.add(offset)

    def make_durable(self) -> None:
        """Second step of beginning anew: nothing that was removed comes back. The log's start has to be made durable next."""
        self._fs.fsync_dir(self._directory)
        if self._segments.tail_directory is not None:
            self._fs.fsync_dir(
                self._segments.tail_directory
            )  # a tail that came back would fit a new segment of the same name

    def finish(self) -> None:
        """Last step of beginning anew."""
        forget_restart(self._fs, self._directory)


def interrupted_restart(fs: FileSystem, directory: str) -> int | None:
    """Where a log was about to begin anew when something came in between; None when nothing did.

    Raises DataDirRefused, OSError.
    """
    path = f"{directory}/{RESTART}"
    if not fs.exists(path):
        return None
    try:
        offset = int(fs.read_bytes(path))
    except ValueError:
        offset = -1
    if not 0 <= offset <= OFFSET_MAX:
        raise DataDirRefused(f"{path}: holds no offset; remove it to keep the log as it is")
    return offset


def forget_restart(fs: FileSystem, directory: str) -> None:
    """It is done, durably: a power loss must not bring it back over what is appended from now on. Raises OSError."""
    fs.remove(f"{directory}/{RESTART}")
    fs.fsync_dir(directory)
