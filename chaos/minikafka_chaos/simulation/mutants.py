"""Bug seeds: one known mistake each, of Kafka or its kin, as a switch that only the simulator can set.

Each is a subclass of a production class with one method changed, so production has no switch to flip. They measure the
checker: a simulator that does not find these would not find their cousins either (docs/internals/simulation.md has the table).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from minikafka.controller.brokers import BrokerRegistry
from minikafka.controller.change import change
from minikafka.controller.partitions import PartitionRegistry
from minikafka.controller.topics import TopicRegistry
from minikafka.log.data_directory import DataDirectory
from minikafka.log.manager import LogManager
from minikafka.metadata.image import BrokerState, TopicState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.follower import FetchOutcome, FetchPosition, FollowerState
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.isr import AfterAnswer, IsrProposal
from minikafka.replication.leader import LeaderState, RemoteReplica
from minikafka.replication.replica_host import ReplicaHost

from minikafka_chaos.simulation.bug_seed import BugSeed, rules_with
from minikafka_chaos.simulation.disk_mutants import DISK_SEEDS
from minikafka_chaos.simulation.group_mutants import GROUP_SEEDS
from minikafka_chaos.simulation.membership_mutants import MEMBERSHIP_SEEDS
from minikafka_chaos.simulation.processes import watched
from minikafka_chaos.simulation.processes.server_mutants import SERVER_SEEDS, with_parts
from minikafka_chaos.simulation.replication_mutants import REPLICATION_SEEDS
from minikafka_chaos.simulation.store_mutants import STORE_SEEDS
from minikafka_chaos.simulation.writing_mutants import WRITING_SEEDS

# -- followers ---------------------------------------------------------------------------------------------------------------


class _TruncatesToHighWatermark(FollowerState):
    __slots__ = ()

    def truncates_to_high_watermark(self) -> bool:
        return True

    def last_fetched_epoch(self) -> int:
        return -1


class _TruncatesOnce(FollowerState):
    __slots__ = ("cut_once",)

    def start(self) -> None:
        self.cut_once = False
        super().start()

    def diverged(self, diverging: tuple[int, int], high_watermark: int, log_start_offset: int) -> FetchOutcome:
        self.cut_once = True
        return super().diverged(diverging, high_watermark, log_start_offset)

    def last_fetched_epoch(self) -> int:
        return -1 if self.cut_once else super().last_fetched_epoch()


class _TakesAnyAnswer(FollowerState):
    __slots__ = ()

    def is_current(self, asked: FetchPosition) -> bool:
        del asked
        return True


class _HighWatermarkOnDivergence(FollowerState):
    __slots__ = ()

    def diverged(self, diverging: tuple[int, int], high_watermark: int, log_start_offset: int) -> FetchOutcome:
        outcome = super().diverged(diverging, high_watermark, log_start_offset)
        self.partition.high_watermark = high_watermark
        return outcome


class _RemembersForgetting(HostedPartition):
    """Holds what the follower below forgot, over its terms."""

    __slots__ = ("forgot",)


class _ForgetsEpochWhenEmpty(FollowerState):
    __slots__ = ()

    def answered(self, *args: Any) -> FetchOutcome:
        outcome = super().answered(*args)
        self.partition.forgot = outcome is FetchOutcome.EMPTY  # type: ignore[attr-defined]
        return outcome

    def last_fetched_epoch(self) -> int:
        return -1 if getattr(self.partition, "forgot", False) else super().last_fetched_epoch()


class _AppendsLaterEpochs(FollowerState):
    __slots__ = ()

    def append(self, records: memoryview) -> None:
        self.partition.log.append_as_follower(records, 2**31 - 1)

    def is_current(self, asked: FetchPosition) -> bool:
        return asked.offset == self.partition.log.log_end_offset


class _DropsAllWhenOutOfRange(FollowerState):
    __slots__ = ()

    def leader_offsets(self, asked: FetchPosition, earliest: int, latest: int) -> FetchOutcome:
        del asked, earliest, latest
        self.partition.log.truncate_fully_and_start_at(0)
        self.partition.set_high_watermark(0)
        return FetchOutcome.TRUNCATED


class _ForgetsProducers(FollowerState):
    __slots__ = ()

    def append(self, records: memoryview) -> None:
        super().append(records)
        self.partition.log.producers.clear()


class _AsksBeforeTheFlush(FollowerState):
    __slots__ = ()

    def may_ask(self) -> bool:
        return True


# -- leaders -----------------------------------------------------------------------------------------------------------------


class _NoEpochStart(LeaderState):
    __slots__ = ()

    def note_epoch_start(self) -> None:
        return


class _NoFencing(HostedPartition):
    __slots__ = ()

    def check_leader(self, current_leader_epoch: int) -> ErrorCode:
        del current_leader_epoch
        return ErrorCode.NONE if self.leader is not None else ErrorCode.NOT_LEADER_OR_FOLLOWER


class _JoinsAtHighWatermark(LeaderState):
    __slots__ = ()

    def may_join(self, replica: int, remote: RemoteReplica, now: float) -> bool:
        del now
        return remote.leo >= self.partition.high_watermark and self.partition.peers.eligible(
            replica, remote.broker_epoch
        )


class _CommittedIsrForHighWatermark(LeaderState):
    __slots__ = ()

    def counts_for_high_watermark(self, replica: int, remote: RemoteReplica, now: float) -> bool:
        del remote, now
        pending = self.isr.pending
        return replica in (
            self.isr.committed if pending is None else [m for m, _ in pending.isr if m in self.isr.committed]
        )


class _FallsBackOnUnknown(LeaderState):
    __slots__ = ()

    def refused(self, error: ErrorCode, now: float) -> AfterAnswer:
        del error
        self.isr.fall_back()
        self.maybe_advance_high_watermark(now)
        return AfterAnswer.DONE


class _AdvancesUnderMinIsr(LeaderState):
    __slots__ = ()

    def may_advance(self) -> bool:
        return True


class _DistrustsNewFollowers(LeaderState):
    __slots__ = ()

    def initial_remote(self, replica: int, state: Any, previous: LeaderState | None, now: float) -> RemoteReplica:
        remote = super().initial_remote(replica, state, previous, now)
        remote.last_caught_up = float("-inf")
        return remote


class _TrustsOldPositions(LeaderState):
    __slots__ = ()

    def follows_at_once(self, previous: LeaderState | None) -> TypeGuard[LeaderState]:
        return previous is not None


class _ShrinksWithoutItself(LeaderState):
    __slots__ = ()

    def maybe_shrink(self, now: float) -> IsrProposal | None:
        if self.isr.pending is not None:
            return None
        leo, lag = self.partition.log.log_end_offset, self.partition.config.replica_lag_time_max
        keep = tuple(m for m in self.isr.committed if m in self.remotes and self.remotes[m].is_caught_up(leo, now, lag))
        return self.propose(keep) if keep and len(keep) < len(self.isr.committed) - 1 else super().maybe_shrink(now)


class _ShowsLaggingEnd(LeaderState):
    __slots__ = ()

    def end_offset_for_clients(self) -> int | None:
        return self.partition.high_watermark


class _CountsUnflushed(LeaderState):
    __slots__ = ()

    def own_position(self) -> int:
        return self.partition.log.log_end_offset


class _TrustsAnyIncarnation(LeaderState):
    __slots__ = ()

    def validate_follower(self, replica: int, broker_epoch: int, current_leader_epoch: int) -> ErrorCode:
        del broker_epoch
        return super().validate_follower(replica, -1, current_leader_epoch)


# -- controller --------------------------------------------------------------------------------------------------------------


class _NoPartitionEpoch(PartitionRegistry):
    def check_epochs(self, broker_id: int, old: Any, proposal: IsrProposal) -> ErrorCode:
        return super().check_epochs(broker_id, old, proposal._replace(partition_epoch=old.partition_epoch))


class _AcceptsFenced(PartitionRegistry):
    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        del broker_epoch
        return broker_id in self.workspace.image.brokers


class _AcceptsRebooted(PartitionRegistry):
    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        del broker_epoch
        return super().is_eligible(broker_id, -1)


class _AcceptsAnyIsr(PartitionRegistry):
    def check_members(self, old: Any, proposal: IsrProposal) -> ErrorCode:
        del old, proposal
        return ErrorCode.NONE


class _KeepsUncleanlyStopped(BrokerRegistry):
    def _replace_incarnation(self, known: BrokerState, registration: Any) -> None:
        super()._replace_incarnation(known, registration._replace(previous_broker_epoch=known.epoch))


class _NoticesNoRestart(BrokerRegistry):
    """The registration keeps the seats, as if nothing had happened."""

    def _replace_incarnation(self, known: BrokerState, registration: Any) -> None:
        del known, registration

    def connection_lost(self, broker_id: int, broker_epoch: int) -> None:
        del broker_id, broker_epoch

    def connection_refused(self, broker_id: int) -> None:
        del broker_id


# -- log ---------------------------------------------------------------------------------------------------------------------


class _KeepsCleanMarker(LogManager):
    """The marker is left in place while the broker runs, so that a crash looks clean."""

    def _load(self, unflushed_dir: str | None, now_ms: int) -> None:
        super()._load(unflushed_dir, now_ms)
        for directory in self._directories:
            if directory.clean:
                _leave_marker(directory, self.previous_broker_epoch)


def _leave_marker(directory: DataDirectory, epoch: int) -> None:
    directory.write_clean_marker(epoch)


class _LeadsWithAnybody(ReplicaHost):
    def eligible(self, broker_id: int, broker_epoch: int) -> bool:
        del broker_epoch
        return broker_id in self._image().brokers


class _LeadsWithAnyIncarnation(ReplicaHost):
    def eligible(self, broker_id: int, broker_epoch: int) -> bool:
        del broker_epoch
        return super().eligible(broker_id, -1)


class _KeepsElrWhenMinIsrFalls(TopicRegistry):
    def _min_isr_changed(self, topic: TopicState, before: int | None, reason: str) -> None:
        pass


class _KeepsEpochWhenMinIsrRises(TopicRegistry):
    def _min_isr_changed(self, topic: TopicState, before: int | None, reason: str) -> None:
        del before
        rules = self.workspace.rules(topic)
        for index, old in enumerate(topic.partitions):
            made = change(old, rules)
            if made is not None:
                topic = self.workspace.put_partition(topic, index, made, reason)


class _GoesByItsOwnFile(watched.Follower):
    def _take_cluster_configs(self) -> None:
        """The cluster's min.insync.replicas is not taken."""


class _ForgetsLeaderless(ReplicaHost):
    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {p.topic_partition: p.high_watermark if p.role else 0 for p in self._replicas.all()}


BUG_SEEDS: Mapping[str, BugSeed] = {
    seed.name: seed
    for seed in (
        *REPLICATION_SEEDS,
        *MEMBERSHIP_SEEDS,
        *GROUP_SEEDS,
        *DISK_SEEDS,
        *STORE_SEEDS,
        *SERVER_SEEDS,
        *WRITING_SEEDS,
        BugSeed("truncate-to-hw", "follower truncates to its HW instead of the end of the epoch", "before KIP-101",
                rules_with(follower=_TruncatesToHighWatermark)),
        BugSeed("no-epoch-at-become-leader", "no epoch entry when a leader takes over", "KAFKA-6361, KIP-279",
                rules_with(leader=_NoEpochStart)),
        BugSeed("one-shot-truncation", "truncates once and never asks again", "KIP-279", rules_with(follower=_TruncatesOnce)),
        BugSeed("no-epoch-fencing", "currentLeaderEpoch is not checked", "KIP-320", rules_with(partition=_NoFencing)),
        BugSeed("stale-fetch-answer", "an answer is applied after the epoch or position moved", "Kip320.tla rule 2",
                rules_with(follower=_TakesAnyAnswer)),
        BugSeed("hw-on-divergence", "HW is taken from a diverging answer", "KAFKA-14704",
                rules_with(follower=_HighWatermarkOnDivergence)),
        BugSeed("forget-epoch-on-empty", "lastFetchedEpoch is forgotten after an empty answer", "KAFKA-15510",
                rules_with(follower=_ForgetsEpochWhenEmpty, partition=_RemembersForgetting)),
        BugSeed("append-later-epoch", "batches of a later epoch than the fetch's are appended", "KAFKA-18723",
                rules_with(follower=_AppendsLaterEpochs)),
        BugSeed("out-of-range-drops-all", "OFFSET_OUT_OF_RANGE truncates to the start", "KAFKA-2143, KAFKA-7414",
                rules_with(follower=_DropsAllWhenOutOfRange)),
        BugSeed("join-at-hw", "joins the ISR at the HW, before the start of the leader's epoch", "KAFKA-7128",
                rules_with(leader=_JoinsAtHighWatermark)),
        BugSeed("committed-isr-for-hw", "HW ignores a pending ISR change", "KIP-497",
                rules_with(leader=_CommittedIsrForHighWatermark)),
        BugSeed("fall-back-on-unknown", "falls back to the old ISR when the outcome is unknown", "KAFKA-12684",
                rules_with(leader=_FallsBackOnUnknown)),
        BugSeed("no-partition-epoch", "ISR changes without compare-and-set on the partition epoch", "KIP-497",
                rules_with(partitions=_NoPartitionEpoch)),
        BugSeed("accept-fenced", "fenced or stopping brokers may join the ISR", "KIP-841",
                rules_with(partitions=_AcceptsFenced, host=_LeadsWithAnybody)),
        BugSeed("accept-rebooted", "a fetch of the last incarnation lets a rebooted broker into the ISR", "KIP-903",
                rules_with(leader=_TrustsAnyIncarnation, partitions=_AcceptsRebooted, host=_LeadsWithAnyIncarnation)),
        BugSeed("keep-uncleanly-stopped", "a broker that lost its tail keeps its seat in ISR and ELR", "KIP-966",
                rules_with(brokers=_KeepsUncleanlyStopped)),
        BugSeed("restart-unnoticed", "a restart within the session keeps the ISR seat", "KIP-966",
                rules_with(brokers=_NoticesNoRestart)),
        BugSeed("hw-under-min-isr", "HW advances below min.insync.replicas", "KAFKA-15583",
                rules_with(leader=_AdvancesUnderMinIsr)),
        BugSeed("clean-marker-stays", "the clean shutdown marker is still there after loading", "KAFKA-10471",
                rules_with(manager=_KeepsCleanMarker)),
        BugSeed("drop-leaderless-hw", "the HW of a leaderless partition is dropped from the checkpoint", "KAFKA-1647",
                rules_with(host=_ForgetsLeaderless)),
        BugSeed("hasty-shrink", "a new leader shrinks the ISR before the first fetch", "Fluss #3698",
                rules_with(leader=_DistrustsNewFollowers)),
        BugSeed("trust-old-positions", "a leader that missed a term keeps what its followers had before it", "found here",
                rules_with(leader=_TrustsOldPositions)),
        BugSeed("shrink-without-leader", "a shrink drops the leader itself from the ISR", "Fluss #3927",
                rules_with(leader=_ShrinksWithoutItself, partitions=_AcceptsAnyIsr)),
        BugSeed("dedupe-on-leader-only", "followers do not keep the state of producers", "redpanda #3039",
                rules_with(follower=_ForgetsProducers)),
        BugSeed("min-isr-keeps-elr", "the ELR outlives a lower min.insync.replicas", "KIP-966, audit t2",
                rules_with(topics=_KeepsElrWhenMinIsrFalls)),
        BugSeed("min-isr-keeps-epoch", "a leader shrinks its ISR before it knows a higher min.insync.replicas", "found here",
                rules_with(topics=_KeepsEpochWhenMinIsrRises)),
        BugSeed("own-min-isr", "leaders go by the min.insync.replicas of their own file", "KIP-966, audit t2",
                rules_with(process=with_parts(metadata_follower=_GoesByItsOwnFile))),
        BugSeed("leader-flushes-late", "a leader counts for what flush.messages wants flushed first", "Kafka's UnifiedLog.append",
                rules_with(leader=_CountsUnflushed)),
        BugSeed("follower-flushes-late", "a follower's fetch tells of what flush.messages wants flushed first",
                "Kafka's UnifiedLog.append", rules_with(follower=_AsksBeforeTheFlush)),
        BugSeed("lagging-end-offset", "ListOffsets shows the HW of a leader that has not caught up", "OFFSET_NOT_AVAILABLE",
                rules_with(leader=_ShowsLaggingEnd)),
    )
}  # fmt: skip
