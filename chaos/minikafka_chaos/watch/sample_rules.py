"""What follows from a scrape of a broker's metrics (docs/reference/metrics.md). No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from minikafka.protocol.types import TopicPartition

from minikafka_chaos.record.observe import FOLLOWER, LEADER
from minikafka_chaos.watch.evidence import Scrape
from minikafka_chaos.watch.state import GroupName, ReplicaKey, WatchedCondition

if TYPE_CHECKING:
    from minikafka_chaos.watch.fold import Draft

ROLES: Final = {FOLLOWER: "follower", LEADER: "leader"}
OF_PARTITION: Final = frozenset(
    f"minikafka_{name}"
    for name in (
        "log_end_offset",
        "high_watermark",
        "log_flushed_offset",
        "log_start_offset",
        "leader_epoch",
        "partition_epoch",
        "replica_role",
        "partition_leader",
    )
)
COMMITTED, MEMBERS = "minikafka_group_committed_offset", "minikafka_group_members"
LAG: Final = "minikafka_follower_lag"
OF_BROKER: Final = frozenset(("minikafka_active_controller", "minikafka_broker_fenced", "minikafka_connections"))
WATCHED: Final = OF_PARTITION | OF_BROKER | {COMMITTED, MEMBERS, LAG}
"""All metrics that anything follows from; who reads a page of metrics may leave out the others."""


def take_scrape(draft: Draft, scrape: Scrape) -> None:
    """Take what a broker's metrics say; where it did not answer, only that."""
    if scrape.samples is None:
        draft.change_broker(scrape.broker, silent=True)
        return
    partitions: dict[TopicPartition, dict[str, int]] = defaultdict(dict)
    lags: dict[ReplicaKey, int] = {}
    groups: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
    own: dict[str, int] = {}
    for sample in scrape.samples:
        labels = sample.labels
        if sample.name in OF_PARTITION:
            partitions[_where(labels)][sample.name.removeprefix("minikafka_")] = int(sample.value)
        elif sample.name == LAG:
            lags[ReplicaKey(*_where(labels), int(labels["follower"]))] = int(sample.value)
        elif sample.name == COMMITTED:
            groups[labels["group"]][_where(labels)] = int(sample.value)
        elif sample.name == MEMBERS:
            _take_members(draft, labels["group"], int(sample.value))
        elif sample.name in OF_BROKER:
            own[sample.name.removeprefix("minikafka_")] = int(sample.value)
    _take_broker(draft, scrape.broker, own)
    for where, values in sorted(partitions.items()):
        _take_replica(draft, ReplicaKey(*where, scrape.broker), values)
    for key, lag in lags.items():
        end = draft.state.replica(ReplicaKey(*key.topic_partition, scrape.broker)).log_end
        if end is not None and lag >= 0:
            draft.change_replica(key, remote_end=end - lag)
    for group, committed in groups.items():
        known = draft.state.group(group)
        draft.put(GroupName(group), replace(known, committed=tuple(sorted(committed.items()))))


def _where(labels: Mapping[str, str]) -> TopicPartition:
    return TopicPartition(labels["topic"], int(labels["partition"]))


def _take_members(draft: Draft, group: str, members: int) -> None:
    draft.put(GroupName(group), replace(draft.state.group(group), members=members))


def _take_broker(draft: Draft, broker: int, own: Mapping[str, int]) -> None:
    known = draft.state.broker(broker)
    condition = WatchedCondition.UP if known.condition is WatchedCondition.UNKNOWN else known.condition
    fields = {"condition": condition, "silent": False, "connections": own.get("connections", known.connections)}
    if "broker_fenced" in own:
        fields["fenced"] = bool(own["broker_fenced"])
    if own.get("active_controller") == 1:
        for other in draft.state.brokers:
            if other != broker:
                draft.change_broker(other, controller=False)
        fields["controller"] = True
    elif "active_controller" in own:
        fields["controller"] = False
    draft.change_broker(broker, **fields)


def _take_replica(draft: Draft, key: ReplicaKey, values: Mapping[str, int]) -> None:
    where, epoch = key.topic_partition, values.get("leader_epoch", -1)
    leader = values.get("partition_leader")
    if leader is not None:
        fields = {"partition_epoch": values["partition_epoch"]} if "partition_epoch" in values else {}
        draft.lead(where, leader if leader >= 0 else None, epoch, **fields)
    if "log_start_offset" in values:
        draft.logs.start_at(key, values["log_start_offset"])
    known, role = draft.state.replica(key), ROLES.get(values.get("replica_role", 0))
    followed = leader if role == "follower" and leader is not None and leader >= 0 else None
    if known.following is None and followed is not None:
        draft.change_replica(key, following=followed)
    if "log_end_offset" in values:
        draft.logs.end_at(key, values["log_end_offset"])
    known = draft.state.replica(key)
    if role == "leader" and known.epochs and epoch > known.epochs[-1].leader_epoch:
        draft.logs.begin_epoch(
            key, epoch, known.log_end or 0
        )  # the event that says where it began comes yet, or never will
        known = draft.state.replica(key)
    draft.change_replica(
        key,
        role=role,
        following=None if role == "leader" else known.following if followed is None else followed,
        leader_epoch=epoch,
        high_watermark=values.get("high_watermark", known.high_watermark),
        flushed=values.get("log_flushed_offset", known.flushed),
    )
