"""What an experiment's status says of its faults, and how that changes. Values in, values out.

The status is the write-ahead log of a run: a fault is in it before it is made (Intended), and whoever finds it there after
a crash must take it for made. All times are given in; they are written as Kubernetes writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from minikafka_kube.conditions import Judgement, written
from minikafka_kube.instants import time_text
from minikafka_kube.observed import Pod

from minikafka_chaos.controller.api import FAULTS_MAX, FaultState, Phase
from minikafka_chaos.controller.kinds import FORCE_ANNOTATION
from minikafka_chaos.controller.reasons import ChaosCondition, ChaosReason
from minikafka_chaos.grounds.kubernetes_readiness import broker_container

Status = Mapping[str, Any]
Fault = Mapping[str, Any]

_DETAIL_MAX: Final = 1000
_SHOWN_MAX: Final = 4


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


def faults_of(status: Status) -> list[dict[str, Any]]:
    """All faults that a status tells of."""
    return [dict(fault) for fault in status.get("faults") or ()]


def open_faults(status: Status) -> list[dict[str, Any]]:
    """Those of which something may be left."""
    return [fault for fault in faults_of(status) if fault["state"] != FaultState.RECOVERED]


def may_be_in(fault: Fault, pod: Pod) -> bool:
    """Return whether something of a fault may be left in a pod.

    An agent is asked about the pod that has the broker's name by then: what is only intended may have been made in the next one.
    """
    intended = fault.get("state") == FaultState.INTENDED and fault.get("pod") == pod.name
    return bool(intended or fault.get("podUid") == pod.uid)


def with_faults(status: Status, faults: Sequence[Fault], *, made: int = 0) -> dict[str, Any]:
    """A status with these faults, and what follows from them. Of too many, those that have ended go first, oldest first."""
    kept = [dict(fault) for fault in faults]
    surplus = len(kept) - FAULTS_MAX
    if surplus > 0:
        ended = [index for index, fault in enumerate(kept) if fault["state"] == FaultState.RECOVERED]
        dropped = frozenset(ended[:surplus])
        kept = [fault for index, fault in enumerate(kept) if index not in dropped]
    changed = {**status, "faults": kept, "faultsMade": int(status.get("faultsMade") or 0) + made}
    changed["faultNow"] = fault_now(kept)
    return changed


def fault_now(faults: Iterable[Fault]) -> str:
    """The faults that are on, for ``kubectl get``: ``Kill broker 1``; empty when there is none."""
    shown = [
        fault["verb"] + ("" if fault.get("broker") is None else f" broker {fault['broker']}")
        for fault in faults
        if fault["state"] != FaultState.RECOVERED
    ]
    more = f" and {len(shown) - _SHOWN_MAX} more" if len(shown) > _SHOWN_MAX else ""
    return ", ".join(shown[:_SHOWN_MAX]) + more


def healed(status: Status, missing: str = "") -> Judgement:
    """The condition Healed, as it follows from the faults and the phase; ``missing``: the brokers that are not back yet."""
    left = open_faults(status)
    if not left and missing:
        return Judgement(ChaosCondition.HEALED, False, ChaosReason.BROKERS_NOT_READY, missing)
    if not left:
        return Judgement(ChaosCondition.HEALED, True, ChaosReason.NO_FAULTS, "no fault is on")
    if status.get("phase") != Phase.HEALING:
        return Judgement(ChaosCondition.HEALED, False, ChaosReason.FAULTS_ON, fault_now(left))
    if status.get("recoveryFailing"):
        return Judgement(ChaosCondition.HEALED, False, ChaosReason.RECOVERY_FAILING, _failing(status))
    return Judgement(ChaosCondition.HEALED, False, ChaosReason.HEALING, fault_now(left))


def _failing(status: Status) -> str:
    """Return what is on, where it cannot be undone, when it is over all the same, and what a person can do."""
    left = open_faults(status)
    failing = [f"{one['pod']} since {one['since']} ({one['why']})" for one in status["recoveryFailing"]]
    more = f" and {len(failing) - _SHOWN_MAX} more" if len(failing) > _SHOWN_MAX else ""
    ends = max((str(fault["expiresAt"]) for fault in left if fault.get("expiresAt")), default="")
    return (
        f"{fault_now(left)}: cannot be undone in {', '.join(failing[:_SHOWN_MAX])}{more}, and is tried again"
        + (f"; ends by itself at {ends} at the latest" if ends else "")
        + f"; to let go at once, with nothing undone: delete the experiment, and annotate it {FORCE_ANNOTATION}=true"
    )


def recovery_failing(status: Status, silent: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """Where nothing can be undone now (pod, and what went wrong): of each pod what was said first, so that it is not written anew
    with each try. Without a fault that is on nothing fails."""
    before = {one["pod"]: one for one in status.get("recoveryFailing") or ()}
    kept = [
        before.get(pod) or {"pod": pod, "since": time_text(now), "why": why[:_DETAIL_MAX]}
        for pod, why in silent.items()
    ]
    changed = {name: value for name, value in status.items() if name != "recoveryFailing"}
    return {**changed, "recoveryFailing": kept} if kept and open_faults(status) else changed


def with_healed(status: Status, generation: int, now: datetime) -> dict[str, Any]:
    """A status whose condition Healed says what its faults say; one that the controller has not told yet stays as it is.

    At the end of an experiment only the controller says that it is healed: it looks whether the brokers are back.
    """
    before = status.get("conditions") or ()
    if status.get("phase") == Phase.HEALING and not open_faults(status):
        return dict(status)
    renewed = {one["type"]: one for one in written([healed(status)], before, generation, now)}
    return {**status, "conditions": [renewed.get(one["type"], one) for one in before]} if before else dict(status)


def intended(
    status: Status,
    fault_id: str,
    step: str,
    verb: str,
    where: Mapping[int, Whereabouts] | None,
    *,
    role: str | None,
    expires: datetime,
    now: datetime,
) -> dict[str, Any]:
    """Write a fault down, once for each broker (once in all, when it is about the whole cluster: ``where`` is None).

    Asked again for the same fault, it writes down where the brokers are now, in place of what it said.
    """
    common = {
        "id": fault_id,
        "step": step,
        "verb": verb,
        "state": FaultState.INTENDED.value,
        "expiresAt": time_text(expires),
        "intendedAt": time_text(now),
    }
    if role:
        common["role"] = role
    entries: list[dict[str, Any]] = [common]
    if where is not None:
        entries = [
            {**common, "broker": broker, "pod": at.pod, "podUid": at.pod_uid, "containerId": at.container_id}
            for broker, at in where.items()
        ]
    before = [fault for fault in faults_of(status) if fault["id"] != fault_id]
    new = len(before) == len(faults_of(status))
    return with_faults(status, [*before, *entries], made=len(entries) if new else 0)


def injected(
    status: Status, fault_id: str, now: datetime, where: Mapping[int, Whereabouts] | None = None
) -> dict[str, Any]:
    """Record that it was made, in the pods that are there now (``where``). What has ended meanwhile stays ended."""

    def change(fault: dict[str, Any]) -> None:
        if fault["state"] == FaultState.INTENDED:
            fault |= {"state": FaultState.INJECTED.value, "injectedAt": time_text(now)}
            at = (where or {}).get(fault.get("broker", -1))
            if at is not None and at.pod_uid != fault.get("podUid"):
                fault |= {"pod": at.pod, "podUid": at.pod_uid, "containerId": at.container_id}

    return _changed(status, lambda fault: fault["id"] == fault_id, change)


def failed(status: Status, fault_id: str, why: str) -> dict[str, Any]:
    """Record that it could not be made, or not wholly: its state stays, for something of it may be there."""
    return _changed(status, lambda fault: fault["id"] == fault_id, lambda fault: fault.update(detail=why[:_DETAIL_MAX]))


def recovered(status: Status, which: Callable[[Fault], bool], how: str, now: datetime) -> dict[str, Any]:
    """Nothing is left of those faults."""

    def change(fault: dict[str, Any]) -> None:
        if fault["state"] != FaultState.RECOVERED:
            fault |= {
                "state": FaultState.RECOVERED.value,
                "recoveredAt": time_text(now),
                "detail": how[:_DETAIL_MAX],
            }

    return _changed(status, which, change)


def _changed(
    status: Status, which: Callable[[Fault], bool], change: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    faults = faults_of(status)
    for fault in faults:
        if which(fault):
            change(fault)
    return with_faults(status, faults)
