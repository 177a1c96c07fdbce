"""Writing and reading the broker's own topics (``__consumer_offsets``), with the guarantees of acks=all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from minikafka.log.errors import LogError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.produce import PartitionResult, ProduceRequest
from minikafka.protocol.records import RecordBatch
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.replicas import ReplicaManager

NEVER_MS = 2**31 - 1
"""The time-out of an append. Coordinators have their own (``offsets.commit.timeout.ms``), after which they still must learn
that the records were replicated: what is in the log the next coordinator will know, and so must this one."""


class InternalLog:
    """What coordinators need of the replica manager.

    Args:
        replicas: those of this broker.
        log_failed: told of a log that could not be read: a disk that refuses takes it offline, as everywhere.
    """

    def __init__(self, replicas: ReplicaManager, log_failed: Callable[[HostedPartition, LogError], None]) -> None:
        self._replicas = replicas
        self._log_failed = log_failed

    def append(self, topic: str, partition: int, batch: bytearray | bytes, done: Callable[[ErrorCode], None]) -> None:
        """Append a record batch; ``done`` gets NONE once the high watermark has passed it, however late, else the error.

        An error means that it was not appended, or that this broker no longer leads the partition.
        """

        def answered(results: list[tuple[str, list[PartitionResult]]]) -> None:
            done(ErrorCode(results[0][1][0].error))

        records = memoryview(bytearray(batch))
        request = ProduceRequest(None, -1, NEVER_MS, [(topic, [(partition, records)])])
        self._replicas.produce(request, answered, internal=True)
        self._replicas.flush_ready()

    def when_committed(self, topic: str, partition: int, done: Callable[[ErrorCode], None]) -> None:
        """``done`` gets NONE once the high watermark has passed all that the log holds now, however late that is.

        Another error: this broker no longer leads the partition, or never did.
        """
        hosted = self._replicas.get(topic, partition)
        if hosted is None or hosted.leader is None:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        result = PartitionResult(partition, ErrorCode.NONE)

        def settled() -> None:
            # passed while the ISR is too small for another write: passed all the same
            late = result.error == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            done(ErrorCode.NONE if late else ErrorCode(result.error))

        hosted.await_commit(result, settled)

    def read(self, topic: str, partition: int) -> Iterator[RecordBatch]:
        """All batches of a partition hosted here, committed or not: a new leader's log is the truth. Raises LogError."""
        hosted = self._replicas.get(topic, partition)
        if hosted is None:
            return
        log = hosted.log
        try:
            yield from log.read_batches(log.log_start_offset, log.log_end_offset)
        except LogError as error:
            self._log_failed(hosted, error)
            raise
