"""Who is in a group: join, sync, heartbeat, leave, and what silence means.

Rules, by where they come from: the classic rebalance protocol of Kafka's group coordinator; KIP-134 (initial delay);
KIP-345 (static members); KIP-389 (group.max.size); KIP-394 (MEMBER_ID_REQUIRED); KIP-814 (static leader skips
assignment).

Who waits for a join or a sync is in ``Group.joins`` and ``Group.syncs`` and nowhere else, and every way out of a group
answers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from minikafka.groups.config import GroupConfig
from minikafka.groups.group import Group, JoinRespond, Member, SyncRespond
from minikafka.groups.requests import (
    UNKNOWN_MEMBER,
    JoinRequest,
    JoinResult,
    MemberIdentity,
    SyncRequest,
    SyncResult,
)
from minikafka.groups.states import GroupState
from minikafka.groups.timers import Now, TimerQueue
from minikafka.protocol.errors import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""A new member cannot heartbeat while its join waits; after this it is taken for gone (``NewMemberJoinTimeoutMs``)."""

NAME_KEPT_MAX = 256
"""Characters of a client's or an instance's name in a member id, which has to be a name on the wire, too (32,767 bytes)."""

EMPTY_RETRY_MS_MIN = 1_000
"""When no member came back in time, the wait starts again; at least this long, whatever the members asked for."""

StoreGroup = Callable[[Group, Mapping[str, bytes], Now, Callable[[ErrorCode, Now], None]], None]
"""Writes a generation with its assignments; tells the error that members understand."""


class GroupMembership:
    """The rebalance protocol; one instance serves all groups of a coordinator."""

    def __init__(
        self,
        config: GroupConfig,
        timers: TimerQueue,
        store: StoreGroup,
        new_id: Callable[[], str],
        rebalanced: Callable[[Group], None],
    ) -> None:
        self._config = config
        self._timers = timers
        self._store = store
        self._new_id = new_id
        self._rebalanced = rebalanced

    # -- JoinGroup ----------------------------------------------------------------------------------

    def join(self, group: Group, request: JoinRequest, respond: JoinRespond, now: Now) -> None:
        """Take part in the next generation. May answer at once, or when that generation is complete."""
        known = request.member_id != UNKNOWN_MEMBER
        if not self._has_room(group, request.member_id):
            self._turn_away(group, request.member_id, now)
            respond(JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif not group.supports(request.protocol_type, request.protocols):
            respond(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
        elif not known:
            self._join_unknown(group, request, respond, now)
        elif request.member_id in group.pending and request.group_instance_id is None:
            group.pending.pop(request.member_id).cancel()
            self._add(group, request.member_id, request, respond, now)
        else:
            error = self.check_member(group, request.member_id, request.group_instance_id)
            if error is not ErrorCode.NONE:
                respond(JoinResult(error, request.member_id))
            else:
                self._rejoin(group, group.members[request.member_id], request, respond, now)
        self._complete_join_if_ready(group, now)

    def _has_room(self, group: Group, member_id: str) -> bool:
        """group.max.size (KIP-389). While joins are collected they count, so that the last to come are left out."""
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            return member_id in group.joins or len(group.joins) < self._config.group_max_size
        return member_id in group.members or len(group.members) < self._config.group_max_size

    def _turn_away(self, group: Group, member_id: str, now: Now) -> None:
        if member_id in group.members:
            self._remove(group, group.members[member_id], "the group is too large", now)
        elif member_id in group.pending:
            group.pending.pop(member_id).cancel()

    def _join_unknown(self, group: Group, request: JoinRequest, respond: JoinRespond, now: Now) -> None:
        instance_id = request.group_instance_id
        if instance_id is not None:
            member_id = f"{instance_id[:NAME_KEPT_MAX]}-{self._new_id()}"
            previous = group.static_members.get(instance_id)
            if previous is not None:
                self._replace_static(group, group.members[previous], member_id, request, respond, now)
            else:
                self._add(group, member_id, request, respond, now)
            return
        member_id = f"{request.client_id[:NAME_KEPT_MAX]}-{self._new_id()}"
        if not request.require_known_member_id:
            self._add(group, member_id, request, respond, now)
            return
        timer = self._timers.timer(lambda at: self._pending_expired(group, member_id, at))
        timer.set(now.after_ms(request.session_timeout_ms))
        group.pending[member_id] = timer
        respond(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))

    def _add(self, group: Group, member_id: str, request: JoinRequest, respond: JoinRespond, now: Now) -> None:
        member = Member(member_id, request)
        member.is_new = True
        if group.state is GroupState.PREPARING_REBALANCE and group.generation == 0:
            group.member_added = True
        group.add(member, request.protocol_type)
        group.park_join(member_id, respond)
        self.restart_session(group, member, now, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance_if_settled(group, "a member joined", now)

    def _rejoin(self, group: Group, member: Member, request: JoinRequest, respond: JoinRespond, now: Now) -> None:
        unchanged = member.protocols == request.protocols
        leads = group.leader_id == member.member_id
        if group.state is GroupState.COMPLETING_REBALANCE and unchanged:
            # its answer got lost: give it again
            respond(self._joined(group, member))
        elif group.state is GroupState.STABLE and unchanged and not leads:
            respond(self._joined(group, member))
        else:
            # a leader that joins again saw a change that is not in its metadata, such as new partitions of a topic
            self._update(group, member, request)
            group.park_join(member.member_id, respond)
            reason = "the leader joined again" if unchanged else "a member changed its metadata"
            self._rebalance_if_settled(group, reason, now)

    def _update(self, group: Group, member: Member, request: JoinRequest) -> None:
        group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        member.client_id, member.client_host = request.client_id, request.client_host

    def _replace_static(
        self, group: Group, member: Member, member_id: str, request: JoinRequest, respond: JoinRespond, now: Now
    ) -> None:
        """KIP-345: an instance came back without its member id. It takes its old place; its former self is fenced."""
        old_id, old_leader = member.member_id, group.leader_id
        group.answer_join(old_id, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_id))
        group.answer_sync(old_id, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        group.rename(member, member_id)
        self._update(group, member, request)
        group.park_join(member_id, respond)
        self.restart_session(group, member, now, NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else None)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # the leader may be assigning to the old member id
            self.prepare(group, "a static member came back", now)
            return
        if group.state is not GroupState.STABLE:
            return
        if group.select_protocol() != group.protocol_name:
            self.prepare(group, "a static member came back with other protocols", now)
            return
        generation = group.generation

        def stored(error: ErrorCode, at: Now) -> None:
            # waiting for the next generation by now? then that one answers, and its record has the new id
            if (
                group.state is not GroupState.STABLE
                or group.generation != generation
                or group.joins.get(member_id) is None
            ):
                return
            if error is not ErrorCode.NONE:
                group.answer_join(member_id, JoinResult(error))
                group.update(member, *before)
                group.rename(member, old_id)
                self.restart_session(group, member, at)
                return
            group.refresh_subscription()
            self.restart_session(group, member, at)
            leads = group.leader_id == member_id
            skip = leads and request.may_skip_assignment
            group.answer_join(
                member_id,
                JoinResult(
                    ErrorCode.NONE,
                    member_id,
                    group.generation,
                    group.protocol_type,
                    group.protocol_name,
                    # before version 9 a leader in a stable group is kept from assigning by being shown its former id
                    (group.leader_id if request.may_skip_assignment else old_leader) or "",
                    group.joined_members() if skip else (),
                    skip,
                ),
            )

        self._store(group, {m.member_id: m.assignment for m in group.members.values()}, now, stored)

    # -- the rebalance ------------------------------------------------------------------------------

    def _rebalance_if_settled(self, group: Group, reason: str, now: Now) -> None:
        if group.state is not GroupState.PREPARING_REBALANCE:
            self.prepare(group, reason, now)

    def prepare(self, group: Group, reason: str, now: Now) -> None:
        """Start a rebalance: everybody has to join again."""
        first = group.state is GroupState.EMPTY
        group.rebalance_reason = reason
        waiting = group.state is GroupState.COMPLETING_REBALANCE
        self._stop_sync_timer(group)
        group.transition(GroupState.PREPARING_REBALANCE, now.unix_ms)
        if group.join_timer is None:
            group.join_timer = self._timers.timer(lambda at: self._join_expired(group, at))
        if first:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            group.initial_wait_ends = now.after_ms(max(group.rebalance_timeout_ms, delay_ms))
            group.join_timer.set(now.after_ms(delay_ms))
        else:
            group.join_timer.set(now.after_ms(group.rebalance_timeout_ms))
        if waiting:
            self._refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now)
        self._complete_join_if_ready(group, now)

    def _refuse_syncs(self, group: Group, error: ErrorCode, now: Now) -> None:
        for member in list(group.members.values()):
            member.assignment = b""
            if group.answer_sync(member.member_id, SyncResult(error)):
                self.restart_session(group, member, now)

    def _complete_join_if_ready(self, group: Group, now: Now) -> None:
        if group.state is GroupState.PREPARING_REBALANCE and group.initial_wait_ends is None and group.all_joined:
            self._complete_join(group, now)

    def _join_expired(self, group: Group, now: Now) -> None:
        assert group.join_timer is not None
        ends = group.initial_wait_ends
        if ends is not None and group.member_added and now.monotonic < ends:
            # KIP-134: somebody came during the delay, so somebody else may be on the way
            group.member_added = False
            group.join_timer.set(min(now.after_ms(self._config.group_initial_rebalance_delay_ms), ends))
            return
        self._complete_join(group, now)

    def _complete_join(self, group: Group, now: Now) -> None:
        assert group.join_timer is not None
        group.join_timer.cancel()
        group.initial_wait_ends = None
        group.member_added = False
        for member in [m for m in group.members.values() if m.member_id not in group.joins and not m.is_static]:
            group.remove(member)
        if group.members and not group.elect_joined_leader():
            # only static members are left and none came back: their sessions will tell
            group.join_timer.set(now.after_ms(max(group.rebalance_timeout_ms, EMPTY_RETRY_MS_MIN)))
            return
        group.next_generation(now.unix_ms)
        self._rebalanced(group)
        if group.state is GroupState.EMPTY:
            # should this be lost, the next coordinator finds members that time out: harmless
            self._store(group, {}, now, lambda _error, _at: None)
            return
        group.pending_sync = set(group.members)
        if group.sync_timer is None:
            group.sync_timer = self._timers.timer(lambda at: self._sync_expired(group, at))
        group.sync_timer.set(now.after_ms(group.rebalance_timeout_ms))
        for member in list(group.members.values()):
            member.is_new = False
            self.restart_session(group, member, now)
            if member.member_id in group.joins:
                group.answer_join(member.member_id, self._joined(group, member))

    def _joined(self, group: Group, member: Member) -> JoinResult:
        leads = group.leader_id == member.member_id
        return JoinResult(
            ErrorCode.NONE,
            member.member_id,
            group.generation,
            group.protocol_type,
            group.protocol_name,
            group.leader_id or "",
            group.joined_members() if leads else (),
        )

    # -- SyncGroup ----------------------------------------------------------------------------------

    def sync(self, group: Group, request: SyncRequest, respond: SyncRespond, now: Now) -> None:
        """Hand in (the leader) or wait for the assignment of a generation."""
        error = self.check_member(group, request.member_id, request.group_instance_id)
        if error is ErrorCode.NONE:
            error = self._check_sync(group, request)
        if error is not ErrorCode.NONE:
            respond(SyncResult(error))
            return
        member = group.members[request.member_id]
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._stop_sync_timer(group)
        if group.state is GroupState.STABLE:
            self.restart_session(group, member, now)
            respond(self._assigned(group, member))
            return
        group.park_sync(member.member_id, respond)
        if group.leader_id == member.member_id and group.storing_generation != group.generation:
            self._store_assignment(group, request.assignments, now)

    def _check_sync(self, group: Group, request: SyncRequest) -> ErrorCode:
        if request.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type is not None and request.protocol_type != group.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name is not None and request.protocol_name != group.protocol_name:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _store_assignment(self, group: Group, given: Mapping[str, bytes], now: Now) -> None:
        generation = group.storing_generation = group.generation
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}

        def stored(error: ErrorCode, at: Now) -> None:
            # somebody may have joined or left while the record was replicated: then this generation is over
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
                return
            group.storing_generation = -1
            if error is not ErrorCode.NONE:
                self._refuse_syncs(group, error, at)
                self.prepare(group, f"the assignment was not stored: {error.name}", at)
                return
            group.transition(GroupState.STABLE, at.unix_ms)
            for member in list(group.members.values()):
                member.assignment = assignments.get(member.member_id, b"")
                if group.answer_sync(member.member_id, self._assigned(group, member)):
                    self.restart_session(group, member, at)

        self._store(group, assignments, now, stored)

    def _assigned(self, group: Group, member: Member) -> SyncResult:
        return SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment)

    def _sync_expired(self, group: Group, now: Now) -> None:
        """KAFKA-12890: members that got a generation and never asked for its assignment hold everybody up."""
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
            return
        for member_id in list(group.pending_sync):
            group.remove(group.members[member_id])
        self.prepare(group, "a member did not fetch its assignment", now)

    def _stop_sync_timer(self, group: Group) -> None:
        group.pending_sync.clear()
        if group.sync_timer is not None:
            group.sync_timer.cancel()

    # -- Heartbeat and LeaveGroup -------------------------------------------------------------------

    def heartbeat(self, group: Group, member_id: str, instance_id: str | None, generation: int, now: Now) -> ErrorCode:
        """Stay. REBALANCE_IN_PROGRESS tells the member to join again."""
        error = self.check_member(group, member_id, instance_id)
        if error is ErrorCode.NONE and generation != group.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is not ErrorCode.NONE:
            return error
        self.restart_session(group, group.members[member_id], now)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING_REBALANCE else ErrorCode.NONE

    def leave(
        self, group: Group, leaving: Iterable[MemberIdentity], now: Now
    ) -> tuple[tuple[MemberIdentity, ErrorCode], ...]:
        """Go at once. A tool may name a static member by its instance id alone."""
        return tuple((identity, self._leave(group, identity, now)) for identity in leaving)

    def _leave(self, group: Group, identity: MemberIdentity, now: Now) -> ErrorCode:
        member_id, instance_id = identity
        if member_id == UNKNOWN_MEMBER:
            member_id = group.static_members.get(instance_id or "", UNKNOWN_MEMBER)
            if member_id == UNKNOWN_MEMBER:
                return ErrorCode.UNKNOWN_MEMBER_ID
        elif member_id in group.pending:
            group.pending.pop(member_id).cancel()
            self._complete_join_if_ready(group, now)
            return ErrorCode.NONE
        error = self.check_member(group, member_id, instance_id)
        if error is ErrorCode.NONE:
            self._remove(group, group.members[member_id], "a member left", now)
        return error

    # -- sessions -----------------------------------------------------------------------------------

    def restart_session(self, group: Group, member: Member, now: Now, timeout_ms: int | None = None) -> None:
        """The member showed that it is alive."""
        if member.session is None:
            member.session = self._timers.timer(lambda at: self._session_expired(group, member, at))
        member.session.set(now.after_ms(member.session_timeout_ms if timeout_ms is None else timeout_ms))

    def _session_expired(self, group: Group, member: Member, now: Now) -> None:
        waits = member.member_id in group.joins or member.member_id in group.syncs
        if waits and not member.is_new:
            # it waits for the coordinator, not the other way round; the answer starts a new session
            return
        self._remove(group, member, "a member went silent", now)

    def _pending_expired(self, group: Group, member_id: str, now: Now) -> None:
        group.pending.pop(member_id, None)
        self._complete_join_if_ready(group, now)

    def _remove(self, group: Group, member: Member, reason: str, now: Now) -> None:
        # whoever still waits under this id may be alive: it can start over
        group.answer_join(member.member_id, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.answer_sync(member.member_id, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group, reason, now)
        elif group.state is GroupState.PREPARING_REBALANCE:
            self._complete_join_if_ready(group, now)

    @staticmethod
    def check_member(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
        """UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another member has the instance id now (KIP-345)."""
        if instance_id is not None:
            current = group.static_members.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID

    def release(self, group: Group) -> None:
        """Another broker is the coordinator now: send everybody who waits there, and stop the clocks."""
        for member in group.members.values():
            group.answer_join(member.member_id, JoinResult(ErrorCode.NOT_COORDINATOR, member.member_id))
            group.answer_sync(member.member_id, SyncResult(ErrorCode.NOT_COORDINATOR))
            if member.session is not None:
                member.session.cancel()
        for timer in (*group.pending.values(), group.join_timer, group.sync_timer):
            if timer is not None:
                timer.cancel()
