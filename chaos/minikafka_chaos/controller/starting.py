"""Whether what an experiment needs comes about: its own cluster, the Lease, its Job and the Job's pod, the report's Job. No I/O.

What the API server refuses (a quota, a policy, an admission webhook that says no) is the end. What it cannot make now (an
admission webhook that does not answer) is tried again, told where it takes long, and given up: for the Lease is held meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from minikafka_kube.conditions import Judgement, condition
from minikafka_kube.events import Emit
from minikafka_kube.instants import instant

from minikafka_chaos.controller.api import Phase
from minikafka_chaos.controller.conditions import created, message_of, time_allowed, with_conditions
from minikafka_chaos.controller.healing import end, refuse
from minikafka_chaos.controller.kinds import Object
from minikafka_chaos.controller.reasons import ChaosCondition, ChaosReason, Happening
from minikafka_chaos.controller.steps import (
    CreateCluster,
    CreateJob,
    ObservedExperiment,
    Step,
    Wait,
    WriteLease,
    WriteStatus,
)

WAIT_SECONDS: Final = 5.0
"""While an experiment waits for something that may tell nobody when it comes."""
START_SECONDS: Final = 15.0
"""How long a Job may take to be made, and its pod to begin, before that is told."""
START_SECONDS_MAX: Final = 600.0
"""Then the experiment is given up: while it waits for a volume or an image, nobody else may take a broker of its cluster away."""

NOT_MADE: Final = " cannot be made now: "
"""Between what is lacking, and the API server's words."""
_WHY_MAX: Final = 1000


# --- made, and not begun ----------------------------------------------------------------------------------------------


def begun(o: ObservedExperiment, job: Object, patience_seconds: float) -> Step:
    """Whether its Job's pod has come to the story, told where it takes long. Once it has: look after ``patience_seconds``."""
    says = happens_to(str(o.status["cluster"]))
    since = instant(job["metadata"].get("creationTimestamp")) or o.now
    patience = Wait(patience_seconds)
    events = []
    if not o.status.get("runner"):
        waited = (o.now - since).total_seconds()
        why = _why_not_begun(o, job)
        if waited >= START_SECONDS_MAX:
            late = f"its Job has not begun within {START_SECONDS_MAX:g} s: {why}"
            return end(o, Phase.ERROR, ChaosReason.RUNNER_FAILED, late)
        if waited < START_SECONDS:
            return Wait(START_SECONDS - waited)
        says += f"; its Job has not begun: {why}"
        events.append(Emit(Happening.JOB_WAITS, says, warning=True))
        patience = Wait(WAIT_SECONDS)
    status = with_conditions(o, o.status, Judgement(ChaosCondition.ACCEPTED, True, ChaosReason.ACCEPTED, says))
    return WriteStatus(status, events) if says != message_of(o.status, ChaosCondition.ACCEPTED) else patience


def happens_to(cluster: str) -> str:
    """Return what the condition Accepted says of one that has begun."""
    return f"it happens to cluster {cluster}"


def _why_not_begun(o: ObservedExperiment, job: Object) -> str:
    """As the pod's status has it, for people."""
    for pod in o.runner_pods:
        name, status = pod["metadata"]["name"], pod.get("status") or {}
        for each in status.get("conditions") or ():
            if each["type"] == "PodScheduled" and each["status"] != "True":
                return f"pod {name}: {each.get('message') or each.get('reason') or 'not scheduled'}"
        for container in status.get("containerStatuses") or ():
            waits = (container.get("state") or {}).get("waiting") or {}
            if waits.get("reason"):
                return f"pod {name}: {waits['reason']}" + (f": {waits['message']}" if waits.get("message") else "")
        phase = status.get("phase") or "new"
        return f"pod {name} runs, and has told nothing yet" if phase == "Running" else f"pod {name} is {phase}"
    return f"it has no pod (kubectl describe job {job['metadata']['name']} says why)"


# --- refused ----------------------------------------------------------------------------------------------------------


def refused(o: ObservedExperiment, step: Step, why: str) -> Step | None:
    """Return what follows when the API server refuses something that is to be made; None for whatever is to be tried again."""
    match step:
        case CreateCluster(thing):
            says = f"cluster {thing['metadata']['name']}, which is to be made for it, is refused: {why}"
            return refuse(o, ChaosReason.CREATION_REFUSED, says)
        case WriteLease(lease) if o.phase is Phase.RUNNING:
            says = f"Lease {lease['metadata']['name']} is gone, and refused when it is to be taken again: {why}"
            return end(o, Phase.ERROR, ChaosReason.LEASE_LOST, says)
        case WriteLease(lease, new=True):
            return refuse(o, ChaosReason.CREATION_REFUSED, f"Lease {lease['metadata']['name']} is refused: {why}")
        case CreateJob(thing) if o.phase is Phase.COMPLETED:
            return _no_report(o, f"Job {thing['metadata']['name']} is refused: {why}")
        case CreateJob(thing):
            return end(
                o, Phase.ERROR, ChaosReason.CREATION_REFUSED, f"Job {thing['metadata']['name']} is refused: {why}"
            )
    return None


def _no_report(o: ObservedExperiment, says: str) -> WriteStatus:
    failed = Judgement(ChaosCondition.REPORTED, False, ChaosReason.REPORT_FAILED, says)
    return WriteStatus(with_conditions(o, o.status, failed), [Emit(ChaosReason.REPORT_FAILED, says, warning=True)])


# --- not now ----------------------------------------------------------------------------------------------------------


def not_now(o: ObservedExperiment, step: Step, why: str) -> Step | None:
    """Return what follows when something could not be made now: told, once it takes long, and in the end given up.

    None for what is not told: it has not taken long yet, or is nothing that is made.
    """
    why = " ".join(why.split())[:_WHY_MAX]
    match step:
        case CreateCluster(thing):
            # That it is not there yet was written down before, and there it is given up.
            lacks = _Lacks(
                ChaosCondition.ACCEPTED, None, ChaosReason.WAITING_FOR_CLUSTER, f"cluster {thing['metadata']['name']}"
            )
            return lacks.step(o, _since(o, ChaosCondition.ACCEPTED), why)
        case WriteLease(lease) if o.phase in (None, Phase.PENDING):
            name = f"Lease {lease['metadata']['name']}"
            lacks = _Lacks(ChaosCondition.ACCEPTED, None, ChaosReason.WAITING_FOR_LEASE, name, "it may begin")
            return given_up(o, f"{name}{NOT_MADE}{why}") or lacks.step(o, _since(o, ChaosCondition.ACCEPTED), why)
        case WriteLease(lease) if o.phase is Phase.RUNNING:  # it had it, and somebody deleted it
            base, name = happens_to(str(o.status["cluster"])), f"Lease {lease['metadata']['name']}"
            lacks = _Lacks(
                ChaosCondition.ACCEPTED, True, ChaosReason.ACCEPTED, name, base, ChaosReason.WAITING_FOR_LEASE
            )
            return lacks.step(o, instant(o.status.get("startedAt")) or o.now, why)
        case CreateJob(thing) if o.phase is Phase.COMPLETED:
            since, name = _since(o, ChaosCondition.REPORTED), f"Job {thing['metadata']['name']}"
            if o.now >= since + timedelta(seconds=START_SECONDS_MAX):
                return _no_report(o, f"{name} could not be made within {START_SECONDS_MAX:g} s: {why}")
            return _Lacks(ChaosCondition.REPORTED, None, ChaosReason.REPORT_GOING_ON, name).step(o, since, why)
        case CreateJob(thing):
            since, name = instant(o.status.get("startedAt")) or o.now, f"Job {thing['metadata']['name']}"
            if o.now >= since + timedelta(seconds=START_SECONDS_MAX):
                late = f"{name} could not be made within {START_SECONDS_MAX:g} s: {why}"
                return end(o, Phase.ERROR, ChaosReason.CREATION_REFUSED, late)
            base = happens_to(str(o.status["cluster"]))
            return _Lacks(ChaosCondition.ACCEPTED, True, ChaosReason.ACCEPTED, name, base, Happening.JOB_WAITS).step(
                o, since, why
            )
    return None


@dataclass(frozen=True)
class _Lacks:
    """What cannot be made now, and the condition that says so: after ``base``, or after what it says in any case."""

    type: ChaosCondition
    holds: bool | None
    reason: ChaosReason
    thing: str
    base: str = ""
    event: Happening | ChaosReason | None = None

    def step(self, o: ObservedExperiment, since: datetime, why: str) -> Step | None:
        """In the condition with the latest words, in an Event once."""
        if o.now < since + timedelta(seconds=START_SECONDS):
            return None
        before, lacking = message_of(o.status, self.type), f"; {self.thing}{NOT_MADE}"
        says = (self.base or before.partition(lacking)[0]) + lacking + why
        if says == before:
            return Wait(WAIT_SECONDS)
        status = {**o.status, "phase": (o.phase or Phase.PENDING).value}
        new = [] if lacking in before else [Emit(self.event or self.reason, says, warning=True)]
        return WriteStatus(with_conditions(o, status, Judgement(self.type, self.holds, self.reason, says)), new)


def still(o: ObservedExperiment, judgement: Judgement) -> Judgement:
    """The same, with what the condition says already of why it cannot be made: else each try would write it anew."""
    before = message_of(o.status, judgement.type)
    fails = before.startswith(f"{judgement.message}; ") and NOT_MADE in before
    return replace(judgement, message=before) if fails else judgement


def given_up(o: ObservedExperiment, waits_for: str) -> Step | None:
    """One that waits to begin ends after its deadline, too: a schedule would make no other one meanwhile. None: not yet.

    The time runs from when it was told that it waits, for no controller may have looked at it before.
    """
    if condition(o.status, ChaosCondition.ACCEPTED).get("status") != "Unknown" or o.now <= _since(
        o, ChaosCondition.ACCEPTED
    ) + time_allowed(o):
        return None
    says = f"it has not begun within spec.activeDeadlineSeconds: {waits_for}"
    return end(o, Phase.ERROR, ChaosReason.DEADLINE_EXCEEDED, says)


def _since(o: ObservedExperiment, kind: ChaosCondition) -> datetime:
    found = condition(o.status, kind)
    if found.get("status") == "Unknown":
        return instant(found.get("lastTransitionTime")) or o.now
    return o.now if found else created(o)
