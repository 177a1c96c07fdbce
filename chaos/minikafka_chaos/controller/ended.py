"""Phases Completed, Refused, Aborted and Error: what comes after the end. No I/O.

The finalizer is off, a report may be made, and the object goes when its time has come. A refused one that was edited is looked at
anew. Whoever forces an experiment to its end while it is being deleted comes here too, whatever its phase.
"""

from __future__ import annotations

from datetime import timedelta

from minikafka_kube.conditions import Judgement
from minikafka_kube.events import Emit

from minikafka_chaos.controller import reports
from minikafka_chaos.controller.creation import still
from minikafka_chaos.controller.kinds import EXPERIMENT, FORCE_ANNOTATION, report_job_name
from minikafka_chaos.controller.reasons import Happening
from minikafka_chaos.controller.status import Phase, fault_now
from minikafka_chaos.controller.steps import (
    CreateReportJob,
    ObservedExperiment,
    Remove,
    SetFinalizer,
    Step,
    Wait,
    WriteStatus,
)
from minikafka_chaos.controller.transitions import release, with_conditions


def step(seen: ObservedExperiment) -> Step:
    """Phases Completed, Refused, Aborted and Error."""
    status = seen.status
    if seen.phase is Phase.REFUSED and not seen.deleting and status.observed_generation != seen.generation:
        return WriteStatus(with_conditions(seen, status.but(phase=Phase.PENDING, ended_at=None)))
    if seen.finalized:
        return SetFinalizer(on=False)
    if not seen.deleting and reports.is_wanted(status, seen.settings):
        return _report(seen)
    ttl = seen.experiment["spec"].get("ttlSecondsAfterFinished")
    if ttl is None or status.ended_at is None or seen.deleting:
        return Wait()
    left = (status.ended_at + timedelta(seconds=ttl) - seen.now).total_seconds()
    return Wait(left) if left > 0 else Remove(EXPERIMENT.name, seen.name, seen.experiment["metadata"]["uid"])


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
