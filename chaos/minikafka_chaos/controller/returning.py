"""The brokers that an experiment took and that are not ready again yet. Values in, values out.

A fault is over when its agent has undone it; the broker is back when the kubelet has started it and it serves. What the kubelet
says meanwhile may be older than the fault, so a container in which a broker was ended does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from minikafka.telemetry.fault_verbs import ENDING, TAKE_OUT
from minikafka_kube.instants import instant
from minikafka_kube.observed import Pod, deleting

from minikafka_chaos.controller import record
from minikafka_chaos.controller.api import FaultState
from minikafka_chaos.controller.steps import ObservedExperiment

BACK_SECONDS_MAX: Final = 420
"""The kubelet waits 300 s at most before it starts a container again; the rest is for what the broker has to recover."""
UNNOTICED_SECONDS_MAX: Final = 60
"""A kubelet that tells nothing for so long is taken for dead, and its pods are not ready any more."""


@dataclass(frozen=True)
class NotBack:
    """A broker that is not back."""

    fault: Mapping[str, Any]
    """The last that took it."""
    late: bool
    """Whether it is waited for no longer."""

    def __str__(self) -> str:
        fault = self.fault
        return f"broker {fault['broker']} ({fault['verb']}, step {fault['step']}, over at {fault['recoveredAt']})"


def missing(o: ObservedExperiment, status: Mapping[str, Any]) -> list[NotBack]:
    """Find them. A cluster of the experiment's own goes as a whole; of one that is gone nobody is missed."""
    cluster = o.cluster
    if cluster is None or o.own_cluster is not None or deleting(cluster) or o.cluster_is_another:
        return []
    replicas = int(cluster["spec"]["brokers"]["replicas"])
    return [
        NotBack(faults[-1], _is_late(faults[-1], o))
        for broker, faults in sorted(_taken(status).items())
        if 0 <= broker < replicas and not _is_back(faults, o.brokers.get(broker), o)
    ]


def _taken(status: Mapping[str, Any]) -> dict[int, list[dict[str, Any]]]:
    """The faults of each broker that are over, in the order in which they ended. What goes on is no question of coming back."""
    found: dict[int, list[dict[str, Any]]] = {}
    for fault in record.faults_of(status):
        over = fault["state"] == FaultState.RECOVERED and instant(fault.get("recoveredAt")) is not None
        if over and "broker" in fault and fault["verb"] in TAKE_OUT:
            found.setdefault(fault["broker"], []).append(fault)
    for faults in found.values():
        faults.sort(key=lambda one: str(one["recoveredAt"]))
    return found


def _is_back(faults: list[dict[str, Any]], pod: Pod | None, o: ObservedExperiment) -> bool:
    return pod is not None and pod.ready and not any(_is_of_before(fault, pod, o) for fault in faults)


def _is_of_before(fault: Mapping[str, Any], pod: Pod, o: ObservedExperiment) -> bool:
    """Return whether the pod tells of the container in which this fault ended the broker.

    Where a fault was written down and never made, it is rightly the same one; that is known once the kubelet has had its time.
    """
    here = record.whereabouts(pod.thing)
    same = fault["verb"] in ENDING and (fault.get("podUid"), fault.get("containerId")) == (pod.uid, here.container_id)
    return same and _seconds_over(fault, o) < UNNOTICED_SECONDS_MAX


def _is_late(fault: Mapping[str, Any], o: ObservedExperiment) -> bool:
    """Also where it ended far in the future: somebody else wrote that."""
    return abs(_seconds_over(fault, o)) >= BACK_SECONDS_MAX


def _seconds_over(fault: Mapping[str, Any], o: ObservedExperiment) -> float:
    over = instant(fault.get("recoveredAt"))
    return 0.0 if over is None else (o.now - over) / timedelta(seconds=1)


def described(found: list[NotBack]) -> str:
    """A sentence for the condition Healed, which stays the same while nothing changes; empty when all are back."""
    return "; ".join(_sentences(found))


def _sentences(found: list[NotBack]) -> Iterator[str]:
    for late, says in ((False, "not ready again yet"), (True, f"not ready again within {BACK_SECONDS_MAX} s")):
        if brokers := [str(each) for each in found if each.late is late]:
            yield f"no fault is on; {says}: {', '.join(brokers)}"
