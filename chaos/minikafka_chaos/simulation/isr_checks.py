"""What is checked of who is in sync, and of who may lead for it: see ``invariants``, B29 and B31."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from minikafka.metadata.image import NO_LEADER, ClusterImage, PartitionState
from minikafka.protocol.types import TopicPartition

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker
    from minikafka_chaos.simulation.checker import Checker
    from minikafka_chaos.simulation.world import World

LOOK_SECONDS = 0.25
CHECKS_MAX = 1.5
"""A leader looks twice in ``replica.lag.time.max.ms`` for followers that are behind."""
SLACK = 0.4
"""Seconds: what lies between two looks of ours, and something for the leader's clock."""


class _Member(NamedTuple):
    """A follower in the ISR of one leader's term."""

    broker: int
    topic_partition: TopicPartition
    topic_id: bytes
    leader_epoch: int
    follower: int


class IsrChecks:
    """Of one world."""

    def __init__(self, world: World, checker: Checker) -> None:
        self._world = world
        self._checker = checker
        self._looked: dict[int, float] = {}
        self._caught_up: dict[_Member, tuple[float, int]] = {}
        """When a member was last seen at the goal set before, and the new goal: where its leader's log ended then."""

    def changed(self, tp: TopicPartition, old: PartitionState, new: PartitionState, image: ClusterImage) -> None:
        """The controllers' decision on a partition that there was before.

        Who is elected from outside the ISR throws out those who are in it; so none of them may live (B29). Of one change: of
        several at once, the first may have let the new leader in.
        """
        if new.partition_epoch > old.partition_epoch + 1 or new.leader in (old.leader, NO_LEADER, *old.isr):
            return
        out = [m for m in old.isr if image.is_active(m) and m in new.replicas and m not in new.isr]
        if out:
            self._checker.fail(
                "B29 IsrGoesFirst",
                f"{tp}: broker {new.leader} leads, which was not in the ISR {list(old.isr)}, of which {out} are alive",
            )

    def proposed(self, broker: SimBroker, tp: TopicPartition) -> None:
        """A leader asks for another ISR; only one change at a time may be asked for."""
        self._forget(broker.id, tp)

    def _forget(self, broker_id: int, tp: TopicPartition) -> None:
        for member in [m for m in self._caught_up if m.broker == broker_id and m.topic_partition == tp]:
            del self._caught_up[member]

    def after(self, broker: SimBroker) -> None:
        """An event on a broker is over: does it lead with members that have long not been where its log ended (B31)?"""
        now = self._world.now
        if now < self._looked.get(broker.id, 0.0) + LOOK_SECONDS:
            return
        self._looked[broker.id] = now
        for partition in broker.leading.replicas.all():
            leader, tp = partition.leader, partition.topic_partition
            before = {m: self._caught_up.pop(m) for m in list(self._caught_up) if m[:2] == (broker.id, tp)}
            if leader is None or partition.log.failure is not None or leader.isr.pending is not None:
                continue
            for follower in leader.isr.committed:
                if follower != broker.id:
                    member = _Member(broker.id, tp, partition.topic_id, leader.epoch, follower)
                    self._caught_up[member] = self._judge(
                        broker, member, before.get(member), partition.log.log_end_offset
                    )

    def _judge(
        self, broker: SimBroker, member: _Member, before: tuple[float, int] | None, leader_end: int
    ) -> tuple[float, int]:
        now = self._world.now
        if before is None or self._end(member) >= before[1]:
            return now, leader_end
        late = now - max(before[0], broker.awake_since)
        if late > self._world.lag * CHECKS_MAX + SLACK:
            self._checker.fail(
                "B31 LaggardsLeave",
                f"broker {broker.id} keeps {member.follower} in the ISR of {member.topic_partition}, which has been below "
                f"{before[1]} for {late:.2f} s",
            )
        return before

    def _end(self, member: _Member) -> int:
        """Where the follower's log really ends."""
        logs = self._world.brokers[member.follower].logs
        log = None if logs is None else logs.logs.get(member.topic_partition)
        return 0 if log is None else log.log_end_offset
