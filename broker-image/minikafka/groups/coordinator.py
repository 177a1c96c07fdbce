"""The classic group coordinator of one broker: its partitions of ``__consumer_offsets``, and the groups in them.

Deterministic: no clock, no randomness, no I/O. Every call is handed the time. What must wait is answered through a
callback, which must not call back into the coordinator. What must be written goes through the `append` given at
construction. What happens later is asked for by :meth:`GroupCoordinator.next_deadline`, and done by
:meth:`GroupCoordinator.tick`.

Source: Kafka's ``GroupMetadataManager`` and ``OffsetMetadataManager``, and ``GroupCoordinator`` before them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice

from minikafka.groups.cleaning import Cleaner
from minikafka.groups.commits import CommitRespond, Commits
from minikafka.groups.config import GroupConfig
from minikafka.groups.group import Group, JoinRespond, SyncRespond
from minikafka.groups.membership import GroupMembership
from minikafka.groups.offsets_log import Append, OffsetsLog, group_error, removal_error
from minikafka.groups.placement import partition_for
from minikafka.groups.records import UnstorableGroupRecord, group_key, group_value
from minikafka.groups.replay import Replay
from minikafka.groups.requests import (
    UNKNOWN_MEMBER,
    CommitRequest,
    FetchResult,
    GroupDescription,
    GroupListing,
    JoinRequest,
    JoinResult,
    LeaveResult,
    MemberDescription,
    MemberIdentity,
    SyncRequest,
    SyncResult,
)
from minikafka.groups.states import GroupState
from minikafka.groups.subscription import CONSUMER_PROTOCOL_TYPE
from minikafka.groups.timers import Now, TimerQueue
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

_NAME_BYTES_MAX = 32767
"""More does not fit into a record, nor into answers of versions that are not flexible."""
_SAID_BYTES_MIN = 1 << 20
"""Of all protocols of a member: so much is taken though message.max.bytes be less."""
_SHOWN_NAME_CHARS = 256
"""Of a group's name, for each thing that is shown of it (:meth:`GroupCoordinator.series`)."""


def _is_long(name: str) -> bool:
    return len(name.encode(errors="replace")) > _NAME_BYTES_MAX


class GroupCoordinator:
    """All groups whose partition of ``__consumer_offsets`` this broker leads.

    Args:
        config: limits and timeouts.
        partitions: number of partitions of ``__consumer_offsets``; may be set again while no group is loaded.
        append: see :class:`~minikafka.groups.offsets_log.Append`.
        new_id: a fresh unique text each time, for member ids (a UUID).
        topic_id: the id of the topic that has a name now, 16 bytes; None: there is none.
        on_rebalanced: told of each completed rebalance: group id, generation, number of members, reason.
        on_deleted: told of each group that is gone: group id, reason.
    """

    def __init__(
        self,
        config: GroupConfig,
        partitions: int,
        append: Append,
        new_id: Callable[[], str],
        topic_id: Callable[[str], bytes | None],
        *,
        on_rebalanced: Callable[[str, int, int, str], None] = lambda *_: None,
        on_deleted: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        self.partitions = partitions
        self._config = config
        self._groups: dict[str, Group] = {}
        self._owned: set[int] = set()
        self._loading: set[int] = set()
        self._timers = TimerQueue()
        self._log = OffsetsLog(append, self._timers, config.offsets_commit_timeout_ms)

        self._on_deleted = on_deleted

        def rebalanced(group: Group) -> None:
            on_rebalanced(group.group_id, group.generation, len(group.members), group.rebalance_reason)

        self._membership = GroupMembership(config, self._timers, self._store, new_id, rebalanced)
        self._commits = Commits(
            config, self._log, self._membership, self.partition_of, self._forget, self._timers, topic_id
        )
        self._cleaner = Cleaner(self._groups, self._commits, self._timers)
        self._retention = self._timers.timer(self._check_retention)

    # -- time ---------------------------------------------------------------------------------------

    def start(self, now: Now) -> None:
        """Begin to look for expired offsets every offsets.retention.check.interval.ms."""
        self._retention.set(now.after_ms(self._config.offsets_retention_check_interval_ms))

    def next_deadline(self) -> float | None:
        """When :meth:`tick` has something to do, in monotonic seconds; None: never."""
        return self._timers.next_deadline()

    def tick(self, now: Now) -> None:
        """Do what is due: end sessions, complete rebalances, give up on writes, look over offsets."""
        self._timers.run(now)

    def _check_retention(self, now: Now) -> None:
        self._retention.set(now.after_ms(self._config.offsets_retention_check_interval_ms))
        self._cleaner.look_over_all(now, expire=True)

    # -- ownership ----------------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` that keeps a group."""
        return partition_for(group_id, self.partitions)

    @property
    def owned(self) -> frozenset[int]:
        """Partitions whose groups are loaded here."""
        return frozenset(self._owned)

    def is_writing(self, partition: int) -> bool:
        """Whether what is in memory may differ from the log: a write is under way."""
        return self._log.is_writing(partition)

    def start_loading(self, partition: int) -> Replay:
        """This broker leads that partition now: COORDINATOR_LOAD_IN_PROGRESS until :meth:`finish_loading`."""
        if partition not in self._owned:
            self._loading.add(partition)
        return Replay()

    def finish_loading(self, partition: int, replay: Replay, now: Now) -> None:
        """Take over the groups that a replay found. Nothing happens when the partition was given up meanwhile."""
        if partition not in self._loading:
            return
        self._loading.remove(partition)
        self._owned.add(partition)
        found = list(replay.groups())
        self._cleaner.look_over([group.group_id for group in found if len(group.offsets)], now)
        for group in found:
            self._groups[group.group_id] = group
            for member in group.members.values():
                self._membership.restart_session(group, member, now)
            if len(group.members) > self._config.group_max_size:
                self._membership.prepare(group, "the group is too large", now)

    def load(self, partition: int, records: Iterable[tuple[int, bytes | None, bytes | None]], now: Now) -> Replay:
        """Loading in one step, for logs that are short. `records` are (offset, key, value) in the order of the log."""
        replay = self.start_loading(partition)
        for offset, key, value in records:
            replay.add(offset, key, value)
        self.finish_loading(partition, replay, now)
        return replay

    def unload(self, partition: int, now: Now) -> None:
        """This broker does not lead that partition any more: who waits is answered NOT_COORDINATOR."""
        self._loading.discard(partition)
        self._owned.discard(partition)
        for group in [g for g in self._groups.values() if self.partition_of(g.group_id) == partition]:
            del self._groups[group.group_id]
            group.transition(GroupState.DEAD, now.unix_ms)
            self._membership.release(group)
        self._log.abandon(partition, now)

    def check(self, group_id: str, *, allow_empty: bool = False) -> ErrorCode:
        """NONE when this broker answers for a group.

        Else INVALID_GROUP_ID, COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR. APIs that only keep offsets accept the
        empty group id (`allow_empty`), as Kafka does for old clients.
        """
        if not group_id and not allow_empty:
            return ErrorCode.INVALID_GROUP_ID
        if _is_long(group_id):
            return ErrorCode.INVALID_GROUP_ID
        partition = self.partition_of(group_id)
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self._owned else ErrorCode.NOT_COORDINATOR

    # -- membership ---------------------------------------------------------------------------------

    def join(self, request: JoinRequest, respond: JoinRespond, now: Now) -> None:
        """JoinGroup."""
        error = self.check(request.group_id)
        group = self._groups.get(request.group_id)
        low, high = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if error is ErrorCode.NONE and not low <= request.session_timeout_ms <= high:
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        names = (request.protocol_type, request.group_instance_id or "", *(each.name for each in request.protocols))
        if error is ErrorCode.NONE and any(_is_long(name) for name in names):
            error = ErrorCode.INVALID_REQUEST
        said_bytes = sum(len(each.name) + len(each.metadata) for each in request.protocols)
        if error is ErrorCode.NONE and said_bytes > max(_SAID_BYTES_MIN, self._config.message_max_bytes):
            error = ErrorCode.INVALID_REQUEST  # it could not be stored, but would be kept until then
        if error is ErrorCode.NONE and group is None:
            if request.member_id != UNKNOWN_MEMBER:
                error = ErrorCode.UNKNOWN_MEMBER_ID
            else:
                group = self._groups[request.group_id] = Group(request.group_id, now.unix_ms)
        if group is None or error is not ErrorCode.NONE:
            respond(JoinResult(error, request.member_id))
            return
        self._membership.join(group, request, respond, now)

    def sync(self, request: SyncRequest, respond: SyncRespond, now: Now) -> None:
        """SyncGroup."""
        error = self.check(request.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # the rebalance was lost with the old coordinator; older clients do not know the other code here
            error = ErrorCode.REBALANCE_IN_PROGRESS
        group = self._groups.get(request.group_id)
        if error is ErrorCode.NONE and group is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if group is None or error is not ErrorCode.NONE:
            respond(SyncResult(error))
            return
        self._membership.sync(group, request, respond, now)

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation: int, now: Now
    ) -> ErrorCode:
        """Heartbeat."""
        error = self.check(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE  # nothing is known against the member, and loading starts new sessions
        if error is not ErrorCode.NONE:
            return error
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self._membership.heartbeat(group, member_id, group_instance_id, generation, now)

    def leave(self, group_id: str, leaving: Iterable[MemberIdentity], now: Now) -> LeaveResult:
        """LeaveGroup, one member or many (KIP-345)."""
        error = self.check(group_id)
        if error is not ErrorCode.NONE:
            return LeaveResult(error)
        group = self._groups.get(group_id)
        if group is None:
            return LeaveResult(ErrorCode.NONE, tuple((who, ErrorCode.UNKNOWN_MEMBER_ID) for who in leaving))
        return LeaveResult(ErrorCode.NONE, self._membership.leave(group, leaving, now))

    def _store(
        self,
        group: Group,
        assignments: Mapping[str, bytes],
        now: Now,
        done: Callable[[ErrorCode, Now], None],
    ) -> None:
        try:
            record = (group_key(group.group_id), group_value(group.stored(assignments)))
        except UnstorableGroupRecord:
            done(ErrorCode.UNKNOWN_SERVER_ERROR, now)
            return
        self._log.write(
            self.partition_of(group.group_id),
            [record],
            self._log.next_sequence(),
            now,
            lambda error, at: done(group_error(error), at),
        )

    # -- offsets ------------------------------------------------------------------------------------

    def commit_offsets(self, request: CommitRequest, respond: CommitRespond, now: Now) -> None:
        """OffsetCommit; answers each partition when its record is replicated."""
        error = self.check(request.group_id, allow_empty=True)
        group = self._groups.get(request.group_id)
        if error is ErrorCode.NONE and group is None:
            error = self._commits.unknown_group_error(request)
            if error is ErrorCode.NONE:
                group = self._groups[request.group_id] = Group(request.group_id, now.unix_ms)
        if group is None or error is not ErrorCode.NONE:
            respond(dict.fromkeys(request.offsets, error))
            return
        self._commits.commit(group, request, respond, now)

    def fetch_offsets(self, group_id: str, wanted: Iterable[TopicPartition] | None) -> FetchResult:
        """OffsetFetch; every offset of the group when `wanted` is None."""
        error = self.check(group_id, allow_empty=True)
        if error is not ErrorCode.NONE:
            return FetchResult(error, {})
        return self._commits.fetch(self._groups.get(group_id), wanted)

    def delete_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition],
        respond: Callable[[ErrorCode, Mapping[TopicPartition, ErrorCode]], None],
        now: Now,
    ) -> None:
        """OffsetDelete (KIP-496): offsets of topics that no member is subscribed to."""
        error, group = self._existing(group_id)
        if not group_id:
            error = ErrorCode.INVALID_GROUP_ID
        if group is not None and group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            error = ErrorCode.NON_EMPTY_GROUP
        if group is None or error is not ErrorCode.NONE:
            respond(error, {})
            return
        in_use = group.state is not GroupState.EMPTY
        results = {
            tp: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use and group.consumes(tp.topic) else ErrorCode.NONE
            for tp in partitions
        }
        free = [tp for tp, code in results.items() if code is ErrorCode.NONE]
        answer = _once(lambda code: respond(ErrorCode.NONE, results | dict.fromkeys(free, removal_error(code))))
        if free:
            self._commits.remove(group, free, now, lambda code, _at: answer(code))
        else:
            answer(ErrorCode.NONE)

    def topics_deleted(self, now: Now) -> None:
        """Topics were deleted: nobody is told of an offset in them any more, and soon each goes."""
        self._cleaner.look_over_all(now, expire=False)

    # -- administration -----------------------------------------------------------------------------

    def delete_group(self, group_id: str, respond: Callable[[ErrorCode], None], now: Now) -> None:
        """DeleteGroups: only an Empty group can be deleted."""
        error, group = self._existing(group_id)
        if group is not None and group.state is not GroupState.EMPTY:
            error = ErrorCode.NON_EMPTY_GROUP
        if group is None or error is not ErrorCode.NONE:
            respond(error)
            return
        for timer in group.pending.values():
            timer.cancel()
        group.pending.clear()
        answer = _once(lambda code: respond(removal_error(code)))
        everything = list(group.offsets.all())
        self._commits.remove(group, everything, now, lambda code, _at: answer(code), group_goes="deleted")

    def describe_group(self, group_id: str) -> GroupDescription:
        """DescribeGroups, one group; an unknown one is `Dead`."""
        error = self.check(group_id, allow_empty=True)
        if error is not ErrorCode.NONE:
            return GroupDescription(error, group_id)
        group = self._groups.get(group_id)
        if group is None:
            return GroupDescription(ErrorCode.NONE, group_id, state=GroupState.DEAD.value)
        stable = group.state is GroupState.STABLE
        return GroupDescription(
            ErrorCode.NONE,
            group_id,
            True,
            group.state.value,
            group.protocol_type or "",
            (group.protocol_name or "") if stable else "",
            [
                MemberDescription(
                    m.member_id,
                    m.group_instance_id,
                    m.client_id,
                    m.client_host,
                    m.metadata(group.protocol_name) if stable else b"",
                    m.assignment if stable else b"",
                )
                for m in group.members.values()
            ],
        )

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> tuple[ErrorCode, list[GroupListing]]:
        """ListGroups: the groups here, in some states (KIP-518) and of some types (KIP-848), letter case aside."""
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._loading else ErrorCode.NONE
        wanted = {state.lower() for state in states}
        if types and "classic" not in {kind.lower() for kind in types}:
            return error, []
        return error, [
            GroupListing(g.group_id, g.protocol_type or "", g.state.value)
            for g in self._groups.values()
            if not wanted or g.state.value.lower() in wanted
        ]

    def __len__(self) -> int:
        """How many groups there are here."""
        return len(self._groups)

    def series(self, most: int) -> tuple[dict[str, int], list[tuple[str, str, int, int]], int]:
        """What is to be shown of the groups here, at most so much; those that came first, first.

        By group, how many members it has; (group, topic, partition, offset) of what is committed; and how many of either are
        left out. The name of a group, which each repeats, may have 32 KiB: a long one counts more than once.
        """
        members: dict[str, int] = {}
        offsets: list[tuple[str, str, int, int]] = []
        room = most
        for name, group in self._groups.items():
            if room <= 0:
                break
            weight = 1 + len(name) // _SHOWN_NAME_CHARS
            if room < weight:
                continue
            members[name] = len(group.members)
            before = len(offsets)
            shown = islice(group.offsets.all().items(), room // weight - 1)
            offsets.extend((name, where.topic, where.partition, committed.offset) for where, committed in shown)
            room -= weight * (1 + len(offsets) - before)
        every = len(self._groups) + sum(len(group.offsets) for group in self._groups.values())
        return members, offsets, every - len(members) - len(offsets)

    def _existing(self, group_id: str) -> tuple[ErrorCode, Group | None]:
        error = self.check(group_id, allow_empty=True)
        group = self._groups.get(group_id) if error is ErrorCode.NONE else None
        if error is ErrorCode.NONE and group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        return error, group

    def _forget(self, group: Group, reason: str, now: Now) -> None:
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]
            group.transition(GroupState.DEAD, now.unix_ms)
            self._on_deleted(group.group_id, reason)


def _once(answer: Callable[[ErrorCode], None]) -> Callable[[ErrorCode], None]:
    """A write that timed out may be confirmed later; the client was answered already."""
    answered = False

    def guarded(code: ErrorCode) -> None:
        nonlocal answered
        if not answered:
            answered = True
            answer(code)

    return guarded
