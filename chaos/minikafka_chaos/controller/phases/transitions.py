"""The phases of an experiment, and the ways from one to another. No I/O.

::

    (new) ---------> Pending -----------------> Running --------------> Judging
      |   it waits   |  | ^  it has the Lease      |     all is undone     |
      |              |  | |                        |                       |
      |      refused |  | | edited                 | its Job has ended, or something ends it
      |              |  v |                        v                       |
      +------------> | Refused <-------------- Healing <-------------------+
          refused    |                          ^    |
                     +--------------------------+    +----> Completed, Aborted, Error
                       called off, given up

A new one does at once whatever one that is Pending may. From Healing on no fault can begin; ``status.ending`` says which phase
comes after it: Refused, where something was held and is given back first. `TRANSITIONS` is the same as a table; each write keeps
to it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from minikafka_kube.conditions import Judgement
from minikafka_kube.disruption_lease import given_back, taken
from minikafka_kube.events import Emit
from minikafka_kube.kinds import CLUSTER, USER, Object
from minikafka_kube.names import Names

from minikafka_chaos.controller.phases import returning
from minikafka_chaos.controller.steps import ObservedExperiment, Remove, Step, WriteLease, WriteStatus
from minikafka_chaos.experiment import record
from minikafka_chaos.experiment.kinds import ABORT_ANNOTATION, asks
from minikafka_chaos.experiment.reasons import ChaosCondition, ChaosReason
from minikafka_chaos.experiment.status import Ending, ExperimentStatus, FaultState, Phase

LEASE_MARGIN_SECONDS: Final = 2400
"""How long the disruption Lease holds beyond the experiment's deadline: what its faults may take to expire, and then some."""
_ANNOTATIONS: Final = "; annotation "
"""Where the condition Complete begins to tell of annotations that do nothing."""

_BEGINS: Final = frozenset({Phase.PENDING, Phase.REFUSED, Phase.RUNNING, Phase.HEALING})
TRANSITIONS: Final[Mapping[Phase | None, frozenset[Phase]]] = {
    None: _BEGINS,
    Phase.PENDING: _BEGINS - {Phase.PENDING},
    Phase.RUNNING: frozenset({Phase.JUDGING, Phase.HEALING}),
    Phase.JUDGING: frozenset({Phase.HEALING}),
    Phase.HEALING: frozenset({Phase.COMPLETED, Phase.REFUSED, Phase.ABORTED, Phase.ERROR}),
    Phase.REFUSED: frozenset({Phase.PENDING}),
    Phase.COMPLETED: frozenset(),
    Phase.ABORTED: frozenset(),
    Phase.ERROR: frozenset(),
}
"""Which phases may come after each. Judging is the runner's to write (`ledger`), all else the controller's."""


def with_conditions(
    seen: ObservedExperiment,
    status: ExperimentStatus,
    judgement: Judgement | None = None,
    *,
    annotations: str | None = None,
) -> ExperimentStatus:
    """The status with its conditions and all that follows from the rest of it; ``judgement``: of one condition that does not.

    ``annotations``: those that do nothing; None: what was said of them stays.
    """
    phase = status.phase
    assert phase is not None and (phase is seen.phase or phase in TRANSITIONS[seen.phase]), (seen.phase, phase)
    judgements = [judgement] if judgement is not None else []
    if seen.phase is None or not seen.phase.ended:  # after the end brokers are others' to take, and what was said stays
        over = phase is Phase.HEALING or phase.ended
        judgements.append(status.healed(returning.described(returning.missing(seen, status)) if over else ""))
    judgements.append(_complete(phase, status.ending, reported(seen.status) if annotations is None else annotations))
    for each in judgements:
        status = status.with_condition(each, seen.generation, seen.now)
    failing = status.recovery_failing if status.open_faults else None
    return status.but(observed_generation=seen.generation, recovery_failing=failing)


def _complete(phase: Phase, ending: Ending | None, annotations: str) -> Judgement:
    if phase is Phase.REFUSED:
        return Judgement(ChaosCondition.COMPLETE, True, ChaosReason.REFUSED, "nothing was touched")
    if phase.ended:
        return Judgement(ChaosCondition.COMPLETE, True, reason_of(ending), "" if ending is None else ending.message)
    says = f"its phase is {phase.value}" + (f"; {annotations}" if annotations else "")
    return Judgement(ChaosCondition.COMPLETE, False, ChaosReason.GOING_ON, says)


def reported(status: ExperimentStatus) -> str:
    """Return what the condition Complete says already of annotations that do nothing."""
    complete = status.condition(ChaosCondition.COMPLETE)
    if complete.get("reason") != ChaosReason.GOING_ON:
        return ""
    _, found, after = str(complete.get("message") or "").partition(_ANNOTATIONS)
    return (found + after).removeprefix("; ")


def reason_of(ending: Ending | None) -> ChaosReason:
    """Return why it ends; of one that only somebody else can have written down: that no run has come to a verdict."""
    known = ending is not None and ending.reason in {each.value for each in ChaosReason}
    return ChaosReason(ending.reason) if ending is not None and known else ChaosReason.RUNNER_FAILED


def accepted(
    seen: ObservedExperiment, holds: bool | None, reason: ChaosReason, says: str, **fields: Any
) -> ExperimentStatus:
    """The status with these fields, and this said of whether the experiment may happen."""
    return with_conditions(seen, seen.status.but(**fields), Judgement(ChaosCondition.ACCEPTED, holds, reason, says))


def happens_to(cluster: str) -> str:
    """Return what the condition Accepted says of one that has begun."""
    return f"it happens to cluster {cluster}"


def refuse(seen: ObservedExperiment, reason: ChaosReason, message: str) -> Step:
    """Nothing was touched, unless a Lease was taken, or a cluster or a user made before; then these go first."""
    if seen.own_cluster is not None or seen.own_user is not None or seen.holds_lease:
        return end(seen, Phase.REFUSED, reason, message)
    status = accepted(seen, False, reason, message, phase=Phase.REFUSED, ended_at=seen.now)
    return WriteStatus(status, [Emit(reason, message, warning=True)])


def end(seen: ObservedExperiment, phase: Phase, reason: ChaosReason, why: str) -> Step:
    """From this write on no fault can begin: the ledger refuses them."""
    ending = Ending(phase=phase, reason=reason.value, message=why)
    status = with_conditions(seen, seen.status.but(phase=Phase.HEALING, ending=ending))
    return WriteStatus(status, [Emit(reason, why, warning=phase is not Phase.COMPLETED)])


def call_off(seen: ObservedExperiment) -> Step | None:
    """End it, where somebody wants that; None: nobody does."""
    if seen.deleting:
        return end(seen, Phase.ABORTED, ChaosReason.DELETED, "the experiment is being deleted")
    if asks(seen.experiment, ABORT_ANNOTATION):
        return end(seen, Phase.ABORTED, ChaosReason.ABORTED, f"somebody set the annotation {ABORT_ANNOTATION}")
    return None


def over_with_pods(seen: ObservedExperiment, states: Collection[FaultState]) -> Step | None:
    """The faults in these states whose pods are gone are over; None when there are none.

    While a runner is at work only those that were made: of one that is Intended it looks for the pod anew.
    """
    status = record.over_with_pods(seen.status, states, seen.brokers.values(), seen.now)
    if status is seen.status:
        return None
    return WriteStatus(with_conditions(seen, status), record.recoveries(seen.status, status))


def remove_cluster(cluster: Object) -> Step:
    return Remove(CLUSTER.name, cluster["metadata"]["name"], cluster["metadata"]["uid"])


def remove_user(user: Object) -> Step:
    """Brokers forget its password and its ACLs before it is gone."""
    return Remove(USER.name, user["metadata"]["name"], user["metadata"]["uid"])


def take_lease(seen: ObservedExperiment, cluster: str, left: timedelta, events: Sequence[Emit] = ()) -> Step:
    """Nobody else has it. ``left``: until the experiment's deadline."""
    assert seen.cluster is not None
    seconds = int(left.total_seconds()) + LEASE_MARGIN_SECONDS
    lease = taken(seen.lease, Names(seen.namespace, cluster), seen.cluster, seen.identity, seconds, seen.now)
    return WriteLease(lease, seen.lease is None, events)


def release(lease: Object) -> Step:
    """Give the disruption Lease back."""
    return WriteLease(given_back(lease), new=False)
