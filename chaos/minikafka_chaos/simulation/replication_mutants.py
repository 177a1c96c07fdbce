"""Bug seeds in what carries replication: serving fetches and produces, asking for records and for ISR changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikafka.metadata.image import TopicState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import FetchPartition, FetchRequest, PartitionData
from minikafka.protocol.types import TopicPartition
from minikafka.replication.fetch_loop import FetchLoop, Key, key_of
from minikafka.replication.follower import FetchPosition
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.isr import AlterPartitionAnswer, IsrProposal
from minikafka.replication.isr_requests import IsrRequests
from minikafka.replication.partition import Role
from minikafka.replication.replica_host import Dropped, LeadershipLost, ReplicaHost
from minikafka.replication.replicas import IsrAnswered, ReplicaManager

from minikafka_chaos.simulation.bug_seed import BugSeed, rules_with


class _ReadsToLogEnd(ReplicaManager):
    def _read_partition(
        self, partition: HostedPartition, asked: FetchPartition, follower: bool, left: int, first: bool
    ) -> PartitionData:
        del follower
        return super()._read_partition(partition, asked, True, left, first)


class _AcknowledgesEarly(ReplicaManager):
    def _append(self, partition: HostedPartition, *rest: Any) -> Any:
        result, required = super()._append(partition, *rest)
        return result, -1 if required == partition.high_watermark + 1 else required


class _AcknowledgesDuplicates(ReplicaManager):
    def _append(self, partition: HostedPartition, *rest: Any) -> Any:
        before = partition.log.log_end_offset
        result, required = super()._append(partition, *rest)
        return result, -1 if partition.log.log_end_offset == before else required


class _ServesAnyTerm(ReplicaManager):
    def _read_partition(
        self, partition: HostedPartition, asked: FetchPartition, follower: bool, left: int, first: bool
    ) -> PartitionData:
        return super()._read_partition(partition, asked._replace(current_leader_epoch=-1), follower, left, first)


class _RefusedWhenUnknown(ReplicaManager):
    def isr_answered(self, proposal: IsrProposal, answer: AlterPartitionAnswer | None) -> IsrAnswered | None:
        return super().isr_answered(proposal, answer or AlterPartitionAnswer(ErrorCode.OPERATION_NOT_ATTEMPTED))


class _DoneWhenExpired(ReplicaManager):
    def _sweep(self) -> None:
        now = self._now()
        for partition in self.all():
            for waiter in [w for w in partition.producers if w.delayed.deadline <= now]:
                partition.producers.remove(waiter)
                waiter.delayed.settle(waiter.result, ErrorCode.NONE)
        super()._sweep()


class _ForgetsReaders(ReplicaManager):
    """The purgatory loses what a new record was to wake, and what its deadline was to answer."""

    def fetch(self, request: FetchRequest, respond: Any) -> Any:
        parked = super().fetch(request, respond)
        if parked is not None and parked.follower:
            parked.give_up()
        return parked


class _AsksOnce(IsrRequests):
    def answered(
        self,
        batch: list[IsrProposal],
        answers: Any,
        take: Callable[[IsrProposal, AlterPartitionAnswer | None], bool],
    ) -> bool:
        super().answered(batch, answers, take)
        self._queue.clear()
        return False


class _ForgetsNewProposals(IsrRequests):
    """What is proposed while a request is in flight is never asked for."""

    def propose(self, proposal: IsrProposal) -> None:
        if not self._in_flight:
            super().propose(proposal)


class _NamesNoEpoch(FetchLoop[HostedPartition]):
    def next_fetch(self, now: float, overtake: bool = False) -> dict[Key, FetchPosition]:
        asked = super().next_fetch(now, overtake)
        return {key: position._replace(last_fetched_epoch=-1) for key, position in asked.items()}


class _WaitsForTheLost(FetchLoop[HostedPartition]):
    """The fetch that was in flight on a connection that is gone is waited for."""

    def disconnected(self) -> None:
        pass


class _BacksOffForever(FetchLoop[HostedPartition]):
    def _back_off(self, key: Key, now: float) -> None:
        super()._back_off(key, now)
        if key in self._followed:
            self._followed[key].not_before = float("inf")


class _DropsTheOthers(FetchLoop[HostedPartition]):
    """Who follows in a new term takes the place of all that was followed."""

    def follow(self, partition: HostedPartition) -> None:
        for key in [k for k in self._followed if k != key_of(partition)]:
            del self._followed[key]
        super().follow(partition)


class _NeverSettles(HostedPartition):
    """A produce that the high watermark has passed is answered when its time is up."""

    __slots__ = ()

    def settle_producers(self) -> None:
        self.producers.clear()


class _KeepsDeleted(ReplicaHost):
    """What is deleted or reassigned is led and followed no more, and its log stays."""

    def _drop(self, partition: HostedPartition, reason: str) -> None:
        self._replicas.remove(partition)
        self._leave(partition, partition.resign)
        self._wake(partition)
        self._effects.append(Dropped(partition, reason))

    def _drop_stray(self, tp: TopicPartition, topic: TopicState | None) -> None:
        pass


class _KeepsStrayLogs(ReplicaHost):
    """A log of a topic that was deleted while the broker was away stays."""

    def _drop_stray(self, tp: TopicPartition, topic: TopicState | None) -> None:
        pass


class _KnowsTopicsByName(ReplicaHost):
    """A topic that is made anew is taken for the one before it."""

    def _reconcile_topic(self, name: str, topic: TopicState | None) -> None:
        for partition in self._replicas.by_name.get(name, {}).values():
            if topic is not None:
                partition.topic_id = topic.topic_id.bytes
        super()._reconcile_topic(name, topic)


class _TellsNobody(ReplicaHost):
    """Who waits at a leader that is one no more waits on."""

    def _stopped_leading(self, partition: HostedPartition) -> None:
        self._effects.append(LeadershipLost(partition))


class _FollowsTheOldLeader(ReplicaHost):
    """Fetches go where they went before."""

    def _role_changed(self, partition: HostedPartition, was: Role) -> None:
        before = self._fetchers.leader_of(partition)
        super()._role_changed(partition, was)
        if before is not None and partition.follower is not None:
            self._fetchers.follow(partition, before)


REPLICATION_SEEDS = (
    BugSeed("keep-deleted-log", "the log of a replica that is deleted or reassigned stays", "Kafka's stray logs",
            rules_with(host=_KeepsDeleted)),
    BugSeed("keep-stray-log", "a log of a topic that was deleted meanwhile stays", "KIP-516, Kafka's stray logs",
            rules_with(host=_KeepsStrayLogs)),
    BugSeed("topic-by-name", "a topic that is made anew is taken for the one before it", "KIP-516",
            rules_with(host=_KnowsTopicsByName)),
    BugSeed("tell-nobody", "who waits at a leader that is one no more is not told", "audit s03", rules_with(host=_TellsNobody)),
    BugSeed("follow-old-leader", "a follower goes on fetching from the leader before", "Kafka's fetchers",
            rules_with(host=_FollowsTheOldLeader)),
    BugSeed("read-to-log-end", "consumers read up to the log end", "Kafka's high watermark, audit s01",
            rules_with(replicas=_ReadsToLogEnd)),
    BugSeed("acknowledge-early", "acks=all is answered one record before the HW is there", "audit s02",
            rules_with(replicas=_AcknowledgesEarly)),
    BugSeed("acknowledge-duplicates", "a repeated batch is acknowledged at once, committed or not", "audit s27",
            rules_with(replicas=_AcknowledgesDuplicates)),
    BugSeed("serve-any-term", "records are sent to whoever knows the leader by another term", "KIP-320, audit s32",
            rules_with(replicas=_ServesAnyTerm)),
    BugSeed("refused-when-unknown", "an unknown outcome of AlterPartition counts as a refusal", "KAFKA-12684, audit s09",
            rules_with(replicas=_RefusedWhenUnknown)),
    BugSeed("expired-is-done", "a produce whose time is up counts as done", "audit s20", rules_with(replicas=_DoneWhenExpired)),
    BugSeed("forget-parked-fetch", "the purgatory loses a follower's fetch", "Kafka's purgatory",
            rules_with(replicas=_ForgetsReaders)),
    BugSeed("forget-acknowledgement", "a produce is forgotten when the HW has passed it", "Kafka's purgatory",
            rules_with(partition=_NeverSettles)),
    BugSeed("isr-change-asked-once", "an ISR change with an unknown outcome is not asked for again", "KIP-497, audit s24",
            rules_with(isr_requests=_AsksOnce)),
    BugSeed("isr-change-overlooked", "an ISR change that comes while another is asked for is lost", "KIP-497",
            rules_with(isr_requests=_ForgetsNewProposals)),
    BugSeed("fetch-names-no-epoch", "followers do not name the epoch of their last record", "KIP-595, audit s14",
            rules_with(fetch_loop=_NamesNoEpoch)),
    BugSeed("fetch-waits-for-lost", "a fetch on a connection that is gone is waited for", "Kafka's NetworkClient",
            rules_with(fetch_loop=_WaitsForTheLost)),
    BugSeed("fetch-backs-off-forever", "a partition that was refused once is never asked for again", "Kafka's fetchers",
            rules_with(fetch_loop=_BacksOffForever)),
    BugSeed("fetch-drops-others", "a partition in a new term pushes the others of its leader out", "Kafka's fetchers",
            rules_with(fetch_loop=_DropsTheOthers)),
)  # fmt: skip
