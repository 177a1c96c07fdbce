"""ChaosExperiment and ChaosSchedule as typed models: the one source of their CRDs. An experiment's spec is the scenario's."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from minikafka_kube.api.part import Conditions, Part, rule, rules
from pydantic import ConfigDict, Field

from minikafka_chaos.scenario.scenario import ScenarioSpec

EXPERIMENT_NAME_MAX: Final = 63
"""It becomes a label of the Job's pod."""
FAULTS_MAX: Final = 200
"""Faults that a status tells of; the oldest that have ended go first."""
TOPICS_MAX: Final = 100
"""At least as many as a scenario may have."""
TEMPLATES_MAX: Final = 20
HISTORY_MAX: Final = 100


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

    @property
    def active(self) -> bool:
        """Return whether faults may be on, or be made."""
        return self in (Phase.RUNNING, Phase.HEALING, Phase.JUDGING)


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


class TopicStatus(Part):
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
    intended_at: Annotated[datetime | None, Field(description="When it was written down.")] = None
    removing_at: Annotated[datetime | None, Field(description="When its removal began.")] = None
    detail: Annotated[str | None, Field(max_length=1024, description="Why it is as it is.")] = None


class FaultStatus(Part):
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
    expires_at: Annotated[
        datetime | None, Field(description="When it ends by itself, whoever else is dead by then.")
    ] = None
    intended_at: Annotated[datetime | None, Field(description="When it was written down.")] = None
    injected_at: Annotated[datetime | None, Field(description="When it had been made.")] = None
    recovered_at: Annotated[datetime | None, Field(description="When it was over.")] = None
    detail: Annotated[str | None, Field(max_length=1024, description="What undid it, or why it could not be made.")] = (
        None
    )


class AnomalyCount(Part):
    """How often one kind of anomaly was found."""

    kind: Annotated[str, Field(max_length=63, description="Its kind; docs/reference/verdicts.md explains each.")]
    count: Annotated[int, Field(description="How many.")]


class Ending(Part):
    """What an experiment that is being ended will be, once its faults are undone."""

    phase: Annotated[Phase, Field(description="Its last phase.")]
    reason: Annotated[str, Field(max_length=1024, description="Why, as one word.")]
    message: Annotated[str, Field(max_length=32_768, description="Why, as a sentence.")]


class ReportStatus(Part):
    """The report that Spark has made of a run."""

    claim: Annotated[str, Field(max_length=253, description="The PersistentVolumeClaim that it is on.")]
    path: Annotated[str, Field(max_length=1024, description="The page, from the root of that volume on.")]
    verdict: Annotated[str, Field(max_length=63, description="What Spark found by itself in the run's evidence.")]
    copy_with: Annotated[
        str | None, Field(alias="copy", max_length=2048, description="A command that copies the page out.")
    ] = None


class FailingRecovery(Part):
    """A pod in which a fault is to be undone, and cannot be: its agent does not answer, say."""

    pod: Annotated[str, Field(max_length=253, description="The pod.")]
    since: Annotated[datetime, Field(description="When that was tried for the first time.")]
    why: Annotated[str, Field(max_length=1024, description="What went wrong then.")]


class ExperimentStatus(Part):
    """The experiment as it is. The controller and the Job's runner write it, each on top of what it has just read."""

    observed_generation: Annotated[
        int | None,
        Field(json_schema_extra={"format": "int64"}, description="The generation of the spec this speaks of."),
    ] = None
    phase: Annotated[
        Phase | None,
        Field(
            description="Pending (not begun), Running, Healing (faults are being undone), Judging, and at the end Completed "
            "(there is a verdict), Refused (nothing was touched), Aborted or Error."
        ),
    ] = None
    conditions: Conditions | None = None
    cluster: Annotated[str | None, Field(max_length=63, description="The MiniKafkaCluster that it happens to.")] = None
    started_at: Annotated[datetime | None, Field(description="When its Job was made.")] = None
    ended_at: Annotated[datetime | None, Field(description="When it had ended, all faults undone.")] = None
    deadline: Annotated[datetime | None, Field(description="When it is aborted if it has not ended.")] = None
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


class ExperimentSpec(ScenarioSpec):
    """The scenario, and where it happens: in a cluster that is there (`clusterRef`), or in one of its own (`cluster`)."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.clusterRef) != has(self.cluster)",
                "spec: give exactly one of clusterRef (a cluster that is there) and cluster (one for this experiment alone)",
            ),
        )
    )


class Experiment(Part):
    """ChaosExperiment is a scenario of faults on a MiniKafka cluster, and in its status what became of the data."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"size(self.metadata.name) <= {EXPERIMENT_NAME_MAX}",
                f"metadata.name: at most {EXPERIMENT_NAME_MAX} characters",
            ),
            rule(
                "!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase in ['Pending', 'Refused'] || "
                "self.spec == oldSelf.spec",
                "spec cannot be changed once the experiment has begun; make another one",
                ".spec",
            ),
        )
    )

    spec: Annotated[ExperimentSpec, Field(description="The scenario, and where it happens.")]
    status: Annotated[ExperimentStatus | None, Field(description="What became of it.")] = None


# --- schedules --------------------------------------------------------------------------------------------------------


class ConcurrencyPolicy(StrEnum):
    """Forbid: an experiment whose time comes while the one before goes on is left out."""

    FORBID = "Forbid"


class Interval(Part):
    """Again and again after so much time."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.jitterSeconds) || self.jitterSeconds <= self.seconds",
                "spec.interval.jitterSeconds: at most spec.interval.seconds, or times would overtake each other",
                ".jitterSeconds",
            ),
        )
    )

    seconds: Annotated[int, Field(ge=10, le=31_536_000, description="From one time to the next.")]
    jitter_seconds: Annotated[
        int, Field(ge=0, le=31_536_000, description="Each time comes up to so much later, by the seed.")
    ] = 0


class ExperimentTemplate(Part):
    """An experiment that may come."""

    name: Annotated[
        str,
        Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=30, description="Its name within the schedule."),
    ]
    weight: Annotated[int, Field(ge=1, le=1000, description="How often it comes, beside the others.")] = 1
    spec: Annotated[ExperimentSpec, Field(description="The experiment.")]


class ScheduleSpec(Part):
    """When which experiments are made."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.cron) != has(self.interval)",
                "spec: give exactly one of cron and interval",
            ),
            rule("!has(self.timeZone) || has(self.cron)", "spec.timeZone is for spec.cron only", ".timeZone"),
        )
    )

    cron: Annotated[
        str | None,
        Field(
            min_length=9,
            max_length=100,
            description="When, as five fields: minute, hour, day of the month, month, day of the week (crontab(5)).",
        ),
    ] = None
    time_zone: Annotated[
        str | None, Field(max_length=64, description="The time zone of cron, such as Europe/Berlin. Without it: UTC.")
    ] = None
    interval: Annotated[Interval | None, Field(description="Instead of cron: again and again after so much time.")] = (
        None
    )
    suspend: Annotated[bool, Field(description="No experiments are made. What goes on goes on.")] = False
    concurrency_policy: Annotated[
        ConcurrencyPolicy,
        Field(description="Forbid: a time that comes while an experiment of this schedule goes on is left out."),
    ] = ConcurrencyPolicy.FORBID
    starting_deadline_seconds: Annotated[
        int,
        Field(
            ge=10, le=86_400, description="A time that is this long ago is missed, and told; nothing is made up for."
        ),
    ] = 60
    seed: Annotated[
        int,
        Field(
            ge=0,
            json_schema_extra={"format": "int64"},
            description="For jitter, for the choice among templates, and for the seeds of experiments.",
        ),
    ] = 0
    successful_history_limit: Annotated[
        int, Field(ge=0, le=HISTORY_MAX, description="How many experiments that were as expected are kept.")
    ] = 3
    failed_history_limit: Annotated[int, Field(ge=0, le=HISTORY_MAX, description="How many others are kept.")] = 3
    templates: Annotated[
        list[ExperimentTemplate],
        Field(min_length=1, max_length=TEMPLATES_MAX, description="The experiments, one of which is chosen each time."),
    ]


class MissedTime(Part):
    """A time at which no experiment was made."""

    time: Annotated[datetime, Field(description="When it would have been.")]
    why: Annotated[str, Field(max_length=1024, description="Why there was none.")]


class ScheduleStatus(Part):
    """The schedule as it is."""

    observed_generation: Annotated[
        int | None,
        Field(json_schema_extra={"format": "int64"}, description="The generation of the spec this speaks of."),
    ] = None
    conditions: Conditions | None = None
    active: Annotated[str | None, Field(max_length=253, description="The experiment that goes on.")] = None
    last_schedule_time: Annotated[datetime | None, Field(description="The latest time that was dealt with.")] = None
    last_suspended_time: Annotated[
        datetime | None,
        Field(description="The latest time that passed while it was suspended: none was made, and none missed."),
    ] = None
    next_schedule_time: Annotated[
        datetime | None, Field(description="The next one; none while it is suspended, or not accepted.")
    ] = None
    made: Annotated[int | None, Field(description="Experiments made.")] = None
    missed: Annotated[int | None, Field(description="Times at which none was made.")] = None
    last_missed: Annotated[MissedTime | None, Field(description="The latest of these.")] = None
    last_verdict: Annotated[
        str | None, Field(max_length=63, description="The verdict of the experiment that ended last.")
    ] = None


class Schedule(Part):
    """ChaosSchedule makes ChaosExperiments by the clock."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "size(self.metadata.name) <= 40",
                "metadata.name: at most 40 characters, for those of experiments begin with it",
            )
        )
    )

    spec: Annotated[ScheduleSpec, Field(description="When which experiments are made.")]
    status: Annotated[ScheduleStatus | None, Field(description="What came of it.")] = None
