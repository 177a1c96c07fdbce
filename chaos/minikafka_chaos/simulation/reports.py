"""What a simulated broker reports to its event log: the same events, with the same fields, as a real one's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.protocol.types import TopicPartition
from minikafka.replication.partition import Partition

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker


def recovered(broker: SimBroker) -> None:
    """How each log was found at the start."""
    assert broker.logs is not None
    for tp, log in sorted(broker.logs.logs.items()):
        found = log.recovery
        broker.world.event(
            broker,
            "log_recovered",
            tp.topic,
            tp.partition,
            clean=found.clean,
            recovery_point=found.recovery_point,
            log_end_offset=found.log_end_offset,
            truncated_bytes=found.truncated_bytes,
        )


def watch_volume(broker: SimBroker) -> None:
    """Have appends wait for room on the unflushed volume, and say so."""
    assert broker.logs is not None
    volume = broker.logs.unflushed_volume
    if volume is None:
        return

    def tell(short: bool, seconds: float) -> None:
        broker.world.note(
            f"b{broker.id} {volume.used} of {volume.limit} bytes are unflushed: " + ("full" if short else "well")
        )
        if short:
            broker.world.event(broker, "unflushed_volume_full", bytes=volume.used, limit=volume.limit)
        else:
            broker.world.event(broker, "unflushed_volume_has_room", seconds=round(seconds, 4))

    broker.leading.replicas.keep_room(volume).tell = tell


def role_changed(broker: SimBroker, partition: Partition) -> None:
    """A replica leads or follows in a new term."""
    topic, index = partition.topic_partition
    epochs = {"leader_epoch": partition.leader_epoch, "partition_epoch": partition.partition_epoch}
    if partition.leader is not None:
        broker.world.event(
            broker,
            "became_leader",
            topic,
            index,
            start_offset=partition.leader.start_offset,
            isr=list(partition.leader.isr.committed),
            high_watermark=partition.high_watermark,
            **epochs,
        )
    elif partition.follower is not None:
        broker.world.event(
            broker,
            "became_follower",
            topic,
            index,
            leader=partition.leader_id,
            log_end_offset=partition.log.log_end_offset,
            high_watermark=partition.high_watermark,
            **epochs,
        )


def truncated(broker: SimBroker, partition: Partition, before: int, after: int, records: int, reason: str) -> None:
    """A follower cut off the end of its log."""
    topic, index = partition.topic_partition
    broker.world.event(
        broker,
        "log_truncated",
        topic,
        index,
        from_offset=before,
        to_offset=after,
        records=records,
        reason=reason,
        leader_epoch=partition.leader_epoch,
    )


def isr_changed(broker: SimBroker, tp: TopicPartition, old: tuple[int, ...]) -> None:
    """The controller has written another ISR of a partition that this broker leads; ``old`` is the one before."""
    partition = broker.partitions[tp]
    leader = partition.leader
    if leader is None or leader.isr.committed == old:
        return
    new = leader.isr.committed
    common: dict[str, Any] = {
        "isr": list(new),
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": leader.partition_epoch,
        "high_watermark": partition.high_watermark,
        "log_end_offset": partition.log.log_end_offset,
    }
    if removed := [member for member in old if member not in new]:
        broker.world.event(broker, "isr_shrunk", *tp, removed=removed, **common)
    if added := [member for member in new if member not in old]:
        broker.world.event(broker, "isr_expanded", *tp, added=added, **common)


def log_start_moved(broker: SimBroker, partition: Partition, before: int) -> None:
    """Old records were deleted."""
    topic, index = partition.topic_partition
    after = partition.log.log_start_offset
    broker.world.event(
        broker, "log_start_advanced", topic, index, from_offset=before, to_offset=after, reason="retention"
    )
