"""Phase Healing, how an experiment ends: its Job, what is on, its topics, user and own cluster, the Lease, the last word."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from minikafka_kube.conditions import Judgement
from minikafka_kube.events import Emit
from minikafka_kube.names import Names
from minikafka_kube.observed import Pod, deleting

from minikafka_chaos.controller.job_state import finished
from minikafka_chaos.controller.phases import returning
from minikafka_chaos.controller.phases.transitions import (
    over_with_pods,
    reason_of,
    release,
    remove_cluster,
    remove_user,
    take_lease,
    with_conditions,
)
from minikafka_chaos.controller.steps import ObservedExperiment, Recover, Remove, RemoveTopics, Step, Wait, WriteStatus
from minikafka_chaos.experiment import record, topics
from minikafka_chaos.experiment.kinds import AGENT_CONTAINER, JOB
from minikafka_chaos.experiment.reasons import ChaosCondition, ChaosReason, Happening
from minikafka_chaos.experiment.status import ExperimentStatus, FaultState, FaultStatus, Phase

JUDGED: Final = frozenset(("Passed", "Failed", "Inconclusive"))
"""Verdicts on what became of the records; they stand, however the experiment ends."""
HEAL_SECONDS: Final = 1.0
"""Between two looks while faults are being undone."""
EXPIRY_MARGIN_SECONDS: Final = 5.0


def step(seen: ObservedExperiment) -> Step:
    """Phase Healing."""
    return go_on(seen, _lease_taken_again(seen))


def go_on(seen: ObservedExperiment, taking_lease: Step | None) -> Step:
    """What can be undone at once is undone before the Lease is taken again, and all of it where the Lease cannot be had."""
    job = seen.own_job
    if job is not None and not finished(job) and not deleting(job):
        return Remove(JOB.name, job["metadata"]["name"], job["metadata"]["uid"])
    left = seen.status.open_faults
    if seen.runs:
        # At once, for seconds count; and again when the runner is gone, for it may have been in the middle of one.
        return Recover(_agents(seen, left), settle=False) if left else Wait(HEAL_SECONDS)
    if left:
        return (taking_lease if seen.status.recovery_failing else None) or _undo(seen, left)
    if (seen.lease is None or seen.holds_lease) and (waiting := _wait_for_brokers(seen, taking_lease)):
        return waiting
    if seen.status.open_topics:
        return _remove_topics(seen)
    if seen.own_user is not None and not deleting(seen.own_user):
        return remove_user(seen.own_user)
    if seen.own_cluster is not None and not deleting(seen.own_cluster):
        return remove_cluster(seen.own_cluster)
    if seen.lease is not None and seen.holds_lease:
        return release(seen.lease)
    return _finish(seen)


def _wait_for_brokers(seen: ObservedExperiment, taking_lease: Step | None) -> Step | None:
    """Nobody else gets the turn before the brokers that it took are ready again, or it is said that they are not."""
    found = returning.missing(seen, seen.status)
    status = with_conditions(seen, seen.status)
    if status != seen.status:
        late = returning.described([each for each in found if each.late])
        return WriteStatus(status, [Emit(ChaosReason.BROKERS_NOT_READY, late, warning=True)] if late else [])
    return (taking_lease or Wait(HEAL_SECONDS)) if any(not each.late for each in found) else None


def _lease_taken_again(seen: ObservedExperiment) -> Step | None:
    """Somebody has deleted the Lease: whoever came next would take brokers away while others are not back. None: nobody has."""
    status = seen.status
    had_it = status.started_at is not None and status.cluster and not seen.cluster_is_another
    if not had_it or seen.lease is not None or seen.cluster is None or deleting(seen.cluster):
        return None
    left = max((status.deadline or seen.now) - seen.now, timedelta())
    says = f"Lease {Names(seen.namespace, str(status.cluster)).disruption} was deleted meanwhile; taken again"
    return take_lease(seen, str(status.cluster), left, [Emit(Happening.LEASE_TAKEN_AGAIN, says, warning=True)])


def _remove_topics(seen: ObservedExperiment) -> Step:
    """No runner is left that could make any; so what is written down is all there can be."""
    assert seen.topics is not None
    plan = topics.look(seen.status, seen.experiment, seen.topics, seen.now)
    if plan.status != seen.status:
        events = [Emit(Happening.TOPIC_LEFT, line, warning=True) for line in plan.left]
        if plan.removed:
            events.insert(0, Emit(Happening.TOPICS_REMOVED, f"topics of the experiment: {', '.join(plan.removed)}"))
        return WriteStatus(with_conditions(seen, plan.status), events)
    return RemoveTopics(plan.removals) if plan.removals else Wait(HEAL_SECONDS)


def _undo(seen: ObservedExperiment, left: Sequence[FaultStatus]) -> Step:
    """In a pod that is gone nothing is left. The rest is for the agents."""
    return over_with_pods(seen, (FaultState.INTENDED, FaultState.INJECTED)) or Recover(_agents(seen, left), settle=True)


def _agents(seen: ObservedExperiment, left: Sequence[FaultStatus]) -> list[Pod]:
    """The pods whose agents have something to undo. A fault of the whole cluster is everybody's."""
    everywhere = any(fault.broker is None for fault in left)
    return [
        pod
        for pod in seen.brokers.values()
        if (everywhere or any(record.may_be_in(fault, pod) for fault in left)) and has_agent(pod)
    ]


def settled(seen: ObservedExperiment, answers: Sequence[tuple[Pod, str]], *, all_answered: bool) -> WriteStatus | None:
    """What is over once these pods' agents have undone all there was, and where that fails; None when that changes nothing.

    With each pod: what went wrong, empty when nothing did. Where no agent answers, a fault is over when it has expired: then the
    agent, once it is started again, undoes it first of all.
    """
    answered = [pod for pod, wrong in answers if not wrong]

    def undone(fault: FaultStatus) -> bool:
        return all_answered if fault.broker is None else any(record.may_be_in(fault, pod) for pod in answered)

    status = record.recovered(seen.status, undone, "undone by the controller", seen.now)
    expired = [fault for fault in status.open_faults if _expired(seen, fault)]
    status = record.recovered(status, lambda fault: fault in expired, "it has expired", seen.now)
    status = record.recovery_failing(status, {pod.name: wrong for pod, wrong in answers if wrong}, seen.now)
    if status == seen.status:
        return None
    events = [*record.recoveries(seen.status, status), *_failures(seen.status, status)]
    return WriteStatus(with_conditions(seen, status), events)


def _failures(before: ExperimentStatus, after: ExperimentStatus) -> list[Emit]:
    """An Event when it fails in a pod in which it did not before."""
    was = {one.pod for one in before.recovery_failing or ()}
    if all(one.pod in was for one in after.recovery_failing or ()):
        return []
    judgement = after.healed()
    return [Emit(judgement.reason.value, judgement.message, warning=True)]


def has_agent(pod: Pod) -> bool:
    """Return whether the pod has the container by which faults are made and undone."""
    return any(container["name"] == AGENT_CONTAINER for container in pod.thing["spec"].get("containers") or ())


def _expired(seen: ObservedExperiment, fault: FaultStatus) -> bool:
    expires = seen.status.end_of(fault)
    return expires is None or seen.now > expires + timedelta(seconds=EXPIRY_MARGIN_SECONDS)


def _finish(seen: ObservedExperiment) -> Step:
    """The last word."""
    status, ending = seen.status, seen.status.ending
    phase = ending.phase if ending is not None and ending.phase.ended else Phase.ERROR
    message = "" if ending is None else ending.message
    status = status.but(phase=phase, ended_at=seen.now)
    if phase in (Phase.ABORTED, Phase.ERROR) and status.verdict not in (*JUDGED, phase.value):
        # None was told; or a runner was told to end, which it calls Aborted, whatever it was for.
        status = status.but(verdict=phase.value, summary=message)
    refused = None
    if phase is Phase.REFUSED:
        refused = Judgement(ChaosCondition.ACCEPTED, False, reason_of(ending), message)
    note = f"{phase.value}: {message}".strip(": ")
    return WriteStatus(
        with_conditions(seen, status, refused), [Emit(phase.value, note, warning=phase is not Phase.COMPLETED)]
    )
