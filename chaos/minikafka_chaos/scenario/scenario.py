"""A scenario: cluster, workload, steps (faults, sends, waits) and claims, as one declarative document.

The document is a Kubernetes object (`kind: ChaosExperiment`), and its `spec` is all there is: the same file is the
input of `minikafka chaos run` on every ground and can be applied to a Kubernetes cluster. So it keeps to the API
conventions of Kubernetes: camelCase fields, whole numbers with their unit in the name, lists of named objects instead
of maps, CamelCase enumerations instead of booleans. Unknown fields are refused.

A scenario reads like a story: its steps are done one after the other, and each has a name that later steps, conditions
and claims refer to.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from minikafka.config import BROKER_KEYS
from minikafka.telemetry.anomalies import AnomalyKind
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from minikafka_chaos.errors import BadScenario
from minikafka_chaos.scenario.consistency import WORKLOAD, problems
from minikafka_chaos.scenario.document import (
    BrokerId,
    ConfigEntry,
    Name,
    ObjectName,
    Part,
    Seconds,
    TopicName,
    UnflushedVolume,
    as_config,
)
from minikafka_chaos.scenario.document_files import as_json, one_document, read_text
from minikafka_chaos.scenario.document_lines import explain
from minikafka_chaos.scenario.overrides import apply
from minikafka_chaos.scenario.probes import SteadyStateSpec
from minikafka_chaos.scenario.steps import MEMBERS_MAX, Step

KINDS = tuple(kind.value for kind in AnomalyKind)
BROKERS_MAX = 100

# --- the cluster and its topics ---------------------------------------------------------------------------------------


class ClusterSpec(Part):
    """The brokers; ids are 0 to `brokers` - 1. `config` is the brokers' configuration (Kafka's keys and minikafka.*)."""

    brokers: Annotated[int, Field(ge=1, le=BROKERS_MAX)] = 3
    """How many brokers; their ids are 0 to that minus 1."""
    racks: list[str] = Field(default_factory=list)
    """Names of racks, dealt round to the brokers in the order of their ids. Not on Kubernetes, where nodes say it."""
    unflushed_volume: UnflushedVolume = UnflushedVolume.SEPARATE
    config: list[ConfigEntry] = Field(default_factory=list)
    """Settings of every broker; docs/reference/configuration.md has all of them."""


class ClusterReference(Part):
    """A MiniKafkaCluster of the experiment's namespace that is there already; on Kubernetes only."""

    name: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
    """Its name."""


class Loss(StrEnum):
    """Refused: no fault may take the last in-sync replica of a partition. Meant: it may, and a broker's volume too."""

    REFUSED = "Refused"
    MEANT = "Meant"


class SafetySpec(Part):
    """How far an experiment may go with a cluster that is not its own (`clusterRef`)."""

    brokers_out_max: Annotated[int, Field(ge=1, le=100)] = 1
    """How many brokers may be out at one moment, those counted that are out for another reason."""
    loss: Loss = Loss.REFUSED
    """Whether faults may take the last in-sync replica of a partition, and the volume of a broker."""


class Assignment(Part):
    """The replicas of one partition, the preferred leader first."""

    partition: Annotated[int, Field(ge=0)]
    """The partition, from 0 on."""
    replicas: Annotated[list[BrokerId], Field(min_length=1)]
    """Broker ids, the preferred leader first."""


class TopicSpec(Part):
    """A topic of the run. `replicaAssignments` (for every partition, or none) overrides the two numbers."""

    name: TopicName
    """The topic's name. With clusterRef there must be none of that name yet."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] = 1
    """How many partitions."""
    replication_factor: Annotated[int, Field(ge=1, le=100)] = 3
    """How many replicas of each partition."""
    replica_assignments: list[Assignment] = Field(default_factory=list)
    """Which brokers have the replicas of each partition; of every partition, or of none."""
    config: list[ConfigEntry] = Field(default_factory=list)
    """Settings of the topic, such as min.insync.replicas."""

    @model_validator(mode="after")
    def _assignments_are_whole(self) -> Self:
        if self.replica_assignments:
            numbers = sorted(assignment.partition for assignment in self.replica_assignments)
            if numbers != list(range(self.partitions)):
                raise ValueError(
                    f"replicaAssignments of topic {self.name}: need each of {self.partitions} partitions once"
                )
        return self


# --- the workload -----------------------------------------------------------------------------------------------------


class Mode(StrEnum):
    """Steady: producers send all the time. Scripted: only the `send` steps send."""

    STEADY = "Steady"
    SCRIPTED = "Scripted"


class Acks(StrEnum):
    """What a producer waits for: Kafka's acks=all, 1, 0."""

    ALL = "All"
    LEADER = "Leader"
    NONE = "None"

    @property
    def kafka(self) -> str:
        return {"All": "all", "Leader": "1", "None": "0"}[self.value]


class Delivery(StrEnum):
    """AtLeastOnce: enable.idempotence=false, a retry may make a duplicate. Idempotent: it may not."""

    AT_LEAST_ONCE = "AtLeastOnce"
    IDEMPOTENT = "Idempotent"


class TailReaders(StrEnum):
    """Whether a reader follows the topic from its beginning while the faults happen."""

    ONE = "One"
    NONE = "None"


class GroupCommit(StrEnum):
    """When a member commits: AfterProcessing is at-least-once, BeforeProcessing at-most-once."""

    AFTER_PROCESSING = "AfterProcessing"
    BEFORE_PROCESSING = "BeforeProcessing"


class GroupDeadLetters(StrEnum):
    """How members write dead letters. Once: before the offset is committed, unless it is there. Unchecked: before the offset is
    committed, without a look. AfterCommit: after the offset is committed."""

    ONCE = "Once"
    UNCHECKED = "Unchecked"
    AFTER_COMMIT = "AfterCommit"


class GroupReset(StrEnum):
    """Kafka's auto.offset.reset."""

    EARLIEST = "Earliest"
    LATEST = "Latest"


class WorkloadSpec(Part):
    """Producers and readers. `durationSeconds` is the least time a steady load lasts; steps may make it longer."""

    topic: TopicName
    """The topic that the load is on; one of `topics`."""
    mode: Mode = Mode.STEADY
    """Steady: producers send all the time. Scripted: only the `send` steps send."""
    duration_seconds: Annotated[int, Field(ge=0, le=86_400)] = 0
    """How long a steady load lasts at least; the steps may make it longer."""
    producers: Annotated[int, Field(ge=1, le=100)] = 2
    """How many producers of a steady load."""
    rate_per_second: Annotated[int, Field(ge=1, le=1_000_000)] = 500
    """Records per second of all producers together."""
    keys: Annotated[int, Field(ge=1)] = 100
    """How many keys the records have; a key decides the partition."""
    record_bytes: Annotated[int, Field(ge=1, le=10_000_000)] = 100
    """Bytes of each record's value."""
    acks: Acks = Acks.ALL
    """What a producer waits for. All: every in-sync replica (acks=all); Leader: acks=1; None: acks=0."""
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    """AtLeastOnce: a retry may make a duplicate. Idempotent: it may not (enable.idempotence=true)."""
    max_in_flight: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Requests that a producer has under way on one connection (max.in.flight.requests.per.connection). Above 1 a
    retry may overtake."""
    linger_millis: Annotated[int, Field(ge=0)] = 5
    """How long a producer waits for more records before it sends (linger.ms)."""
    delivery_timeout_millis: Annotated[int, Field(ge=1)] = 30_000
    """After so long a record without an answer is given up, and its outcome is unknown (delivery.timeout.ms)."""
    tail_readers: TailReaders = TailReaders.ONE
    """Whether a reader follows the topic while the faults happen, and so sees what is read and later gone."""
    group_members: Annotated[int, Field(ge=0, le=MEMBERS_MAX)] = 0
    """Members that the consumer group `readers` of the topic has from the beginning; 0: there is none. Steps may start more."""
    group_commit: GroupCommit = GroupCommit.AFTER_PROCESSING
    """When members commit: AfterProcessing is at-least-once, BeforeProcessing at-most-once."""
    group_reset: GroupReset = GroupReset.EARLIEST
    """Where a member begins that has no committed offset, or whose place is not in the log."""
    group_session_timeout_millis: Annotated[int, Field(ge=1_000, le=300_000)] = 6_000
    """session.timeout.ms of the members: after how long without a heartbeat one is taken for dead."""
    group_poison_every: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Of how many records one cannot be processed, by a checksum of its value; 0: all can. Then members are those of
    minikafka.reliability: they try it twice, and make it a dead letter in the topic `<topic>.dlq`, which topics has to have."""
    group_dead_letters: GroupDeadLetters = GroupDeadLetters.ONCE
    """How members write dead letters. Once: before the offset is committed, unless it is there already, as
    minikafka.reliability does; Unchecked: before the offset is committed, without a look; AfterCommit: after it."""


# --- claims -----------------------------------------------------------------------------------------------------------


class ClaimType(StrEnum):
    """What can be claimed beyond what is always judged (loss, aborted reads, consistent offsets, order, divergence)."""

    NO_ACKNOWLEDGED_RECORD_LOST = "NoAcknowledgedRecordLost"
    NO_DIVERGENCE = "NoDivergence"
    NO_DUPLICATES = "NoDuplicates"
    NO_REORDERING = "NoReordering"
    ACK_GAP_AT_MOST = "AckGapAtMost"


class ClaimSpec(Part):
    """A claim. Claims never excuse anything, with one exception that must be spelt out.

    `since` (NoAcknowledgedRecordLost only) names the step from whose begin on the claim is made: for a story that
    destroys every copy on purpose, which no protocol survives, and then asks what happens next. What was acknowledged
    before and is gone is still counted and told.
    """

    name: Name
    """Its name in the verdict."""
    type: ClaimType
    """What is claimed. NoAcknowledgedRecordLost: what was acknowledged is there at the end. NoDivergence: the logs of
    all replicas are alike. NoDuplicates: no record is there twice. NoReordering: records are in the order in which
    their producer sent them. AckGapAtMost: never longer than limitMillis without an acknowledgement."""
    description: str = ""
    """Why it should hold, for people."""
    since: Name | None = None
    """A step; what was acknowledged before its begin may be lost (NoAcknowledgedRecordLost only)."""
    limit_millis: Annotated[int, Field(ge=1)] | None = None
    """The longest time without an acknowledgement that still holds (AckGapAtMost only)."""

    @model_validator(mode="after")
    def _has_what_type_needs(self) -> Self:
        if self.since is not None and self.type is not ClaimType.NO_ACKNOWLEDGED_RECORD_LOST:
            raise ValueError(f"claim {self.name}: since is for NoAcknowledgedRecordLost only")
        if (self.type is ClaimType.ACK_GAP_AT_MOST) != (self.limit_millis is not None):
            raise ValueError(f"claim {self.name}: limitMillis is needed by AckGapAtMost, and by no other")
        return self


class ExpectedVerdict(StrEnum):
    """The verdicts that a scenario can be meant to have."""

    PASSED = "Passed"
    FAILED = "Failed"
    INCONCLUSIVE = "Inconclusive"


class ExpectedAnomaly(Part):
    """A kind of anomaly that is meant to be found; `count` where it matters."""

    kind: Literal[KINDS]  # type: ignore[valid-type]
    """Its kind; docs/reference/verdicts.md explains each."""
    count: Annotated[int, Field(ge=1)] | None = None
    """Exactly so many; without it: some."""


class ExpectSpec(Part):
    """What the scenario is meant to show: then a run that finds exactly that ends with exit code 0.

    `anomalies` are all that are meant (notes aside), `claims` all claims AckGapAtMost that are meant to be broken; `mayFind` are
    kinds that come with them or do not, as the load happens to be. `when` limits it to these settings of the brokers, and of
    the workload (`workload.acks`).
    """

    verdict: ExpectedVerdict
    """The verdict that is meant."""
    anomalies: list[ExpectedAnomaly] = Field(default_factory=list)
    """What is meant to be found, and nothing else of these kinds."""
    claims: list[Name] = Field(default_factory=list)
    """Claims of type AckGapAtMost that are meant to be broken, by name."""
    may_find: list[Literal[KINDS]] = Field(default_factory=list)  # type: ignore[valid-type]
    """Kinds of anomalies that may come beside these."""
    when: list[ConfigEntry] = Field(default_factory=list)
    """Settings of brokers or workload (workload.acks) with which this is expected; without it: always."""

    @model_validator(mode="after")
    def _fits_verdict(self) -> Self:
        if (self.anomalies or self.may_find) and self.verdict is not ExpectedVerdict.FAILED:
            raise ValueError(f"expect: anomalies mean Failed, not {self.verdict.value}")
        if self.claims and self.verdict is not ExpectedVerdict.FAILED:
            raise ValueError(f"expect: broken claims mean Failed, not {self.verdict.value}")
        return self


class RecoverySpec(Part):
    """After the last step everything is healed; how long the cluster and the final reader may then take."""

    full_isr_deadline_seconds: Seconds = 60
    """How long replicas may take to be in sync again."""
    read_deadline_seconds: Seconds = 60
    """How long the final reader may take."""


class RunsSpec(Part):
    """Where an experiment on Kubernetes leaves its run: journal, history, metrics, events and the replicas' logs."""

    claim: ObjectName
    """A PersistentVolumeClaim of the experiment's namespace that may be written."""


class ScenarioSpec(Part):
    """The whole scenario."""

    description: str = ""
    """The story in a few sentences, for people."""
    seed: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """For every choice that is left to chance."""
    rounds: Annotated[int, Field(ge=1, le=100_000)] = 1
    """How often the steps are done, one time after the other."""
    until_seconds: Seconds | None = None
    """Instead of `rounds`: begin new rounds until so much time has gone by."""
    cluster: ClusterSpec = Field(default_factory=ClusterSpec)
    """The cluster that is made for this run, and removed after it."""
    cluster_ref: ClusterReference | None = None
    """Instead of `cluster`: one that is there."""
    safety: SafetySpec = SafetySpec()
    topics: Annotated[list[TopicSpec], Field(min_length=1, max_length=100)]
    """The topics that are made for it."""
    workload: WorkloadSpec
    """What is sent and read while the faults happen."""
    steady_state: SteadyStateSpec | None = None
    """What has to hold before any fault is made, and again after all are undone."""
    steps: Annotated[list[Step], Field(max_length=500)] = Field(default_factory=list)
    """The story: steps are done one after the other."""
    claims: Annotated[list[ClaimSpec], Field(max_length=50)] = Field(default_factory=list)
    """What should hold whatever the faults; beyond what is always judged (docs/reference/verdicts.md)."""
    expect: Annotated[list[ExpectSpec], Field(max_length=20)] = Field(default_factory=list)
    """The first that fits the brokers' settings counts."""
    recovery: RecoverySpec = RecoverySpec()
    """How long healing may take before the verdict is Inconclusive."""
    runs: RunsSpec | None = None
    """On Kubernetes: where the run is kept. Without it: where the controller's chart says."""
    active_deadline_seconds: Seconds = 3600
    """On Kubernetes: how long the experiment may take in all; then it is aborted, and its faults are undone."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=31_536_000)] | None = None
    """On Kubernetes: how long the object stays after its end. Without it: until somebody deletes it."""

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if self.cluster_ref is not None and "cluster" in self.model_fields_set:
            raise ValueError("clusterRef: not beside cluster; exactly one of them")
        for problem in problems(self):
            raise ValueError(problem)
        return self

    @property
    def brokers_max(self) -> int:
        """Return how many brokers there are at most: ids are below that."""
        return BROKERS_MAX if self.cluster_ref is not None else self.cluster.brokers

    @property
    def expected(self) -> ExpectSpec | None:
        """Return what this scenario is meant to show with the settings that it has; None when it does not say."""
        config = as_config(self.cluster.config)
        workload = {
            f"{WORKLOAD}{name}": text for name, text in self.workload.model_dump(mode="json", by_alias=True).items()
        }

        def setting(name: str) -> str | None:
            if name in workload:
                return str(workload[name])
            return config.get(name, BROKER_KEYS[name].default_text)

        fitting = (each for each in self.expect if all(setting(entry.name) == entry.value for entry in each.when))
        return next(fitting, None)

    def topic(self, name: str) -> TopicSpec:
        """The topic of that name; it exists in a validated scenario."""
        return next(topic for topic in self.topics if topic.name == name)


class Metadata(BaseModel):
    """A Kubernetes object's metadata: labels, annotations and the like are kept, and mean nothing here."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: ObjectName


class Scenario(Part):
    """The document."""

    api_version: Literal["minikafka.dev/v1alpha1"]
    kind: Literal["ChaosExperiment"]
    metadata: Metadata
    spec: ScenarioSpec

    @property
    def name(self) -> str:
        return self.metadata.name

    def lasting(self, seconds: int) -> Scenario:
        """The same with another least duration of the load; rounds that go on for a time go on for that time.

        Raises BadScenario for less than a second.
        """
        if seconds < 1:
            raise BadScenario(f"--seconds {seconds}: must be at least 1")
        spec = self.spec
        workload = spec.workload.model_copy(update={"duration_seconds": seconds})
        until = None if spec.until_seconds is None else seconds
        return self.model_copy(update={"spec": spec.model_copy(update={"workload": workload, "until_seconds": until})})

    def on(self, cluster: ClusterSpec) -> Scenario:
        """The same on a cluster that is like this, instead of by reference. Raises ValidationError where it does not fit."""
        document = self.as_json()
        spec = {name: part for name, part in document["spec"].items() if name != "clusterRef"}
        spec["cluster"] = cluster.model_dump(mode="json", by_alias=True)
        return Scenario.model_validate_json(json.dumps({**document, "spec": spec}))

    def as_json(self) -> dict[str, Any]:
        """The document as it would be written, defaults spelt out."""
        document: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        if self.spec.cluster_ref is not None:
            del document["spec"]["cluster"]
        return document


# --- reading ---------------------------------------------------------------------------------------------------------


def load_scenario(path: Path, settings: Sequence[str] = ()) -> Scenario:
    """Read a scenario file, with `settings` (`KEY=VALUE`, see `overrides`) changed.

    Raises BadScenario: one line that names the file, the line, the field and what is allowed.
    """
    return parse_scenario(read_text(path), str(path), settings)


def parse_scenario(text: str, origin: str = "scenario", settings: Sequence[str] = ()) -> Scenario:
    """Like `load_scenario`, from text."""
    document, lines = one_document(text, origin, "scenario")
    apply(document, settings, [field.alias or name for name, field in ScenarioSpec.model_fields.items()])
    try:
        return Scenario.model_validate_json(as_json(document, origin))
    except ValidationError as error:
        raise BadScenario(explain(error, Scenario, lines, origin)) from error
