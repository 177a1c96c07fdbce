"""How an experiment ends: its Job, what is on, its topics or its own cluster, the Lease, the last word; in this order. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from minikafka_kube.conditions import Judgement
from minikafka_kube.disruption_lease import given_back
from minikafka_kube.events import Emit
from minikafka_kube.instants import instant, time_text
from minikafka_kube.kinds import CLUSTER
from minikafka_kube.observed import Pod, deleting

from minikafka_chaos.controller import record, returning, topics
from minikafka_chaos.controller.api import FaultState, Phase
from minikafka_chaos.controller.conditions import differs, reason_of, recovery_events, with_conditions
from minikafka_chaos.controller.jobs import finished
from minikafka_chaos.controller.kinds import AGENT_CONTAINER, JOB, Object
from minikafka_chaos.controller.reasons import ChaosCondition, ChaosReason, Happening
from minikafka_chaos.controller.steps import (
    ObservedExperiment,
    Recover,
    Remove,
    RemoveTopics,
    Step,
    Wait,
    WriteLease,
    WriteStatus,
)

JUDGED: Final = frozenset(("Passed", "Failed", "Inconclusive"))
"""Verdicts on what became of the records; they stand, however the experiment ends."""
HEAL_SECONDS: Final = 1.0
"""Between two looks while faults are being undone."""
EXPIRY_MARGIN_SECONDS: Final = 5.0


def refuse(o: ObservedExperiment, reason: ChaosReason, message: str) -> Step:
    """Nothing was touched, unless a Lease was taken or a cluster made before; then these go first."""
    if o.own_cluster is not None or o.holds_lease:
        return end(o, Phase.REFUSED, reason, message)
    status = {**o.status, "phase": Phase.REFUSED.value, "endedAt": time_text(o.now)}
    accepted = Judgement(ChaosCondition.ACCEPTED, False, reason, message)
    return WriteStatus(with_conditions(o, status, accepted), [Emit(reason, message, warning=True)])


def end(o: ObservedExperiment, phase: Phase, reason: ChaosReason, why: str) -> Step:
    """From this write on no fault can begin: the ledger refuses them."""
    ending = {"phase": phase.value, "reason": reason.value, "message": why}
    status = {**o.status, "phase": Phase.HEALING.value, "ending": ending}
    warning = phase is not Phase.COMPLETED
    return WriteStatus(with_conditions(o, status), [Emit(reason, why, warning=warning)])


def heal(o: ObservedExperiment) -> Step:
    job = o.own_job
    if job is not None and not finished(job) and not deleting(job):
        return Remove(JOB.name, job["metadata"]["name"], job["metadata"]["uid"])
    left = record.open_faults(o.status)
    if o.runs:
        # At once, for seconds count; and again when the runner is gone, for it may have been in the middle of one.
        return Recover(_agents(o, left), settle=False) if left else Wait(HEAL_SECONDS)
    if left:
        return _undo(o, left)
    if (o.lease is None or o.holds_lease) and (waiting := _wait_for_brokers(o)):
        return waiting
    if topics.open_topics(o.status):
        return _remove_topics(o)
    if o.own_cluster is not None and not deleting(o.own_cluster):
        return remove_cluster(o.own_cluster)
    if o.holds_lease:
        return release(o)
    return _last_word(o)


def _wait_for_brokers(o: ObservedExperiment) -> Step | None:
    """Nobody else gets the turn before the brokers that it took are ready again, or it is said that they are not."""
    found = returning.missing(o, o.status)
    status = with_conditions(o, o.status)
    if differs(status, o.status):
        late = returning.described([each for each in found if each.late])
        return WriteStatus(status, [Emit(ChaosReason.BROKERS_NOT_READY, late, warning=True)] if late else [])
    return Wait(HEAL_SECONDS) if any(not each.late for each in found) else None


def remove_cluster(cluster: Object) -> Step:
    return Remove(CLUSTER.name, cluster["metadata"]["name"], cluster["metadata"]["uid"])


def _remove_topics(o: ObservedExperiment) -> Step:
    """No runner is left that could make any; so what is written down is all there can be."""
    assert o.topics is not None
    plan = topics.look(o.experiment, o.topics, o.now)
    if plan.status.get("topics") != o.status.get("topics"):
        events = [Emit(Happening.TOPIC_LEFT, line, warning=True) for line in plan.left]
        if plan.removed:
            events.insert(0, Emit(Happening.TOPICS_REMOVED, f"topics of the experiment: {', '.join(plan.removed)}"))
        return WriteStatus(with_conditions(o, plan.status), events)
    return RemoveTopics(plan.removals) if plan.removals else Wait(HEAL_SECONDS)


def _undo(o: ObservedExperiment, left: Sequence[Mapping[str, Any]]) -> Step:
    """In a pod that is gone nothing is left. The rest is for the agents."""
    return gone_with_pods(o, (FaultState.INTENDED, FaultState.INJECTED)) or Recover(_agents(o, left), settle=True)


def gone_with_pods(o: ObservedExperiment, states: Collection[FaultState]) -> WriteStatus | None:
    """The faults in these states whose pods are gone are over; None when there are none.

    While a runner is at work only those that were made: of one that is Intended it looks for the pod anew.
    """
    pods = list(o.brokers.values())

    def gone(fault: Mapping[str, Any]) -> bool:
        known = "podUid" in fault and fault["state"] in states
        return known and not any(record.may_be_in(fault, pod) for pod in pods)

    if not any(gone(fault) for fault in record.faults_of(o.status)):
        return None
    status = record.recovered(o.status, gone, "its pod is gone", o.now)
    return WriteStatus(with_conditions(o, status), recovery_events(o.status, status))


def _agents(o: ObservedExperiment, left: Sequence[Mapping[str, Any]]) -> list[Pod]:
    """The pods whose agents have something to undo. A fault of the whole cluster is everybody's."""
    everywhere = any("broker" not in fault for fault in left)
    return [
        pod
        for pod in o.brokers.values()
        if (everywhere or any(record.may_be_in(fault, pod) for fault in left)) and has_agent(pod)
    ]


def settled(o: ObservedExperiment, answers: Sequence[tuple[Pod, str]], *, all_answered: bool) -> WriteStatus | None:
    """What is over once these pods' agents have undone all there was, and where that fails; None when that changes nothing.

    With each pod: what went wrong, empty when nothing did. Where no agent answers, a fault is over when it has expired: then the
    agent, once it is started again, undoes it first of all.
    """
    answered = [pod for pod, wrong in answers if not wrong]

    def undone(fault: Mapping[str, Any]) -> bool:
        return any(record.may_be_in(fault, pod) for pod in answered) if "broker" in fault else all_answered

    status = record.recovered(o.status, undone, "undone by the controller", o.now)
    status = record.recovered(status, lambda fault: _expired(fault, o.now), "it has expired", o.now)
    status = record.recovery_failing(status, {pod.name: wrong for pod, wrong in answers if wrong}, o.now)
    if not differs(status, o.status):
        return None
    return WriteStatus(with_conditions(o, status), [*recovery_events(o.status, status), *_failures(o.status, status)])


def _failures(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Emit]:
    """An Event when it fails in a pod in which it did not before."""
    was = {one["pod"] for one in before.get("recoveryFailing") or ()}
    if all(one["pod"] in was for one in after.get("recoveryFailing") or ()):
        return []
    judgement = record.healed(after)
    return [Emit(judgement.reason.value, judgement.message, warning=True)]


def has_agent(pod: Pod) -> bool:
    """Return whether the pod has the container by which faults are made and undone."""
    return any(container["name"] == AGENT_CONTAINER for container in pod.thing["spec"].get("containers") or ())


def _expired(fault: Mapping[str, Any], now: datetime) -> bool:
    expires = instant(fault.get("expiresAt"))
    return expires is None or now > expires + timedelta(seconds=EXPIRY_MARGIN_SECONDS)


def release(o: ObservedExperiment) -> Step:
    assert o.lease is not None
    return WriteLease(given_back(o.lease), new=False)


def _last_word(o: ObservedExperiment) -> Step:
    ending = o.status.get("ending") or {}
    phase = Phase(ending.get("phase") or Phase.ERROR)
    status = {**o.status, "phase": phase.value, "endedAt": time_text(o.now)}
    if phase in (Phase.ABORTED, Phase.ERROR) and status.get("verdict") not in (*JUDGED, phase.value):
        # None was told; or a runner was told to end, which it calls Aborted, whatever it was for.
        status |= {"verdict": phase.value, "summary": str(ending.get("message") or "")}
    note = f"{phase.value}: {ending.get('message') or ''}".strip(": ")
    accepted = None
    if phase is Phase.REFUSED:
        accepted = Judgement(ChaosCondition.ACCEPTED, False, reason_of(ending), str(ending.get("message") or ""))
    return WriteStatus(
        with_conditions(o, status, accepted), [Emit(phase.value, note, warning=phase is not Phase.COMPLETED)]
    )
