"""Reports what happens to the replicas of a broker, sans I/O: counts it, and has it in the event log.

Brokers and simulated brokers report by the same class, so the events of a simulated run are those of a real one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from minikafka.log.errors import LogDirFailure, LogError
from minikafka.log.manager import LogManager
from minikafka.log.unflushed_volume import UnflushedVolume
from minikafka.protocol.types import TopicPartition
from minikafka.replication.clock import Clock
from minikafka.replication.fetch_loop import Taken
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.isr import AlterPartitionAnswer, IsrProposal
from minikafka.replication.replicas import IsrAnswered, ReplicaManager

if TYPE_CHECKING:
    from minikafka.telemetry.stats import BrokerStats


class ReplicaEvents(Protocol):
    """An event log."""

    def emit(self, event: str, *, topic: str | None = None, partition: int | None = None, **fields: Any) -> None: ...


class ReplicaObserver(Protocol):
    """See :class:`~minikafka.server.observer.BrokerObserver`."""

    def fetched(self, taken: Taken[HostedPartition], leader_id: int) -> None: ...

    def log_refused(self, partition: HostedPartition, error: LogError) -> None: ...


class ReportContext(Protocol):
    """What the reporter needs of :class:`~minikafka.server.context.BrokerContext`."""

    @property
    def clock(self) -> Clock: ...
    @property
    def stats(self) -> BrokerStats: ...
    @property
    def events(self) -> ReplicaEvents: ...
    @property
    def observer(self) -> ReplicaObserver: ...

    def warn_rarely(self, key: str, line: str) -> bool: ...


class ReplicaReporter:
    """Reports on the replicas of one broker.

    Args:
        context: whose counters and events.
        replicas: the hosted replicas.
        log_dir_failed: has a log that refused taken out of use.
    """

    def __init__(
        self,
        context: ReportContext,
        replicas: ReplicaManager,
        log_dir_failed: Callable[[TopicPartition, LogDirFailure], None],
    ) -> None:
        self._context = context
        self._replicas = replicas
        self._log_dir_failed = log_dir_failed

    # -- roles and logs -----------------------------------------------------------------------------------------------------

    def recovered(self, logs: LogManager) -> None:
        """Report how each log was found at start."""
        for tp, log in sorted(logs.logs.items()):
            found = log.recovery
            self._context.events.emit(
                "log_recovered",
                topic=tp.topic,
                partition=tp.partition,
                clean=found.clean,
                recovery_point=found.recovery_point,
                log_end_offset=found.log_end_offset,
                truncated_bytes=found.truncated_bytes,
            )
            if found.unflushed_lost:
                self._context.events.emit(
                    "unflushed_lost",
                    topic=tp.topic,
                    partition=tp.partition,
                    log_end_offset=found.log_end_offset,
                    high_watermark=logs.high_watermarks.get(tp, 0),
                )

    def watch_volume(self, volume: UnflushedVolume | None) -> None:
        """Have appends wait for room on this volume, and report it when they do."""
        if volume is None:
            return

        def tell(short: bool, seconds: float) -> None:
            if short:
                self._context.events.emit("unflushed_volume_full", bytes=volume.used, limit=volume.limit)
            else:
                self._context.events.emit("unflushed_volume_has_room", seconds=round(seconds, 4))

        self._replicas.keep_room(volume, tell)

    def role_changed(self, partition: HostedPartition) -> None:
        """Report that a replica leads or follows now."""
        events = self._context.events
        topic, index = partition.topic_partition
        if partition.leader is not None:
            events.emit(
                "became_leader",
                topic=topic,
                partition=index,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                start_offset=partition.leader.start_offset,
                isr=list(partition.leader.isr.committed),
                high_watermark=partition.high_watermark,
            )
        elif partition.follower is not None:
            events.emit(
                "became_follower",
                topic=topic,
                partition=index,
                leader=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                log_end_offset=partition.log.log_end_offset,
                high_watermark=partition.high_watermark,
            )
            self.truncated(partition)

    def log_start_moved(self, partition: HostedPartition, before: int, reason: str) -> None:
        """Report that old records were deleted, if they were."""
        after = partition.log.log_start_offset
        if after > before:
            topic, index = partition.topic_partition
            self._context.events.emit(
                "log_start_advanced", topic=topic, partition=index, from_offset=before, to_offset=after, reason=reason
            )

    def truncated(self, partition: HostedPartition) -> None:
        """Report what a follower cut off."""
        follower = partition.follower
        if follower is None:
            return
        topic, index = partition.topic_partition
        truncations, follower.truncations = follower.truncations, []
        for before, after, records, reason in truncations:
            self._context.stats.record_truncation(records, self._context.clock.unix_ms() / 1000)
            where: dict[str, Any] = {"topic": topic, "partition": index, "from_offset": before, "to_offset": after}
            if after > before:
                self._context.events.emit("log_restarted", **where, reason=reason)
                continue
            epoch = partition.leader_epoch
            self._context.events.emit("log_truncated", **where, records=records, reason=reason, leader_epoch=epoch)

    # -- the ISR ------------------------------------------------------------------------------------------------------------

    def isr_changed(self, partition: HostedPartition, old: tuple[int, ...], new: tuple[int, ...]) -> None:
        """Count and report a change of the ISR that the controller has written."""
        topic, index = partition.topic_partition
        stats, events = self._context.stats, self._context.events
        common = {
            "isr": list(new),
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.leader.partition_epoch if partition.leader else partition.partition_epoch,
            "high_watermark": partition.high_watermark,
            "log_end_offset": partition.log.log_end_offset,
        }
        removed = [r for r in old if r not in new]
        added = [r for r in new if r not in old]
        if removed:
            stats.record_isr_shrink(self._context.clock.unix_ms() / 1000)
            events.emit("isr_shrunk", topic=topic, partition=index, removed=removed, **common)
        if added:
            stats.record_isr_expand(self._context.clock.unix_ms() / 1000)
            events.emit("isr_expanded", topic=topic, partition=index, added=added, **common)

    def isr_answered(self, proposal: IsrProposal, answer: AlterPartitionAnswer | None) -> bool:
        """Give an answer (None: unknown outcome) to the leader that asked; True to ask again."""
        came = self._replicas.isr_answered(proposal, answer)
        if came is None:
            return False
        self.isr_settled(proposal, came)
        self._replicas.flush_ready()
        return came.again

    def isr_settled(self, proposal: IsrProposal, came: IsrAnswered) -> None:
        """Report what came of the controller's answer."""
        if came.error:
            self._context.stats.failed_isr_updates += 1
            if not came.again:
                topic, index = proposal.topic_partition
                self._context.events.emit(
                    "alter_partition_refused",
                    topic=topic,
                    partition=index,
                    error=came.error.name,
                    isr=[m for m, _ in proposal.isr],
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                )
        elif came.isr != came.isr_before:
            self.isr_changed(came.partition, came.isr_before, came.isr)

    # -- fetching -----------------------------------------------------------------------------------------------------------

    def fetched(self, taken: Taken[HostedPartition], leader_id: int) -> None:
        """Report what a follower has made of the leader's answer, but for what its own log has refused."""
        self._context.observer.fetched(taken, leader_id)
        partition, failed = taken.partition, taken.to_report
        if failed is not None:
            topic, index = partition.topic_partition
            where: dict[str, Any] = {"topic": topic, "partition": index}
            if failed.is_corrupt:
                self._context.events.emit("corrupt_batch", **where, offset=failed.offset, error=failed.error)
            else:
                self._context.events.emit("replica_fetch_failed", **where, leader=leader_id, error=failed.error)
        if partition.follower is not None and partition.follower.truncations:
            self.truncated(partition)
        if partition.log.log_start_offset != taken.log_start_before:
            self.log_start_moved(partition, taken.log_start_before, f"leader {leader_id} deleted them")

    # -- disks --------------------------------------------------------------------------------------------------------------

    def log_failed(self, partition: HostedPartition, error: LogError) -> None:
        """A log refused an append or a read: say so once a minute and partition, not at every retry."""
        self._context.observer.log_refused(partition, error)
        self._context.warn_rarely(str(partition.topic_partition), str(error))
        if isinstance(error, LogDirFailure) and (error.is_of_disk or partition.log.failure is not None):
            self._log_dir_failed(partition.topic_partition, error)

    def file_failed(self, file: Any, error: OSError) -> None:
        """The disk could not read what a Fetch was answered with, long after the log had said where it lies."""
        for partition in self._replicas.all():
            if partition.log.reads_from(file):
                self.log_failed(partition, partition.log.refused("read failed", error))
