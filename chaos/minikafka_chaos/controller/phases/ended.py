"""Phases Completed, Refused, Aborted and Error: what comes after the end. No I/O.

The finalizer is off, a report may be made, and the object goes when its time has come. A refused one that was edited is looked at
anew; so is one whose cluster or claim was not as it has to be, for a while. Whoever forces an experiment to its end while it is
being deleted comes here too, whatever its phase.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from minikafka_kube.conditions import Judgement
from minikafka_kube.events import Emit

from minikafka_chaos.controller import reports
from minikafka_chaos.controller.admission import Refusal
from minikafka_chaos.controller.phases.creation import still
from minikafka_chaos.controller.phases.transitions import release, with_conditions
from minikafka_chaos.controller.steps import (
    CreateReportJob,
    ObservedExperiment,
    Remove,
    SetFinalizer,
    Step,
    Wait,
    WriteStatus,
)
from minikafka_chaos.experiment.kinds import EXPERIMENT, FORCE_ANNOTATION, SCHEDULE, report_job_name
from minikafka_chaos.experiment.reasons import ChaosCondition, ChaosReason, Happening
from minikafka_chaos.experiment.status import Phase, fault_now

LOOK_SECONDS: Final = 15.0
"""Between two looks at whether a refused experiment may begin by now."""
OTHERS_TO_CHANGE: Final = frozenset(
    {ChaosReason.CLUSTER_NOT_FOUND, ChaosReason.BUDGET_EXCEEDED, ChaosReason.CLAIM_NOT_FOUND}
)
"""Refused for one of these an experiment may begin once its cluster, or its claim, is as it has to be. Not for ChaosNotAllowed:
who allows chaos later does so for what is asked then."""


def step(seen: ObservedExperiment) -> Step:
    """Phases Completed, Refused, Aborted and Error."""
    status = seen.status
    again = _refused_looks_again(seen)
    if again is not None and (again <= 0 or not isinstance(seen.admission, Refusal)):
        return WriteStatus(with_conditions(seen, status.but(phase=Phase.PENDING, ended_at=None)))
    if seen.finalized:
        return SetFinalizer(on=False)
    if not seen.deleting and reports.is_wanted(status, seen.settings):
        return _report(seen)
    ttl = seen.experiment["spec"].get("ttlSecondsAfterFinished")
    if ttl is None or status.ended_at is None or seen.deleting:
        return Wait(again)
    left = (status.ended_at + timedelta(seconds=ttl) - seen.now).total_seconds()
    if left <= 0:
        return Remove(EXPERIMENT.name, seen.name, seen.experiment["metadata"]["uid"])
    return Wait(left if again is None else min(again, left))


def _refused_looks_again(seen: ObservedExperiment) -> float | None:
    """In how many seconds a refused one is looked at anew: at once where it was edited, again and again where it was refused for
    what is not its own to change, as long as it would have waited to begin. None: never.

    One that a schedule made is not: its time has passed, and the next one comes.
    """
    status, metadata = seen.status, seen.experiment["metadata"]
    if seen.phase is not Phase.REFUSED or seen.deleting:
        return None
    if status.observed_generation != seen.generation:
        return 0.0
    reason = status.condition(ChaosCondition.ACCEPTED).get("reason")
    scheduled = any(one.get("kind") == SCHEDULE.name for one in metadata.get("ownerReferences") or ())
    late = status.ended_at is None or seen.now >= status.ended_at + seen.time_allowed
    return None if scheduled or late or reason not in OTHERS_TO_CHANGE else LOOK_SECONDS


def _report(seen: ObservedExperiment) -> Step:
    """The report is still to come: what is known of it, then its Job, then wait for that."""
    found = reports.look(seen)
    judgement, says = found.judgement, found.judgement.message
    if seen.report_job is None:
        says = still(seen, judgement.type, says)
    status = seen.status if found.report is None else seen.status.but(report=found.report)
    status = with_conditions(seen, status, Judgement(judgement.type, judgement.holds, judgement.reason, says))
    if status != seen.status:
        return WriteStatus(status, [Emit(judgement.reason.value, judgement.message, judgement.holds is False)])
    return CreateReportJob(report_job_name(seen.name)) if seen.report_job is None else Wait(found.look_again_seconds)


def let_go(seen: ObservedExperiment) -> Step:
    """The force annotation: nothing is undone; what there is expires, and its Job goes with it."""
    if seen.holds_lease and seen.lease is not None:
        return release(seen.lease)
    note = f"let go by the annotation {FORCE_ANNOTATION}"
    if left := fault_now(seen.status.faults or ()):
        note += f"; not undone, they expire: {left}"
    if there := seen.status.open_topics:
        note += f"; topics that stay: {', '.join(topic.name for topic in there)}"
    return SetFinalizer(on=False, events=[Emit(Happening.FORCED, note, warning=True)])
