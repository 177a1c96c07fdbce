"""When a schedule makes which experiment. Values in, values out: the same schedule and times give the same experiments."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice, takewhile
from typing import Final

from minikafka_kube.conditions import Judgement
from minikafka_kube.events import Emit
from minikafka_kube.instants import instant, time_text
from minikafka_kube.observed import deleting

from minikafka_chaos.controller.api import ScheduleSpec
from minikafka_chaos.controller.schedules.status import ScheduleStatus, missed_words
from minikafka_chaos.controller.schedules.times import BadSchedule, spec_of, times
from minikafka_chaos.controller.steps import Remove, Wait
from minikafka_chaos.experiment.kinds import EXPERIMENT, MANAGED_BY_LABEL, MANAGER, SCHEDULE, SCHEDULE_LABEL, Object
from minikafka_chaos.experiment.reasons import ChaosCondition, ChaosReason, Happening
from minikafka_chaos.experiment.status import ExperimentStatus, Phase

BEHIND_MAX: Final = 100
"""Times that are caught up with in one look: after a longer absence the rest is one number."""
SEED_BITS: Final = 31
AWAY: Final = "the controller was away"
_DOING_MAX: Final = 600
"""Of what an experiment says."""


@dataclass(frozen=True)
class Make:
    """Create an experiment; one of that name is the same one. Then the status."""

    thing: Object
    due: datetime
    status: ScheduleStatus
    events: Sequence[Emit]


@dataclass(frozen=True)
class WriteScheduleStatus:
    """Replace the schedule's status."""

    status: ScheduleStatus
    events: Sequence[Emit] = ()


Step = Make | WriteScheduleStatus | Remove | Wait


@dataclass(frozen=True)
class ObservedSchedule:
    """A schedule and the experiments that it has made."""

    schedule: Object
    experiments: Sequence[Object]
    now: datetime

    @property
    def name(self) -> str:
        return str(self.schedule["metadata"]["name"])

    @cached_property
    def status(self) -> ScheduleStatus:
        return ScheduleStatus.of(self.schedule)


def decide(seen: ObservedSchedule) -> Step:
    """The next step: history first, then what is due."""
    if deleting(seen.schedule):
        return Wait()
    try:
        spec = spec_of(seen.schedule)
    except BadSchedule as error:
        invalid = Judgement(ChaosCondition.ACCEPTED, False, ChaosReason.INVALID_SPEC, str(error))
        status = _with_condition(seen, seen.status.but(next_schedule_time=None), invalid)
        if status == seen.status:
            return Wait()
        return WriteScheduleStatus(status, [Emit(Happening.INVALID, str(error), warning=True)])
    if surplus := _surplus(seen, spec):
        return Remove(EXPERIMENT.name, surplus["metadata"]["name"], surplus["metadata"]["uid"])
    return _what_is_due(seen, spec)


def _what_is_due(seen: ObservedSchedule, spec: ScheduleSpec) -> Step:
    accepted = Judgement(
        ChaosCondition.ACCEPTED, True, ChaosReason.ACCEPTED, "suspended" if spec.suspend else "it goes by the clock"
    )
    begin = instant(seen.schedule["metadata"].get("creationTimestamp")) or seen.now
    before = seen.status.by_clock(seen.now)
    last = before.dealt_with or begin
    uid = str(seen.schedule["metadata"]["uid"])
    behind = list(islice(takewhile(lambda when: when <= seen.now, times(spec, uid, begin, last)), BEHIND_MAX))
    if len(behind) == BEHIND_MAX:  # away for very long: begin anew from now
        behind = [*behind[:-1], seen.now]
    upcoming = next(times(spec, uid, begin, max(last, seen.now)))
    base = _seen(seen, before.but(next_schedule_time=None if spec.suspend else upcoming))
    thing = experiment(seen.schedule, spec, behind[-1]) if behind else {}
    made = any(
        one["metadata"]["name"] == thing["metadata"]["name"] for one in seen.experiments if behind
    )  # then we died
    if spec.suspend and behind and not made:
        base = base.but(last_suspended_time=behind[-1])
    if not behind or (spec.suspend and not made):
        status = _with_condition(seen, base, accepted)
        return WriteScheduleStatus(status) if status != seen.status else Wait((upcoming - seen.now).total_seconds())
    due, missed = behind[-1], behind[:-1]
    why = "" if made else _why_not(seen, spec, due)
    base = base.but(last_schedule_time=due)
    events: list[Emit] = []
    if missed and not spec.suspend:
        base = base.with_missed(missed, AWAY)
        events.append(_missed(missed, AWAY))
    if why:
        events.append(_missed([due], why))
        return WriteScheduleStatus(_with_condition(seen, base.with_missed([due], why), accepted), events)
    base = base.but(made=(base.made or 0) + 1, active=thing["metadata"]["name"])
    events.append(Emit(Happening.MADE, f"made ChaosExperiment {thing['metadata']['name']} for {time_text(due)}"))
    status = _with_condition(seen, base, accepted)
    return WriteScheduleStatus(status, events) if made else Make(thing, due, status, events)


def not_made(seen: ObservedSchedule, step: Make, why: str) -> WriteScheduleStatus:
    """What is told instead when the experiment could not be made: this time is missed, and the next one comes all the same."""
    status = step.status.with_missed([step.due], why).but(made=seen.status.made, active=_active(seen))
    events = [one for one in step.events if one.reason != Happening.MADE]
    return WriteScheduleStatus(status, [*events, _missed([step.due], why)])


def _why_not(seen: ObservedSchedule, spec: ScheduleSpec, due: datetime) -> str:
    active = _active(seen)
    if active:
        going = next(one for one in seen.experiments if one["metadata"]["name"] == active)
        return f"experiment {active} was still going on (concurrencyPolicy: Forbid): {_doing(going)}"
    late = (seen.now - due).total_seconds()
    if late > spec.starting_deadline_seconds:
        return f"it was {late:.0f} s ago; allowed by spec.startingDeadlineSeconds: {spec.starting_deadline_seconds}"
    return ""


def _doing(experiment: Object) -> str:
    """Return what an experiment is at, or what it waits for."""
    status = ExperimentStatus.of(experiment)
    phase = "new" if status.phase is None else status.phase.value
    says = status.message(ChaosCondition.HEALED if status.phase is Phase.HEALING else ChaosCondition.ACCEPTED)
    return f"{phase}, {says}"[:_DOING_MAX] if says else phase


def _missed(when: Sequence[datetime], why: str) -> Emit:
    return Emit(Happening.MISSED, missed_words(when, why), warning=True)


def _seen(seen: ObservedSchedule, status: ScheduleStatus) -> ScheduleStatus:
    """Return the status with what became of the experiments."""
    found = [ExperimentStatus.of(one) for one in seen.experiments if _ended(one)]
    ended = sorted(found, key=lambda one: time_text(one.ended_at) if one.ended_at is not None else "")
    status = status.but(active=_active(seen))
    return status.but(last_verdict=str(ended[-1].verdict or ended[-1].phase)) if ended else status


def _active(seen: ObservedSchedule) -> str:
    going = [one for one in seen.experiments if not _ended(one)]
    return str(going[0]["metadata"]["name"]) if going else ""


def _ended(experiment: Object) -> bool:
    phase = ExperimentStatus.of(experiment).phase
    return phase is not None and phase.ended


def _surplus(seen: ObservedSchedule, spec: ScheduleSpec) -> Object | None:
    """The oldest experiment beyond what is kept of its sort."""
    ended = [one for one in seen.experiments if _ended(one) and not deleting(one)]
    ended.sort(key=lambda one: (str(one["metadata"].get("creationTimestamp") or ""), one["metadata"]["name"]))
    for sort, limit in ((True, spec.successful_history_limit), (False, spec.failed_history_limit)):
        found = [one for one in ended if succeeded(one) is sort]
        if len(found) > limit:
            return found[0]
    return None


def succeeded(experiment: Object) -> bool:
    """Return whether it showed what it is meant to show, or passed where it says nothing of that."""
    status = ExperimentStatus.of(experiment)
    if status.phase is not Phase.COMPLETED:
        return False
    return status.as_expected == "as expected" if status.as_expected else status.verdict == "Passed"


def experiment(schedule: Object, spec: ScheduleSpec, due: datetime) -> Object:
    """The experiment of one of its times. Its name says when, so that it is made once."""
    metadata = schedule["metadata"]
    chance = random.Random(f"{spec.seed}/{metadata['uid']}/{due.timestamp():.0f}")
    template = chance.choices(spec.templates, weights=[one.weight for one in spec.templates])[0]
    raw = next(one for one in schedule["spec"]["templates"] if one["name"] == template.name)
    seed = chance.getrandbits(SEED_BITS)
    name = f"{metadata['name']}-{int(due.timestamp())}"
    owner = {
        "apiVersion": SCHEDULE.api_version,
        "kind": SCHEDULE.name,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": EXPERIMENT.api_version,
        "kind": EXPERIMENT.name,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {
                MANAGED_BY_LABEL: MANAGER,
                SCHEDULE_LABEL: metadata["name"],
                "minikafka.dev/template": template.name,
            },
            "ownerReferences": [owner],
        },
        "spec": {**raw["spec"], "seed": raw["spec"].get("seed") or seed},
    }


def _with_condition(seen: ObservedSchedule, status: ScheduleStatus, accepted: Judgement) -> ScheduleStatus:
    generation = int(seen.schedule["metadata"].get("generation") or 0)
    return status.with_condition(accepted, generation, seen.now).but(observed_generation=generation)
