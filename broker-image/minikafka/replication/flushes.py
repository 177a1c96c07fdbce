"""Which logs are flushed, one flush for each at a time (R17): what broker and simulator both go by."""

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

    def begin(self, partition: HostedPartition) -> FlushJob | None:
        """What is to be run now; None while a flush is under way, and of a log that is offline or no longer hosted."""
        if partition.flushing or not self._is_hosted(partition):
            return None
        partition.flushing = True
        return self._next(partition)

    def done(self, partition: HostedPartition, job: FlushJob) -> tuple[float, FlushJob | None]:
        """A job has run: the seconds that it took, and the next one, as long as flush.messages wants more of them.

        What was appended meanwhile shares that one.
        """
        log = partition.log
        try:
            seconds = log.complete_flush(job)
        except LogError as error:
            partition.flushing = False
            self._log_failed(partition, error)
            return 0.0, None
        self._replicas.flushed(partition)
        self._flushed(partition)
        if not log.owes_flush or not self._is_hosted(partition):
            partition.flushing = False
            return seconds, None
        return seconds, self._next(partition)

    def give_up(self, partition: HostedPartition) -> None:
        """A job was never run, or what ran it has failed."""
        partition.flushing = False

    def _next(self, partition: HostedPartition) -> FlushJob | None:
        try:
            return partition.log.start_flush()
        except LogError as error:
            partition.flushing = False
            self._log_failed(partition, error)
            return None

    def _is_hosted(self, partition: HostedPartition) -> bool:
        """Not of a log that was deleted or went offline while its flush was under way: its files are closed."""
        return self._replicas.get(*partition.topic_partition) is partition and partition.log.failure is None
