"""What follows from a broker's event: a rule for each event that says something of what is watched. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from minikafka.protocol.types import TopicPartition

from minikafka_chaos.watch.acknowledgement_rules import acknowledgement_of, take_acknowledgements
from minikafka_chaos.watch.evidence import EventLine
from minikafka_chaos.watch.state import GroupName, ReplicaKey, WatchedCondition

if TYPE_CHECKING:
    from minikafka_chaos.watch.fold import Draft

Rule = Callable[["Draft", EventLine], None]
LEADER, FOLLOWER = "leader", "follower"


def _where(event: EventLine) -> TopicPartition:
    return TopicPartition(str(event.topic), int(event.partition or 0))


def _key(event: EventLine) -> ReplicaKey:
    return ReplicaKey(*_where(event), event.broker)


def _number(event: EventLine, name: str) -> int | None:
    value = event.fields.get(name)
    return value if isinstance(value, int) else None


def _epochs(event: EventLine) -> dict[str, Any]:
    """The partition's fields that an event tells."""
    found: dict[str, Any] = {}
    if isinstance(isr := event.fields.get("isr"), list):
        found["isr"] = tuple(isr)
    if (epoch := _number(event, "partition_epoch")) is not None:
        found["partition_epoch"] = epoch
    return found


def _lead(draft: Draft, event: EventLine, leader: int | None) -> None:
    epoch = _number(event, "leader_epoch")
    draft.lead(_where(event), leader, -1 if epoch is None else epoch, **_epochs(event))


# -- brokers -----------------------------------------------------------------------------------------------------------------


def _starting(draft: Draft, event: EventLine) -> None:
    draft.change_broker(event.broker, condition=WatchedCondition.STARTING, controller=False, silent=False)
    for key in [key for key in draft.state.entities if isinstance(key, ReplicaKey) and key.broker == event.broker]:
        draft.change_replica(key, role=None)


def _ready(draft: Draft, event: EventLine) -> None:
    draft.change_broker(event.broker, condition=WatchedCondition.UP)


def _stopped(draft: Draft, event: EventLine) -> None:
    draft.change_broker(event.broker, condition=WatchedCondition.DEAD, controller=False)


def _controller_elected(draft: Draft, event: EventLine) -> None:
    for broker in draft.state.brokers:
        draft.change_broker(broker, controller=False)
    draft.change_broker(event.broker, controller=True)


def _controller_resigned(draft: Draft, event: EventLine) -> None:
    draft.change_broker(event.broker, controller=False)


def _fenced(draft: Draft, event: EventLine) -> None:
    if (target := _number(event, "target")) is not None:
        draft.change_broker(target, fenced=event.event == "broker_fenced")


# -- partitions --------------------------------------------------------------------------------------------------------------


def _leader_elected(draft: Draft, event: EventLine) -> None:
    _lead(draft, event, _number(event, "leader"))


def _offline(draft: Draft, event: EventLine) -> None:
    _lead(draft, event, None)


def _became_leader(draft: Draft, event: EventLine) -> None:
    _lead(draft, event, event.broker)
    epoch, start = _number(event, "leader_epoch"), _number(event, "start_offset")
    key = _key(event)
    if epoch is not None and start is not None:
        draft.logs.begin_epoch(key, epoch, start)
    mark = _number(event, "high_watermark")
    draft.change_replica(key, role=LEADER, leader_epoch=epoch, high_watermark=mark, following=None)
    for broker, _ in draft.state.replicas(_where(event)):  # it does not know yet what the others have
        draft.change_replica(ReplicaKey(*_where(event), broker), remote_end=None)


def _became_follower(draft: Draft, event: EventLine) -> None:
    key = _key(event)
    # What its log has now it has from whom it followed before. Where it was seen to be longer, it has fetched since, or the
    # event of a truncation follows.
    if (end := _number(event, "log_end_offset")) is not None:
        draft.logs.grow(key, end)
    leader = _number(event, "leader")
    if leader is not None and leader >= 0:
        _lead(draft, event, leader)
    mark, epoch = _number(event, "high_watermark"), _number(event, "leader_epoch")
    following = leader if leader is not None and leader >= 0 else None
    draft.change_replica(key, role=FOLLOWER, leader_epoch=epoch, high_watermark=mark, following=following)


def _isr_changed(draft: Draft, event: EventLine) -> None:
    _lead(draft, event, event.broker)
    if (end := _number(event, "log_end_offset")) is not None:
        draft.logs.grow(_key(event), end)
    draft.change_replica(_key(event), high_watermark=_number(event, "high_watermark"))
    for broker in event.fields.get("added") or ():  # it came in because it has all that is committed
        draft.logs.grow(ReplicaKey(*_where(event), broker), _number(event, "high_watermark") or 0)


# -- logs --------------------------------------------------------------------------------------------------------------------


def _truncated(draft: Draft, event: EventLine) -> None:
    if (end := _number(event, "to_offset")) is not None:
        draft.logs.grow(_key(event), end)
        draft.logs.cut(_key(event), end, _number(event, "from_offset"))


def _restarted(draft: Draft, event: EventLine) -> None:
    if (start := _number(event, "to_offset")) is not None:
        key = _key(event)
        draft.logs.cut(key, draft.state.replica(key).log_start)
        draft.logs.start_at(key, start)
        draft.logs.end_at(key, start)


def _recovered(draft: Draft, event: EventLine) -> None:
    if (end := _number(event, "log_end_offset")) is not None:
        draft.logs.end_at(_key(event), end)
    if (point := _number(event, "recovery_point")) is not None:
        draft.change_replica(_key(event), flushed=point if end is None else min(point, end))


def _unflushed_lost(draft: Draft, event: EventLine) -> None:
    if (end := _number(event, "log_end_offset")) is not None:
        draft.logs.end_at(_key(event), end)
        draft.change_replica(_key(event), flushed=end, high_watermark=_number(event, "high_watermark"))


def _start_advanced(draft: Draft, event: EventLine) -> None:
    if (start := _number(event, "to_offset")) is not None:
        draft.logs.start_at(_key(event), start)


def _replica_stopped(draft: Draft, event: EventLine) -> None:
    draft.drop(_key(event))


def _topic_deleted(draft: Draft, event: EventLine) -> None:
    for key in list(draft.state.entities):
        if isinstance(key, TopicPartition | ReplicaKey) and key.topic == event.topic:
            draft.drop(key)


def _acknowledged(draft: Draft, event: EventLine) -> None:
    if (found := acknowledgement_of(event)) is not None:
        take_acknowledgements(draft, found)


# -- groups ------------------------------------------------------------------------------------------------------------------


def _rebalanced(draft: Draft, event: EventLine) -> None:
    group = str(event.fields.get("group"))
    draft.put(GroupName(group), replace(draft.state.group(group), members=_number(event, "members")))


def _group_deleted(draft: Draft, event: EventLine) -> None:
    draft.drop(GroupName(str(event.fields.get("group"))))


RULES: Final[Mapping[str, Rule]] = {
    "broker_starting": _starting,
    "broker_ready": _ready,
    "broker_stopped": _stopped,
    "controller_elected": _controller_elected,
    "controller_resigned": _controller_resigned,
    "broker_fenced": _fenced,
    "broker_unfenced": _fenced,
    "leader_elected": _leader_elected,
    "partition_offline": _offline,
    "became_leader": _became_leader,
    "became_follower": _became_follower,
    "isr_shrunk": _isr_changed,
    "isr_expanded": _isr_changed,
    "log_truncated": _truncated,
    "log_restarted": _restarted,
    "log_recovered": _recovered,
    "unflushed_lost": _unflushed_lost,
    "log_start_advanced": _start_advanced,
    "produce_acknowledged": _acknowledged,
    "replica_stopped": _replica_stopped,
    "topic_deleted": _topic_deleted,
    "group_rebalanced": _rebalanced,
    "group_deleted": _group_deleted,
}
