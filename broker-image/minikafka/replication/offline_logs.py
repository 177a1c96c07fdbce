"""What a broker does when its disk refuses, sans I/O: one policy for every log and every operation.

Kafka takes the whole log directory offline and never back (``ReplicaManager.handleLogDirFailure``, KIP-112). Here:

1. The replica resigns at once: it leads and follows nothing, so that nobody reads or writes what may not be true.
2. The broker asks the controller to fence it, so that others lead, and says so in ``/healthz``, a metric and an event.
3. Once it is fenced it tries again and again: it opens what was left half done anew, as after a crash of the process, and
   writes its checkpoints to see whether the disk takes them. When all of it works the replicas follow again, and the broker
   is unfenced.
4. After a failed ``fsync``, or when a log comes back with less than was committed (and was not about to be cut to that by
   its leader's word), nothing of that is safe: the process ends
   with exit code 3 and without the marker of a clean shutdown, so that the controller counts it as one that has lost records
   (KIP-966) when its supervisor starts it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from minikafka.log.errors import LogDirFailure, LogError
from minikafka.log.log import Log
from minikafka.log.manager import LogManager
from minikafka.protocol.types import TopicPartition
from minikafka.replication.clock import Clock
from minikafka.replication.replicas import ReplicaManager

RETRY_SECONDS_FIRST, RETRY_SECONDS_MAX = 0.5, 30.0
"""Between tries; doubled after each that failed, and after each log that is refused again soon after it came back."""

WELL_SECONDS = 60.0
"""A disk that refused nothing for so long is taken for well: the next failure is retried soon again."""


class Shell(Protocol):
    """What the rest of the broker does for the policy, and hears from it."""

    @property
    def is_fenced(self) -> bool:
        """By the controller's word, which everybody else has as well."""

    @property
    def is_ending(self) -> bool:
        """The process stops, or has to."""

    def end(self, reason: str) -> None:
        """End the process, as one that crashed."""

    def resign(self, topic_partition: TopicPartition, failure: LogDirFailure) -> None:
        """Have the replica lead and follow nothing, and the controller fence this broker."""

    def tell(self, count: int, line: str) -> None:
        """So many logs are offline; `line` says why, and is empty when all is well again."""

    def unexpected(self, error: Exception) -> None:
        """Something broke that nobody expected to: a mistake in this program."""

    def open_anew(self, topic_partition: TopicPartition, done: Callable[[Log | Exception], None]) -> None:
        """Have :meth:`LogManager.prepare_reopen` done, and its work."""

    def write_checkpoints(self, done: Callable[[Exception | None], None]) -> None:
        """Write all of them, to see whether the disk takes anything."""

    def settle(self, back: list[TopicPartition]) -> None:
        """These are online again: have their replicas follow the image."""


class OfflineLogs:
    """The replicas of one broker whose logs the disk refused.

    Args:
        shell: the rest of the broker.
        replicas: what it hosts.
        clock: where time comes from; every call of ``later`` is one round of events after this one.
        logs: all of the broker's; asked for when they are open.
    """

    def __init__(self, shell: Shell, replicas: ReplicaManager, clock: Clock, logs: Callable[[], LogManager]) -> None:
        self._logs = logs
        self._shell = shell
        self._replicas = replicas
        self._clock = clock
        self._offline: dict[TopicPartition, LogDirFailure] = {}
        self._retry = RETRY_SECONDS_FIRST
        self._well_since = float("-inf")
        self._recovers = False
        self._stopped = False

    def __len__(self) -> int:
        return len(self._offline)

    @property
    def disk_is_full(self) -> bool:
        """Whether some are offline for a lack of room."""
        return any(failure.disk_full for failure in self._offline.values())

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._offline

    def failed(self, topic_partition: TopicPartition, failure: LogDirFailure) -> None:
        """The disk refused something of this log. May be called from anywhere: what follows happens in the next round of
        events, for the caller may be in the middle of this very partition."""
        self._clock.later(0.0, lambda: self._take(topic_partition, failure))

    def _take(self, topic_partition: TopicPartition, failure: LogDirFailure) -> None:
        if self._stopped or self._shell.is_ending:
            return
        if failure.permanent:
            self._shell.end(f"{failure}; what it held unflushed cannot be trusted")
            return
        known = topic_partition in self._offline
        self._offline[topic_partition] = failure
        self._shell.tell(len(self._offline), self._line())
        if known:
            return
        self._shell.resign(topic_partition, failure)
        if not self._recovers:
            self._recovers = True
            if self._clock.now() - self._well_since > WELL_SECONDS:
                self._retry = RETRY_SECONDS_FIRST
            self._again()

    def _line(self) -> str:
        count, last = len(self._offline), next(reversed(self._offline.values()))
        return f"{count} log{'s' if count > 1 else ''} offline: {last}"

    def forget(self, topic_partition: TopicPartition) -> None:
        """The partition is deleted, or is somebody else's now."""
        if self._offline.pop(topic_partition, None) is not None:
            self._shell.tell(len(self._offline), self._line() if self._offline else "")

    def stop(self) -> None:
        """The process ends: nothing more is tried."""
        self._stopped = True

    # -- the way back -----------------------------------------------------------------------------------------------------

    def _again(self) -> None:
        self._clock.later(self._retry, self._try)

    def _try(self) -> None:
        if self._stopped:
            return
        if self._offline and not self._shell.is_fenced:
            self._again()  # until then the controller takes this broker for the leader that it no longer is
        else:
            self._open_next(list(self._offline))

    def _is_closed(self, topic_partition: TopicPartition) -> bool:
        log = self._logs().logs.get(topic_partition)
        return log is not None and log.failure is not None

    def _open_next(self, left: list[TopicPartition]) -> None:
        """Open one of these anew, then the others, then look whether the disk takes checkpoints."""
        while left and not (left[0] in self._offline and self._is_closed(left[0])):
            left.pop(0)
        if left:
            topic_partition = left.pop(0)
            self._shell.open_anew(topic_partition, lambda found: self._opened(topic_partition, found, left))
        else:
            self._shell.write_checkpoints(self._written)

    def _opened(self, topic_partition: TopicPartition, found: Log | Exception, left: list[TopicPartition]) -> None:
        if self._stopped:
            return
        try:
            if isinstance(found, Exception):
                raise found
            self._use(topic_partition, found)
        except Exception as error:
            self._refused(error)
        else:
            self._open_next(left)

    def _use(self, topic_partition: TopicPartition, log: Log) -> None:
        """Put the log where the old one was. Raises LogDirFailure when the broker cannot go on with it."""
        self._logs().replace(topic_partition, log)
        partition = self._replicas.get(*topic_partition)
        if partition is None:
            return
        if log.log_end_offset < partition.high_watermark and not log.recovery.restarted:
            problem = f"{log} ends at {log.log_end_offset}, and was committed up to {partition.high_watermark}"
            raise LogDirFailure(problem, permanent=True, topic_partition=topic_partition)
        partition.log = log
        partition.set_high_watermark(partition.high_watermark)

    def _written(self, problem: Exception | None) -> None:
        if self._stopped:
            return
        if problem is not None:
            self._refused(problem)
        elif any(self._is_closed(tp) for tp in self._offline):
            self._again()  # one that was refused meanwhile
        else:
            self._all_is_well()

    def _refused(self, failure: Exception) -> None:
        """Try again, whatever it is: who gave up here would be fenced for ever."""
        if isinstance(failure, LogDirFailure) and failure.permanent:
            self._shell.end(str(failure))
            return
        if not isinstance(failure, (LogError, OSError)):
            self._shell.unexpected(failure)
        self._retry = min(self._retry * 2, RETRY_SECONDS_MAX)
        if self._offline:
            self._shell.tell(len(self._offline), f"{self._line()}; tried again: {failure}")
        self._again()

    def _all_is_well(self) -> None:
        back, self._offline, self._recovers = list(self._offline), {}, False
        self._well_since = self._clock.now()
        self._retry = min(self._retry * 2, RETRY_SECONDS_MAX)
        self._shell.tell(0, "")
        self._shell.settle(back)
