"""How an experiment's status changes with its faults. Values in, values out.

The status is the write-ahead log of a run: a fault is in it before it is made (Intended), and whoever finds it there after
a crash must take it for made. All times are given in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from minikafka_kube.events import Emit
from minikafka_kube.observed import Pod

from minikafka_chaos.experiment.reasons import ChaosCondition, Happening
from minikafka_chaos.experiment.status import (
    FAULTS_MAX,
    ExperimentStatus,
    FailingRecovery,
    FaultState,
    FaultStatus,
    Phase,
    fault_now,
)
from minikafka_chaos.grounds.kubernetes_readiness import broker_container

_DETAIL_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a broker is when a fault is about to be made: in another pod nothing of it will be left."""

    pod: str
    pod_uid: str
    container_id: str


def whereabouts(pod: dict[str, Any]) -> Whereabouts:
    """Tell where the broker of a pod is, as far as the kubelet says."""
    metadata, container = pod["metadata"], broker_container(pod)
    return Whereabouts(metadata["name"], metadata["uid"], str(container.get("containerID") or ""))


def may_be_in(fault: FaultStatus, pod: Pod) -> bool:
    """Return whether something of a fault may be left in a pod.

    An agent is asked about the pod that has the broker's name by then: what is only intended may have been made in the next one.
    """
    intended = fault.state is FaultState.INTENDED and fault.pod == pod.name
    return intended or fault.pod_uid == pod.uid


def with_faults(status: ExperimentStatus, faults: Sequence[FaultStatus], *, made: int = 0) -> ExperimentStatus:
    """A status with these faults, and what follows from them. Of too many, those that have ended go first, oldest first."""
    kept = list(faults)
    surplus = len(kept) - FAULTS_MAX
    if surplus > 0:
        ended = [index for index, fault in enumerate(kept) if fault.state is FaultState.RECOVERED]
        dropped = frozenset(ended[:surplus])
        kept = [fault for index, fault in enumerate(kept) if index not in dropped]
    return status.but(faults=kept, faults_made=(status.faults_made or 0) + made, fault_now=fault_now(kept))


def recovery_failing(status: ExperimentStatus, silent: Mapping[str, str], now: datetime) -> ExperimentStatus:
    """Where nothing can be undone now (pod, and what went wrong): of each pod what was said first, so that it is not written anew
    with each try. Without a fault that is on nothing fails."""
    before = {one.pod: one for one in status.recovery_failing or ()}
    kept = [
        before.get(pod) or FailingRecovery(pod=pod, since=now, why=why[:_DETAIL_MAX]) for pod, why in silent.items()
    ]
    return status.but(recovery_failing=kept if kept and status.open_faults else None)


def with_healed(status: ExperimentStatus, generation: int, now: datetime) -> ExperimentStatus:
    """A status whose condition Healed says what its faults say; one that the controller has not told yet stays as it is.

    At the end of an experiment only the controller says that it is healed: it looks whether the brokers are back.
    """
    waits = status.phase is Phase.HEALING and not status.open_faults
    if waits or not status.condition(ChaosCondition.HEALED):
        return status
    return status.with_condition(status.healed(), generation, now)


def intended(
    status: ExperimentStatus,
    fault_id: str,
    step: str,
    verb: str,
    where: Mapping[int, Whereabouts] | None,
    *,
    role: str | None,
    expires: datetime,
    now: datetime,
) -> ExperimentStatus:
    """Write a fault down, once for each broker (once in all, when it is about the whole cluster: ``where`` is None).

    Asked again for the same fault, it writes down where the brokers are now, in place of what it said.
    """
    common = FaultStatus(
        id=fault_id,
        step=step,
        verb=verb,
        state=FaultState.INTENDED,
        role=role or None,
        expires_at=expires,
        intended_at=now,
    )
    entries = [common]
    if where is not None:
        entries = [common.but(broker=broker, **_place(at)) for broker, at in where.items()]
    faults = status.faults or ()
    before = [fault for fault in faults if fault.id != fault_id]
    new = len(before) == len(faults)
    return with_faults(status, [*before, *entries], made=len(entries) if new else 0)


def _place(at: Whereabouts) -> dict[str, str]:
    return {"pod": at.pod, "pod_uid": at.pod_uid, "container_id": at.container_id}


def injected(
    status: ExperimentStatus, fault_id: str, now: datetime, where: Mapping[int, Whereabouts] | None = None
) -> ExperimentStatus:
    """Record that it was made, in the pods that are there now (``where``). What has ended meanwhile stays ended."""

    def change(fault: FaultStatus) -> FaultStatus:
        at = (where or {}).get(-1 if fault.broker is None else fault.broker)
        moved = {} if at is None or at.pod_uid == fault.pod_uid else _place(at)
        return fault.but(state=FaultState.INJECTED, injected_at=now, **moved)

    return _changed(status, lambda fault: fault.id == fault_id and fault.state is FaultState.INTENDED, change)


def failed(status: ExperimentStatus, fault_id: str, why: str) -> ExperimentStatus:
    """Record that it could not be made, or not wholly: its state stays, for something of it may be there."""
    return _changed(status, lambda fault: fault.id == fault_id, lambda fault: fault.but(detail=why[:_DETAIL_MAX]))


def recovered(
    status: ExperimentStatus, which: Callable[[FaultStatus], bool], how: str, now: datetime
) -> ExperimentStatus:
    """Nothing is left of those faults."""
    over = {"state": FaultState.RECOVERED, "recovered_at": now, "detail": how[:_DETAIL_MAX]}
    return _changed(
        status, lambda fault: fault.state is not FaultState.RECOVERED and which(fault), lambda fault: fault.but(**over)
    )


def over_with_pods(
    status: ExperimentStatus, states: Collection[FaultState], pods: Collection[Pod], now: datetime
) -> ExperimentStatus:
    """Record that the faults in these states whose pods are gone are over."""

    def gone(fault: FaultStatus) -> bool:
        known = fault.pod_uid is not None and fault.state in states
        return known and not any(may_be_in(fault, pod) for pod in pods)

    return recovered(status, gone, "its pod is gone", now)


def recoveries(before: ExperimentStatus, after: ExperimentStatus) -> list[Emit]:
    """An Event for each fault that is over now and was not before."""
    was = {(fault.id, fault.broker) for fault in before.faults or () if fault.state is FaultState.RECOVERED}
    return [
        Emit(Happening.FAULT_RECOVERED, f"{fault} ({fault.step}): {fault.detail}")
        for fault in after.faults or ()
        if fault.state is FaultState.RECOVERED and (fault.id, fault.broker) not in was
    ]


def _changed(
    status: ExperimentStatus, which: Callable[[FaultStatus], bool], change: Callable[[FaultStatus], FaultStatus]
) -> ExperimentStatus:
    """Where it is about no fault the status stays as it is."""
    faults = status.faults or ()
    if not any(which(fault) for fault in faults):
        return status
    return with_faults(status, [change(fault) if which(fault) else fault for fault in faults])
