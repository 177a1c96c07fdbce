"""What the status of an experiment says, as a typed value: read once in each look, changed by copies, written once.

The same models make the status in the CRD. What somebody else wrote there is read as far as it makes sense: a time that is none
is none, and a field that this version does not know is kept as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, Self, get_args

from minikafka_kube.api.part import Conditions, Part
from minikafka_kube.conditions import Judgement, condition, written
from minikafka_kube.instants import instant, time_text
from minikafka_kube.kinds import Object
from pydantic import BeforeValidator, ConfigDict, Field, GetPydanticSchema, PlainSerializer, TypeAdapter
from pydantic_core import core_schema

from minikafka_chaos.experiment.kinds import FORCE_ANNOTATION
from minikafka_chaos.experiment.reasons import ChaosCondition, ChaosReason

FAULTS_MAX: Final = 200
"""Faults that a status tells of; the oldest that have ended go first."""
TOPICS_MAX: Final = 100
"""At least as many as a scenario may have."""
FAULT_SECONDS_MAX: Final = 3600
"""No agent makes a fault that lasts longer; whatever says so was written by somebody else."""
_SHOWN_MAX: Final = 4


def _read(time: str | datetime | None) -> datetime | None:
    return instant(time) if isinstance(time, str) else time


Instant = Annotated[datetime | None, BeforeValidator(_read), PlainSerializer(time_text, when_used="unless-none")]
"""A time; none where somebody wrote what is no time."""
Since = Annotated[
    datetime,
    BeforeValidator(lambda time: _read(time) or datetime(1970, 1, 1, tzinfo=UTC)),
    PlainSerializer(time_text),
]
"""A time that has to be there."""

ConditionDocuments = Annotated[
    list[dict[str, Any]],
    GetPydanticSchema(
        lambda _source, _handler: core_schema.list_schema(core_schema.dict_schema()),
        lambda _schema, handler: handler(TypeAdapter(Conditions).core_schema),
    ),
    get_args(Conditions)[1],  # its description, and how the API server merges it
]
"""Conditions as they stand in an object: `minikafka_kube.conditions` reads and writes them."""


class Phase(StrEnum):
    """Where an experiment is; docs/guide/chaos-on-kubernetes.md explains each."""

    PENDING = "Pending"
    RUNNING = "Running"
    HEALING = "Healing"
    JUDGING = "Judging"
    COMPLETED = "Completed"
    REFUSED = "Refused"
    ABORTED = "Aborted"
    ERROR = "Error"

    @property
    def ended(self) -> bool:
        """Return whether nothing comes after it."""
        return self in (Phase.COMPLETED, Phase.REFUSED, Phase.ABORTED, Phase.ERROR)


class FaultState(StrEnum):
    """Intended: written down, and perhaps made. Injected: made. Recovered: nothing of it is left."""

    INTENDED = "Intended"
    INJECTED = "Injected"
    RECOVERED = "Recovered"


class TopicFate(StrEnum):
    """What became of a topic that an experiment makes in a cluster which stays."""

    INTENDED = "Intended"
    """Written down, and perhaps made."""
    MADE = "Made"
    REMOVING = "Removing"
    REMOVED = "Removed"
    NOT_MADE = "NotMade"
    LEFT = "Left"
    """It stays; the detail says why."""

    @property
    def is_open(self) -> bool:
        """Return whether the topic is still to be removed."""
        return self in (TopicFate.INTENDED, TopicFate.MADE, TopicFate.REMOVING)


def _closed(schema: dict[str, Any]) -> None:
    """To the API server a field that is not declared is none."""
    schema.pop("additionalProperties", None)


class StatusPart(Part):
    """A part of a status, in which a field of a newer version stays."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_closed)

    def but(self, **fields: Any) -> Self:
        """Return the same with other values in these fields."""
        return self.model_copy(update=fields)


class TypedStatus(StatusPart):
    """The status of an object, whose conditions are those of `ChaosCondition`."""

    observed_generation: Annotated[
        int | None,
        Field(json_schema_extra={"format": "int64"}, description="The generation of the spec this speaks of."),
    ] = None
    conditions: ConditionDocuments | None = None

    @classmethod
    def of(cls, thing: Object) -> Self:
        """Read the status of an object."""
        return cls.model_validate(thing.get("status") or {})

    def document(self) -> dict[str, Any]:
        """Return the status as an object has it; what is None is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def condition(self, kind: StrEnum) -> Mapping[str, Any]:
        """Return one of the conditions; empty when there is none of that type."""
        return condition({"conditions": self.conditions}, kind)

    def message(self, kind: StrEnum) -> str:
        """Return what one of the conditions says."""
        return str(self.condition(kind).get("message") or "")

    def with_condition(self, judgement: Judgement, generation: int, now: datetime) -> Self:
        """Return the status with this condition, in the order of `ChaosCondition`; those of others come last."""
        (made,) = written([judgement], self.conditions or (), generation, now)
        others = [one for one in self.conditions or () if one["type"] != made["type"]]
        order = {kind.value: place for place, kind in enumerate(ChaosCondition)}
        return self.but(conditions=sorted([*others, made], key=lambda one: order.get(one["type"], len(order))))


class TopicStatus(StatusPart):
    """A topic that the experiment makes in a cluster which stays, written down before it is made."""

    name: Annotated[str, Field(max_length=249, description="Its name.")]
    state: Annotated[
        TopicFate,
        Field(
            description="Intended (perhaps made), Made, Removing, Removed, NotMade, or Left (it stays; detail says why)."
        ),
    ]
    topic_id: Annotated[
        str | None, Field(max_length=63, description="Its identity: only the topic of this id is removed.")
    ] = None
    intended_at: Annotated[Instant, Field(description="When it was written down.")] = None
    removing_at: Annotated[Instant, Field(description="When its removal began.")] = None
    detail: Annotated[str | None, Field(max_length=1024, description="Why it is as it is.")] = None


class FaultStatus(StatusPart):
    """One fault on one broker, written down before it is made."""

    id: Annotated[
        str, Field(max_length=253, description="Its own within the experiment; the agent knows it by this id.")
    ]
    step: Annotated[str, Field(max_length=253, description="The step that it belongs to.")]
    verb: Annotated[str, Field(max_length=63, description="What is done, as in the scenario.")]
    state: Annotated[
        FaultState, Field(description="Intended (perhaps made), Injected, or Recovered (nothing of it is left).")
    ]
    broker: Annotated[int | None, Field(description="The broker; none for a fault of the whole cluster.")] = None
    role: Annotated[str | None, Field(max_length=253, description="Why this broker was chosen.")] = None
    pod: Annotated[str | None, Field(max_length=253, description="Its pod.")] = None
    pod_uid: Annotated[
        str | None, Field(max_length=63, description="The pod's identity: in another pod nothing of the fault is left.")
    ] = None
    container_id: Annotated[str | None, Field(max_length=253, description="The container it was made in.")] = None
    expires_at: Annotated[Instant, Field(description="When it ends by itself, whoever else is dead by then.")] = None
    intended_at: Annotated[Instant, Field(description="When it was written down.")] = None
    injected_at: Annotated[Instant, Field(description="When it had been made.")] = None
    recovered_at: Annotated[Instant, Field(description="When it was over.")] = None
    detail: Annotated[str | None, Field(max_length=1024, description="What undid it, or why it could not be made.")] = (
        None
    )

    def __str__(self) -> str:
        return self.verb + ("" if self.broker is None else f" broker {self.broker}")


class AnomalyCount(StatusPart):
    """How often one kind of anomaly was found."""

    kind: Annotated[str, Field(max_length=63, description="Its kind; docs/reference/verdicts.md explains each.")]
    count: Annotated[int, Field(description="How many.")]


class Ending(StatusPart):
    """What an experiment that is being ended will be, once its faults are undone."""

    phase: Annotated[Phase, Field(description="Its last phase.")]
    reason: Annotated[str, Field(max_length=1024, description="Why, as one word.")]
    message: Annotated[str, Field(max_length=32_768, description="Why, as a sentence.")]


class ReportStatus(StatusPart):
    """The report that Spark has made of a run."""

    claim: Annotated[str, Field(max_length=253, description="The PersistentVolumeClaim that it is on.")]
    path: Annotated[str, Field(max_length=1024, description="The page, from the root of that volume on.")]
    verdict: Annotated[str, Field(max_length=63, description="What Spark found by itself in the run's evidence.")]
    copy_with: Annotated[
        str | None, Field(alias="copy", max_length=2048, description="A command that copies the page out.")
    ] = None


class FailingRecovery(StatusPart):
    """A pod in which a fault is to be undone, and cannot be: its agent does not answer, say."""

    pod: Annotated[str, Field(max_length=253, description="The pod.")]
    since: Annotated[Since, Field(description="When that was tried for the first time.")]
    why: Annotated[str, Field(max_length=1024, description="What went wrong then.")]


class ExperimentStatus(TypedStatus):
    """The experiment as it is. The controller and the Job's runner write it, each on top of what it has just read."""

    phase: Annotated[
        Phase | None,
        Field(
            description="Pending (not begun), Running, Healing (faults are being undone), Judging, and at the end Completed "
            "(there is a verdict), Refused (nothing was touched), Aborted or Error."
        ),
    ] = None
    cluster: Annotated[str | None, Field(max_length=63, description="The MiniKafkaCluster that it happens to.")] = None
    started_at: Annotated[Instant, Field(description="When its Job was made.")] = None
    ended_at: Annotated[Instant, Field(description="When it had ended, all faults undone.")] = None
    deadline: Annotated[Instant, Field(description="When it is aborted if it has not ended.")] = None
    ending: Annotated[Ending | None, Field(description="Why it ends, from Healing on.")] = None
    job: Annotated[str | None, Field(max_length=63, description="The Job that runs it.")] = None
    runner: Annotated[
        str | None, Field(max_length=253, description="The Job's pod that runs it; no other may make faults.")
    ] = None
    fault_now: Annotated[str | None, Field(max_length=1024, description="The faults that are on, for kubectl get.")] = (
        None
    )
    faults: Annotated[
        list[FaultStatus] | None,
        Field(
            max_length=FAULTS_MAX,
            description="Every fault; of very many, those that are on and the latest.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    recovery_failing: Annotated[
        list[FailingRecovery] | None,
        Field(
            max_length=FAULTS_MAX,
            description="While faults are being undone: the pods where that fails. It is tried again and again.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    faults_made: Annotated[int | None, Field(description="How many faults were made in all.")] = None
    topics: Annotated[
        list[TopicStatus] | None,
        Field(
            max_length=TOPICS_MAX,
            description="Topics made in a cluster that was there (clusterRef); they are removed at the end, by their ids.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    verdict: Annotated[
        str | None, Field(max_length=63, description="Passed, Failed, Inconclusive, Aborted or Error.")
    ] = None
    as_expected: Annotated[
        str | None,
        Field(max_length=4096, description="Whether that is what the scenario is meant to show; how it differs."),
    ] = None
    summary: Annotated[str | None, Field(max_length=4096, description="The verdict in a sentence.")] = None
    lost: Annotated[int | None, Field(description="Acknowledged records that are gone.")] = None
    acknowledged: Annotated[int | None, Field(description="Records that were acknowledged.")] = None
    worst_gap: Annotated[
        str | None, Field(max_length=63, description="The longest time without an acknowledgement, for kubectl get.")
    ] = None
    anomalies: Annotated[list[AnomalyCount] | None, Field(max_length=100, description="What was found, by kind.")] = (
        None
    )
    run: Annotated[str | None, Field(max_length=1024, description="The run's folder on the volume for runs.")] = None
    runs_claim: Annotated[
        str | None, Field(max_length=253, description="The claim that the run is on; none: it went with the Job's pod.")
    ] = None
    report: Annotated[ReportStatus | None, Field(description="Spark's report of the run, where one was made.")] = None

    @property
    def open_faults(self) -> list[FaultStatus]:
        """The faults of which something may be left."""
        return [fault for fault in self.faults or () if fault.state is not FaultState.RECOVERED]

    def end_of(self, fault: FaultStatus) -> datetime | None:
        """Return when a fault ends by itself; at the latest an hour after the deadline, for none begins then or lasts longer."""
        if fault.expires_at is None or self.deadline is None:
            return fault.expires_at
        return min(fault.expires_at, self.deadline + timedelta(seconds=FAULT_SECONDS_MAX))

    def healed(self, missing: str = "") -> Judgement:
        """Return the condition Healed, by the faults and the phase; ``missing``: the brokers that are not back yet."""
        left = self.open_faults
        if not left and missing:
            return Judgement(ChaosCondition.HEALED, False, ChaosReason.BROKERS_NOT_READY, missing)
        if not left:
            return Judgement(ChaosCondition.HEALED, True, ChaosReason.NO_FAULTS, "no fault is on")
        if self.phase is not Phase.HEALING:
            return Judgement(ChaosCondition.HEALED, False, ChaosReason.FAULTS_ON, fault_now(left))
        if self.recovery_failing:
            return Judgement(ChaosCondition.HEALED, False, ChaosReason.RECOVERY_FAILING, self._failing())
        return Judgement(ChaosCondition.HEALED, False, ChaosReason.HEALING, fault_now(left))

    def _failing(self) -> str:
        """Return what is on, where it cannot be undone, when it is over all the same, and what a person can do."""
        left, failing = self.open_faults, self.recovery_failing or ()
        pods = [f"{one.pod} since {time_text(one.since)} ({one.why})" for one in failing]
        ends = max((end for fault in left if (end := self.end_of(fault)) is not None), default=None)
        return (
            f"{fault_now(left)}: cannot be undone in {_first(pods)}, and is tried again"
            + (f"; ends by itself at {time_text(ends)} at the latest" if ends is not None else "")
            + f"; to let go at once, with nothing undone: delete the experiment, and annotate it {FORCE_ANNOTATION}=true"
        )

    @property
    def open_topics(self) -> list[TopicStatus]:
        """The topics that are still to be removed."""
        return [topic for topic in self.topics or () if topic.state.is_open]


def fault_now(faults: Iterable[FaultStatus]) -> str:
    """List the faults that are on, for ``kubectl get``: ``Kill broker 1``; empty when there is none."""
    return _first([str(fault) for fault in faults if fault.state is not FaultState.RECOVERED])


def _first(shown: Sequence[str]) -> str:
    more = f" and {len(shown) - _SHOWN_MAX} more" if len(shown) > _SHOWN_MAX else ""
    return ", ".join(shown[:_SHOWN_MAX]) + more
