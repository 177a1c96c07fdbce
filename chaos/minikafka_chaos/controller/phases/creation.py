"""What follows where something that an experiment needs (its cluster, the Lease, its Job, the report's) is not made. No I/O.

What the API server refuses (a quota, a policy, an admission webhook that says no) is the end. What it cannot make now (an
admission webhook that does not answer) is tried again, told where it takes long, and given up: for the Lease is held meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from minikafka_kube.conditions import Judgement
from minikafka_kube.events import Emit
from minikafka_kube.instants import instant

from minikafka_chaos.controller.phases import healing
from minikafka_chaos.controller.phases.transitions import end, happens_to, refuse, with_conditions
from minikafka_chaos.controller.steps import (
    CreateCluster,
    CreateJob,
    CreateReportJob,
    CreateUser,
    ObservedExperiment,
    Step,
    Wait,
    WriteLease,
    WriteStatus,
)
from minikafka_chaos.experiment.reasons import ChaosCondition, ChaosReason, Happening
from minikafka_chaos.experiment.status import Phase

WAIT_SECONDS: Final = 5.0
"""While an experiment waits for something that may tell nobody when it comes."""
START_SECONDS: Final = 15.0
"""How long a Job may take to be made, and its pod to begin, before that is told."""
START_SECONDS_MAX: Final = 600.0
"""Then the experiment is given up: while it waits for a volume or an image, nobody else may take a broker of its cluster away."""

NOT_MADE: Final = " cannot be made now: "
"""Between what is lacking, and the API server's words."""
_WHY_MAX: Final = 1000


# --- refused ----------------------------------------------------------------------------------------------------------


def refused(seen: ObservedExperiment, step: Step, why: str) -> Step | None:
    """Return what follows when the API server refuses something that is to be made; None for whatever is to be tried again."""
    match step:
        case CreateCluster(name):
            says = f"cluster {name}, which is to be made for it, is refused: {why}"
            return refuse(seen, ChaosReason.CREATION_REFUSED, says)
        case CreateUser(user):
            says = f"MiniKafkaUser {user['metadata']['name']}, as which its clients log in, is refused: {why}"
            return refuse(seen, ChaosReason.CREATION_REFUSED, says)
        case WriteLease(lease) if seen.phase is Phase.RUNNING:
            says = f"Lease {lease['metadata']['name']} is gone, and refused when it is to be taken again: {why}"
            return end(seen, Phase.ERROR, ChaosReason.LEASE_LOST, says)
        case WriteLease(_, new=True) if seen.phase is Phase.HEALING:
            return healing.go_on(seen, None)
        case WriteLease(lease, new=True):
            return refuse(seen, ChaosReason.CREATION_REFUSED, f"Lease {lease['metadata']['name']} is refused: {why}")
        case CreateReportJob(name):
            return _no_report(seen, f"Job {name} is refused: {why}")
        case CreateJob(name):
            return end(seen, Phase.ERROR, ChaosReason.CREATION_REFUSED, f"Job {name} is refused: {why}")
    return None


def _no_report(seen: ObservedExperiment, says: str) -> WriteStatus:
    failed = Judgement(ChaosCondition.REPORTED, False, ChaosReason.REPORT_FAILED, says)
    return WriteStatus(
        with_conditions(seen, seen.status, failed), [Emit(ChaosReason.REPORT_FAILED, says, warning=True)]
    )


# --- not now ----------------------------------------------------------------------------------------------------------


def not_now(seen: ObservedExperiment, step: Step, why: str) -> Step | None:
    """Return what follows when something could not be made now: told, once it takes long, and in the end given up.

    None for what is not told: it has not taken long yet, or is nothing that is made.
    """
    why = " ".join(why.split())[:_WHY_MAX]
    match step:
        case CreateCluster(name):
            # That it is not there yet was written down before, and there it is given up.
            return _Lacks(ChaosCondition.ACCEPTED, None, ChaosReason.WAITING_FOR_CLUSTER, f"cluster {name}").step(
                seen, _since(seen, ChaosCondition.ACCEPTED), why
            )
        case CreateUser(user):
            name = f"MiniKafkaUser {user['metadata']['name']}"
            return _Lacks(ChaosCondition.ACCEPTED, None, ChaosReason.WAITING_FOR_USER, name).step(
                seen, _since(seen, ChaosCondition.ACCEPTED), why
            )
        case WriteLease(lease) if seen.phase in (None, Phase.PENDING):
            name = f"Lease {lease['metadata']['name']}"
            lacks = _Lacks(ChaosCondition.ACCEPTED, None, ChaosReason.WAITING_FOR_LEASE, name, "it may begin")
            since = _since(seen, ChaosCondition.ACCEPTED)
            return given_up(seen, f"{name}{NOT_MADE}{why}") or lacks.step(seen, since, why)
        case WriteLease(lease) if seen.phase is Phase.RUNNING:  # it had it, and somebody deleted it
            lacks = _begun_without(seen, f"Lease {lease['metadata']['name']}", ChaosReason.WAITING_FOR_LEASE)
            return lacks.step(seen, seen.status.started_at or seen.now, why)
        case WriteLease(_, new=True) if seen.phase is Phase.HEALING:
            return healing.go_on(seen, None)
        case CreateReportJob(name):
            since = _since(seen, ChaosCondition.REPORTED)
            if too_late(seen, since):
                return _no_report(seen, f"Job {name} could not be made within {START_SECONDS_MAX:g} s: {why}")
            going_on = _Lacks(ChaosCondition.REPORTED, None, ChaosReason.REPORT_GOING_ON, f"Job {name}")
            return going_on.step(seen, since, why)
        case CreateJob(name):
            since = seen.status.started_at or seen.now
            if too_late(seen, since):
                late = f"Job {name} could not be made within {START_SECONDS_MAX:g} s: {why}"
                return end(seen, Phase.ERROR, ChaosReason.CREATION_REFUSED, late)
            return _begun_without(seen, f"Job {name}", Happening.JOB_WAITS).step(seen, since, why)
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

    def step(self, seen: ObservedExperiment, since: datetime, why: str) -> Step | None:
        """In the condition with the latest words, in an Event once."""
        if seen.now < since + timedelta(seconds=START_SECONDS):
            return None
        before, lacking = seen.status.message(self.type), f"; {self.thing}{NOT_MADE}"
        says = (self.base or before.partition(lacking)[0]) + lacking + why
        if says == before:
            return Wait(WAIT_SECONDS)
        status = seen.status.but(phase=seen.phase or Phase.PENDING)
        new = [] if lacking in before else [Emit(self.event or self.reason, says, warning=True)]
        return WriteStatus(with_conditions(seen, status, Judgement(self.type, self.holds, self.reason, says)), new)


def _begun_without(seen: ObservedExperiment, thing: str, event: Happening | ChaosReason) -> _Lacks:
    base = happens_to(str(seen.status.cluster))
    return _Lacks(ChaosCondition.ACCEPTED, True, ChaosReason.ACCEPTED, thing, base, event)


def still(seen: ObservedExperiment, kind: StrEnum, message: str) -> str:
    """The same, with what the condition says already of why it cannot be made: else each try would write it anew."""
    before = seen.status.message(kind)
    return before if before.startswith(f"{message}; ") and NOT_MADE in before else message


# --- for how long -----------------------------------------------------------------------------------------------------


def given_up(seen: ObservedExperiment, waits_for: str) -> Step | None:
    """One that waits to begin ends after its deadline, too: a schedule would make no other one meanwhile. None: not yet.

    The time runs from when it was told that it waits, for no controller may have looked at it before.
    """
    waits = seen.status.condition(ChaosCondition.ACCEPTED).get("status") == "Unknown"
    if not waits or seen.now <= _since(seen, ChaosCondition.ACCEPTED) + seen.time_allowed:
        return None
    says = f"it has not begun within spec.activeDeadlineSeconds: {waits_for}"
    return end(seen, Phase.ERROR, ChaosReason.DEADLINE_EXCEEDED, says)


def too_late(seen: ObservedExperiment, since: datetime) -> bool:
    """Return whether it is waited for no longer."""
    return seen.now >= since + timedelta(seconds=START_SECONDS_MAX)


def _since(seen: ObservedExperiment, kind: ChaosCondition) -> datetime:
    found = seen.status.condition(kind)
    if found.get("status") == "Unknown":
        return instant(found.get("lastTransitionTime")) or seen.now
    return seen.now if found else seen.created
