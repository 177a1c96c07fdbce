"""What is to be done about an experiment now: one step at a time, from what was observed. No I/O.

Each step is one write or one act, and what it is about is written down before it is done; so whoever dies between two steps
leaves behind what the next look needs to go on. The order: finalizer, cluster (where the experiment brings one), Lease,
status Running, Job. At the end: status Healing (from then on no fault can begin), the Job is gone, faults are undone, topics
removed or own cluster gone, Lease free, last status, finalizer off.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from minikafka_kube.conditions import Judgement
from minikafka_kube.disruption_lease import given_back, hold_of, taken
from minikafka_kube.events import Emit
from minikafka_kube.instants import instant, time_text
from minikafka_kube.names import Names
from minikafka_kube.observed import deleting

from minikafka_chaos.controller import record, reports, topics
from minikafka_chaos.controller.admission import Admitted, Postponed, Refusal, admit
from minikafka_chaos.controller.annotations import asks, unread
from minikafka_chaos.controller.api import FaultState, Phase
from minikafka_chaos.controller.conditions import created, differs, generation, time_allowed, unread_of, with_conditions
from minikafka_chaos.controller.healing import (
    HEAL_SECONDS,
    JUDGED,
    end,
    gone_with_pods,
    heal,
    refuse,
    release,
    remove_cluster,
)
from minikafka_chaos.controller.jobs import JobSettings, finished, job, own_cluster, runs_claim
from minikafka_chaos.controller.kinds import (
    ABORT_ANNOTATION,
    EXPERIMENT,
    FORCE_ANNOTATION,
    Object,
    job_name,
)
from minikafka_chaos.controller.reasons import ChaosCondition, ChaosReason, Happening
from minikafka_chaos.controller.starting import begun, given_up, happens_to, still
from minikafka_chaos.controller.steps import (
    CreateCluster,
    CreateJob,
    ObservedExperiment,
    Remove,
    SetFinalizer,
    Step,
    Wait,
    WriteLease,
    WriteStatus,
)
from minikafka_chaos.network.permission import allows_chaos

QUIET_SECONDS: Final = 15.0
"""For so long after it was made, what comes right by itself is not told."""
LOOK_SECONDS: Final = 10.0
"""While faults may be on: a broker's pod that goes, and a Lease that is deleted, wake nobody."""
LEASE_MARGIN_SECONDS: Final = 2400
"""How long the disruption Lease holds beyond the experiment's deadline: what its faults may take to expire, and then some."""


# --- deciding ---------------------------------------------------------------------------------------------------------


def decide(o: ObservedExperiment, settings: JobSettings) -> Step:
    """The next step."""
    if o.forced and o.finalized:
        return _let_go(o)
    phase = o.phase
    if phase is not None and phase.ended:
        return _after_the_end(o, settings)
    if phase is not None and unread(o.experiment) != unread_of(o.status):
        return _report_annotations(o)
    if phase is Phase.HEALING:
        return heal(o)
    if not o.finalized:
        return Wait() if o.deleting else SetFinalizer(on=True)
    if phase in (Phase.RUNNING, Phase.JUDGING):
        return _running(o, settings)
    return _leave_former(o) or _begin(o, settings)


def _report_annotations(o: ObservedExperiment) -> Step:
    """Return what somebody asked for in words that are not understood, or no longer does."""
    says = unread(o.experiment)
    events = [Emit(Happening.ANNOTATION_UNREAD, says, warning=True)] if says else []
    return WriteStatus(with_conditions(o, o.status, annotations=says), events)


def _leave_former(o: ObservedExperiment) -> Step | None:
    """Nothing stays of the cluster that was meant before an edit; None when there is nothing."""
    if o.former_lease is not None and hold_of(o.former_lease).holder == o.identity:
        return WriteLease(given_back(o.former_lease), new=False)
    if o.former_cluster is not None and o.owns(o.former_cluster) and not deleting(o.former_cluster):
        return remove_cluster(o.former_cluster)
    return None


def _let_go(o: ObservedExperiment) -> Step:
    """The force annotation: nothing is undone; what there is expires, and its Job goes with it."""
    if o.holds_lease:
        return release(o)
    left = record.fault_now(record.faults_of(o.status))
    note = f"let go by the annotation {FORCE_ANNOTATION}" + (f"; not undone, they expire: {left}" if left else "")
    if there := topics.open_topics(o.status):
        note += f"; topics that stay: {topics.names(there)}"
    return SetFinalizer(on=False, events=[Emit(Happening.FORCED, note, warning=True)])


def _after_the_end(o: ObservedExperiment, settings: JobSettings) -> Step:
    if o.phase is Phase.REFUSED and not o.deleting and o.status.get("observedGeneration") != generation(o):
        return WriteStatus(with_conditions(o, {**o.status, "phase": Phase.PENDING.value, "endedAt": None}))
    if o.finalized:
        return SetFinalizer(on=False)
    if not o.deleting and reports.is_wanted(o.experiment, settings):
        return _report(o, settings)
    ttl = o.experiment["spec"].get("ttlSecondsAfterFinished")
    ended = instant(o.status.get("endedAt"))
    if ttl is None or ended is None or o.deleting:
        return Wait()
    left = (ended + timedelta(seconds=ttl) - o.now).total_seconds()
    return Wait(left) if left > 0 else Remove("ChaosExperiment", o.name, o.experiment["metadata"]["uid"])


def _report(o: ObservedExperiment, settings: JobSettings) -> Step:
    """The report is still to come: what is known of it, then its Job, then wait for that."""
    found = reports.look(o.experiment, settings, o.report_job, o.report_pods)
    judgement = still(o, found.judgement) if o.report_job is None else found.judgement
    status = with_conditions(o, {**o.status, **found.fields}, judgement)
    if differs(status, o.status):
        return WriteStatus(status, [Emit(found.judgement.reason.value, found.judgement.message, found.warning)])
    if o.report_job is None and settings.report is not None:
        return CreateJob(reports.report_job(o.experiment, settings, settings.report))
    return Wait()


def _begin(o: ObservedExperiment, settings: JobSettings) -> Step:
    if ending := _called_off(o):
        return end(o, *ending)
    answer = admit(o.experiment, o.cluster, o.lease, o.partitions, o.gap, o.now, settings.prometheus_urls, o.network)
    if not isinstance(answer, Refusal):
        refusal = reports.claim_refusal(runs_claim(o.experiment, settings), o.claim)
        answer = answer if refusal is None else Refusal(*refusal)
    if isinstance(answer, Admitted) and o.job is not None:
        answer = _job_in_the_way(o.job)
    match answer:
        case Refusal(reason, message):
            return refuse(o, reason, message)
        case Postponed(reason, message, seconds):
            accepted = Judgement(ChaosCondition.ACCEPTED, None, reason, message)
            if answer.make is not None:
                accepted = still(o, accepted)
            if over := given_up(o, accepted.message):
                return over
            if answer.quiet and o.now < created(o) + timedelta(seconds=QUIET_SECONDS):
                return Wait(seconds)
            status = with_conditions(o, {**o.status, "phase": Phase.PENDING.value, "cluster": answer.cluster}, accepted)
            if differs(status, o.status):
                return WriteStatus(status, [Emit(reason, message)])
            if answer.outdated and o.own_cluster is not None and not deleting(o.own_cluster):
                return remove_cluster(o.own_cluster)
            if answer.make is not None:
                return CreateCluster(own_cluster(o.experiment, answer.cluster, answer.make))
            return Wait(seconds)
        case Admitted(cluster):
            return _start(o, cluster, settings)


def _job_in_the_way(job: Object) -> Refusal | Postponed:
    """Before it has begun an experiment has no Job: there is one of somebody else, or of an earlier experiment of this name."""
    name = job["metadata"]["name"]
    if deleting(job) or any(one.get("kind") == EXPERIMENT.name for one in job["metadata"].get("ownerReferences") or ()):
        return Postponed(
            ChaosReason.JOB_NOT_OURS, f"Job {name}, of an earlier experiment, has to go first", HEAL_SECONDS
        )
    return Refusal(ChaosReason.JOB_NOT_OURS, f"there is a Job {name} that is not this experiment's; rename one of them")


def _start(o: ObservedExperiment, cluster: str, settings: JobSettings) -> Step:
    names = Names(o.experiment["metadata"]["namespace"], cluster)
    if not o.holds_lease:
        return _take_lease(o, names, time_allowed(o))
    status = {
        **o.status,
        "phase": Phase.RUNNING.value,
        "cluster": cluster,
        "startedAt": time_text(o.now),
        "deadline": time_text(o.now + time_allowed(o)),
        "job": job_name(o.name),
        "runsClaim": runs_claim(o.experiment, settings) or None,
    }
    accepted = Judgement(ChaosCondition.ACCEPTED, True, ChaosReason.ACCEPTED, happens_to(cluster))
    return WriteStatus(with_conditions(o, status, accepted), [Emit(Happening.STARTED, f"begins on cluster {cluster}")])


def _running(o: ObservedExperiment, settings: JobSettings) -> Step:
    if ending := _called_off(o):
        return end(o, *ending)
    deadline = instant(o.status.get("deadline")) or o.now
    if o.now >= deadline:
        return end(o, Phase.ABORTED, ChaosReason.DEADLINE_EXCEEDED, "it took longer than spec.activeDeadlineSeconds")
    if o.cluster is None:
        gone = f"cluster {o.status['cluster']} is gone"
        return (
            _end_of_job(o, gone)
            if o.status.get("verdict")
            else end(o, Phase.ERROR, ChaosReason.CLUSTER_NOT_FOUND, gone)
        )
    if o.phase is Phase.RUNNING and not allows_chaos(o.cluster):
        why = f"MiniKafkaCluster {o.status['cluster']} does not allow chaos any more (spec.chaos.allowed)"
        return end(o, Phase.ABORTED, ChaosReason.CHAOS_NOT_ALLOWED, why)
    if o.own_job is None:
        if o.job is not None:
            return end(
                o, Phase.ERROR, ChaosReason.JOB_NOT_OURS, f"there is a Job {job_name(o.name)} that is not its own"
            )
        if o.status.get("runner"):
            return end(o, Phase.ERROR, ChaosReason.RUNNER_FAILED, "its Job is gone")
        left = int((deadline - o.now).total_seconds()) + 1
        return CreateJob(job(o.experiment, str(o.status["cluster"]), left, settings))
    if how := finished(o.own_job):
        return _end_of_job(o, how)
    patience = (deadline - o.now).total_seconds()
    if o.phase is Phase.JUDGING:
        return begun(o, o.own_job, patience)
    if not o.holds_lease:
        return _take_again(o, deadline)
    return gone_with_pods(o, (FaultState.INJECTED,)) or begun(o, o.own_job, min(patience, LOOK_SECONDS))


def _take_again(o: ObservedExperiment, deadline: datetime) -> Step:
    """Somebody has deleted the Lease, or given it away: without it others may begin to take brokers away."""
    names, hold = Names(o.experiment["metadata"]["namespace"], str(o.status["cluster"])), hold_of(o.lease)
    if hold.by_other(o.identity, o.now):
        says = f"Lease {names.disruption} is held by {hold.holder} now: somebody took it away from this experiment"
        return end(o, Phase.ERROR, ChaosReason.LEASE_LOST, says)
    if o.cluster_is_another:  # the Lease went with the one before
        says = f"cluster {names.cluster}, on which it began, is gone; there is another one of that name"
        return end(o, Phase.ERROR, ChaosReason.CLUSTER_NOT_FOUND, says)
    says = f"Lease {names.disruption} was {'deleted' if o.lease is None else 'given away'} meanwhile; taken again"
    return _take_lease(o, names, deadline - o.now, [Emit(Happening.LEASE_TAKEN_AGAIN, says, warning=True)])


def _take_lease(o: ObservedExperiment, names: Names, left: timedelta, events: Sequence[Emit] = ()) -> Step:
    """Nobody else has it. ``left``: until the experiment's deadline."""
    assert o.cluster is not None
    seconds = int(left.total_seconds()) + LEASE_MARGIN_SECONDS
    return WriteLease(taken(o.lease, names, o.cluster, o.identity, seconds, o.now), o.lease is None, events)


def _end_of_job(o: ObservedExperiment, how: str) -> Step:
    verdict = o.status.get("verdict")
    if verdict in JUDGED:
        return end(o, Phase.COMPLETED, ChaosReason.VERDICT, f"{verdict}: {o.status.get('summary') or ''}".strip(": "))
    if verdict == "Aborted":
        return end(o, Phase.ABORTED, ChaosReason.ABORTED, str(o.status.get("summary") or "the run was interrupted"))
    if verdict:
        return end(
            o, Phase.ERROR, ChaosReason.RUNNER_FAILED, str(o.status.get("summary") or "the run came to no verdict")
        )
    return end(o, Phase.ERROR, ChaosReason.RUNNER_FAILED, _last_words(o) or f"the Job ended without a verdict: {how}")


def _called_off(o: ObservedExperiment) -> tuple[Phase, ChaosReason, str] | None:
    if o.deleting:
        return Phase.ABORTED, ChaosReason.DELETED, "the experiment is being deleted"
    if asks(o.experiment, ABORT_ANNOTATION):
        return Phase.ABORTED, ChaosReason.ABORTED, f"somebody set the annotation {ABORT_ANNOTATION}"
    return None


def _last_words(o: ObservedExperiment) -> str:
    for pod in o.runner_pods:
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (container.get("state") or {}).get("terminated") or {}
            if ended.get("message"):
                return " ".join(str(ended["message"]).split())[-1000:]
            if ended.get("reason") not in (None, "Completed"):
                return f"the runner ended: {ended['reason']} (exit code {ended.get('exitCode')})"
    return ""
