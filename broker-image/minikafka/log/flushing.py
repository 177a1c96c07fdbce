"""A flush of one log, in three steps, so that fsync never runs on the event loop.

`job = log.start_flush()` on the loop, `job.run()` on any thread, `log.complete_flush(job)` on the loop again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minikafka.log.log import Log

FSYNC_FAILED = "fsync-failed"
"""In the log's directory after a failed fsync: the kernel may take pages for written that are not, and shows them all the same.
No fsync writes them then ("fsyncgate", 2018); who believes what he reads loses it with the next power loss. A file in the page
cache is remembered just as long as such pages are seen. (Kafka trusts them.)"""


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


def plan(log: Log) -> FlushJob:
    """The job that makes everything below the present log end offset durable."""
    steps: list[Callable[[], None]] = []
    finish: list[Callable[[], None]] = []
    if log.new_files:
        steps.append(partial(log.fs.fsync_dir, log.directory))
    if log.log_end_offset > log.flushed_offset:
        for segment in log.segments[
            log.segment_number(log.flushed_offset) :
        ]:  # oldest first: the durable part is a prefix
            if segment.unflushed is not None:
                tails = segment.unflushed.begin_flush()
                steps.append(partial(segment.unflushed.copy, tails))
                finish.append(partial(segment.unflushed.finish_flush, tails))
            else:
                steps.append(segment.data.fsync)
    steps += [partial(log.fs.fsync_path, path) for path in log.unsynced_paths]
    if log.epochs.dirty:
        steps.append(log.epochs.fsync)
    job = FlushJob(log.log_end_offset, steps, finish, log.unsynced_paths)
    log.new_files = log.epochs.dirty = False
    log.unsynced_paths = []
    return job


def complete(log: Log, job: FlushJob) -> float:
    """See `Log.complete_flush`."""
    if job is not log.flush_job:
        return job.seconds  # a truncation has settled it already
    log.flush_job = None
    if job.error is not None:
        log.unsynced_paths = job.paths + log.unsynced_paths
        raise log.go_offline("flush failed", job.error, permanent=True) from job.error
    if not job.done:
        log.unsynced_paths = job.paths + log.unsynced_paths
        log.new_files = log.epochs.dirty = True
        return 0.0
    try:
        for step in job.finish:
            step()
    except OSError as error:
        raise log.go_offline("flush failed", error, permanent=True) from error
    log.flushed_offset = max(log.flushed_offset, job.end_offset)
    log.flushed_at = None
    return job.seconds
