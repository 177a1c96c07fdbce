"""One group: who is in it, what they can do, what they wait for. Decides nothing by itself; see ``membership.py``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from minikafka.groups.offsets import CommittedOffsets
from minikafka.groups.records import NO_TIMESTAMP, StoredGroup, StoredMember
from minikafka.groups.requests import GroupProtocol, JoinedMember, JoinRequest, JoinResult, SyncResult
from minikafka.groups.states import TRANSITIONS, GroupState
from minikafka.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from minikafka.groups.timers import Timer
from minikafka.protocol.errors import ErrorCode

JoinRespond = Callable[[JoinResult], None]
SyncRespond = Callable[[SyncResult], None]


class Member:
    """One member. Its id changes when a static member (KIP-345) comes back. Times in milliseconds."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
    )

    def __init__(self, member_id: str, request: JoinRequest) -> None:
        self.member_id = member_id
        self.group_instance_id = request.group_instance_id
        self.client_id = request.client_id
        self.client_host = request.client_host
        self.protocols = request.protocols
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms
        self.assignment = b""
        self.is_new = False
        """Waits for its first generation: it cannot send heartbeats yet, so the wait itself is what times out."""
        self.session: Timer | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    def metadata(self, protocol: str | None) -> bytes:
        """What it said to that protocol."""
        return next((p.metadata for p in self.protocols if p.name == protocol), b"")


class Group:
    """State of one group. Transitions are checked against the table in ``states.py``."""

    __slots__ = (
        "_support",
        "generation",
        "group_id",
        "initial_wait_ends",
        "join_timer",
        "joins",
        "leader_id",
        "member_added",
        "members",
        "offsets",
        "pending",
        "pending_sync",
        "protocol_name",
        "protocol_type",
        "rebalance_reason",
        "state",
        "state_since_ms",
        "static_members",
        "storing_generation",
        "subscription",
        "sync_timer",
        "syncs",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms: int | None = now_ms
        """None when the log does not know (records older than KIP-211)."""
        self.generation = 0
        self.protocol_type: str | None = None
        """None: nobody ever joined, it only keeps offsets."""
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.pending: dict[str, Timer] = {}
        """Ids given out by MEMBER_ID_REQUIRED (KIP-394) whose owners have not come back yet."""
        self.joins: dict[str, JoinRespond] = {}
        self.syncs: dict[str, SyncRespond] = {}
        self.pending_sync: set[str] = set()
        self.offsets = CommittedOffsets()
        self.subscription: frozenset[str] | None = None
        """Topics the members of a consumer group want; None when unknown."""
        self.join_timer: Timer | None = None
        self.sync_timer: Timer | None = None
        self.initial_wait_ends: float | None = None
        """Latest end of group.initial.rebalance.delay.ms while it runs, monotonic seconds."""
        self.member_added = False
        self.rebalance_reason = ""
        """Why the latest rebalance began, in a few words."""
        self.storing_generation = -1
        """The generation whose assignment is being written."""
        self._support: Counter[str] = Counter()

    # -- state --------------------------------------------------------------------------------------

    def transition(self, state: GroupState, now_ms: int) -> None:
        """Go to another state. Raises AssertionError for a step that the table does not have."""
        assert state in TRANSITIONS[self.state], f"group {self.group_id}: {self.state.value} -> {state.value}"
        self.state = state
        self.state_since_ms = now_ms

    def next_generation(self, now_ms: int) -> None:
        """The rebalance is complete: choose the protocol, or be empty when nobody is left."""
        self.generation += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.transition(GroupState.EMPTY, now_ms)
        self.refresh_subscription()

    def refresh_subscription(self) -> None:
        """Work out the subscribed topics from the metadata of the chosen protocol."""
        self.subscription = (
            subscribed_topics(m.metadata(self.protocol_name) for m in self.members.values())
            if self.protocol_type == CONSUMER_PROTOCOL_TYPE
            else None
        )

    def consumes(self, topic: str) -> bool:
        """Whether a member may be reading that topic; True when that cannot be known."""
        return self.subscription is None or topic in self.subscription

    # -- members ------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """A new member; the first one decides the protocol type and leads."""
        if not self.members:
            self.protocol_type = protocol_type
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._support.update({p.name for p in member.protocols})

    def remove(self, member: Member) -> None:
        """Forget a member; the eldest other one leads when it led. Who it kept waiting must be answered before."""
        member_id = member.member_id
        del self.members[member_id]
        self._support.subtract({p.name for p in member.protocols})
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.joins.pop(member_id, None)
        self.syncs.pop(member_id, None)
        self.pending_sync.discard(member_id)
        if member.session is not None:
            member.session.cancel()

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member another member id, keeping its place. Nobody may wait under the old one."""
        old_id = member.member_id
        self.members = {member_id if key == old_id else key: value for key, value in self.members.items()}
        member.member_id = member_id
        assert member.group_instance_id is not None
        self.static_members[member.group_instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(member_id)

    def update(
        self, member: Member, protocols: tuple[GroupProtocol, ...], rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """What a member says when it joins again."""
        self._support.subtract({p.name for p in member.protocols})
        self._support.update({p.name for p in protocols})
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it came back, else take the first member that did. False when nobody did."""
        if self.leader_id in self.joins:
            return True
        joined = next((member_id for member_id in self.members if member_id in self.joins), None)
        if joined is None:
            return False
        self.leader_id = joined
        return True

    @property
    def all_joined(self) -> bool:
        return len(self.joins) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    # -- protocols ----------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Iterable[GroupProtocol]) -> bool:
        """Whether somebody with these protocols can be a member beside the present ones."""
        names = [p.name for p in protocols]
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and names)
        return self.protocol_type == protocol_type and any(self._support[name] == len(self.members) for name in names)

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all know; the eldest candidate wins a draw."""
        everyone = len(self.members)
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(p.name for p in member.protocols if self._support[p.name] == everyone)] += 1
        return votes.most_common(1)[0][0]

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """What the leader needs to assign."""
        return tuple(
            JoinedMember(m.member_id, m.group_instance_id, m.metadata(self.protocol_name))
            for m in self.members.values()
        )

    # -- waiting requests ---------------------------------------------------------------------------

    def park_join(self, member_id: str, respond: JoinRespond) -> None:
        """Let a JoinGroup wait. One that waited under the same id is told to try again: its client gave up on it."""
        before = self.joins.get(member_id)
        self.joins[member_id] = respond
        if before is not None:
            before(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member_id))

    def park_sync(self, member_id: str, respond: SyncRespond) -> None:
        """Let a SyncGroup wait; see :meth:`park_join`."""
        before = self.syncs.get(member_id)
        self.syncs[member_id] = respond
        if before is not None:
            before(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))

    def answer_join(self, member_id: str, result: JoinResult) -> bool:
        """Answer the JoinGroup waiting under that id, if there is one."""
        respond = self.joins.pop(member_id, None)
        if respond is not None:
            respond(result)
        return respond is not None

    def answer_sync(self, member_id: str, result: SyncResult) -> bool:
        """Answer the SyncGroup waiting under that id, if there is one."""
        respond = self.syncs.pop(member_id, None)
        if respond is not None:
            respond(result)
        return respond is not None

    # -- the record ---------------------------------------------------------------------------------

    def stored(self, assignments: Mapping[str, bytes]) -> StoredGroup:
        """What the log should keep of this generation."""
        return StoredGroup(
            self.protocol_type or "",
            self.generation,
            self.protocol_name,
            self.leader_id,
            NO_TIMESTAMP if self.state_since_ms is None else self.state_since_ms,
            [
                StoredMember(
                    m.member_id,
                    m.group_instance_id,
                    m.client_id,
                    m.client_host,
                    m.rebalance_timeout_ms,
                    m.session_timeout_ms,
                    m.metadata(self.protocol_name),
                    assignments.get(m.member_id, b""),
                )
                for m in self.members.values()
            ],
        )

    @classmethod
    def restored(cls, group_id: str, stored: StoredGroup) -> Group:
        """The group as its last record knows it: Stable with members, else Empty. Sessions are not running yet."""
        group = cls(group_id, 0)
        group.generation = stored.generation
        for row in stored.members:
            request = JoinRequest(
                group_id,
                row.member_id,
                stored.protocol_type,
                (GroupProtocol(stored.protocol or "", row.subscription),),
                row.session_timeout_ms,
                row.rebalance_timeout_ms,
                row.group_instance_id,
                row.client_id,
                row.client_host,
            )
            member = Member(row.member_id, request)
            member.assignment = row.assignment
            group.add(member, stored.protocol_type)
        group.protocol_type = stored.protocol_type or None
        group.protocol_name = stored.protocol
        group.leader_id = stored.leader
        group.state = GroupState.STABLE if group.members else GroupState.EMPTY
        group.state_since_ms = None if stored.state_timestamp_ms == NO_TIMESTAMP else stored.state_timestamp_ms
        group.refresh_subscription()
        return group
