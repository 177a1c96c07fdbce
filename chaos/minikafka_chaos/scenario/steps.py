"""The steps of a scenario: faults, sends and waits, and how they name brokers and conditions."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal, Self

from minikafka.telemetry.fault_verbs import Rule, Verb
from pydantic import Field, model_validator

from minikafka_chaos.scenario.document import BrokerId, Name, Part, Seconds, TopicName
from minikafka_chaos.scenario.faults import Parameters

MEMBERS_MAX = 100


class TargetType(StrEnum):
    """How brokers are chosen: by role, by id, by seed, or as an earlier step chose."""

    LEADER = "Leader"
    FOLLOWER = "Follower"
    CONTROLLER = "Controller"
    COORDINATOR = "Coordinator"
    ANY = "Any"
    ALL = "All"
    BROKERS = "Brokers"
    SAME_AS = "SameAs"
    CLIENTS = "Clients"


class Target(Part):
    """Whom a fault hits; chosen when the step begins.

    Leader and Follower need topic and partition (Follower: one of the in-sync followers, by the seed); Any is a running
    broker by the seed; Coordinator is that of the workload's consumer group; SameAs repeats the choice of an earlier step;
    Clients (as `peer` only) is who is no broker. `otherThan` leaves out what earlier steps chose.
    """

    type: TargetType
    """How brokers are chosen. Leader, Follower: of a partition; Controller; Coordinator: of the workload's consumer group; Any:
    one that runs, by the seed; All; Brokers: by id; SameAs: as an earlier step chose; Clients: who is no broker (`peer` only)."""
    topic: TopicName | None = None
    """The topic of Leader and Follower."""
    partition: Annotated[int, Field(ge=0)] = 0
    """The partition of Leader and Follower."""
    brokers: list[BrokerId] = Field(default_factory=list)
    """The ids of Brokers."""
    step: Name | None = None
    """The earlier step of SameAs."""
    other_than: list[Name] = Field(default_factory=list)
    """Steps whose choices are left out."""

    @model_validator(mode="after")
    def _has_what_type_needs(self) -> Self:
        by_role = self.type in (TargetType.LEADER, TargetType.FOLLOWER)
        if by_role != (self.topic is not None):
            raise ValueError("topic: needed by the target types Leader and Follower, and by no other")
        if (self.type is TargetType.BROKERS) != bool(self.brokers):
            raise ValueError("brokers: needed by the target type Brokers, and by no other")
        if (self.type is TargetType.SAME_AS) != (self.step is not None):
            raise ValueError("step: needed by the target type SameAs, and by no other")
        return self


class StartWait(StrEnum):
    """What Start and Restart wait for: a broker that says it is ready, or nothing."""

    READY = "Ready"
    NOTHING = "Nothing"


class FaultSpec(Part):
    """One verb on some brokers; with `oneOf` the seed decides which, anew in each round.

    `peer` is the other side of a Cut, Delay, Loss or Heal; without it, every other broker. What lasts may have
    `durationSeconds`: then it is undone by itself while the story goes on. Recover may name the `step` whose fault it undoes
    instead of a target. What is about the whole cluster has no target. With `withinMillis`
    it strikes at a moment of up to so many milliseconds after the step began, by the seed: steps keep step with the load.
    """

    verb: Verb | None = None
    """What is done; docs/reference/faults.md explains each, and which ground can do it."""
    one_of: list[Verb] = Field(default_factory=list)
    """Instead of verb: one of these, by the seed, anew in each round."""
    target: Target | None = None
    """Whom it hits; chosen when the step begins."""
    peer: Target | None = None
    """The other side of a Cut, Delay, Loss or Heal; without it: every other broker."""
    step: Name | None = None
    """For Recover, instead of a target: the step whose fault is undone."""
    parameters: Parameters = Parameters()
    """What the verb needs beside a target; docs/reference/faults.md has those of each."""
    duration_seconds: Seconds | None = None
    """Undone by itself after so long, while the story goes on; without it: by a later step, or at the end."""
    wait_for: StartWait = StartWait.READY
    """Whether Start and Restart wait until the broker is ready."""
    deadline_seconds: Seconds = 30
    """How long that may take."""
    within_millis: Annotated[int, Field(ge=0, le=60_000)] = 0
    """It strikes at a moment of up to so many milliseconds after the step began, by the seed."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.verb is None) == (not self.one_of):
            raise ValueError("needs exactly one of verb and oneOf")
        if self.step is not None and (self.verb is not Verb.RECOVER or self.target is not None):
            raise ValueError("step: only Recover names one, instead of a target")
        for verb in self.verbs:
            self._fits(verb, verb.rule)
        return self

    def _fits(self, verb: Verb, rule: Rule) -> None:
        """Raises ValueError for what this verb lacks, or has and cannot use."""
        if (self.target is None) != (rule.everywhere or self.step is not None):
            raise ValueError(f"target: {verb.value} {'has none' if rule.everywhere else 'needs one'}")
        if self.target is not None and self.target.type is TargetType.CLIENTS:
            raise ValueError("target: Clients can be a peer only")
        if self.peer is not None and not rule.peers:
            raise ValueError(f"peer: only {_names(one for one in Verb if one.rule.peers)} have one")
        if self.duration_seconds is not None and not rule.lasts:
            raise ValueError(
                f"durationSeconds: {verb.value} does not last; allowed: {_names(one for one in Verb if one.rule.lasts)}"
            )
        given = self.parameters.given()
        for name in rule.needs:
            if name not in given:
                raise ValueError(f"parameters.{name}: needed by {verb.value}")
        for name in given:
            if not any(name in (*one.rule.needs, *one.rule.takes) for one in self.verbs):
                allowed = ", ".join((*rule.needs, *rule.takes)) or "no parameters"
                raise ValueError(f"parameters.{name}: not of {verb.value}; allowed: {allowed}")
        if "millis" in rule.needs and not rule.may_be_negative and (self.parameters.millis or 0) < 1:
            raise ValueError(f"parameters.millis: {verb.value} needs at least 1")

    @property
    def verbs(self) -> list[Verb]:
        """Every verb that it may come to."""
        return self.one_of if self.verb is None else [self.verb]


def _names(verbs: Iterable[Verb]) -> str:
    return ", ".join(verb.value for verb in verbs)


class Expectation(StrEnum):
    """What a send step needs for the story to go on."""

    ACKNOWLEDGED = "Acknowledged"
    ANY = "Any"


class SendSpec(Part):
    """Send these values to one partition, one after the other; each must be unique within the scenario."""

    topic: TopicName
    """The topic."""
    partition: Annotated[int, Field(ge=0)] = 0
    """The partition."""
    values: Annotated[list[Annotated[str, Field(min_length=1, pattern=r"^[^|]+$")]], Field(min_length=1)]
    """The records' values; each unique within the scenario."""
    expect: Expectation = Expectation.ACKNOWLEDGED
    """Acknowledged: the story ends (Inconclusive) where one is not. Any: it goes on."""
    deadline_seconds: Seconds = 10
    """How long each record may take."""


class _OnPartition(Part):
    topic: TopicName
    """The topic."""
    partition: Annotated[int, Field(ge=0)] = 0
    """The partition."""


class Acked(Part):
    """At least this many records were acknowledged: in all, in one topic or partition, since a step began."""

    type: Literal["Acked"]
    at_least: Annotated[int, Field(ge=0)]
    """So many."""
    topic: TopicName | None = None
    """The topic."""
    partition: Annotated[int, Field(ge=0)] | None = None
    """The partition."""
    since: Name | None = None
    """The step from whose begin on is counted."""


class Isr(_OnPartition):
    """The in-sync replicas are exactly `brokers`, in any order; or nobody whom the steps `otherThan` chose is among them."""

    type: Literal["Isr"]
    brokers: list[BrokerId] = Field(default_factory=list)
    """Exactly these, in any order."""
    other_than: list[Name] = Field(default_factory=list)
    """Steps whose choices must not count."""

    @model_validator(mode="after")
    def _compares(self) -> Self:
        if bool(self.brokers) == bool(self.other_than):
            raise ValueError("Isr: needs either brokers or otherThan")
        return self


class FullIsr(Part):
    """Every partition of the topic has a leader and all its replicas in sync."""

    type: Literal["FullIsr"]
    topic: TopicName


class Leader(_OnPartition):
    """The partition is led: by this broker, or by anyone whom the named steps did not choose."""

    type: Literal["Leader"]
    broker: BrokerId | None = None
    """This broker leads."""
    other_than: list[Name] = Field(default_factory=list)
    """Steps whose choices must not count."""


class NoLeader(_OnPartition):
    """Nobody leads the partition."""

    type: Literal["NoLeader"]


class ReplicaOffset(_OnPartition):
    """An offset of one replica, as its broker tells it; CheckpointedHighWatermark is the one it would restart with."""

    type: Literal["LogEndOffset", "HighWatermark", "FlushedOffset", "CheckpointedHighWatermark"]
    broker: BrokerId
    """The broker that is asked."""
    equals: Annotated[int, Field(ge=0)] | None = None
    """Exactly this offset."""
    at_least: Annotated[int, Field(ge=0)] | None = None
    """At least this offset."""
    at_most: Annotated[int, Field(ge=0)] | None = None
    """At most this offset."""

    @model_validator(mode="after")
    def _compares(self) -> Self:
        if self.equals is None and self.at_least is None and self.at_most is None:
            raise ValueError(f"{self.type}: needs equals, atLeast or atMost")
        return self


class ReplicaRole(_OnPartition):
    """What a broker takes itself for in a partition."""

    type: Literal["ReplicaRole"]
    broker: BrokerId
    """The broker that is asked."""
    role: Literal["Leader", "Follower"]
    """What it takes itself for."""


class BrokerReady(Part):
    """A broker says that it is ready."""

    type: Literal["BrokerReady"]
    broker: BrokerId
    """The broker that is asked."""


class GroupState(Part):
    """The workload's consumer group is in this state, as its coordinator tells it (KIP-848's names)."""

    type: Literal["GroupState"]
    state: Literal["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
    """The state that it is to be in."""


class GroupAtEnd(Part):
    """The workload's consumer group has committed all that its partitions hold."""

    type: Literal["GroupAtEnd"]


class Elapsed(Part):
    """So much time went by since a step began, or since this wait did."""

    type: Literal["Elapsed"]
    seconds: Seconds
    """So many seconds."""
    since: Name | None = None
    """The step from whose begin on is counted."""


Condition = Annotated[
    Acked
    | Isr
    | FullIsr
    | Leader
    | NoLeader
    | ReplicaOffset
    | ReplicaRole
    | BrokerReady
    | GroupState
    | GroupAtEnd
    | Elapsed,
    Field(discriminator="type"),
]


class WaitSpec(Part):
    """Wait until all conditions hold at one moment."""

    conditions: Annotated[list[Condition], Field(min_length=1, max_length=20)]
    """All have to hold at one moment."""
    deadline_seconds: Seconds = 30
    """How long that may take; then the story ends (Inconclusive)."""


class MemberVerb(StrEnum):
    """Start; Crash: dies by kill -9, at a moment of its work."""

    START = "Start"
    CRASH = "Crash"


class CrashMoment(StrEnum):
    """BeforeCommit: it has done one of two and not the other: processed records and committed them, or, where records cannot be
    processed, written a dead letter and committed it. BeforeDeadLetter: a record cannot be processed, and nothing of that is
    written."""

    BEFORE_COMMIT = "BeforeCommit"
    BEFORE_DEAD_LETTER = "BeforeDeadLetter"


class MemberSpec(Part):
    """A member of the workload's consumer group, by its number from 1 on, is started or dies. Crash waits until it is dead, so
    there must be records for it."""

    verb: MemberVerb
    """Start; Crash: it dies by kill -9, the next time it is `at` that moment."""
    at: CrashMoment = CrashMoment.BEFORE_COMMIT
    """Of Crash. BeforeCommit: it has done one of two and not the other: processed records and committed them, or, where records
    cannot be processed, written a dead letter and committed it. BeforeDeadLetter: a record cannot be processed, and nothing of
    that is written."""
    member: Annotated[int, Field(ge=1, le=MEMBERS_MAX)] = 1
    """Its number, from 1 on."""
    deadline_seconds: Seconds = 30
    """How long a member that is to die may wait for records."""


class Step(Part):
    """One sentence of the story: exactly one of `wait`, `send`, `fault` and `member`."""

    name: Name
    """Its name; later steps, conditions and claims refer to it."""
    description: str = ""
    """What happens, for people."""
    wait: WaitSpec | None = None
    """Wait until something holds."""
    send: SendSpec | None = None
    """Send records."""
    fault: FaultSpec | None = None
    """Make a fault, or undo one."""
    member: MemberSpec | None = None
    """Start a member of the consumer group, or have one die."""

    @model_validator(mode="after")
    def _does_one_thing(self) -> Self:
        if sum(part is not None for part in (self.wait, self.send, self.fault, self.member)) != 1:
            raise ValueError(f"step {self.name}: needs exactly one of wait, send, fault, member")
        return self
