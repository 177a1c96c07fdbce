"""What is to be done about an experiment now: one step at a time, from what was observed. No I/O.

Each step is one write or one act, and what it is about is written down before it is done; so whoever dies between two steps
leaves behind what the next look needs to go on. The order: finalizer, cluster (where the experiment brings one), Lease,
status Running, Job. At the end: status Healing (from then on no fault can begin), the Job is gone, faults are undone, topics
removed or own cluster gone, Lease free, last status, finalizer off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

from minikafka_operator.conditions import Judgement, written
from minikafka_operator.disruption import given_back, hold_of, taken
from minikafka_operator.experiments import identity
from minikafka_operator.freshness import Gap
from minikafka_operator.kinds import CLUSTER
from minikafka_operator.names import Names
from minikafka_operator.observed import PartitionState, Pod, deleting

from minikafka_chaos.controller import record, reports, topics
from minikafka_chaos.controller.admission import Admitted, Refusal, Waiting, admit
from minikafka_chaos.controller.api import FaultState, Phase
from minikafka_chaos.controller.jobs import GRACE_SECONDS, Settings, belongs, finished, job, own_cluster, runs_claim
from minikafka_chaos.controller.kinds import (
    ABORT_ANNOTATION,
    AGENT_CONTAINER,
    EXPERIMENT,
    FINALIZER,
    FORCE_ANNOTATION,
    JOB,
    Object,
    job_name,
)
from minikafka_chaos.controller.reasons import Happening, Reason, Type

WAIT_SECONDS: Final = 5.0
"""While an experiment waits for something that may tell nobody when it comes."""
HEAL_SECONDS: Final = 1.0
"""Between two looks while faults are being undone."""
RUNNER_SECONDS_MAX: Final = GRACE_SECONDS + 60.0
"""A runner that is still there so long after it was told to end is on a node that nobody reaches. It cannot begin any fault."""
START_SECONDS: Final = 15.0
"""How long a Job's pod may take to begin before that is told."""
START_SECONDS_MAX: Final = 600.0
"""Then the experiment is given up: while it waits for a volume or an image, nobody else may take a broker of its cluster away."""
QUIET_SECONDS: Final = 15.0
"""For so long after it was made, what comes right by itself is not told."""
EXPIRY_MARGIN_SECONDS: Final = 5.0
LEASE_MARGIN_SECONDS: Final = 2400
"""How long the disruption Lease holds beyond the experiment's deadline: what its faults may take to expire, and then some."""


# --- what is seen -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Observed:
    """One look at an experiment and all that it is about. ``cluster`` is the one it names, or its own."""

    experiment: Object
    now: datetime
    cluster: Object | None = None
    lease: Object | None = None
    job: Object | None = None
    runner_pods: Sequence[Object] = ()
    brokers: Mapping[int, Pod] = field(default_factory=dict)
    partitions: Sequence[PartitionState] = ()
    gap: Gap | None = None
    former_cluster: Object | None = None
    former_lease: Object | None = None
    """Both of the cluster that its status names, where the spec names another by now: it was edited before it had begun."""
    claim: Object | None = None
    """The claim that its run is to be kept on; looked at before it begins."""
    topics: topics.Seen | None = None
    """Looked at where the experiment has topics in the cluster that are still to be removed."""
    network: str = ""
    """Why the faults of the network that it has cannot be made; looked at before it begins."""
    report_job: Object | None = None
    report_pods: Sequence[Object] = ()
    """Both looked at where a report is still to come."""

    @property
    def name(self) -> str:
        return str(self.experiment["metadata"]["name"])

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.experiment.get("status") or {})

    @property
    def phase(self) -> Phase | None:
        told = self.status.get("phase")
        return Phase(told) if told else None

    @property
    def deleting(self) -> bool:
        return deleting(self.experiment)

    @property
    def finalized(self) -> bool:
        """Whether our finalizer is on it."""
        return FINALIZER in (self.experiment["metadata"].get("finalizers") or ())

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.experiment["metadata"].get("annotations") or {}

    @property
    def forced(self) -> bool:
        return self.deleting and self.annotations.get(FORCE_ANNOTATION) == "true"

    @property
    def identity(self) -> str:
        return identity(self.experiment)

    @property
    def holds_lease(self) -> bool:
        return hold_of(self.lease).holder == self.identity

    @property
    def runs(self) -> bool:
        """Whether a runner may still be at work."""
        return any(_alive(pod, self.now) for pod in self.runner_pods)

    def owns(self, thing: Object | None) -> bool:
        """Whether something was made for this very experiment, and not for one of its name, or by somebody else."""
        return thing is not None and belongs(thing, self.experiment)

    @property
    def own_job(self) -> Object | None:
        """The experiment's Job, as long as it is there. What only has its name is never touched."""
        return self.job if self.owns(self.job) else None

    @cached_property
    def own_cluster(self) -> Object | None:
        """The experiment's own cluster, as long as it is there."""
        return self.cluster if self.owns(self.cluster) else None


def _alive(pod: Object, now: datetime) -> bool:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    told = record.instant(pod["metadata"].get("deletionTimestamp"))
    return told is None or now < told + timedelta(seconds=RUNNER_SECONDS_MAX)


# --- what can be done -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Emit:
    """A Kubernetes Event about the experiment."""

    reason: str
    note: str
    warning: bool = False


@dataclass(frozen=True)
class SetFinalizer:
    """Put our finalizer on, or take it off."""

    on: bool
    events: Sequence[Emit] = ()


@dataclass(frozen=True)
class WriteStatus:
    """Replace the status, if the experiment is still as it was looked at."""

    status: Mapping[str, Any]
    events: Sequence[Emit] = ()


@dataclass(frozen=True)
class WriteLease:
    """Create or replace the disruption Lease, if it is still as it was looked at."""

    lease: Object
    new: bool


@dataclass(frozen=True)
class CreateCluster:
    """Make the experiment's own cluster."""

    thing: Object


@dataclass(frozen=True)
class CreateJob:
    """Make the Job."""

    thing: Object


@dataclass(frozen=True)
class Remove:
    """Delete something of the experiment, or the experiment itself."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class RemoveTopics:
    """Delete topics that the experiment has made, each as it was looked at."""

    removals: Sequence[topics.Removal]


@dataclass(frozen=True)
class Recover:
    """Have the agents of these pods undo every fault. ``settle``: then the faults in pods that answered are over."""

    pods: Sequence[Pod]
    settle: bool


@dataclass(frozen=True)
class Wait:
    """Nothing to be done now; look again after so many seconds at the latest (None: when something happens)."""

    seconds: float | None = None


Step = SetFinalizer | WriteStatus | WriteLease | CreateCluster | CreateJob | Remove | RemoveTopics | Recover | Wait


# --- deciding ---------------------------------------------------------------------------------------------------------


def decide(o: Observed, settings: Settings) -> Step:
    """The next step."""
    if o.forced and o.finalized:
        return _let_go(o)
    phase = o.phase
    if phase is not None and phase.ended:
        return _after_the_end(o, settings)
    if phase is Phase.HEALING:
        return _heal(o)
    if not o.finalized:
        return Wait() if o.deleting else SetFinalizer(on=True)
    if phase in (Phase.RUNNING, Phase.JUDGING):
        return _running(o, settings)
    return _leave_former(o) or _begin(o, settings)


def _leave_former(o: Observed) -> Step | None:
    """Nothing stays of the cluster that was meant before an edit; None when there is nothing."""
    if o.former_lease is not None and hold_of(o.former_lease).holder == o.identity:
        return WriteLease(given_back(o.former_lease), new=False)
    if o.former_cluster is not None and o.owns(o.former_cluster) and not deleting(o.former_cluster):
        return _remove_cluster(o.former_cluster)
    return None


def _let_go(o: Observed) -> Step:
    """The force annotation: nothing is undone; what there is expires, and its Job goes with it."""
    if o.holds_lease:
        return _release(o)
    left = record.fault_now(record.faults_of(o.status))
    note = f"let go by the annotation {FORCE_ANNOTATION}" + (f"; not undone, they expire: {left}" if left else "")
    if there := topics.open_topics(o.status):
        note += f"; topics that stay: {topics.names(there)}"
    return SetFinalizer(on=False, events=[Emit(Happening.FORCED, note, warning=True)])


def _after_the_end(o: Observed, settings: Settings) -> Step:
    if o.phase is Phase.REFUSED and not o.deleting and o.status.get("observedGeneration") != _generation(o):
        return WriteStatus(_told(o, {**o.status, "phase": Phase.PENDING.value, "endedAt": None}))
    if o.finalized:
        return SetFinalizer(on=False)
    if not o.deleting and reports.is_wanted(o.experiment, settings):
        return _report(o, settings)
    ttl = o.experiment["spec"].get("ttlSecondsAfterFinished")
    ended = record.instant(o.status.get("endedAt"))
    if ttl is None or ended is None or o.deleting:
        return Wait()
    left = (ended + timedelta(seconds=ttl) - o.now).total_seconds()
    return Wait(left) if left > 0 else Remove("ChaosExperiment", o.name, o.experiment["metadata"]["uid"])


def _report(o: Observed, settings: Settings) -> Step:
    """The report is still to come: what is known of it, then its Job, then wait for that."""
    told = reports.look(o.experiment, settings, o.report_job, o.report_pods)
    status = _told(o, {**o.status, **told.fields}, told.judgement)
    if _differs(status, o.status):
        return WriteStatus(status, [Emit(told.judgement.reason.value, told.judgement.message, told.warning)])
    if o.report_job is None and settings.report is not None:
        return CreateJob(reports.report_job(o.experiment, settings, settings.report))
    return Wait()


def _begin(o: Observed, settings: Settings) -> Step:
    if ending := _called_off(o):
        return _end(o, *ending)
    answer = admit(o.experiment, o.cluster, o.lease, o.partitions, o.gap, o.now, settings.prometheus_urls, o.network)
    if not isinstance(answer, Refusal):
        refusal = reports.claim_refusal(runs_claim(o.experiment, settings), o.claim)
        answer = answer if refusal is None else Refusal(*refusal)
    if isinstance(answer, Admitted) and o.job is not None:
        answer = _job_in_the_way(o.job)
    match answer:
        case Refusal(reason, message):
            return _refuse(o, reason, message)
        case Waiting(reason, message, seconds):
            if o.own_cluster is not None and o.now > _created(o) + _deadline(o):
                return _end(o, Phase.ERROR, Reason.DEADLINE_EXCEEDED, f"its own cluster is not ready: {message}")
            if answer.quiet and o.now < _created(o) + timedelta(seconds=QUIET_SECONDS):
                return Wait(seconds)
            accepted = Judgement(Type.ACCEPTED, None, reason, message)
            status = _told(o, {**o.status, "phase": Phase.PENDING.value, "cluster": answer.cluster}, accepted)
            if _differs(status, o.status):
                return WriteStatus(status, [Emit(reason, message)])
            if answer.outdated and o.own_cluster is not None and not deleting(o.own_cluster):
                return _remove_cluster(o.own_cluster)
            if answer.make is not None:
                return CreateCluster(own_cluster(o.experiment, answer.cluster, answer.make))
            return Wait(seconds)
        case Admitted(cluster):
            return _start(o, cluster, settings)


def _job_in_the_way(job: Object) -> Refusal | Waiting:
    """Before it has begun an experiment has no Job: there is one of somebody else, or of an earlier experiment of this name."""
    name = job["metadata"]["name"]
    if deleting(job) or any(one.get("kind") == EXPERIMENT.name for one in job["metadata"].get("ownerReferences") or ()):
        return Waiting(Reason.JOB_NOT_OURS, f"Job {name}, of an earlier experiment, has to go first", HEAL_SECONDS)
    return Refusal(Reason.JOB_NOT_OURS, f"there is a Job {name} that is not this experiment's; rename one of them")


def _start(o: Observed, cluster: str, settings: Settings) -> Step:
    names = Names(o.experiment["metadata"]["namespace"], cluster)
    if not o.holds_lease:
        seconds = int(_deadline(o).total_seconds()) + LEASE_MARGIN_SECONDS
        assert o.cluster is not None
        wish = taken(o.lease, names, o.cluster, o.identity, seconds, o.now)
        return WriteLease(wish, new=o.lease is None)
    status = {
        **o.status,
        "phase": Phase.RUNNING.value,
        "cluster": cluster,
        "startedAt": record.stamp(o.now),
        "deadline": record.stamp(o.now + _deadline(o)),
        "job": job_name(o.name),
        "runsClaim": runs_claim(o.experiment, settings) or None,
    }
    accepted = Judgement(Type.ACCEPTED, True, Reason.ACCEPTED, f"it happens to cluster {cluster}")
    return WriteStatus(_told(o, status, accepted), [Emit(Happening.STARTED, f"begins on cluster {cluster}")])


def _running(o: Observed, settings: Settings) -> Step:
    if ending := _called_off(o):
        return _end(o, *ending)
    deadline = record.instant(o.status.get("deadline")) or o.now
    if o.now >= deadline:
        return _end(o, Phase.ABORTED, Reason.DEADLINE_EXCEEDED, "it took longer than spec.activeDeadlineSeconds")
    if o.cluster is None:
        gone = f"cluster {o.status['cluster']} is gone"
        return _end_of_job(o, gone) if o.status.get("verdict") else _end(o, Phase.ERROR, Reason.CLUSTER_NOT_FOUND, gone)
    if o.own_job is None:
        if o.job is not None:
            return _end(o, Phase.ERROR, Reason.JOB_NOT_OURS, f"there is a Job {job_name(o.name)} that is not its own")
        if o.status.get("runner"):
            return _end(o, Phase.ERROR, Reason.RUNNER_FAILED, "its Job is gone")
        left = int((deadline - o.now).total_seconds()) + 1
        return CreateJob(job(o.experiment, str(o.status["cluster"]), left, settings))
    if how := finished(o.own_job):
        return _end_of_job(o, how)
    return _begun(o, o.own_job, deadline)


def _begun(o: Observed, job: Object, deadline: datetime) -> Step:
    """Whether its Job's pod has come to the story, told where it takes long: for the Lease is held meanwhile."""
    says = f"it happens to cluster {o.status['cluster']}"
    since = record.instant(job["metadata"].get("creationTimestamp")) or o.now
    patience = Wait((deadline - o.now).total_seconds())
    events = []
    if not o.status.get("runner"):
        waited = (o.now - since).total_seconds()
        why = _why_not_begun(o, job)
        if waited >= START_SECONDS_MAX:
            late = f"its Job has not begun within {START_SECONDS_MAX:g} s: {why}"
            return _end(o, Phase.ERROR, Reason.RUNNER_FAILED, late)
        if waited < START_SECONDS:
            return Wait(START_SECONDS - waited)
        says += f"; its Job has not begun: {why}"
        events.append(Emit(Happening.JOB_WAITS, says, warning=True))
        patience = Wait(WAIT_SECONDS)
    status = _told(o, o.status, Judgement(Type.ACCEPTED, True, Reason.ACCEPTED, says))
    return WriteStatus(status, events) if _accepted(status) != _accepted(o.status) else patience


def _accepted(status: Mapping[str, Any]) -> str:
    found = (one for one in status.get("conditions") or () if one["type"] == Type.ACCEPTED)
    return next((str(one.get("message") or "") for one in found), "")


def _why_not_begun(o: Observed, job: Object) -> str:
    """As the pod's status has it, for people."""
    for pod in o.runner_pods:
        name, status = pod["metadata"]["name"], pod.get("status") or {}
        for condition in status.get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] != "True":
                return f"pod {name}: {condition.get('message') or condition.get('reason') or 'not scheduled'}"
        for container in status.get("containerStatuses") or ():
            waits = (container.get("state") or {}).get("waiting") or {}
            if waits.get("reason"):
                return f"pod {name}: {waits['reason']}" + (f": {waits['message']}" if waits.get("message") else "")
        return f"pod {name} is {status.get('phase') or 'new'}"
    return f"it has no pod (kubectl describe job {job['metadata']['name']} says why)"


def not_created(o: Observed, step: Step, why: str) -> Step | None:
    """What follows when the API server refuses something that is to be made; None for whatever is to be tried again."""
    match step:
        case CreateCluster(thing):
            says = f"cluster {thing['metadata']['name']}, which is to be made for it, is refused: {why}"
            return _refuse(o, Reason.CREATION_REFUSED, says)
        case WriteLease(lease, new=True):
            return _refuse(o, Reason.CREATION_REFUSED, f"Lease {lease['metadata']['name']} is refused: {why}")
        case CreateJob(thing) if o.phase is Phase.COMPLETED:
            says = f"Job {thing['metadata']['name']} is refused: {why}"
            failed = Judgement(Type.REPORTED, False, Reason.REPORT_FAILED, says)
            return WriteStatus(_told(o, o.status, failed), [Emit(Reason.REPORT_FAILED, says, warning=True)])
        case CreateJob(thing):
            return _end(o, Phase.ERROR, Reason.CREATION_REFUSED, f"Job {thing['metadata']['name']} is refused: {why}")
    return None


def _end_of_job(o: Observed, how: str) -> Step:
    verdict = o.status.get("verdict")
    if verdict in ("Passed", "Failed", "Inconclusive"):
        return _end(o, Phase.COMPLETED, Reason.VERDICT, f"{verdict}: {o.status.get('summary') or ''}".strip(": "))
    if verdict == "Aborted":
        return _end(o, Phase.ABORTED, Reason.ABORTED, str(o.status.get("summary") or "the run was interrupted"))
    if verdict:
        return _end(o, Phase.ERROR, Reason.RUNNER_FAILED, str(o.status.get("summary") or "the run came to no verdict"))
    return _end(o, Phase.ERROR, Reason.RUNNER_FAILED, _last_words(o) or f"the Job ended without a verdict: {how}")


def _called_off(o: Observed) -> tuple[Phase, Reason, str] | None:
    if o.deleting:
        return Phase.ABORTED, Reason.DELETED, "the experiment is being deleted"
    if ABORT_ANNOTATION in o.annotations:
        return Phase.ABORTED, Reason.ABORTED, f"somebody set the annotation {ABORT_ANNOTATION}"
    return None


def _refuse(o: Observed, reason: Reason, message: str) -> Step:
    """Nothing was touched, unless a Lease was taken or a cluster made before; then these go first."""
    if o.own_cluster is not None or o.holds_lease:
        return _end(o, Phase.REFUSED, reason, message)
    status = {**o.status, "phase": Phase.REFUSED.value, "endedAt": record.stamp(o.now)}
    accepted = Judgement(Type.ACCEPTED, False, reason, message)
    return WriteStatus(_told(o, status, accepted), [Emit(reason, message, warning=True)])


def _end(o: Observed, phase: Phase, reason: Reason, why: str) -> Step:
    """From this write on no fault can begin: the ledger refuses them."""
    ending = {"phase": phase.value, "reason": reason.value, "message": why}
    status = {**o.status, "phase": Phase.HEALING.value, "ending": ending}
    warning = phase is not Phase.COMPLETED
    return WriteStatus(_told(o, status), [Emit(reason, why, warning=warning)])


# --- healing ----------------------------------------------------------------------------------------------------------


def _heal(o: Observed) -> Step:
    job = o.own_job
    if job is not None and not finished(job) and not deleting(job):
        return Remove(JOB.name, job["metadata"]["name"], job["metadata"]["uid"])
    left = record.open_faults(o.status)
    if o.runs:
        # At once, for seconds count; and again when the runner is gone, for it may have been in the middle of one.
        return Recover(_agents(o, left), settle=False) if left else Wait(HEAL_SECONDS)
    if left:
        return _undo(o, left)
    if topics.open_topics(o.status):
        return _remove_topics(o)
    if o.own_cluster is not None and not deleting(o.own_cluster):
        return _remove_cluster(o.own_cluster)
    if o.holds_lease:
        return _release(o)
    return _last_word(o)


def _remove_cluster(cluster: Object) -> Step:
    return Remove(CLUSTER.name, cluster["metadata"]["name"], cluster["metadata"]["uid"])


def _remove_topics(o: Observed) -> Step:
    """No runner is left that could make any; so what is written down is all there can be."""
    assert o.topics is not None
    plan = topics.look(o.experiment, o.topics, o.now)
    if plan.status.get("topics") != o.status.get("topics"):
        events = [Emit(Happening.TOPIC_LEFT, line, warning=True) for line in plan.left]
        if plan.removed:
            events.insert(0, Emit(Happening.TOPICS_REMOVED, f"topics of the experiment: {', '.join(plan.removed)}"))
        return WriteStatus(_told(o, plan.status), events)
    return RemoveTopics(plan.removals) if plan.removals else Wait(HEAL_SECONDS)


def _undo(o: Observed, left: Sequence[Mapping[str, Any]]) -> Step:
    """In a pod that is gone nothing is left. The rest is for the agents."""
    pods = list(o.brokers.values())

    def gone(fault: Mapping[str, Any]) -> bool:
        return "podUid" in fault and not any(_may_be_in(fault, pod) for pod in pods)

    if any(gone(fault) for fault in left):
        status = record.recovered(o.status, gone, "its pod is gone", o.now)
        return WriteStatus(_told(o, status), recovery_events(o.status, status))
    return Recover(_agents(o, left), settle=True)


def _agents(o: Observed, left: Sequence[Mapping[str, Any]]) -> list[Pod]:
    """The pods whose agents have something to undo. A fault of the whole cluster is everybody's."""
    everywhere = any("broker" not in fault for fault in left)
    return [
        pod
        for pod in o.brokers.values()
        if (everywhere or any(_may_be_in(fault, pod) for fault in left)) and has_agent(pod)
    ]


def _may_be_in(fault: Mapping[str, Any], pod: Pod) -> bool:
    """An agent is asked by the name of its pod. So one that is only intended may have been made in the next pod of that name."""
    intended = fault.get("state") == FaultState.INTENDED and fault.get("pod") == pod.name
    return bool(intended or fault.get("podUid") == pod.uid)


def settled(o: Observed, answered: Sequence[Pod], *, all_answered: bool) -> WriteStatus | None:
    """What is over once these pods' agents have undone all there was; None when that changes nothing.

    Where no agent answers, a fault is over when it has expired: then the agent, once it is started again, undoes it first of all.
    """

    def undone(fault: Mapping[str, Any]) -> bool:
        return any(_may_be_in(fault, pod) for pod in answered) if "broker" in fault else all_answered

    status = record.recovered(o.status, undone, "undone by the controller", o.now)
    status = record.recovered(status, lambda fault: _expired(fault, o.now), "it has expired", o.now)
    if not _differs(status, o.status):
        return None
    return WriteStatus(_told(o, status), recovery_events(o.status, status))


def has_agent(pod: Pod) -> bool:
    """Whether the pod has the container by which faults are made and undone."""
    return any(container["name"] == AGENT_CONTAINER for container in pod.thing["spec"].get("containers") or ())


def _expired(fault: Mapping[str, Any], now: datetime) -> bool:
    expires = record.instant(fault.get("expiresAt"))
    return expires is None or now > expires + timedelta(seconds=EXPIRY_MARGIN_SECONDS)


def _release(o: Observed) -> Step:
    assert o.lease is not None
    return WriteLease(given_back(o.lease), new=False)


def _last_word(o: Observed) -> Step:
    ending = o.status.get("ending") or {}
    phase = Phase(ending.get("phase") or Phase.ERROR)
    status = {**o.status, "phase": phase.value, "endedAt": record.stamp(o.now)}
    if phase in (Phase.ABORTED, Phase.ERROR) and not status.get("verdict"):
        status["verdict"] = "Aborted" if phase is Phase.ABORTED else "Error"
        status.setdefault("summary", ending.get("message") or "")
    note = f"{phase.value}: {ending.get('message') or ''}".strip(": ")
    accepted = None
    if phase is Phase.REFUSED:
        accepted = Judgement(Type.ACCEPTED, False, _reason(ending), str(ending.get("message") or ""))
    return WriteStatus(_told(o, status, accepted), [Emit(phase.value, note, warning=phase is not Phase.COMPLETED)])


def _reason(ending: Mapping[str, Any]) -> Reason:
    """Why it ends; of one that only somebody else can have written down: that no run has come to a verdict."""
    told = str(ending.get("reason") or "")
    return Reason(told) if told in {each.value for each in Reason} else Reason.RUNNER_FAILED


# --- telling ----------------------------------------------------------------------------------------------------------


def _told(o: Observed, status: Mapping[str, Any], accepted: Judgement | None = None) -> dict[str, Any]:
    """The status with its conditions and all that follows from the rest of it."""
    before = o.status.get("conditions") or []
    phase = Phase(status["phase"])
    ending = status.get("ending") or {}
    judgements = [*([accepted] if accepted is not None else []), record.healed(status)]
    if phase is Phase.REFUSED:
        judgements.append(Judgement(Type.COMPLETE, True, Reason.REFUSED, "nothing was touched"))
    elif phase.ended:
        judgements.append(Judgement(Type.COMPLETE, True, _reason(ending), str(ending.get("message") or "")))
    else:
        judgements.append(Judgement(Type.COMPLETE, False, Reason.GOING_ON, f"its phase is {phase.value}"))
    made = written(judgements, before, _generation(o), o.now)
    told = {condition["type"] for condition in made}
    kept = [dict(condition) for condition in before if condition["type"] not in told]
    order = [one.value for one in Type]
    conditions = sorted([*made, *kept], key=lambda condition: order.index(condition["type"]))
    changed = {**status, "conditions": conditions, "observedGeneration": _generation(o)}
    return {name: value for name, value in changed.items() if value is not None}


def recovery_events(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Emit]:
    """An Event for each fault that is over now and was not before."""
    was = {(fault["id"], fault.get("broker")): fault["state"] for fault in record.faults_of(before)}
    return [
        Emit(
            Happening.FAULT_RECOVERED,
            f"{record.fault_now([{**fault, 'state': 'was'}])} ({fault['step']}): {fault['detail']}",
        )
        for fault in record.faults_of(after)
        if fault["state"] == FaultState.RECOVERED
        and was.get((fault["id"], fault.get("broker"))) != FaultState.RECOVERED
    ]


def _differs(status: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Apart from what is told for the first time only because it was looked at."""
    return {k: v for k, v in status.items() if k != "faultsMade"} != {
        k: v for k, v in before.items() if k != "faultsMade"
    }


def _last_words(o: Observed) -> str:
    for pod in o.runner_pods:
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (container.get("state") or {}).get("terminated") or {}
            if ended.get("message"):
                return " ".join(str(ended["message"]).split())[-1000:]
            if ended.get("reason") not in (None, "Completed"):
                return f"the runner ended: {ended['reason']} (exit code {ended.get('exitCode')})"
    return ""


def _generation(o: Observed) -> int:
    return int(o.experiment["metadata"].get("generation") or 0)


def _created(o: Observed) -> datetime:
    return record.instant(o.experiment["metadata"].get("creationTimestamp")) or o.now


def _deadline(o: Observed) -> timedelta:
    return timedelta(seconds=int(o.experiment["spec"].get("activeDeadlineSeconds") or 3600))
