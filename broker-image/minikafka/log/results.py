"""What the operations of a log return."""

from __future__ import annotations

from typing import NamedTuple

from minikafka.log.unflushed import FileRange


class AppendInfo(NamedTuple):
    """What an append did. Times in unix ms; `log_append_time` is -1 unless the topic uses LogAppendTime.

    With `duplicate`, nothing was written and the offsets are those of the first time; `log_append_time` is the batch's largest
    timestamp then, as in Kafka. When nothing at all was
    appended (a follower's fetch without whole batches), `batches` is 0, `first_offset` is the log end offset and
    `last_offset` one less.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    batches: int
    records: int
    bytes: int
    duplicate: bool
    log_append_time: int


class FetchSlice(NamedTuple):
    """Whole batches to send: `size` bytes in all. More than one range when a part is not flushed to the data volume
    yet."""

    ranges: list[FileRange]
    size: int

    def read(self) -> bytes:
        """The bytes themselves, for callers without sendfile. Raises OSError."""
        return b"".join([part.file.pread(part.length, part.position) for part in self.ranges])


class TimestampOffset(NamedTuple):
    """A record found by its timestamp (unix ms)."""

    timestamp: int
    offset: int
    leader_epoch: int


class RecoveryInfo(NamedTuple):
    """How a log was opened, for the event log."""

    clean: bool
    recovery_point: int
    log_end_offset: int
    truncated_bytes: int
    """Bytes cut off at the first damaged batch, with all later segments."""
    restored_bytes: int
    """Bytes copied from the unflushed volume."""
    segments_recovered: int
    notes: tuple[str, ...]
    """What was repaired, one line each."""
    lost: bool = False
    """The log has less than was flushed: a batch below the recovery point is damaged or missing."""
    unflushed_lost: bool = False
    """The unflushed volume should have held this log's folder and did not: what it held is gone."""
    restarted: bool = False
    """The log was about to drop everything and begin anew elsewhere when something came in between; that was finished."""
