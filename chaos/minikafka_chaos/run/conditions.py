"""Evaluating a scenario's conditions, and choosing its targets, on whatever ground it runs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from minikafka.groups.placement import partition_for
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.grounds import BrokerCondition, Ground
from minikafka_chaos.links.rules import CLIENTS
from minikafka_chaos.load.clients import NO_BROKER, MetadataView, WorkloadGroup
from minikafka_chaos.load.load import Tally
from minikafka_chaos.record import observe
from minikafka_chaos.scenario.steps import (
    Acked,
    BrokerReady,
    Condition,
    Elapsed,
    FullIsr,
    GroupAtEnd,
    GroupState,
    Isr,
    Leader,
    NoLeader,
    ReplicaOffset,
    ReplicaRole,
    Target,
    TargetType,
)

OFFSETS_TOPIC = "__consumer_offsets"


class ConditionResult(NamedTuple):
    """Whether a condition holds, and what was seen: for the journal, and for saying why a wait ended."""

    holds: bool
    seen: str


class Choice(NamedTuple):
    """The brokers that a target names now, and why: `role` is what they were chosen for."""

    brokers: tuple[int, ...]
    role: str | None


@dataclass(slots=True)
class StepMark:
    """What later steps may refer to: when a step began, what had been acknowledged by then, whom it chose."""

    began: float
    """Monotonic seconds."""
    acked: Mapping[TopicPartition, int]
    choice: Choice | None = None


@dataclass(slots=True)
class RunState:
    """What conditions are evaluated against."""

    ground: Ground
    view: MetadataView
    tally: Tally
    rng: random.Random
    topics: Sequence[str] = ()
    marks: dict[str, StepMark] = field(default_factory=dict)
    group: WorkloadGroup | None = None
    """The consumer group of the load, once it is there."""

    def mark(self, step: str) -> StepMark:
        """Note that a step begins now."""
        self.marks[step] = StepMark(self.ground.clock.monotonic(), self.tally.acked_by_partition())
        return self.marks[step]

    # -- conditions --------------------------------------------------------------------------------------------------

    def check(self, condition: Condition, waiting_since: float) -> ConditionResult:
        """Evaluate one condition now. Nobody answering is an answer: it does not hold."""
        match condition:
            case Acked():
                return self._acked(condition)
            case Isr():
                return self._isr(condition)
            case FullIsr():
                return self.full_isr(condition.topic)
            case Leader() | NoLeader():
                return self._leader(condition)
            case ReplicaOffset():
                return self._offset(condition)
            case ReplicaRole():
                role = self.ground.replica_status(condition.broker, _where(condition)).role
                wanted = observe.LEADER if condition.role == "Leader" else observe.FOLLOWER
                return ConditionResult(role == wanted, f"role {role}")
            case BrokerReady():
                ready = self.ground.is_ready(condition.broker)
                return ConditionResult(ready, "ready" if ready else "not ready")
            case GroupState():
                state = None if self.group is None else self.group.state()
                return ConditionResult(state == condition.state, f"state {state}")
            case GroupAtEnd():
                return self.group_at_end()
            case Elapsed():
                began = waiting_since if condition.since is None else self.marks[condition.since].began
                elapsed = self.ground.clock.monotonic() - began
                return ConditionResult(elapsed >= condition.seconds, f"{elapsed:.1f} s")

    def group_at_end(self) -> ConditionResult:
        lag = None if self.group is None else self.group.lag()
        return ConditionResult(lag == 0, "nobody answers" if lag is None else f"{lag} records to go")

    def _isr(self, condition: Isr) -> ConditionResult:
        partition = self.view.partition(_where(condition))
        if partition is None:
            return ConditionResult(False, "nobody answers")
        isr = set(partition.isr)
        holds = isr == set(condition.brokers) if condition.brokers else not isr & self._chosen(condition.other_than)
        return ConditionResult(holds, f"ISR {sorted(isr)}")

    def _acked(self, condition: Acked) -> ConditionResult:
        before: Mapping[TopicPartition, int] = self.marks[condition.since].acked if condition.since else {}
        number = sum(
            acked - before.get(tp, 0)
            for tp, acked in self.tally.acked_by_partition().items()
            if condition.topic in (None, tp.topic) and condition.partition in (None, tp.partition)
        )
        return ConditionResult(number >= condition.at_least, f"{number} acknowledged")

    def full_isr(self, topic: str) -> ConditionResult:
        partitions = self.view.partitions(topic)
        if not partitions:
            return ConditionResult(False, "nobody answers")
        lacking = {tp: p for tp, p in partitions.items() if not p.full}
        seen = ", ".join(f"{tp}: leader {p.leader}, ISR {sorted(p.isr)}" for tp, p in sorted(lacking.items())[:3])
        return ConditionResult(not lacking, seen or f"all {len(partitions)} partitions in full ISR")

    def _leader(self, condition: Leader | NoLeader) -> ConditionResult:
        partition = self.view.partition(_where(condition))
        if partition is None:
            return ConditionResult(False, "nobody answers")
        seen = f"leader {partition.leader}"
        if isinstance(condition, NoLeader):
            return ConditionResult(partition.leader == NO_BROKER, seen)
        if condition.broker is not None:
            return ConditionResult(partition.leader == condition.broker, seen)
        return ConditionResult(
            partition.leader != NO_BROKER and partition.leader not in self._chosen(condition.other_than), seen
        )

    def _offset(self, condition: ReplicaOffset) -> ConditionResult:
        where = _where(condition)
        if condition.type == "CheckpointedHighWatermark":
            offset = self.ground.checkpointed_high_watermark(condition.broker, where)
        else:
            status = self.ground.replica_status(condition.broker, where)
            offset = {
                "LogEndOffset": status.log_end_offset,
                "HighWatermark": status.high_watermark,
                "FlushedOffset": status.flushed_offset,
            }[condition.type]
        if offset is None:
            return ConditionResult(False, "unknown")
        holds = (
            (condition.equals is None or offset == condition.equals)
            and (condition.at_least is None or offset >= condition.at_least)
            and (condition.at_most is None or offset <= condition.at_most)
        )
        return ConditionResult(holds, str(offset))

    # -- targets -----------------------------------------------------------------------------------------------------

    def choose(self, target: Target) -> Choice | None:
        """The brokers a target names now; None while nobody has the role (no leader, no in-sync follower)."""
        barred = self._chosen(target.other_than)
        match target.type:
            case TargetType.BROKERS:
                return self._described(target.brokers)
            case TargetType.ALL:
                return self._described([b for b in self.ground.brokers if b not in barred])
            case TargetType.SAME_AS:
                assert target.step is not None
                choice = self.marks[target.step].choice
                return None if choice is None else Choice(choice.brokers, f"as in {target.step}")
            case TargetType.CLIENTS:
                return Choice((CLIENTS,), "clients")
            case TargetType.CONTROLLER:
                controller = self.view.controller()
                return None if controller in (NO_BROKER, *barred) else Choice((controller,), "controller")
            case TargetType.COORDINATOR:
                return self._coordinator(barred)
            case TargetType.ANY:
                choice = self._pick(self.ground.brokers, barred, None)
                return None if choice is None else Choice(choice.brokers, self._role_of(choice.brokers[0]))
        assert target.topic is not None
        where = TopicPartition(target.topic, target.partition)
        partition = self.view.partition(where)
        if partition is None or partition.leader == NO_BROKER:
            return None
        if target.type is TargetType.LEADER:
            return None if partition.leader in barred else Choice((partition.leader,), f"leader of {where}")
        followers = [broker for broker in partition.isr if broker != partition.leader]
        return self._pick(sorted(followers), barred, f"follower of {where}")

    def _coordinator(self, barred: frozenset[int]) -> Choice | None:
        """Return who leads the group's partition of the offsets topic (Kafka's ``GroupCoordinator.partitionFor``)."""
        group, partitions = self.ground.group, self.view.partitions(OFFSETS_TOPIC)
        if not partitions:
            return None
        leader = partitions[TopicPartition(OFFSETS_TOPIC, partition_for(group, len(partitions)))].leader
        return None if leader in (NO_BROKER, *barred) else Choice((leader,), f"coordinator of group {group}")

    def _role_of(self, broker: int) -> str:
        """Return what a broker that was chosen blindly happens to be, for whoever reads the journal."""
        led = []
        for topic in self.topics:
            partitions = self.view.partitions(topic) or {}
            led += [str(where) for where, partition in sorted(partitions.items()) if partition.leader == broker]
        return f"leader of {', '.join(led)}" if led else "leader of nothing"

    def _pick(self, candidates: Sequence[int], barred: frozenset[int], role: str | None) -> Choice | None:
        live = [
            broker
            for broker in candidates
            if broker not in barred and self.ground.condition(broker) is BrokerCondition.RUNNING
        ]
        return Choice((self.rng.choice(live),), role) if live else None

    def _described(self, brokers: Sequence[int]) -> Choice | None:
        return Choice(tuple(brokers), None) if brokers else None

    def _chosen(self, steps: Sequence[str]) -> frozenset[int]:
        choices = [self.marks[step].choice for step in steps]
        return frozenset(broker for choice in choices if choice is not None for broker in choice.brokers)


def _where(condition: Isr | Leader | NoLeader | ReplicaOffset | ReplicaRole) -> TopicPartition:
    return TopicPartition(condition.topic, condition.partition)
