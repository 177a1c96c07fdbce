"""What is checked of who is in sync, and of who may lead for it: see ``invariants``, B10, B29, B31, B32, B34 and B38."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple

from minikafka.metadata.image import MIN_ISR, NO_LEADER, ClusterImage, PartitionState
from minikafka.protocol.types import TopicPartition
from minikafka.replication.partition import Partition

from minikafka_simulator.checks.account import Account
from minikafka_simulator.checks.scheduled_cluster import ScheduledCluster

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker

UNCLEAN_ELECTION = "unclean.leader.election.enable"
LOOK_SECONDS = 0.25
CHECKS_MAX = 1.5
"""A leader looks twice in ``replica.lag.time.max.ms`` for followers that are behind."""
SLACK = 0.4
"""Seconds: what lies between two looks of ours, and something for the leader's clock."""
JOINS_SECONDS = 1.2
"""Three fetches over a slow link, and the controller's answer."""
NEXT_FETCH_SECONDS = 0.9
"""Nothing is lost on the way, and nobody stands still, while the answers come no later than this."""


class _Member(NamedTuple):
    """A follower in the ISR of one leader's term."""

    broker: int
    topic_partition: TopicPartition
    topic_id: bytes
    leader_epoch: int
    follower: int


class IsrChecks:
    """Of one world."""

    def __init__(self, world: ScheduledCluster, account: Account) -> None:
        self._world = world
        self._account = account
        self._looked: dict[int, float] = {}
        self._caught_up: dict[_Member, tuple[float, int]] = {}
        """When a member was last seen at the goal set before, and the new goal: where its leader's log ended then."""
        self._keeps_up: dict[_Member, tuple[float, float]] = {}
        """Since when a follower that is not in the ISR has taken in all that there was, and when it did last."""
        self._incarnations: dict[int, int] = {}
        """Broker epochs, as they were written last."""
        self._held_all: dict[tuple[TopicPartition, int], bool] = {}
        """Whether the leader elected in a leader epoch came from ISR or ELR."""

    def changed(
        self,
        tp: TopicPartition,
        old: PartitionState,
        new: PartitionState,
        image: ClusterImage,
        away: AbstractSet[int] = frozenset(),
    ) -> None:
        """The controllers' decision on a partition that there was before. `away`: brokers that were fenced by the same write, and
        may have been heard of again since, and those that it let in after the election.

        Who is elected from outside the ISR throws out those who are in it; so none of them may live (B29). Who is elected from
        outside ISR and ELR excuses every loss, so nobody may be left who has lost nothing (B34). Of one change: of several at
        once, the first may have let the new leader in.
        """
        if new.partition_epoch > old.partition_epoch + 1:
            return
        self._reassigned(tp, old, new)
        if new.leader in (old.leader, NO_LEADER):
            return
        let_in = len(new.isr) > 1  # by the change that gave it the leadership: who is elected from outside is alone
        self._held_all[tp, new.leader_epoch] = let_in or new.leader in (*old.isr, *old.elr)
        if new.leader in old.isr:
            return
        active = {m for m in (*old.isr, *old.elr) if image.is_active(m)} - away
        out = [m for m in old.isr if m in active and m in new.replicas and m not in new.isr]
        if out:
            self._account.fail(
                "B29 IsrGoesFirst",
                f"{tp}: broker {new.leader} leads, which was not in the ISR {list(old.isr)}, of which {out} are alive",
            )
        if new.leader in old.elr or let_in:
            return
        allowed = image.topics[tp.topic].configs.get(UNCLEAN_ELECTION) == "true"
        whole = [
            m
            for m in (*old.isr, *old.elr)
            if m in new.replicas
            and (broker := image.brokers.get(m)) is not None  # else it was unregistered: it will not come back
            and broker.epoch == self._incarnations.get(m, -1)  # else it was restarted: it may have lost records
            and (m in active or not allowed)
        ]
        if whole:
            self._account.fail(
                "B34 UncleanAtLast",
                f"{tp}: broker {new.leader} leads, of neither the ISR {list(old.isr)} nor the ELR {list(old.elr)}, of which "
                f"{whole} have lost nothing",
            )

    def _reassigned(self, tp: TopicPartition, old: PartitionState, new: PartitionState) -> None:
        """Whoever leaves the replicas takes a copy along, so all that stay must have one (B38). Who was only about to come may
        go at any time."""
        gone = set(old.replicas) - set(new.replicas) - set(old.adding)
        if gone and not set(new.replicas) <= set(new.isr):
            self._account.fail(
                "B38 ReassignedInSync",
                f"{tp}: {sorted(gone)} left the replicas {list(old.replicas)}, and of {list(new.replicas)} only {list(new.isr)} "
                f"are in sync",
            )

    def elected(self, tp: TopicPartition, leader_epoch: int, clean: bool) -> None:
        """What a controller says of an election: one that is called unclean excuses losses (B34)."""
        held_all = self._held_all.pop((tp, leader_epoch), clean)
        if held_all != clean:
            self._account.fail(
                "B34 UncleanAtLast",
                f"{tp}: the election of leader epoch {leader_epoch} is called {'clean' if clean else 'unclean'}, its leader was "
                f"{'' if held_all else 'not '}in ISR or ELR",
            )

    def written(self, image: ClusterImage) -> None:
        """The store has this image now."""
        self._incarnations = {broker.broker_id: broker.epoch for broker in image.brokers.values()}

    def isr_and_elr(self, tp: TopicPartition, state: PartitionState, image: ClusterImage) -> None:
        """Who is in the ELR has left an ISR that is smaller than it may be; by the cluster's records, no broker's file (B10)."""
        isr, elr = set(state.isr), set(state.elr)
        min_isr = int(image.topics[tp.topic].configs.get(MIN_ISR) or image.cluster_configs[MIN_ISR])
        outside = (isr | elr) - set(state.replicas)
        if isr & elr or outside or (elr and len(isr) >= min(min_isr, len(state.replicas))):
            self._account.fail(
                "B10 ValidControllerIsrAndElr",
                f"{tp}: ISR {list(state.isr)}, ELR {list(state.elr)} of {list(state.replicas)}, min ISR {min_isr}",
            )

    def proposed(self, broker: SimBroker, tp: TopicPartition) -> None:
        """A leader asks for another ISR; only one change at a time may be asked for."""
        for seen in (self._caught_up, self._keeps_up):
            for member in [m for m in seen if m[:2] == (broker.id, tp)]:
                del seen[member]

    def after(self, broker: SimBroker) -> None:
        """An event on a broker is over: does it lead with members that have long not been where its log ended (B31)?"""
        now = self._world.now
        if now < self._looked.get(broker.id, 0.0) + LOOK_SECONDS:
            return
        self._looked[broker.id] = now
        for partition in broker.gate.replicas.all():
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

    def lost_power(self, follower: SimBroker) -> None:
        """It may have caught up since the last look, and have lost that again: its time begins anew."""
        for member in [member for member in self._caught_up if member.follower == follower.id]:
            del self._caught_up[member]

    def _judge(
        self, broker: SimBroker, member: _Member, before: tuple[float, int] | None, leader_end: int
    ) -> tuple[float, int]:
        now = self._world.now
        if before is None or self._end(member) >= before[1]:
            return now, leader_end
        late = now - max(before[0], broker.awake_since)
        if late > self._world.lag * CHECKS_MAX + SLACK:
            self._account.fail(
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

    def fetched(self, follower: SimBroker, partition: Partition, leader_id: int) -> None:
        """A follower has taken in an answer; if it gets all there is with each, it does not stay out for long (B32)."""
        world, tp = self._world, partition.topic_partition
        broker = world.brokers[leader_id]
        member = _Member(leader_id, tp, partition.topic_id, partition.leader_epoch, follower.id)
        since, last = self._keeps_up.pop(member, (world.now, world.now))
        ours = broker.partitions.get(tp) if broker.up else None
        leader = None if ours is None else ours.leader
        if (
            ours is None
            or leader is None
            or ours.log.failure is not None
            or len(ours.log.segments) > 1  # one read gives no more than what is left of a segment
            or leader.epoch != partition.leader_epoch
            or leader.isr.pending is not None
            or follower.id in leader.isr.maximal
            or follower.id not in world.served_whole
            or not ours.peers.eligible(follower.id, follower.broker_epoch)
        ):
            return
        if world.now - last > NEXT_FETCH_SECONDS or broker.awake_since > since or follower.awake_since > since:
            since = world.now
        if world.now - since > JOINS_SECONDS:
            self._account.fail(
                "B32 WhoKeepsUpJoins",
                f"broker {leader_id} leaves {follower.id} out of the ISR of {tp}, which has had all of its log with every fetch "
                f"for {world.now - since:.2f} s",
            )
        self._keeps_up[member] = since, world.now
