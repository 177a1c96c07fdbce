"""The brokers that an experiment took and that are not ready again yet. Values in, values out.

A fault is over when its agent has undone it; the broker is back when the kubelet has started it and it serves. What the kubelet
says meanwhile may be older than the fault, so a container in which a broker was ended does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from minikafka.telemetry.fault_verbs import ENDING, TAKE_OUT
from minikafka_kube.instants import LATEST, time_text
from minikafka_kube.observed import Pod, deleting

from minikafka_chaos.controller.steps import ObservedExperiment
from minikafka_chaos.experiment import record
from minikafka_chaos.experiment.status import ExperimentStatus, FaultState, FaultStatus

BACK_SECONDS_MAX: Final = 420
"""The kubelet waits 300 s at most before it starts a container again; the rest is for what the broker has to recover."""
UNNOTICED_SECONDS_MAX: Final = 60
"""A kubelet that tells nothing for so long is taken for dead, and its pods are not ready any more."""


@dataclass(frozen=True)
class NotBack:
    """A broker that is not back."""

    fault: FaultStatus
    """The last that took it."""
    late: bool
    """Whether it is waited for no longer."""

    def __str__(self) -> str:
        fault = self.fault
        over = "" if fault.recovered_at is None else time_text(fault.recovered_at)
        return f"broker {fault.broker} ({fault.verb}, step {fault.step}, over at {over})"


def missing(seen: ObservedExperiment, status: ExperimentStatus) -> list[NotBack]:
    """Find them. A cluster of the experiment's own goes as a whole; of one that is gone nobody is missed."""
    cluster = seen.cluster
    if cluster is None or seen.own_cluster is not None or deleting(cluster) or seen.cluster_is_another:
        return []
    replicas = int(cluster["spec"]["brokers"]["replicas"])
    return [
        NotBack(faults[-1], _is_late(faults[-1], seen.now))
        for broker, faults in sorted(_taken(status).items())
        if 0 <= broker < replicas and not _is_back(faults, seen.brokers.get(broker), seen.now)
    ]


def _taken(status: ExperimentStatus) -> dict[int, list[FaultStatus]]:
    """The faults of each broker that are over, in the order in which they ended. What goes on is no question of coming back."""
    found: dict[int, list[FaultStatus]] = {}
    for fault in sorted(status.faults or (), key=lambda one: one.recovered_at or LATEST):
        over = fault.state is FaultState.RECOVERED and fault.recovered_at is not None
        if over and fault.broker is not None and fault.verb in TAKE_OUT:
            found.setdefault(fault.broker, []).append(fault)
    return found


def _is_back(faults: list[FaultStatus], pod: Pod | None, now: datetime) -> bool:
    return pod is not None and pod.ready and not any(_is_of_before(fault, pod, now) for fault in faults)


def _is_of_before(fault: FaultStatus, pod: Pod, now: datetime) -> bool:
    """Return whether the pod tells of the container in which this fault ended the broker.

    Where a fault was written down and never made, it is rightly the same one; that is known once the kubelet has had its time.
    """
    here = record.whereabouts(pod.thing)
    same = fault.verb in ENDING and (fault.pod_uid, fault.container_id) == (pod.uid, here.container_id)
    return same and _seconds_over(fault, now) < UNNOTICED_SECONDS_MAX


def _is_late(fault: FaultStatus, now: datetime) -> bool:
    """Also where it ended far in the future: somebody else wrote that."""
    return abs(_seconds_over(fault, now)) >= BACK_SECONDS_MAX


def _seconds_over(fault: FaultStatus, now: datetime) -> float:
    return 0.0 if fault.recovered_at is None else (now - fault.recovered_at) / timedelta(seconds=1)


def described(found: list[NotBack]) -> str:
    """A sentence for the condition Healed, which stays the same while nothing changes; empty when all are back."""
    return "; ".join(_sentences(found))


def _sentences(found: list[NotBack]) -> Iterator[str]:
    for late, says in ((False, "not ready again yet"), (True, f"not ready again within {BACK_SECONDS_MAX} s")):
        if brokers := [str(each) for each in found if each.late is late]:
            yield f"no fault is on; {says}: {', '.join(brokers)}"
