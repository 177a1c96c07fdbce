"""What of a log is durable, and how the rest becomes so: a flush in three steps, so that fsync never runs on the event loop.

`job = log.start_flush()` on the loop, `job.run()` on any thread, `log.complete_flush(job)` on the loop again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import Lock

from minikafka.log.config import LogConfig
from minikafka.log.epochs import LeaderEpochCache
from minikafka.log.filesystem import FileSystem
from minikafka.log.segments import SegmentList


class FlushJob:
    """What has to be made durable so that all records below `end_offset` are.

    `error` is set when the disk refused; `seconds` is how long `run` took when it was given a clock.
    """

    __slots__ = ("_lock", "_steps", "cancelled", "done", "end_offset", "error", "finish", "paths", "seconds")

    def __init__(
        self,
        end_offset: int,
        steps: Sequence[Callable[[], None]],
        finish: Sequence[Callable[[], None]],
        paths: list[str],
    ) -> None:
        self.end_offset = end_offset
        self._steps = steps
        self.finish = finish
        self.paths = paths
        self._lock = Lock()
        self.done = False
        self.cancelled = False
        self.error: OSError | None = None
        self.seconds = 0.0

    def run(self, clock: Callable[[], float] | None = None) -> None:
        """Do the fsyncs, once. Thread-safe, never raises: `complete_flush` reports a failure.

        `clock` returns monotonic seconds.
        """
        with self._lock:
            if self.done or self.cancelled:
                return
            started = clock() if clock is not None else 0.0
            try:
                for step in self._steps:
                    step()
            except OSError as error:
                self.error = error
            if clock is not None:
                self.seconds = clock() - started
            self.done = True

    def cancel(self) -> None:
        """Afterwards the job has either run to its end or never will; waits for a run that is under way."""
        with self._lock:
            self.cancelled = not self.done


class Flusher:
    """What of one log is not durable yet, the flush that is under way, and when the next one is due.

    All records below `flushed_offset` survive a power loss: a plain attribute, for every append compares with it, which only the
    methods here move. They raise OSError when the disk refuses.
    """

    __slots__ = (
        "_directory", "_epochs", "_flush_messages", "_flush_ms", "_fs", "_job", "_segments", "_unflushed_since", "_unsynced",
        "flushed_offset",
    )  # fmt: skip

    def __init__(
        self, fs: FileSystem, directory: str, segments: SegmentList, epochs: LeaderEpochCache, config: LogConfig
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._segments = segments
        self._epochs = epochs
        self._job: FlushJob | None = None
        self._unflushed_since: float | None = None
        self._unsynced: list[str] = []
        """Indexes and snapshots of completed segments, for the next flush. The active segment's are rebuilt instead."""
        self.flushed_offset = 0
        self.configure(config)

    def configure(self, config: LogConfig) -> None:
        """Apply changed flush.messages and flush.ms."""
        self._flush_messages = config.flush_interval_messages
        self._flush_ms = config.flush_interval_ms

    def add_files(self, paths: Iterable[str]) -> None:
        """Closed files beside the records that the next flush makes durable, too."""
        self._unsynced += paths

    def is_due(self, now: float, log_end_offset: int) -> bool:
        """See `Log.needs_flush`."""
        unflushed = log_end_offset - self.flushed_offset
        if self._unsynced:
            return True
        if not unflushed:
            self._unflushed_since = now
            return False
        if self._unflushed_since is None:
            self._unflushed_since = now
        return (
            unflushed >= self._flush_messages
            or (now - self._unflushed_since) * 1000 >= self._flush_ms
            or self.flushed_offset < self._segments.active.base_offset
        )

    # -- a flush

    @property
    def under_way(self) -> bool:
        """Whether a flush has begun and is not completed."""
        return self._job is not None

    def start(self, log_end_offset: int) -> FlushJob:
        """First step: what is to be done so that everything below the log end offset is durable. One that is under way is
        returned again."""
        if self._job is None:
            self._job = self._plan(log_end_offset)
        return self._job

    def _plan(self, log_end_offset: int) -> FlushJob:
        steps: list[Callable[[], None]] = []
        finish: list[Callable[[], None]] = []
        if self._segments.take_new_files():
            steps.append(partial(self._fs.fsync_dir, self._directory))
        if log_end_offset > self.flushed_offset:
            for segment in self._segments.since(self.flushed_offset):  # oldest first: the durable part is a prefix
                if segment.unflushed is not None:
                    tails = segment.unflushed.begin_flush()
                    steps.append(partial(segment.unflushed.copy, tails))
                    finish.append(partial(segment.unflushed.finish_flush, tails))
                else:
                    steps.append(segment.data.fsync)
        steps += [partial(self._fs.fsync_path, path) for path in self._unsynced]
        if self._epochs.take_dirty():
            steps.append(self._epochs.fsync)
        job = FlushJob(log_end_offset, steps, finish, self._unsynced)
        self._unsynced = []
        return job

    def complete(self, job: FlushJob) -> float:
        """Last step: advance the flushed offset. Returns the seconds that `run` took, when it was given a clock.

        After an OSError the flushed offset must never advance again: the kernel may have dropped what it could not write.
        """
        if job is not self._job:
            return job.seconds  # a truncation has settled it already
        self._job = None
        if not job.done or job.error is not None:
            self._unsynced = job.paths + self._unsynced
        if job.error is not None:
            raise job.error
        if not job.done:
            self._segments.mark_new_files()
            self._epochs.mark_dirty()
            return 0.0
        for step in job.finish:
            step()
        self.flushed_offset = max(self.flushed_offset, job.end_offset)
        self._unflushed_since = None
        return job.seconds

    def settle(self) -> None:
        """Let a flush that is under way end, or never begin, before files are cut."""
        if self._job is not None:
            self._job.cancel()
            self.complete(self._job)

    def flush(self, log_end_offset: int) -> None:
        """All three steps at once."""
        while True:
            job = self.start(log_end_offset)
            job.run()
            self.complete(job)
            if self.flushed_offset >= log_end_offset and not self._unsynced:
                return  # else that was one from before the last append

    # -- the flushed offset and the recovery point

    @property
    def recovery_point(self) -> int:
        """See `Log.recovery_point`."""
        waiting = self._unsynced if self._job is None else [*self._unsynced, *self._job.paths]
        if waiting:
            for segment in self._segments:
                if segment.index.path in waiting:
                    return min(self.flushed_offset, segment.base_offset)
        return self.flushed_offset

    def lower(self, offset: int) -> bool:
        """What lies at and above `offset` is about to be cut off, or to be given up; whether some of it was flushed."""
        was_flushed = offset < self.flushed_offset
        self.flushed_offset = min(self.flushed_offset, offset)
        return was_flushed

    def skip_to(self, offset: int) -> None:
        """There is nothing left below `offset` that could be lost."""
        self.flushed_offset = max(self.flushed_offset, offset)
