"""What members of groups may see (invariants G1 to G4, L5): commits, assignments and generations, whoever coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from minikafka.groups.placement import OFFSETS_TOPIC, partition_for
from minikafka.groups.records import CommittedOffset, OffsetKey, read_key, read_offset_value
from minikafka.groups.replay import Replay
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import Record
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.checks.account import Account
from minikafka_simulator.checks.commit_checks import CommitChecks
from minikafka_simulator.checks.mirror import unrefused
from minikafka_simulator.checks.scheduled_cluster import ScheduledCluster

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker


TOPIC: Final = "ledger"
"""Whose offsets are committed. The coordinator need not know it."""
SHARED: Final = tuple(TopicPartition(TOPIC, index) for index in range(4))


LOOK_SECONDS: Final = 0.3
"""Between two looks at what coordinators remember."""


@dataclass(slots=True)
class SentCommit:
    """An OffsetCommit for one partition. No two have one offset."""

    offset: int
    generation: int
    sent: float
    written: float | None = None
    """When it was known to be in the log: it was acknowledged, or somebody began there whose commits were accepted."""

    def is_written(self, when: float) -> None:
        """It is known to be written since then."""
        self.written = when if self.written is None else min(self.written, when)


class Fetched(NamedTuple):
    """An answer to OffsetFetch, for one partition."""

    offset: int | None
    asked: float
    answered: float


class CheckedMember(Protocol):
    """A member of a group, one process after the other."""

    finishing: bool
    """There are no more faults."""

    @property
    def number(self) -> int: ...
    @property
    def group(self) -> str: ...
    @property
    def tp(self) -> TopicPartition:
        """Whose leader coordinates the group."""

    @property
    def member_id(self) -> str: ...
    @property
    def generation(self) -> int: ...
    @property
    def assigned(self) -> tuple[TopicPartition, ...]: ...
    @property
    def settled(self) -> bool:
        """It has its share, and has committed of it after the faults."""


class GroupChecks:
    """Follows the members of one world."""

    def __init__(self, world: ScheduledCluster, account: Account, commits: CommitChecks) -> None:
        self._world = world
        self._account = account
        self._commits = commits
        self.members: list[CheckedMember] = []
        self.commits: dict[tuple[str, TopicPartition], list[SentCommit]] = {}
        self._owners: dict[tuple[str, int], dict[TopicPartition, str]] = {}
        self._begun: list[tuple[str, TopicPartition, int]] = []
        """Where members began whose commits were accepted."""
        self._began: dict[str, dict[int, float]] = {}
        """When a generation of a group was first seen by a member that it gave a share."""

    def _excused(self, member: CheckedMember) -> bool:
        """An unclean election of the log of the group took what was stored."""
        return member.tp in self._commits.excused

    def group_deleted(self, group: str) -> None:
        """Its generations begin anew."""
        self._began.pop(group, None)
        self._owners = {key: owners for key, owners in self._owners.items() if key[0] != group}

    def assigned(self, member: CheckedMember) -> None:
        """A SyncGroup was answered: no partition has two owners in one generation (G2)."""
        if self._excused(member):
            return
        self._began.setdefault(member.group, {}).setdefault(member.generation, self._world.now)
        owners = self._owners.setdefault((member.group, member.generation), {})
        for tp in member.assigned:
            owner = owners.setdefault(tp, member.member_id)
            if owner != member.member_id:
                self._account.fail(
                    "G2 OneOwner",
                    f"{member.group} generation {member.generation}: {tp} is given to {owner} and to {member.member_id}",
                )

    def sent(self, member: CheckedMember, tp: TopicPartition) -> SentCommit:
        """A member is about to commit: the next offset that nobody has committed."""
        commits = self.commits.setdefault((member.group, tp), [])
        commits.append(SentCommit(len(commits) + 1, member.generation, self._world.now))
        return commits[-1]

    def acknowledged(
        self, member: CheckedMember, tp: TopicPartition, commit: SentCommit, fetched: Fetched | None
    ) -> None:
        """A commit was answered; ``fetched``: where its member had begun in this generation.

        A member of an older generation is told so (G3). Who may commit began at the last offset that was written, or at one
        that may have been written after it, and that is in the log in the end (G1).
        """
        commit.is_written(self._world.now)
        if self._excused(member):
            return
        newer = [
            g for g, when in self._began.get(member.group, {}).items() if g > commit.generation and when < commit.sent
        ]
        if newer:
            self._account.fail(
                "G3 FencedGeneration",
                f"{member.group}: a commit of generation {commit.generation} is accepted after generation {max(newer)} began",
            )
        if fetched is not None:
            self._began_right(member, self.commits[member.group, tp], tp, fetched)

    def _began_right(
        self, member: CheckedMember, commits: list[SentCommit], tp: TopicPartition, fetched: Fetched
    ) -> None:
        began = None if fetched.offset is None else commits[fetched.offset - 1]
        for other in commits:
            if other is began or other.written is None or other.written >= fetched.asked:
                continue
            if began is None or (began.written is not None and began.written <= other.sent):
                self._account.fail(
                    "G1 CommittedOffsets",
                    f"{member.group} {tp}: a member of generation {member.generation} begins at {fetched.offset}, "
                    f"{other.offset} was written by generation {other.generation} before it asked",
                )
        if began is not None:
            began.is_written(fetched.answered)
            self._begun.append((member.group, tp, began.offset))

    def finish(self) -> None:
        """There are no more faults."""
        for member in self.members:
            member.finishing = True

    @property
    def settled(self) -> bool:
        """Every group is at rest."""
        return self._unsettled() is None

    def _unsettled(self) -> str | None:
        for member in self.members:
            if not member.settled:
                return f"member {member.number} of {member.group} has no share, or could not commit it"
        for group in {member.group for member in self.members}:
            members = [member for member in self.members if member.group == group]
            if len({member.generation for member in members}) > 1:
                return f"members of {group} are in generations {sorted(member.generation for member in members)}"
            if (error := self._coordinator(group).groups.coordinator.check(group)) is not ErrorCode.NONE:
                return f"the coordinator of {group} says {error.name}"
            idle = set(SHARED) - {tp for member in members for tp in member.assigned}
            if idle:
                return f"nobody in {group} has {', '.join(map(str, sorted(idle)))}"
        return None

    def final(self) -> None:
        """After healing all members of a group share all there is, in one generation, and commit (L5); what their coordinator
        has in memory is what is in its log (G4)."""
        if (problem := self._unsettled()) is not None:
            self._account.fail("L5 groups", f"after everything was healed {problem}")
        for group in self._groups:
            self._remembers_right(self._coordinator(group), group)
            self._began_where_written(group)

    def look(self) -> None:
        """Now and then: coordinators that write nothing remember what their logs say (G4)."""
        for broker in self._world.brokers.values():
            for group in self._groups if broker.up else ():
                tp, coordinator = self._log_of(group), broker.groups.coordinator
                partition = broker.partitions.get(tp)
                if (
                    partition is not None
                    and partition.log.failure is None
                    and partition.high_watermark == partition.log.log_end_offset
                    and coordinator.check(group) is ErrorCode.NONE
                    and not coordinator.is_writing(tp.partition)
                ):
                    self._remembers_right(broker, group)
        self._world.scheduler.at(LOOK_SECONDS, self.look)

    @property
    def _groups(self) -> list[str]:
        return sorted({member.group for member in self.members})

    def _coordinator(self, group: str) -> SimBroker:
        """The broker that leads the partition of the group, by the controller's word."""
        return self._world.brokers[self._account.states[self._log_of(group)].leader]

    def _log_of(self, group: str) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, partition_for(group, self._world.offsets_partitions))

    def _began_where_written(self, group: str) -> None:
        tp = self._log_of(group)
        written = set()
        for record in _records(self._coordinator(group), tp):
            subject = read_key(record.key or b"")
            if isinstance(subject, OffsetKey) and record.value is not None:
                written.add((subject.group_id, subject.topic_partition, read_offset_value(record.value).offset))
        never = [
            f"{tp} at {offset}" for of, tp, offset in self._begun if of == group and (of, tp, offset) not in written
        ]
        if never and tp not in self._commits.excused:
            self._account.fail(
                "G1 CommittedOffsets", f"members of {group} began where nobody had written: {', '.join(never)}"
            )

    def _remembers_right(self, broker: SimBroker, group: str) -> None:
        replay = Replay()
        for record in _records(broker, self._log_of(group)):
            replay.add(record.offset, record.key, record.value)
        stored = next((one for one in replay.groups() if one.group_id == group), None)
        found = ({}, {}) if stored is None else (_offsets(stored.offsets.all()), _shares(stored.members.values()))
        described = broker.groups.coordinator.describe_group(group)
        is_stable = described.state == "Stable"
        held = (_offsets(broker.groups.fetch(group, None).offsets), _shares(described.members))
        if found[0] != held[0] or (is_stable and found[1] != held[1]):
            self._account.fail(
                "G4 MemoryIsLog", f"broker {broker.id} coordinates {group}: its log says {found}, its memory {held}"
            )


def _records(broker: SimBroker, tp: TopicPartition) -> Iterator[Record]:
    log = broker.partitions[tp].log
    with unrefused(broker.disk):
        batches = list(log.read_batches(log.log_start_offset, log.log_end_offset))
    for batch in batches:
        yield from batch.records()


def _offsets(committed: Mapping[TopicPartition, CommittedOffset | None]) -> dict[TopicPartition, int]:
    return {tp: one.offset for tp, one in committed.items() if one is not None}


class _Member(Protocol):
    @property
    def member_id(self) -> str: ...
    @property
    def assignment(self) -> bytes: ...


def _shares(members: Iterable[_Member]) -> dict[str, bytes]:
    return {member.member_id: member.assignment for member in members}
