"""What is to be done about an experiment now: one step at a time, from what was observed. No I/O.

Each step is one write or one act, and what it is about is written down before it is done; so whoever dies between two steps
leaves behind what the next look needs to go on. The order: finalizer, cluster (where the experiment brings one), Lease,
status Running, Job. At the end: status Healing (from then on no fault can begin), the Job is gone, faults are undone, topics
removed or own cluster gone, Lease free, last status, finalizer off.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from minikafka_operator.conditions import Judgement
from minikafka_operator.disruption import given_back, hold_of, taken
from minikafka_operator.names import Names
from minikafka_operator.observed import deleting

from minikafka_chaos.controller import record, reports, topics
from minikafka_chaos.controller.admission import Admitted, Refusal, Waiting, admit
from minikafka_chaos.controller.api import Phase
from minikafka_chaos.controller.conditions import accepted_message, created, differs, generation, time_allowed, told
from minikafka_chaos.controller.healing import HEAL_SECONDS, heal, release, remove_cluster
from minikafka_chaos.controller.jobs import Settings, finished, job, own_cluster, runs_claim
from minikafka_chaos.controller.kinds import (
    ABORT_ANNOTATION,
    EXPERIMENT,
    FORCE_ANNOTATION,
    Object,
    job_name,
)
from minikafka_chaos.controller.reasons import Happening, Reason, Type
from minikafka_chaos.controller.steps import (
    CreateCluster,
    CreateJob,
    Emit,
    Observed,
    Remove,
    SetFinalizer,
    Step,
    Wait,
    WriteLease,
    WriteStatus,
)

WAIT_SECONDS: Final = 5.0
"""While an experiment waits for something that may tell nobody when it comes."""
START_SECONDS: Final = 15.0
"""How long a Job's pod may take to begin before that is told."""
START_SECONDS_MAX: Final = 600.0
"""Then the experiment is given up: while it waits for a volume or an image, nobody else may take a broker of its cluster away."""
QUIET_SECONDS: Final = 15.0
"""For so long after it was made, what comes right by itself is not told."""
LEASE_MARGIN_SECONDS: Final = 2400
"""How long the disruption Lease holds beyond the experiment's deadline: what its faults may take to expire, and then some."""


# --- deciding ---------------------------------------------------------------------------------------------------------


def decide(o: Observed, settings: Settings) -> Step:
    """The next step."""
    if o.forced and o.finalized:
        return _let_go(o)
    phase = o.phase
    if phase is not None and phase.ended:
        return _after_the_end(o, settings)
    if phase is Phase.HEALING:
        return heal(o)
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
        return remove_cluster(o.former_cluster)
    return None


def _let_go(o: Observed) -> Step:
    """The force annotation: nothing is undone; what there is expires, and its Job goes with it."""
    if o.holds_lease:
        return release(o)
    left = record.fault_now(record.faults_of(o.status))
    note = f"let go by the annotation {FORCE_ANNOTATION}" + (f"; not undone, they expire: {left}" if left else "")
    if there := topics.open_topics(o.status):
        note += f"; topics that stay: {topics.names(there)}"
    return SetFinalizer(on=False, events=[Emit(Happening.FORCED, note, warning=True)])


def _after_the_end(o: Observed, settings: Settings) -> Step:
    if o.phase is Phase.REFUSED and not o.deleting and o.status.get("observedGeneration") != generation(o):
        return WriteStatus(told(o, {**o.status, "phase": Phase.PENDING.value, "endedAt": None}))
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
    found = reports.look(o.experiment, settings, o.report_job, o.report_pods)
    status = told(o, {**o.status, **found.fields}, found.judgement)
    if differs(status, o.status):
        return WriteStatus(status, [Emit(found.judgement.reason.value, found.judgement.message, found.warning)])
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
            if o.own_cluster is not None and o.now > created(o) + time_allowed(o):
                return _end(o, Phase.ERROR, Reason.DEADLINE_EXCEEDED, f"its own cluster is not ready: {message}")
            if answer.quiet and o.now < created(o) + timedelta(seconds=QUIET_SECONDS):
                return Wait(seconds)
            accepted = Judgement(Type.ACCEPTED, None, reason, message)
            status = told(o, {**o.status, "phase": Phase.PENDING.value, "cluster": answer.cluster}, accepted)
            if differs(status, o.status):
                return WriteStatus(status, [Emit(reason, message)])
            if answer.outdated and o.own_cluster is not None and not deleting(o.own_cluster):
                return remove_cluster(o.own_cluster)
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
        seconds = int(time_allowed(o).total_seconds()) + LEASE_MARGIN_SECONDS
        assert o.cluster is not None
        wish = taken(o.lease, names, o.cluster, o.identity, seconds, o.now)
        return WriteLease(wish, new=o.lease is None)
    status = {
        **o.status,
        "phase": Phase.RUNNING.value,
        "cluster": cluster,
        "startedAt": record.stamp(o.now),
        "deadline": record.stamp(o.now + time_allowed(o)),
        "job": job_name(o.name),
        "runsClaim": runs_claim(o.experiment, settings) or None,
    }
    accepted = Judgement(Type.ACCEPTED, True, Reason.ACCEPTED, f"it happens to cluster {cluster}")
    return WriteStatus(told(o, status, accepted), [Emit(Happening.STARTED, f"begins on cluster {cluster}")])


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
    status = told(o, o.status, Judgement(Type.ACCEPTED, True, Reason.ACCEPTED, says))
    return WriteStatus(status, events) if accepted_message(status) != accepted_message(o.status) else patience


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
            return WriteStatus(told(o, o.status, failed), [Emit(Reason.REPORT_FAILED, says, warning=True)])
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
    return WriteStatus(told(o, status, accepted), [Emit(reason, message, warning=True)])


def _end(o: Observed, phase: Phase, reason: Reason, why: str) -> Step:
    """From this write on no fault can begin: the ledger refuses them."""
    ending = {"phase": phase.value, "reason": reason.value, "message": why}
    status = {**o.status, "phase": Phase.HEALING.value, "ending": ending}
    warning = phase is not Phase.COMPLETED
    return WriteStatus(told(o, status), [Emit(reason, why, warning=warning)])


def _last_words(o: Observed) -> str:
    for pod in o.runner_pods:
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (container.get("state") or {}).get("terminated") or {}
            if ended.get("message"):
                return " ".join(str(ended["message"]).split())[-1000:]
            if ended.get("reason") not in (None, "Completed"):
                return f"the runner ended: {ended['reason']} (exit code {ended.get('exitCode')})"
    return ""
