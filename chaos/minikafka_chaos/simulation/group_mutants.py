"""Bug seeds in the coordination of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from minikafka.groups.commits import Commits, Finished
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.group import Group
from minikafka.groups.host import GroupHost
from minikafka.groups.membership import GroupMembership
from minikafka.groups.offsets_log import Done, GroupRecord, OffsetsLog
from minikafka.groups.records import CommittedOffset
from minikafka.groups.replay import Replay
from minikafka.groups.requests import CommitRequest, SyncRequest
from minikafka.groups.timers import Now
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import RecordBatch
from minikafka.protocol.types import TopicPartition
from minikafka.replication.internal_log import InternalLog

from minikafka_chaos.simulation.bug_seed import BugSeed, rules_with


class _AnswersAtOnce(InternalLog):
    """acks=1."""

    def append(self, topic: str, partition: int, batch: bytearray | bytes, done: Callable[[ErrorCode], None]) -> None:
        answered: list[ErrorCode] = []
        super().append(topic, partition, batch, answered.append)
        done(answered[0] if answered else ErrorCode.NONE)


class _ReadsToTheHighWatermark(InternalLog):
    def read(self, topic: str, partition: int) -> Iterator[RecordBatch]:
        hosted = self._replicas.get(topic, partition)
        end = 0 if hosted is None else hosted.high_watermark
        return (batch for batch in super().read(topic, partition) if batch.header.next_offset <= end)


class _KeepsItsGroups(GroupHost):
    def on_leadership_change(self, partition: int, is_leader: bool) -> None:
        if is_leader:
            super().on_leadership_change(partition, is_leader)


class _LoadsTheBeginning(GroupHost):
    """What one slice has read counts as all."""

    def _begin_load(self, partition: int) -> None:
        read = self._log.read

        class Beginning:
            append = self._log.append
            when_committed = self._log.when_committed

            @staticmethod
            def read(topic: str, index: int) -> Iterator[RecordBatch]:
                return islice(read(topic, index), 5)

        log, self._log = self._log, Beginning()
        super()._begin_load(partition)
        self._log = log


class _AnswersWhileItLoads(GroupCoordinator):
    def start_loading(self, partition: int) -> Replay:
        self._owned.add(partition)
        self._loading.add(partition)
        return Replay()

    def check(self, group_id: str, *, allow_empty: bool = False) -> ErrorCode:
        error = super().check(group_id, allow_empty=allow_empty)
        return ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error


class _ForgetsGenerations(GroupCoordinator):
    """A group that is loaded begins to count anew."""

    def finish_loading(self, partition: int, replay: Replay, now: Now) -> None:
        super().finish_loading(partition, replay, now)
        for group in self._groups.values():
            if self.partition_of(group.group_id) == partition:
                group.generation = 0


class _SharesBeforeTheyAreStored(GroupCoordinator):
    def _store(
        self, group: Group, assignments: Mapping[str, bytes], now: Now, done: Callable[[ErrorCode, Now], None]
    ) -> None:
        super()._store(group, assignments, now, lambda _error, _at: None)
        done(ErrorCode.NONE, now)


class _AcceptsAnyGeneration(Commits):
    def _check(self, group: Group, request: CommitRequest) -> ErrorCode:
        del group, request
        return ErrorCode.NONE


class _ShowsWhatIsNotWritten(Commits):
    def _write(
        self,
        group: Group,
        changes: Mapping[TopicPartition, CommittedOffset | None],
        now: Now,
        finished: Finished,
        extra: Any = (),
    ) -> None:
        group.offsets.apply(changes, self._log.next_sequence())
        super()._write(group, changes, now, finished, extra)


class _ForgetsLateSuccess(OffsetsLog):
    """What has timed out counts as not written, whatever becomes of it."""

    def write(self, partition: int, records: Any, sequence: int, now: Now, done: Done) -> None:
        answered = False

        def once(error: ErrorCode, at: Now) -> None:
            nonlocal answered
            if not answered:
                answered = True
                done(error, at)

        super().write(partition, records, sequence, now, once)


class _WritesGroupsNowhere(OffsetsLog):
    """Offsets are written, generations are not."""

    def write(self, partition: int, records: Any, sequence: int, now: Now, done: Done) -> None:
        kept: list[GroupRecord] = [record for record in records if record[0][:2] != b"\0\x02"]
        if kept:
            super().write(partition, kept, sequence, now, done)
        else:
            done(ErrorCode.NONE, now)


class _TakesSharesFromAnybody(GroupMembership):
    """The first SyncGroup of a generation is taken for the leader's."""

    def sync(self, group: Group, request: SyncRequest, respond: Any, now: Now) -> None:
        if request.member_id in group.members:
            group.leader_id = request.member_id
        super().sync(group, request, respond, now)


def _with(
    commits: type[Commits] | None = None,
    log: type[OffsetsLog] | None = None,
    membership: type[GroupMembership] | None = None,
) -> type[GroupCoordinator]:
    """A coordinator with other collaborators."""

    class Mutant(GroupCoordinator):
        commits_class = commits or Commits
        log_class = log or OffsetsLog
        membership_class = membership or GroupMembership

    return Mutant


GROUP_SEEDS = (
    BugSeed("group-commit-early", "a coordinator answers before its record is replicated", "audit s31",
            rules_with(internal_log=_AnswersAtOnce)),
    BugSeed("group-load-to-hw", "a new coordinator reads its log up to the high watermark only", "Kafka's GroupMetadataManager",
            rules_with(internal_log=_ReadsToTheHighWatermark)),
    BugSeed("group-keep-deposed", "a coordinator keeps groups after losing their partition", "audit s07",
            rules_with(groups=_KeepsItsGroups)),
    BugSeed("group-load-beginning", "half a log counts as loaded", "own", rules_with(groups=_LoadsTheBeginning)),
    BugSeed("group-answer-loading", "a coordinator answers while it is loading", "COORDINATOR_LOAD_IN_PROGRESS",
            rules_with(coordinator=_AnswersWhileItLoads)),
    BugSeed("group-forget-generation", "a new coordinator counts generations anew", "Kafka's GroupMetadataManager",
            rules_with(coordinator=_ForgetsGenerations)),
    BugSeed("group-share-early", "shares are given out before they are stored", "Kafka's SyncGroup",
            rules_with(coordinator=_SharesBeforeTheyAreStored)),
    BugSeed("group-store-nothing", "generations are not stored, offsets are", "own",
            rules_with(coordinator=_with(log=_WritesGroupsNowhere))),
    BugSeed("group-any-generation", "commits of members of the past are accepted", "ILLEGAL_GENERATION",
            rules_with(coordinator=_with(commits=_AcceptsAnyGeneration))),
    BugSeed("group-show-unwritten", "an offset is shown before it is replicated", "Kafka's OffsetFetch",
            rules_with(coordinator=_with(commits=_ShowsWhatIsNotWritten))),
    BugSeed("group-forget-late", "a commit that timed out and was replicated later is not taken into memory",
            "STATUS, late commits", rules_with(coordinator=_with(log=_ForgetsLateSuccess))),
    BugSeed("group-shares-of-anybody", "whoever comes first hands in the shares", "Kafka's SyncGroup",
            rules_with(coordinator=_with(membership=_TakesSharesFromAnybody))),
)  # fmt: skip
