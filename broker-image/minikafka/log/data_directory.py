"""One directory of `log.dirs`: its lock, its owner, its checkpoints and its clean shutdown marker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from minikafka.log.checkpoints import (
    CLEAN_SHUTDOWN,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    REPLICATION_OFFSETS,
    MetaProperties,
    format_clean_shutdown,
    format_meta_properties,
    parse_clean_shutdown,
    parse_meta_properties,
    read_offsets,
    write_offsets,
)
from minikafka.log.errors import DataDirRefused, LogDirFailure, MalformedCheckpoint
from minikafka.log.filesystem import FileLock, FileSystem
from minikafka.protocol.types import TopicPartition

LOCK_FILE = ".lock"
DELETED_SUFFIX = "-delete"
KNOWN_FILES = {META_PROPERTIES, CLEAN_SHUTDOWN, LOCK_FILE, REPLICATION_OFFSETS, RECOVERY_POINTS, LOG_START_OFFSETS}
IGNORED = {"lost+found"}
"""Made by ext4 at the root of every volume."""


class OffsetCheckpoint:
    """One `*-offset-checkpoint` file, written from the event loop or from a thread, newest contents last."""

    __slots__ = ("_fs", "_lock", "_path", "_sequence", "_written", "offsets")

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._lock = Lock()
        self._sequence = 0
        self._written = 0
        self.offsets: dict[TopicPartition, int] = read_offsets(fs, path)
        """What the file holds, or will hold once the last `prepare`d write has run."""

    @property
    def is_on_disk(self) -> bool:
        """Every write that was prepared has run."""
        return self._written == self._sequence

    def prepare(self, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """The write of these offsets, to be run once on any thread; it does nothing when a later one has run already.

        Running it raises OSError.
        """
        self._sequence += 1
        sequence, copy = self._sequence, dict(offsets)
        self.offsets = copy

        def write() -> None:
            with self._lock:
                if sequence > self._written:
                    write_offsets(self._fs, self._path, copy)
                    self._written = sequence

        return write


class DataDirectory:
    """See the module. `DataDirectory.open` refuses before it changes anything."""

    __slots__ = (
        "_lock",
        "clean",
        "fs",
        "high_watermarks",
        "log_starts",
        "path",
        "previous_broker_epoch",
        "recovery_points",
    )

    def __init__(self, fs: FileSystem, path: str, lock: FileLock) -> None:
        self.fs = fs
        self.path = path
        self._lock = lock
        self.clean = False
        self.previous_broker_epoch = -1
        self.high_watermarks = OffsetCheckpoint(fs, f"{path}/{REPLICATION_OFFSETS}")
        self.recovery_points = OffsetCheckpoint(fs, f"{path}/{RECOVERY_POINTS}")
        self.log_starts = OffsetCheckpoint(fs, f"{path}/{LOG_START_OFFSETS}")

    @classmethod
    def open(cls, fs: FileSystem, path: str, owner: MetaProperties) -> DataDirectory:
        """Lock the directory (made when absent) and check that it is ours and holds nothing foreign.

        Raises DataDirRefused with one line that says what to do, LogDirFailure.
        """
        try:
            fs.makedirs(path)
            lock = fs.lock(f"{path}/{LOCK_FILE}")
        except BlockingIOError:
            raise DataDirRefused(f"{path}: a running broker holds the lock; stop it or use another log.dirs") from None
        except OSError as error:
            raise LogDirFailure(f"{path}: {error}", permanent=False) from error
        try:
            _check_owner(fs, path, owner)
            _check_contents(fs, path)
            return cls(fs, path, lock)
        except MalformedCheckpoint as error:
            lock.release()
            raise DataDirRefused(f"{error}; if the file is beyond repair, remove it") from error
        except OSError as error:
            lock.release()
            raise LogDirFailure(f"{path}: {error}", permanent=False) from error
        except BaseException:
            lock.release()
            raise

    def partitions(self) -> list[TopicPartition]:
        """The logs in this directory. Raises OSError."""
        return [tp for name in self.fs.listdir(self.path) if (tp := _partition(self.fs, self.path, name)) is not None]

    def remove_deleted(self) -> None:
        """Remove the directories of partitions that were being deleted. Raises OSError."""
        for name in self.fs.listdir(self.path):
            if name.endswith(DELETED_SUFFIX) and self.fs.is_dir(f"{self.path}/{name}"):
                self.fs.rmtree(f"{self.path}/{name}")

    def take_clean_marker(self) -> None:
        """Note whether the last shutdown was clean, and delete the marker before any log is loaded (KAFKA-10471).

        A crash during loading must not look clean the next time. Raises OSError.
        """
        marker = f"{self.path}/{CLEAN_SHUTDOWN}"
        if self.fs.exists(marker):
            self.clean = True
            self.previous_broker_epoch = parse_clean_shutdown(self.fs.read_bytes(marker))
            self.fs.remove(marker)
            self.fs.fsync_dir(self.path)

    def write_clean_marker(self, broker_epoch: int) -> None:
        """Only after all logs were flushed and closed and their recovery points written. Raises OSError."""
        self.fs.write_atomic(f"{self.path}/{CLEAN_SHUTDOWN}", format_clean_shutdown(broker_epoch))

    def unlock(self) -> None:
        self._lock.release()


def read_owner(fs: FileSystem, path: str) -> MetaProperties | None:
    """Whose directory this is; None when it is new. Raises DataDirRefused when it cannot be told."""
    meta_path = f"{path}/{META_PROPERTIES}"
    if not fs.exists(meta_path):
        return None
    try:
        return parse_meta_properties(fs.read_bytes(meta_path), meta_path)
    except MalformedCheckpoint as error:
        raise DataDirRefused(str(error)) from error


def _check_owner(fs: FileSystem, path: str, owner: MetaProperties) -> None:
    found = read_owner(fs, path)
    if found is None:
        if any(_partition(fs, path, name) is not None for name in fs.listdir(path)):
            raise DataDirRefused(f"{path}: holds logs but no {META_PROPERTIES}; it is not a whole data directory")
        _check_contents(fs, path)
        fs.write_atomic(f"{path}/{META_PROPERTIES}", format_meta_properties(owner))
    elif found.cluster_id != owner.cluster_id:
        raise DataDirRefused(f"{path}: belongs to cluster.id {found.cluster_id}, this broker is of {owner.cluster_id}")
    elif found.node_id != owner.node_id:
        raise DataDirRefused(f"{path}: belongs to node.id {found.node_id}, this broker is {owner.node_id}")


def _check_contents(fs: FileSystem, path: str) -> None:
    for name in fs.listdir(path):
        if name in KNOWN_FILES or name in IGNORED or (name.endswith(".tmp") and name[:-4] in KNOWN_FILES):
            continue
        if fs.is_dir(f"{path}/{name}") and (name.endswith(DELETED_SUFFIX) or _partition(fs, path, name) is not None):
            continue
        raise DataDirRefused(f"{path}/{name}: not part of a data directory; move it away")


def _partition(fs: FileSystem, path: str, name: str) -> TopicPartition | None:
    if name.endswith(DELETED_SUFFIX) or not fs.is_dir(f"{path}/{name}"):
        return None
    try:
        return TopicPartition.parse(name)
    except ValueError:
        return None
