"""When a schedule makes which experiment. Values in, values out: the same schedule and times give the same experiments."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, islice, takewhile
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from minikafka_kube.conditions import Judgement, written
from minikafka_kube.events import Emit
from minikafka_kube.instants import instant, time_text
from minikafka_kube.observed import deleting
from pydantic import ValidationError

from minikafka_chaos.controller.api import ScheduleSpec
from minikafka_chaos.controller.kinds import EXPERIMENT, MANAGED_BY_LABEL, MANAGER, SCHEDULE, SCHEDULE_LABEL, Object
from minikafka_chaos.controller.reasons import ChaosCondition, ChaosReason, Happening
from minikafka_chaos.controller.status import ExperimentStatus, Phase
from minikafka_chaos.controller.steps import Remove, Wait
from minikafka_chaos.scenario.document_lines import explain

BEHIND_MAX: Final = 100
"""Times that are caught up with in one look: after a longer absence the rest is one number."""
CLOCK_SECONDS_MAX: Final = 300
"""By how much clocks of controllers differ at most: what was dealt with later than that from now, was so by a wrong clock."""
SEED_BITS: Final = 31
CRON_FIELDS: Final = 5
"""Cronsim takes six, the first for seconds: `0 2 * * * *`, meant for two o'clock, would come once an hour."""
_DOING_MAX: Final = 600
"""Of what an experiment says."""
_WHY_MAX: Final = 1000
"""``status.lastMissed.why`` takes 1024 characters."""


class BadSchedule(ValueError):
    """One line that names the field and what is allowed."""


@dataclass(frozen=True)
class Make:
    """Create an experiment; one of that name is the same one. Then the status."""

    thing: Object
    due: datetime
    status: Mapping[str, Any]
    events: Sequence[Emit]


@dataclass(frozen=True)
class WriteScheduleStatus:
    """Replace the schedule's status."""

    status: Mapping[str, Any]
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

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.schedule.get("status") or {})


def spec_of(schedule: Object) -> ScheduleSpec:
    """The spec as the models have it. Raises BadSchedule."""
    try:
        spec = ScheduleSpec.model_validate_json(json.dumps(schedule.get("spec") or {}))
    except ValidationError as error:
        raise BadSchedule(f"spec: {explain(error, ScheduleSpec)}") from error
    if (spec.cron is None) == (spec.interval is None):
        raise BadSchedule("spec: give exactly one of cron and interval")
    if spec.cron is not None:
        zone = _zone(spec.time_zone)
        bad = f"spec.cron: {spec.cron!r} is no crontab(5) expression of five fields"
        if (fields := len(spec.cron.split())) != CRON_FIELDS:
            raise BadSchedule(f"{bad}: it has {fields}")
        try:
            next(CronSim(spec.cron, datetime(2026, 1, 1, tzinfo=zone)))
        except CronSimError as error:
            raise BadSchedule(f"{bad}: {error}") from error
        except StopIteration:
            raise BadSchedule(f"spec.cron: {spec.cron!r} never comes") from None
    if spec.interval is not None and spec.interval.jitter_seconds > spec.interval.seconds:
        raise BadSchedule(
            f"spec.interval.jitterSeconds: {spec.interval.jitter_seconds}; allowed: at most spec.interval.seconds "
            f"({spec.interval.seconds})"
        )
    names = [template.name for template in spec.templates]
    if len(set(names)) < len(names):
        raise BadSchedule("spec.templates: two have one name")
    return spec


def _zone(name: str | None) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadSchedule(
            f"spec.timeZone: there is no time zone {name}; allowed: names such as Europe/Berlin"
        ) from None


def times(spec: ScheduleSpec, uid: str, begin: datetime, after: datetime) -> Iterator[datetime]:
    """Yield the schedule's times after one of them (or after any other moment); ``begin`` is when it was made.

    Each is later than ``after`` and than the one before it, whatever yields them: where clocks are put back, cronsim answers with
    a wall-clock time of the hour that has passed.
    """
    for when in _by_cron(spec, after) if spec.cron is not None else _by_interval(spec, uid, begin, after):
        if when > after:
            yield when
            after = when


def _by_cron(spec: ScheduleSpec, after: datetime) -> Iterator[datetime]:
    assert spec.cron is not None
    for when in CronSim(spec.cron, after.astimezone(_zone(spec.time_zone))):
        yield when.astimezone(UTC)


def _by_interval(spec: ScheduleSpec, uid: str, begin: datetime, after: datetime) -> Iterator[datetime]:
    assert spec.interval is not None
    seconds = spec.interval.seconds
    first = max(1, int((after - begin).total_seconds() // seconds) - 1)  # by jitter it may be one earlier
    for number in count(first):
        yield begin + timedelta(seconds=number * seconds + _jitter(spec, uid, number))


def _jitter(spec: ScheduleSpec, uid: str, number: int) -> int:
    assert spec.interval is not None
    return random.Random(f"{spec.seed}/{uid}/jitter/{number}").randint(0, spec.interval.jitter_seconds)


# --- deciding ---------------------------------------------------------------------------------------------------------


def decide(seen: ObservedSchedule) -> Step:
    """The next step: history first, then what is due."""
    if deleting(seen.schedule):
        return Wait()
    try:
        spec = spec_of(seen.schedule)
    except BadSchedule as error:
        status = _with_conditions(
            seen, seen.status, Judgement(ChaosCondition.ACCEPTED, False, ChaosReason.INVALID_SPEC, str(error))
        )
        status.pop("nextScheduleTime", None)
        return (
            Wait()
            if status == seen.status
            else WriteScheduleStatus(status, [Emit(Happening.INVALID, str(error), warning=True)])
        )
    if surplus := _surplus(seen, spec):
        return Remove(EXPERIMENT.name, surplus["metadata"]["name"], surplus["metadata"]["uid"])
    return _what_is_due(seen, spec)


def _what_is_due(seen: ObservedSchedule, spec: ScheduleSpec) -> Step:
    accepted = Judgement(
        ChaosCondition.ACCEPTED, True, ChaosReason.ACCEPTED, "suspended" if spec.suspend else "it goes by the clock"
    )
    begin = instant(seen.schedule["metadata"].get("creationTimestamp")) or seen.now
    before = seen.status
    last = _dealt_with(before, seen.now) or begin
    uid = str(seen.schedule["metadata"]["uid"])
    behind = list(islice(takewhile(lambda when: when <= seen.now, times(spec, uid, begin, last)), BEHIND_MAX))
    if len(behind) == BEHIND_MAX:  # away for very long: begin anew from now
        behind = [*behind[:-1], seen.now]
    upcoming = next(times(spec, uid, begin, max(last, seen.now)))
    base = _seen(seen, {**before, "nextScheduleTime": None if spec.suspend else time_text(upcoming)})
    thing = experiment(seen.schedule, spec, behind[-1]) if behind else {}
    made = any(
        one["metadata"]["name"] == thing["metadata"]["name"] for one in seen.experiments if behind
    )  # then we died
    if spec.suspend and behind and not made:
        base["lastSuspendedTime"] = time_text(behind[-1])
    if not behind or (spec.suspend and not made):
        status = _with_conditions(seen, base, accepted)
        return WriteScheduleStatus(status) if status != seen.status else Wait((upcoming - seen.now).total_seconds())
    due, missed = behind[-1], behind[:-1]
    why = "" if made else _why_not(seen, spec, due)
    base["lastScheduleTime"] = time_text(due)
    events: list[Emit] = []
    if missed and not spec.suspend:
        base, event = _missed(base, missed, "the controller was away")
        events.append(event)
    if why:
        base, event = _missed(base, [due], why)
        events.append(event)
        return WriteScheduleStatus(_with_conditions(seen, base, accepted), events)
    base |= {"made": int(base.get("made") or 0) + 1, "active": thing["metadata"]["name"]}
    events.append(Emit(Happening.MADE, f"made ChaosExperiment {thing['metadata']['name']} for {time_text(due)}"))
    status = _with_conditions(seen, base, accepted)
    return WriteScheduleStatus(status, events) if made else Make(thing, due, status, events)


def _dealt_with(status: dict[str, Any], now: datetime) -> datetime | None:
    """The latest time that needs nothing more. One that a clock told that was ahead becomes now: it must not end the schedule."""
    for name in ("lastScheduleTime", "lastSuspendedTime"):
        latest = instant(status.get(name))
        if latest is not None and latest > now + timedelta(seconds=CLOCK_SECONDS_MAX):
            status[name] = time_text(now)
    found = (instant(status.get(name)) for name in ("lastScheduleTime", "lastSuspendedTime"))
    return max((one for one in found if one is not None), default=None)


def not_made(seen: ObservedSchedule, step: Make, why: str) -> WriteScheduleStatus:
    """What is told instead when the experiment could not be made: this time is missed, and the next one comes all the same."""
    status, event = _missed(step.status, [step.due], why)
    status |= {"made": seen.status.get("made"), "active": _active(seen)}
    events = [*(one for one in step.events if one.reason != Happening.MADE), event]
    return WriteScheduleStatus({name: value for name, value in status.items() if value is not None}, events)


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


def _missed(status: Mapping[str, Any], when: Sequence[datetime], why: str) -> tuple[dict[str, Any], Emit]:
    last, why = time_text(when[-1]), why[:_WHY_MAX]
    number = f"{len(when)} times, the last " if len(when) > 1 else ""
    missed = {"time": last, "why": why}
    changed = {**status, "missed": int(status.get("missed") or 0) + len(when), "lastMissed": missed}
    return changed, Emit(Happening.MISSED, f"missed {number}{last}: {why}", warning=True)


def _seen(seen: ObservedSchedule, status: dict[str, Any]) -> dict[str, Any]:
    """Return what became of the experiments."""
    found = [ExperimentStatus.of(one) for one in seen.experiments if _ended(one)]
    ended = sorted(found, key=lambda one: time_text(one.ended_at) if one.ended_at is not None else "")
    changed = {**status, "active": _active(seen)}
    if ended:
        changed["lastVerdict"] = str(ended[-1].verdict or ended[-1].phase)
    return changed


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


def _with_conditions(seen: ObservedSchedule, status: Mapping[str, Any], accepted: Judgement) -> dict[str, Any]:
    generation = int(seen.schedule["metadata"].get("generation") or 0)
    conditions = written([accepted], seen.status.get("conditions") or [], generation, seen.now)
    changed = {**status, "conditions": conditions, "observedGeneration": generation}
    return {name: value for name, value in changed.items() if value is not None}
