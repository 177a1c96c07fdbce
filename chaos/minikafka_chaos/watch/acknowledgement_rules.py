"""What follows from an acknowledgement. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from minikafka.protocol.types import TopicPartition

from minikafka_chaos.watch.evidence import Acknowledgements, EventLine
from minikafka_chaos.watch.state import ClusterState, ReplicaKey, WatchedCondition, WatchedRecord

if TYPE_CHECKING:
    from minikafka_chaos.watch.fold import Draft

RECORDS_KEPT_MAX = 64
"""Values of so many records of a partition are kept: a story's all, of a load the last."""


ALL = -1
"""The field `acks` of what every in-sync replica acknowledged."""
EVENT = "produce_acknowledged"


def acknowledgement_of(event: EventLine) -> Acknowledgements | None:
    """Return what a broker's event says was acknowledged; None where it is another event, or has not its fields."""
    offset, records = event.fields.get("offset"), event.fields.get("records")
    if event.event != EVENT or not isinstance(offset, int) or not isinstance(records, int):
        return None
    where = TopicPartition(str(event.topic), int(event.partition or 0))
    by_all = event.fields.get("acks") == ALL
    return Acknowledgements(event.time, where, offset + records, by_all, {}, records, event.broker)


def put_together(several: Sequence[Acknowledgements]) -> Acknowledgements:
    """Make one of acknowledgements of one partition, by one leader or by clients, in the order of their times."""
    end, records = max(each.end for each in several), sum(each.records for each in several)
    return replace(several[-1], end=end, by_all=all(each.by_all for each in several), values={}, records=records)


def take_acknowledgements(draft: Draft, acknowledged: Acknowledgements) -> None:
    """Take the word that records are acknowledged. It raises offsets and lowers none: it may come late."""
    where = acknowledged.topic_partition
    partition = draft.state.partition(where)
    if partition.leader is None or acknowledged.broker not in (None, partition.leader):
        return
    leader = ReplicaKey(*where, partition.leader)
    draft.logs.grow(leader, acknowledged.end)
    if acknowledged.by_all:
        known = draft.state.replica(leader)
        draft.change_replica(leader, high_watermark=max(known.high_watermark or 0, acknowledged.end))
        for broker in _copied_to(draft.state, partition.isr or (), partition.leader):
            draft.logs.grow(ReplicaKey(*where, broker), acknowledged.end)
    if acknowledged.values:
        epochs = draft.state.replica(leader)
        records = {(each.offset, each.leader_epoch): each for each in partition.records}
        for offset, value in acknowledged.values.items():
            records[offset, epochs.epoch_at(offset)] = WatchedRecord(offset, epochs.epoch_at(offset), value)
        draft.change_partition(where, records=tuple(records.values())[-RECORDS_KEPT_MAX:])


def _copied_to(state: ClusterState, isr: Iterable[int], leader: int) -> list[int]:
    """Return the followers that have what was acknowledged: not those that may have restarted since, and lost it."""
    return [
        broker
        for broker in isr
        if broker != leader and state.broker(broker).condition in (WatchedCondition.UP, WatchedCondition.PAUSED)
    ]
