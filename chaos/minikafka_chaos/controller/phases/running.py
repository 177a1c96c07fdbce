"""Phases Running and Judging: an experiment that has begun, until its Job has ended or somebody ends it. No I/O."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from minikafka_kube.events import Emit
from minikafka_kube.instants import instant
from minikafka_kube.names import Names

from minikafka_chaos.controller.job_state import finished, last_words, why_not_begun
from minikafka_chaos.controller.phases.creation import START_SECONDS, START_SECONDS_MAX, WAIT_SECONDS
from minikafka_chaos.controller.phases.healing import JUDGED
from minikafka_chaos.controller.phases.transitions import (
    accepted,
    call_off,
    end,
    happens_to,
    over_with_pods,
    take_lease,
)
from minikafka_chaos.controller.steps import CreateJob, ObservedExperiment, Step, Wait, WriteStatus
from minikafka_chaos.experiment.kinds import Object, job_name
from minikafka_chaos.experiment.reasons import ChaosCondition, ChaosReason, Happening
from minikafka_chaos.experiment.status import FaultState, Phase
from minikafka_chaos.network.permission import allows_chaos

LOOK_SECONDS: Final = 10.0
"""While faults may be on: a broker's pod that goes, and a Lease that is deleted, wake nobody."""


def step(seen: ObservedExperiment) -> Step:
    """Phases Running and Judging."""
    if ending := call_off(seen):
        return ending
    status, deadline = seen.status, seen.status.deadline or seen.now
    if seen.now >= deadline:
        says = "it took longer than spec.activeDeadlineSeconds"
        return end(seen, Phase.ABORTED, ChaosReason.DEADLINE_EXCEEDED, says)
    if seen.cluster is None:
        gone = f"cluster {status.cluster} is gone"
        return (
            _end_of_job(seen, gone) if status.verdict else end(seen, Phase.ERROR, ChaosReason.CLUSTER_NOT_FOUND, gone)
        )
    if seen.phase is Phase.RUNNING and not allows_chaos(seen.cluster):
        why = f"MiniKafkaCluster {status.cluster} does not allow chaos any more (spec.chaos.allowed)"
        return end(seen, Phase.ABORTED, ChaosReason.CHAOS_NOT_ALLOWED, why)
    if seen.own_job is None:
        return _without_job(seen, deadline)
    if how := finished(seen.own_job):
        return _end_of_job(seen, how)
    patience = (deadline - seen.now).total_seconds()
    if seen.phase is Phase.JUDGING:
        return _begun(seen, seen.own_job, patience)
    if not seen.holds_lease:
        return _take_again(seen, deadline)
    return over_with_pods(seen, (FaultState.INJECTED,)) or _begun(seen, seen.own_job, min(patience, LOOK_SECONDS))


# --- its Job ----------------------------------------------------------------------------------------------------------


def _without_job(seen: ObservedExperiment, deadline: datetime) -> Step:
    name = job_name(seen.name)
    if seen.job is not None:
        return end(seen, Phase.ERROR, ChaosReason.JOB_NOT_OURS, f"there is a Job {name} that is not its own")
    if seen.status.runner:
        return end(seen, Phase.ERROR, ChaosReason.RUNNER_FAILED, "its Job is gone")
    return CreateJob(name, str(seen.status.cluster), int((deadline - seen.now).total_seconds()) + 1)


def _begun(seen: ObservedExperiment, job: Object, patience_seconds: float) -> Step:
    """Whether its Job's pod has come to the story, told where it takes long. Once it has: look after ``patience_seconds``."""
    says = happens_to(str(seen.status.cluster))
    patience = Wait(patience_seconds)
    events = []
    if not seen.status.runner:
        since = instant(job["metadata"].get("creationTimestamp")) or seen.now
        waited = (seen.now - since).total_seconds()
        why = why_not_begun(seen.runner_pods, job)
        if waited >= START_SECONDS_MAX:
            late = f"its Job has not begun within {START_SECONDS_MAX:g} s: {why}"
            return end(seen, Phase.ERROR, ChaosReason.RUNNER_FAILED, late)
        if waited < START_SECONDS:
            return Wait(START_SECONDS - waited)
        says += f"; its Job has not begun: {why}"
        events.append(Emit(Happening.JOB_WAITS, says, warning=True))
        patience = Wait(WAIT_SECONDS)
    if says == seen.status.message(ChaosCondition.ACCEPTED):
        return patience
    return WriteStatus(accepted(seen, True, ChaosReason.ACCEPTED, says), events)


def _end_of_job(seen: ObservedExperiment, how: str) -> Step:
    verdict, summary = seen.status.verdict, seen.status.summary
    if verdict in JUDGED:
        return end(seen, Phase.COMPLETED, ChaosReason.VERDICT, f"{verdict}: {summary or ''}".strip(": "))
    if verdict == "Aborted":
        return end(seen, Phase.ABORTED, ChaosReason.ABORTED, summary or "the run was interrupted")
    if verdict:
        return end(seen, Phase.ERROR, ChaosReason.RUNNER_FAILED, summary or "the run came to no verdict")
    says = last_words(seen.runner_pods) or f"the Job ended without a verdict: {how}"
    return end(seen, Phase.ERROR, ChaosReason.RUNNER_FAILED, says)


# --- the disruption Lease ---------------------------------------------------------------------------------------------


def _take_again(seen: ObservedExperiment, deadline: datetime) -> Step:
    """Somebody has deleted the Lease, or given it away: without it others may begin to take brokers away."""
    cluster, hold = str(seen.status.cluster), seen.hold
    name = Names(seen.namespace, cluster).disruption
    if hold.by_other(seen.identity, seen.now):
        says = f"Lease {name} is held by {hold.holder} now: somebody took it away from this experiment"
        return end(seen, Phase.ERROR, ChaosReason.LEASE_LOST, says)
    if seen.cluster_is_another:  # the Lease went with the one before
        says = f"cluster {cluster}, on which it began, is gone; there is another one of that name"
        return end(seen, Phase.ERROR, ChaosReason.CLUSTER_NOT_FOUND, says)
    says = f"Lease {name} was {'deleted' if seen.lease is None else 'given away'} meanwhile; taken again"
    return take_lease(seen, cluster, deadline - seen.now, [Emit(Happening.LEASE_TAKEN_AGAIN, says, warning=True)])
