"""What members and tools ask of the coordinator, and what they are told. Times in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minikafka.groups.records import CommittedOffset
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

UNKNOWN_MEMBER = ""
"""The member id of somebody who has none yet."""
NO_GENERATION = -1


class GroupProtocol(NamedTuple):
    """One way to assign partitions that a member knows ('range'), and what it has to say to it."""

    name: str
    metadata: bytes


class JoinRequest(NamedTuple):
    """JoinGroup. The two flags come from the version of the request."""

    group_id: str
    member_id: str
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    require_known_member_id: bool = False
    """Version 4 and up (KIP-394): a new member first gets its id, then comes again with it."""
    may_skip_assignment: bool = False
    """Version 9 and up (KIP-814): the answer may tell a returned static leader not to assign again."""


class JoinedMember(NamedTuple):
    """What the leader is told of each member."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The answer to JoinGroup. `members` is for the leader only."""

    error: ErrorCode
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncRequest(NamedTuple):
    """SyncGroup. `assignments` (member id -> bytes) comes from the leader; names are None before version 5."""

    group_id: str
    member_id: str
    generation: int
    assignments: Mapping[str, bytes]
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None


class SyncResult(NamedTuple):
    """The answer to SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class MemberIdentity(NamedTuple):
    """Who leaves: by member id, or (KIP-345) by instance id alone."""

    member_id: str
    group_instance_id: str | None = None


class LeaveResult(NamedTuple):
    """The answer to LeaveGroup: one error for the request, one for each member."""

    error: ErrorCode
    members: tuple[tuple[MemberIdentity, ErrorCode], ...] = ()


class CommitRequest(NamedTuple):
    """OffsetCommit. Without a generation (-1) it is a simple consumer's or a tool's."""

    group_id: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    member_id: str = UNKNOWN_MEMBER
    group_instance_id: str | None = None
    generation: int = NO_GENERATION


class FetchResult(NamedTuple):
    """The answer to OffsetFetch; None where nothing is committed."""

    error: ErrorCode
    offsets: Mapping[TopicPartition, CommittedOffset | None]


class MemberDescription(NamedTuple):
    """One member, for DescribeGroups. Metadata and assignment are given only when the group is Stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """One group, for DescribeGroups. `exists` is False for a group that nobody has heard of."""

    error: ErrorCode
    group_id: str
    exists: bool = False
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: Sequence[MemberDescription] = ()


class GroupListing(NamedTuple):
    """One group, for ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = "classic"
    """As Kafka 4.3 writes it."""
