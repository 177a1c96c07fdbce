"""Decides which logs are flushed, one flush for each at a time (R17)."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.log.errors import LogError
from minikafka.log.flushing import FlushJob
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.replicas import ReplicaManager


class Flushes:
    """Those of one broker. Whoever has it runs each job, which may wait for the disk, and says when it is done.

    Args:
        replicas: whose logs are flushed; told of each flush that is over.
        flushed: told of it, too: a follower's next fetch may have waited for it.
        log_failed: told of a log that refuses.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        flushed: Callable[[HostedPartition], None],
        log_failed: Callable[[HostedPartition, LogError], None],
    ) -> None:
        self._replicas = replicas
        self._flushed = flushed
        self._log_failed = log_failed

    def claim(self, partition: HostedPartition) -> bool:
        """Whether a flush of this log may begin: none is under way. Who has claimed it asks for the :meth:`next` job."""
        if partition.flushing:
            return False
        partition.flushing = True
        return True

    def next(self, partition: HostedPartition) -> FlushJob | None:
        """What is to be run now: it makes all durable that is appended by then. None, and the claim is over: nothing more is
        asked for, or the log is offline or no longer hosted."""
        if partition.flushing and self._is_hosted(partition):
            try:
                return partition.log.start_flush()
            except LogError as error:
                self._log_failed(partition, error)
        self.give_up(partition)
        return None

    def done(self, partition: HostedPartition, job: FlushJob) -> float | None:
        """A job has run: the seconds that it took, None when the disk refused. As long as flush.messages wants more of them there
        is a next one, which what was appended meanwhile shares."""
        log = partition.log
        try:
            seconds = log.complete_flush(job)
        except LogError as error:
            self.give_up(partition)
            self._log_failed(partition, error)
            return None
        self._replicas.flushed(partition)
        self._flushed(partition)
        if not log.owes_flush:
            self.give_up(partition)
        return seconds

    def give_up(self, partition: HostedPartition) -> None:
        """The claim is over: all is done, or a job was never run, or what ran it has failed."""
        partition.flushing = False

    def _is_hosted(self, partition: HostedPartition) -> bool:
        """Not of a log that was deleted or went offline while its flush was under way: its files are closed."""
        return self._replicas.get(*partition.topic_partition) is partition and partition.log.failure is None
