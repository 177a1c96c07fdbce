"""What follows from an acknowledgement. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from minikafka_chaos.watch.evidence import Acknowledgements
from minikafka_chaos.watch.state import ClusterState, ReplicaKey, WatchedCondition, WatchedRecord

if TYPE_CHECKING:
    from minikafka_chaos.watch.fold import Draft

RECORDS_KEPT_MAX = 64
"""Values of so many records of a partition are kept: a story's all, of a load the last."""


def take_acknowledgements(draft: Draft, acknowledged: Acknowledgements) -> None:
    """Take the word that records are acknowledged. It raises offsets and lowers none: it may come late."""
    where = acknowledged.topic_partition
    partition = draft.state.partition(where)
    if partition.leader is None:
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
