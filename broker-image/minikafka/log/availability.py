"""Whether a log may be used: what to raise when the disk refuses, and when that takes the log offline.

A refusal that changed nothing is only told. What was left half done makes memory and disk differ, and after a failed fsync
nothing unflushed can be trusted any more: then the log is offline until `LogManager.reopen` makes it anew.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from minikafka.log.errors import CopyRefused, FsyncFailed, LogDirFailure
from minikafka.log.filesystem import FileSystem
from minikafka.protocol.types import TopicPartition

SCARCE = (errno.EMFILE, errno.ENFILE)
"""No file can be opened, on whatever disk."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""No room on the disk, or none that is this user's."""

FSYNC_FAILED = "fsync-failed"
"""In the log's directory after a failed fsync: the kernel may take pages for written that are not, and shows them all the same.
No fsync writes them then ("fsyncgate", 2018); who believes what he reads loses it with the next power loss. A file in the page
cache is remembered just as long as such pages are seen. (Kafka trusts them.)"""


class Availability:
    """Of one log. `failure` is why it is offline, None while it is not; it never gets better, and may become `permanent`."""

    __slots__ = ("_directory", "_fs", "_topic_partition", "failure")

    def __init__(self, fs: FileSystem, directory: str, topic_partition: TopicPartition) -> None:
        self._fs = fs
        self._directory = directory
        self._topic_partition = topic_partition
        self.failure: LogDirFailure | None = None

    def check_online(self) -> None:
        """Raises LogDirFailure when the log is offline: a new one each time, for a raised one keeps its callers."""
        found = self.failure
        if found is not None:
            raise self._failure(str(found), found.permanent, found.disk_full)

    def refused(self, what: str, error: OSError | LogDirFailure, *, permanent: bool = False) -> LogDirFailure:
        """The disk refused, and nothing has changed. The error to raise."""
        problem = f"{self._topic_partition}: {what}: {error}"
        full = error.disk_full if isinstance(error, LogDirFailure) else error.errno in FULL
        found = self._failure(problem, permanent, full)
        found.is_of_disk = isinstance(error, LogDirFailure) or error.errno not in SCARCE
        return found

    def _failure(self, problem: str, permanent: bool, disk_full: bool) -> LogDirFailure:
        return LogDirFailure(problem, permanent=permanent, topic_partition=self._topic_partition, disk_full=disk_full)

    def go_offline(self, what: str, error: OSError | LogDirFailure, *, permanent: bool = False) -> LogDirFailure:
        """Something was left half done, or cannot be trusted: refuse everything from now on. The error to raise."""
        lost = (
            not isinstance(error, CopyRefused) and getattr(error, "errno", None) not in SCARCE
        )  # it could not be opened
        permanent = isinstance(error, FsyncFailed) or (permanent and lost)
        if permanent:
            self._note_failed_fsync()
        if self.failure is None or permanent > self.failure.permanent:
            self.failure = self.refused(what, error, permanent=permanent)
        return self.refused(what, error, permanent=permanent)

    @contextmanager
    def refusing(self, what: str) -> Iterator[None]:
        """For a step that changes nothing when the disk refuses it. Raises LogDirFailure."""
        try:
            yield
        except OSError as error:
            raise self.refused(what, error) from error

    @contextmanager
    def offline_unless_done(self, what: str, *, permanent: bool = False) -> Iterator[None]:
        """For steps of which none or all have to be done. Raises LogDirFailure."""
        try:
            yield
        except (OSError, LogDirFailure) as error:
            raise self.go_offline(what, error, permanent=permanent) from error

    def _note_failed_fsync(self) -> None:
        """For the next opening. A disk that takes no file either leaves nothing to be noted."""
        try:
            self._fs.write_atomic(f"{self._directory}/{FSYNC_FAILED}", b"", durable=False)
        except OSError:
            pass
