"""Committed offsets: taking, giving, expiring and deleting them.

A commit is answered when its record is replicated, and becomes visible then. A deletion is a tombstone, and the same.
Rules: R18; KIP-211 for expiry, KIP-320 for leader epochs, KIP-496 for deletion.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from minikafka.groups.config import GroupConfig
from minikafka.groups.group import Group
from minikafka.groups.membership import GroupMembership
from minikafka.groups.offsets_log import GroupRecord, OffsetsLog, commit_error
from minikafka.groups.records import CommittedOffset, UnstorableGroupRecord, group_key, offset_records
from minikafka.groups.requests import NO_GENERATION, CommitRequest, FetchResult
from minikafka.groups.states import GroupState
from minikafka.groups.subscription import CONSUMER_PROTOCOL_TYPE
from minikafka.groups.timers import Now, TimerQueue
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

CommitRespond = Callable[[Mapping[TopicPartition, ErrorCode]], None]
Finished = Callable[[ErrorCode, Now], None]
Changes = Mapping[TopicPartition, CommittedOffset | None]
"""Of offsets; None is a removal."""

REMOVED_BYTES_MAX = 256 * 1024
"""Of one batch of tombstones, of which there are as many as are needed."""
_TOMBSTONE_BYTES_MAX = 320
"""A topic's name, at most, and what is around the names."""


class Commits:
    """One instance serves all groups of a coordinator."""

    def __init__(
        self,
        config: GroupConfig,
        log: OffsetsLog,
        membership: GroupMembership,
        partition_of: Callable[[str], int],
        gone: Callable[[Group, str, Now], None],
        timers: TimerQueue,
        topic_id: Callable[[str], bytes | None],
    ) -> None:
        self._config = config
        self._log = log
        self._membership = membership
        self._partition_of = partition_of
        self._gone = gone
        self._timers = timers
        self._topic_id = topic_id

    # -- OffsetCommit -------------------------------------------------------------------------------

    def commit(self, group: Group, request: CommitRequest, respond: CommitRespond, now: Now) -> None:
        """Write offsets; answers for each partition, once the record is replicated."""
        error = self._check(group, request)
        if error is not ErrorCode.NONE:
            respond(dict.fromkeys(request.offsets, error))
            return
        if request.member_id in group.members:
            self._membership.restart_session(group, group.members[request.member_id], now)
        limit = self._config.offset_metadata_max_bytes
        accepted = {tp: committed for tp, committed in request.offsets.items() if len(committed.metadata) <= limit}
        results = dict.fromkeys(request.offsets, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        if not accepted:
            respond(results)
            return
        answered = False

        def finished(error: ErrorCode, _at: Now) -> None:
            nonlocal answered
            if not answered:
                answered = True
                results.update(dict.fromkeys(accepted, commit_error(error)))
                respond(results)

        self._write(group, accepted, now, finished)

    def _check(self, group: Group, request: CommitRequest) -> ErrorCode:
        if group.state is GroupState.EMPTY and request.generation < 0:
            return ErrorCode.NONE  # a tool, or a consumer that assigns itself
        # only members may move the offsets of a living group
        error = self._membership.check_member(group, request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if request.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING_REBALANCE:
            # it has joined the new generation, and does not know yet what of it is its own
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    @staticmethod
    def unknown_group_error(request: CommitRequest) -> ErrorCode:
        """What a commit to a group that does not exist is told; NONE: it founds the group."""
        return ErrorCode.NONE if request.generation <= NO_GENERATION else ErrorCode.ILLEGAL_GENERATION

    def _write(
        self,
        group: Group,
        changes: Changes,
        now: Now,
        finished: Finished,
        extra: Iterable[GroupRecord] = (),
    ) -> None:
        """Write changes of offsets. `finished` is called as OffsetsLog.write calls it."""
        try:
            records = [*offset_records(group.group_id, changes), *extra]
        except UnstorableGroupRecord:
            finished(ErrorCode.RECORD_LIST_TOO_LARGE, now)
            return
        sequence = self._log.next_sequence()
        group.offsets.begin(changes)
        open_write = True

        def done(error: ErrorCode, at: Now) -> None:
            nonlocal open_write
            if open_write:
                open_write = False
                group.offsets.end(changes)
            if error is ErrorCode.NONE:
                group.offsets.apply(changes, sequence)
            finished(error, at)

        self._log.write(self._partition_of(group.group_id), records, sequence, now, done)

    # -- OffsetFetch --------------------------------------------------------------------------------

    def fetch(self, group: Group | None, wanted: Iterable[TopicPartition] | None) -> FetchResult:
        """Visible offsets; all of them when `wanted` is None. A group nobody knows has none."""
        if group is None:
            return FetchResult(ErrorCode.NONE, dict.fromkeys(wanted or ()))
        offsets = group.offsets.all()
        if wanted is None:
            return FetchResult(ErrorCode.NONE, {tp: offsets[tp] for tp in offsets if self._counts(tp, offsets[tp])})
        found = ((tp, offsets.get(tp)) for tp in wanted)
        return FetchResult(
            ErrorCode.NONE, {tp: each if each is not None and self._counts(tp, each) else None for tp, each in found}
        )

    def _counts(self, partition: TopicPartition, committed: CommittedOffset) -> bool:
        """Whether the topic that it was committed in is there. Another may have the name by now, with other records."""
        topic_id = self._topic_id(partition.topic)
        return topic_id is not None and committed.topic_id in (None, topic_id)

    # -- removal ------------------------------------------------------------------------------------

    def clean(self, group: Group, partitions: Iterable[TopicPartition], now: Now, *, expire: bool) -> None:
        """Remove what was committed in topics that are gone, of these partitions.

        Args:
            expire: also what is past offsets.retention.minutes, and the group when nothing is left (KIP-211).
        """
        offsets, gone, left = group.offsets, [], []
        for partition in partitions:
            committed = offsets.get(partition)
            if committed is None:
                continue
            if not self._counts(partition, committed):
                if not offsets.is_pending(partition):  # a tombstone would come after the commit that is under way
                    gone.append(partition)
                continue
            left.append(partition)
            if committed.topic_id is None:  # a record of an earlier version: from now on it is known
                offsets.restore(partition, committed._replace(topic_id=self._topic_id(partition.topic)))
        if gone:
            self.remove(group, gone, now, lambda _error, _at: None)
        if not expire:
            return
        expired = self._expired(group, left, now)
        if expired or self._is_forgettable(group):
            self.remove(group, expired, now, lambda _error, _at: None, group_goes="expired")

    def _expired(self, group: Group, partitions: Iterable[TopicPartition], now: Now) -> list[TopicPartition]:
        expired = partial(group.offsets.expired, partitions, now.unix_ms, self._config.offsets_retention_ms)
        if group.protocol_type is None:
            return expired(idle_since_ms=None)
        if group.state is GroupState.EMPTY:
            return expired(idle_since_ms=group.state_since_ms)
        if (
            group.state is GroupState.STABLE
            and group.protocol_type == CONSUMER_PROTOCOL_TYPE
            and group.subscription is not None
        ):
            # of a living group only topics that nobody reads any more
            return expired(idle_since_ms=None, except_topics=group.subscription)
        return []

    @staticmethod
    def _is_forgettable(group: Group) -> bool:
        return group.state is GroupState.EMPTY and not group.pending and group.offsets.idle

    def remove(
        self,
        group: Group,
        partitions: Iterable[TopicPartition],
        now: Now,
        finished: Finished,
        *,
        group_goes: str | None = None,
    ) -> None:
        """Delete offsets, batch by batch: others are served between two of them.

        Args:
            group_goes: why the group goes, too, when it is Empty and has nothing left afterwards. None: it stays until offsets
                are next looked over for their expiry, as in Kafka; its owner may be about to delete it, or to commit again.
        """
        known, is_pending = group.offsets.all(), group.offsets.is_pending
        there = {tp: known[tp] for tp in partitions if tp in known}
        pending = {tp for tp in there if is_pending(tp)}
        empty = group.state is GroupState.EMPTY and not group.pending and len(there) == len(known)
        reason = group_goes if empty else None
        # a group of generation 0 never had a record of its own
        tombstone: list[GroupRecord] = [(group_key(group.group_id), None)] if reason and group.generation > 0 else []
        if not (there or tombstone):
            self._removed(group, reason, now, finished)
            return
        batches = deque(self._in_batches(group, there) or [{}])

        def write(at: Now) -> None:
            if group.state is GroupState.DEAD:  # another broker's by now
                finished(ErrorCode.NOT_LEADER_OR_FOLLOWER, at)
                return
            # what was committed again since this began stays: the tombstone would come after it
            changes: Changes = {
                tp: None
                for tp, before in batches.popleft().items()
                if group.offsets.get(tp) is before and (tp in pending or not is_pending(tp))
            }
            extra = () if batches else tombstone
            if changes or extra:
                self._write(group, changes, at, done, extra)
            else:
                done(ErrorCode.NONE, at)

        def done(error: ErrorCode, at: Now) -> None:
            if error is not ErrorCode.NONE:
                finished(error, at)
            elif batches:
                self._timers.timer(write).set(at.monotonic)
            else:
                self._removed(group, reason, at, finished)

        write(now)

    def _removed(self, group: Group, reason: str | None, at: Now, finished: Finished) -> None:
        # a member or a commit that came meanwhile has its record after the tombstone, and keeps the group alive
        if reason is not None and self._is_forgettable(group):
            self._gone(group, reason, at)
        finished(ErrorCode.NONE, at)

    @staticmethod
    def _in_batches(
        group: Group, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> list[dict[TopicPartition, CommittedOffset]]:
        """All in one would be refused, again and again, where that is larger than a message may be."""
        rows = list(offsets.items())
        size = max(1, REMOVED_BYTES_MAX // (_TOMBSTONE_BYTES_MAX + len(group.group_id.encode(errors="replace"))))
        return [dict(rows[begun : begun + size]) for begun in range(0, len(rows), size)]
