"""Writing to ``__consumer_offsets``: each write is answered in time, with an error that clients of groups expect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol

from minikafka.groups.timers import Now, Timer, TimerQueue
from minikafka.protocol.errors import ErrorCode

GroupRecord = tuple[bytes, bytes | None]
"""Key and value; a value of None is a tombstone."""

Done = Callable[[ErrorCode, Now], None]


class Append(Protocol):
    """The broker's side: append to a partition of ``__consumer_offsets`` as acks=all does."""

    def __call__(self, partition: int, records: Sequence[GroupRecord], done: Done) -> None:
        """Call `done` once: with NONE when the high watermark has passed the records, else with the produce error."""
        ...


class OffsetsLog:
    """Adds to :class:`Append` what it cannot know: a deadline, and that the partition may go to another broker."""

    def __init__(self, append: Append, timers: TimerQueue, timeout_ms: int) -> None:
        self._append = append
        self._timers = timers
        self._timeout_ms = timeout_ms
        self._sequence = count(1)
        self._under_way: dict[int, dict[int, _Write]] = {}

    def is_writing(self, partition: int) -> bool:
        """Whether a write is under way whose outcome is not known yet; one that has timed out may still be replicated."""
        return bool(self._under_way.get(partition))

    def next_sequence(self) -> int:
        """A number for the next write; writes are appended in the order of their numbers."""
        return next(self._sequence)

    def write(self, partition: int, records: Sequence[GroupRecord], sequence: int, now: Now, done: Done) -> None:
        """Append records.

        `done` is called with the produce error, REQUEST_TIMED_OUT after offsets.commit.timeout.ms, or
        NOT_LEADER_OR_FOLLOWER from :meth:`abandon`. It is called a second time, with NONE, when a write that had timed
        out is replicated after all: the log has it, so memory must have it too.
        """
        write = _Write(done)
        running = self._under_way.setdefault(partition, {})
        running[sequence] = write

        def settle(error: ErrorCode, at: Now) -> None:
            if running.pop(sequence, None) is None:
                return
            if write.timer is not None:
                write.timer.cancel()
            if not write.answered or error is ErrorCode.NONE:
                write.answered = True
                done(error, at)

        def time_out(at: Now) -> None:
            write.answered = True
            done(ErrorCode.REQUEST_TIMED_OUT, at)

        write.timer = self._timers.timer(time_out)
        write.timer.set(now.after_ms(self._timeout_ms))
        self._append(partition, records, settle)

    def abandon(self, partition: int, now: Now) -> None:
        """This broker does not lead that partition any more: what was under way is somebody else's to confirm."""
        running = self._under_way.pop(partition, {})
        writes = list(running.values())
        running.clear()
        for write in writes:
            if write.timer is not None:
                write.timer.cancel()
            if not write.answered:
                write.answered = True
                write.done(ErrorCode.NOT_LEADER_OR_FOLLOWER, now)


class _Write:
    __slots__ = ("answered", "done", "timer")

    def __init__(self, done: Done) -> None:
        self.done = done
        self.answered = False
        self.timer: Timer | None = None


_NOT_AVAILABLE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
_TIMED_OUT = {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE}
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)

_REMOVAL_ERRORS = _NOT_AVAILABLE | _TIMED_OUT | dict.fromkeys(_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR)
_COMMIT_ERRORS = _NOT_AVAILABLE | _TIMED_OUT | dict.fromkeys(_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
_GROUP_ERRORS = (
    _NOT_AVAILABLE
    | {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS}
    | dict.fromkeys(_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR)
)


def commit_error(append_error: ErrorCode) -> ErrorCode:
    """What an OffsetCommit is told about its append (``GroupCoordinatorService.handleOperationException``)."""
    return _COMMIT_ERRORS.get(append_error, append_error)


def removal_error(append_error: ErrorCode) -> ErrorCode:
    """What an OffsetDelete or DeleteGroups is told about its append."""
    return _REMOVAL_ERRORS.get(append_error, append_error)


def group_error(append_error: ErrorCode) -> ErrorCode:
    """What a JoinGroup or SyncGroup is told about its append (``appendGroupMetadataErrorToResponseError``)."""
    return _GROUP_ERRORS.get(append_error, append_error)
