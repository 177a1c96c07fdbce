"""Explain what keeps brokers from being ready, in words that tell a person what to do.

Kubernetes reports such things in five different places, and some of them change their text with every attempt. Here they
get one reason and one steady sentence each, for a status must not be written again and again.

A broker that chaos holds has no problem of its own. Whoever disrupts a cluster holds the disruption Lease
(:mod:`~minikafka_kube.disruption_lease`), and an experiment writes each fault into its status before it is made
(docs/guide/chaos-on-kubernetes.md). So what such a broker suffers from is known there, and nowhere in its pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from minikafka.agent.gate import PREFIX as GATE_PREFIX
from minikafka_kube.instants import instant
from minikafka_kube.kinds import CLAIM, POD, STATEFUL_SET, Object
from minikafka_kube.names import DATA_VOLUME, EVENTS_VOLUME
from minikafka_kube.observed import ObservedCluster, Pod

from minikafka_operator.conditions import ClusterReason

_IMAGE_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
CLAIM_SECONDS_MAX = 30
"""Volumes are made within seconds where they are made at all."""

_UNBOUND = "unbound immediate PersistentVolumeClaims"
"""In the scheduler's message about a pod whose claim should have a volume before it has a node."""

_DISK_FULL = "statuscode: 507"

_WORDS_MAX = 400
_LAST_LINES = 3

COMES_BACK_SECONDS: Final = 90
"""How long a broker whose fault is over may take to be ready again once the kubelet has started it. After that what its pod
says is told, as of any other broker."""
_RECOVERED: Final = "Recovered"


@dataclass(frozen=True)
class BrokerProblem:
    """Why one broker is not ready."""

    broker_id: int
    reason: ClusterReason
    message: str


def broker_problems(observed: ObservedCluster, replicas: int) -> list[BrokerProblem]:
    """Return what is wrong with each broker that should be ready and is not, as far as anything says so."""
    found = (_problem(observed, broker_id) for broker_id in range(replicas))
    return [problem for problem in found if problem is not None]


def _problem(observed: ObservedCluster, broker_id: int) -> BrokerProblem | None:
    pod = observed.brokers.get(broker_id)
    if pod is None:
        return _missing(observed, broker_id)
    if pod.ready or pod.leaving:
        return None
    return (
        _meant(observed, pod)
        or _storage(observed, broker_id)
        or _unscheduled(observed, pod)
        or _container(observed, pod)
        or _disk(observed, pod)
        or _slow_storage(observed, broker_id)
        or _not_serving(pod)
    )


def _meant(observed: ObservedCluster, pod: Pod) -> BrokerProblem | None:
    fault = _fault_on(observed.experiment, pod, observed.now)
    return BrokerProblem(pod.broker_id, ClusterReason.FAULT_INJECTED, f"{pod.name}: {fault}") if fault else None


def _missing(observed: ObservedCluster, broker_id: int) -> BrokerProblem | None:
    name = observed.names.pod(broker_id)
    for warned in observed.warnings:
        if warned.kind == STATEFUL_SET.name and warned.reason == "FailedCreate" and f"Pod {name} " in warned.message:
            return BrokerProblem(broker_id, ClusterReason.POD_NOT_CREATED, f"{name}: {_shortened(warned.message)}")
    return None


def _storage(observed: ObservedCluster, broker_id: int) -> BrokerProblem | None:
    for claim in _pending_claims(observed, broker_id):
        name = claim["metadata"]["name"]
        wanted = claim["spec"].get("storageClassName")
        if wanted in observed.missing_storage_classes:
            return BrokerProblem(
                broker_id, ClusterReason.STORAGE_CLASS_NOT_FOUND, f"{name}: there is no StorageClass {wanted!r}"
            )
        warning = _warning(observed, CLAIM.name, name)
        if warning and re.search(r"storageclass.* not found", warning):
            return BrokerProblem(broker_id, ClusterReason.STORAGE_CLASS_NOT_FOUND, f"{name}: {warning}")
        if warning:
            return BrokerProblem(broker_id, ClusterReason.CLAIM_PENDING, f"{name}: {warning}")
        if wanted is None:
            message = f"{name}: spec.storage.storageClassName is not set, and no StorageClass is the default"
            return BrokerProblem(broker_id, ClusterReason.CLAIM_PENDING, message)
    return None


def _slow_storage(observed: ObservedCluster, broker_id: int) -> BrokerProblem | None:
    """A claim that nobody complains about and nobody fulfils either."""
    for claim in _pending_claims(observed, broker_id):
        since = instant(claim["metadata"].get("creationTimestamp")) or observed.now
        if (observed.now - since).total_seconds() > CLAIM_SECONDS_MAX:
            message = (
                f"{claim['metadata']['name']}: no volume of StorageClass {claim['spec']['storageClassName']!r} yet"
            )
            return BrokerProblem(broker_id, ClusterReason.CLAIM_PENDING, message)
    return None


def _pending_claims(observed: ObservedCluster, broker_id: int) -> list[Object]:
    claims = (observed.find(CLAIM, observed.names.claim(volume, broker_id)) for volume in (DATA_VOLUME, EVENTS_VOLUME))
    return [claim for claim in claims if claim is not None and claim.get("status", {}).get("phase") == "Pending"]


def _unscheduled(observed: ObservedCluster, pod: Pod) -> BrokerProblem | None:
    scheduled = pod.condition("PodScheduled")
    if _UNBOUND in str(scheduled.get("message")) and _pending_claims(observed, pod.broker_id):
        return None  # no node is at fault: the claim tells
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        message = _shortened(str(scheduled.get("message") or "no node fits"))
        return BrokerProblem(pod.broker_id, ClusterReason.UNSCHEDULABLE, f"{pod.name}: {message}")
    return None


def _not_serving(pod: Pod) -> BrokerProblem | None:
    """Nothing in Kubernetes tells why: a probe's answer is not kept."""
    if not pod.running:
        return None
    message = f"{pod.name}: runs, and is not ready; its /readyz, /healthz and log tell why"
    return BrokerProblem(pod.broker_id, ClusterReason.BROKERS_NOT_READY, message)


def _container(observed: ObservedCluster, pod: Pod) -> BrokerProblem | None:
    reason, message = pod.waiting
    ended, words = pod.last_words
    if reason in _IMAGE_REASONS:
        warning = _warning(observed, POD.name, pod.name, "Failed to pull image", "image")
        return BrokerProblem(
            pod.broker_id,
            ClusterReason.IMAGE_PULL_FAILED,
            f"{pod.name}: image {pod.image}: {warning or 'cannot be pulled'}",
        )
    if ended == "OOMKilled":
        return BrokerProblem(
            pod.broker_id,
            ClusterReason.OUT_OF_MEMORY,
            f"{pod.name}: used more memory than spec.brokers.resources allows",
        )
    if reason == "CrashLoopBackOff" or (ended and not reason):
        # A gate at which it waited before it ended is open by now, or another one, and was not what ended it.
        lines = [line for line in words.splitlines() if not line.startswith(GATE_PREFIX)]
        last = "; ".join(lines[-_LAST_LINES:]) or f"ended ({ended or 'no reason given'})"
        return BrokerProblem(pod.broker_id, ClusterReason.BROKER_CRASHING, f"{pod.name}: {_shortened(last)}")
    if reason:
        return BrokerProblem(
            pod.broker_id, ClusterReason.CONTAINER_NOT_CREATED, f"{pod.name}: {reason}: {_shortened(message)}"
        )
    mount = _warning(observed, POD.name, pod.name, "MountVolume", "FailedMount")
    if mount and pod.never_started:
        return BrokerProblem(pod.broker_id, ClusterReason.CONTAINER_NOT_CREATED, f"{pod.name}: {mount}")
    return None


def _disk(observed: ObservedCluster, pod: Pod) -> BrokerProblem | None:
    """A broker that runs and answers 507 (Insufficient Storage) where it is asked whether it is ready.

    The status is all that a kubelet passes on.
    """
    messages = [w.message for w in observed.warnings if (w.kind, w.name, w.reason) == (POD.name, pod.name, "Unhealthy")]
    if messages and _DISK_FULL in messages[-1]:
        message = f"{pod.name}: a disk is full; its log says which, and it goes on by itself when there is room"
        return BrokerProblem(pod.broker_id, ClusterReason.DISK_FULL, message)
    return None


def _warning(observed: ObservedCluster, kind: str, name: str, *containing: str) -> str:
    """Return what the last warning about an object says, if it holds one of the words."""
    for warned in reversed(observed.warnings):
        text = f"{warned.reason} {warned.message}"
        if (warned.kind, warned.name) == (kind, name) and (not containing or any(word in text for word in containing)):
            return _shortened(warned.message)
    return ""


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WORDS_MAX else line[: _WORDS_MAX - 1] + "…"


def summary(found: Iterable[BrokerProblem]) -> tuple[ClusterReason, str] | None:
    """The most telling reason and a sentence; None when there is nothing. The status tells of each broker."""
    ordered = sorted(found, key=lambda one: (_ORDER.index(one.reason), one.broker_id))
    if not ordered:
        return None
    more = f" (and {len(ordered) - 1} more, see status.brokers)" if len(ordered) > 1 else ""
    return ordered[0].reason, ordered[0].message + more


_ORDER = (
    ClusterReason.POD_NOT_CREATED,
    ClusterReason.STORAGE_CLASS_NOT_FOUND,
    ClusterReason.CLAIM_PENDING,
    ClusterReason.IMAGE_PULL_FAILED,
    ClusterReason.CONTAINER_NOT_CREATED,
    ClusterReason.BROKER_CRASHING,
    ClusterReason.OUT_OF_MEMORY,
    ClusterReason.DISK_FULL,
    ClusterReason.UNSCHEDULABLE,
    ClusterReason.BROKERS_NOT_READY,
    ClusterReason.FAULT_INJECTED,
)
"""The cause before the consequence: a pod is also unschedulable while its claim waits for a missing class. What is meant comes
last: nobody has to do anything about it."""


def _fault_on(experiment: Object | None, pod: Pod, now: datetime) -> str:
    """Return what the experiment does, or has just done, to the broker in this pod; empty when it has nothing to do with it.

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
    state, last = pod.container.get("state") or {}, pod.container.get("lastState") or {}
    ended = instant((state.get("terminated") or last.get("terminated") or {}).get("finishedAt"))
    if ended is not None and ended > over:
        return over
    running = state.get("running")
    if running is None:  # it waits, or its end is all that a busy kubelet has told
        return None
    return max(over, instant(running.get("startedAt")) or over)
