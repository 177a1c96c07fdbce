"""Faults that an experiment makes on purpose: a broker that chaos holds has no trouble of its own.

Who has its turn with a cluster holds the disruption Lease (:mod:`~minikafka_operator.disruption`), and an experiment writes
each fault into its status before it is made (docs/guide/chaos-on-kubernetes.md). So what a broker that is not ready suffers
from is known there, and nowhere in its pod.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from minikafka_operator.disruption import LeaseHold
from minikafka_operator.instants import instant
from minikafka_operator.kinds import Object
from minikafka_operator.observed import Pod

PREFIX: Final = "experiment/"
"""What the identity of an experiment begins with, as the holder of the disruption Lease."""
COMES_BACK_SECONDS: Final = 90
"""How long a broker whose fault is over may take to be ready again once the kubelet has started it. After that what its pod
says is told, as of any other broker."""
_RECOVERED: Final = "Recovered"


def identity(experiment: Object) -> str:
    """How an experiment is called as a holder: its name for people, its uid because a name is no identity."""
    metadata = experiment["metadata"]
    return f"{PREFIX}{metadata['name']}/{metadata['uid']}"


def is_experiment(hold: LeaseHold) -> bool:
    """Whether the holder is an experiment."""
    return hold.holder.startswith(PREFIX)


def experiment_name(hold: LeaseHold) -> str:
    """Its name."""
    return hold.holder.removeprefix(PREFIX).partition("/")[0]


def fault_on(experiment: Object | None, pod: Pod, now: datetime) -> str:
    """What the experiment does, or has just done, to the broker in this pod; empty when it has nothing to do with it.

    The sentence stays as it is for as long as the fault does: it is part of a status.
    """
    if experiment is None:
        return ""
    name = experiment["metadata"]["name"]
    faults = [one for one in (experiment.get("status") or {}).get("faults") or () if one.get("podUid") == pod.uid]
    for fault in reversed(faults):
        what = f"{fault['verb']} by experiment {name} (step {fault['step']})"
        if fault["state"] != _RECOVERED:
            ends = fault.get("expiresAt")
            return f"{what}, which ends" + (f" at {ends} at the latest" if ends else "")
        if _comes_back(fault, pod, now):
            return f"comes back after {what}"
    if pod.last_words[0] == "Completed":  # nobody else tells a broker to end: it rests while its log is read
        return f"was shut down while experiment {name} goes on"
    return ""


def _comes_back(fault: dict[str, Any], pod: Pod, now: datetime) -> bool:
    """Whether the broker has not been ready since the fault was over, and may still take its time, or was not started yet."""
    over = instant(fault.get("recoveredAt"))
    if over is None or (pod.ready_since is not None and pod.ready_since > over):
        return False
    began = _started_after(pod, over)
    return began is None or now <= began + timedelta(seconds=COMES_BACK_SECONDS)


def _started_after(pod: Pod, over: datetime) -> datetime | None:
    """When it was started after the fault was over, or that moment; None while the kubelet waits, five minutes at most.

    What has ended once more since then was started, and is no longer waited for on the fault's account.
    """
    broker = pod.container
    ended = instant(((broker.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
    if ended is None or ended > over:
        return over
    if pod.crashing:
        return None
    running = (broker.get("state") or {}).get("running") or {}
    return max(over, instant(running.get("startedAt")) or over)
