"""ChaosExperiment and ChaosSchedule as typed models: the one source of their CRDs. An experiment's spec is the scenario's."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from minikafka_kube.api.part import Part, rule, rules
from pydantic import ConfigDict, Field

from minikafka_chaos.controller.schedules.status import ScheduleStatus
from minikafka_chaos.experiment.status import ExperimentStatus
from minikafka_chaos.scenario.scenario import ScenarioSpec

EXPERIMENT_NAME_MAX: Final = 63
"""It becomes a label of the Job's pod."""
TEMPLATES_MAX: Final = 20
HISTORY_MAX: Final = 100


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
