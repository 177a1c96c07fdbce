"""Phase Pending, and nothing before it: an experiment that has not begun. No I/O.

It is refused, waits (for its cluster, the disruption Lease, the brokers' metadata), or takes the Lease and begins.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from minikafka_kube.disruption_lease import hold_of
from minikafka_kube.events import Emit
from minikafka_kube.observed import deleting

from minikafka_chaos.controller.admission import Admitted, Postponed, Refusal
from minikafka_chaos.controller.phases.creation import given_up, still
from minikafka_chaos.controller.phases.transitions import (
    accepted,
    call_off,
    happens_to,
    refuse,
    release,
    remove_cluster,
    remove_user,
    take_lease,
)
from minikafka_chaos.controller.steps import CreateCluster, CreateUser, ObservedExperiment, Step, Wait, WriteStatus
from minikafka_chaos.experiment.kinds import job_name
from minikafka_chaos.experiment.reasons import ChaosCondition, ChaosReason, Happening
from minikafka_chaos.experiment.status import Phase

QUIET_SECONDS: Final = 15.0
"""For so long after it was made, what comes right by itself is not told."""


def step(seen: ObservedExperiment) -> Step:
    """Phase Pending."""
    if leaving := _leave_former(seen) or call_off(seen):
        return leaving
    match seen.admission:
        case Admitted(cluster, claim):
            return _start(seen, cluster, claim)
        case Postponed() as postponed:
            return _wait(seen, postponed)
        case Refusal(reason, message):
            return refuse(seen, reason, message)
    raise AssertionError("an experiment that has not begun is looked at for whether it may")


def _leave_former(seen: ObservedExperiment) -> Step | None:
    """Nothing stays of the cluster that was meant before an edit; None when there is nothing."""
    if seen.former_lease is not None and hold_of(seen.former_lease).holder == seen.identity:
        return release(seen.former_lease)
    if seen.former_cluster is not None and seen.owns(seen.former_cluster) and not deleting(seen.former_cluster):
        return remove_cluster(seen.former_cluster)
    return None


def _wait(seen: ObservedExperiment, why: Postponed) -> Step:
    says = (
        why.message if why.make is None and why.make_user is None else still(seen, ChaosCondition.ACCEPTED, why.message)
    )
    if over := given_up(seen, says):
        return over
    if why.quiet and seen.now < seen.created + timedelta(seconds=QUIET_SECONDS):
        return Wait(why.seconds)
    status = accepted(seen, None, why.reason, says, phase=Phase.PENDING, cluster=why.cluster)
    if status != seen.status:
        return WriteStatus(status, [Emit(why.reason, why.message)])
    if why.outdated and seen.own_cluster is not None and not deleting(seen.own_cluster):
        return remove_cluster(seen.own_cluster)
    if why.outdated and seen.own_user is not None and not deleting(seen.own_user):
        return remove_user(seen.own_user)
    if why.make_user is not None:
        return CreateUser(why.make_user)
    return Wait(why.seconds) if why.make is None else CreateCluster(why.cluster, why.make)


def _start(seen: ObservedExperiment, cluster: str, claim: str) -> Step:
    if not seen.holds_lease:
        return take_lease(seen, cluster, seen.time_allowed)
    status = accepted(
        seen,
        True,
        ChaosReason.ACCEPTED,
        happens_to(cluster),
        phase=Phase.RUNNING,
        cluster=cluster,
        started_at=seen.now,
        deadline=seen.now + seen.time_allowed,
        job=job_name(seen.name),
        runs_claim=claim or None,
    )
    return WriteStatus(status, [Emit(Happening.STARTED, f"begins on cluster {cluster}")])
