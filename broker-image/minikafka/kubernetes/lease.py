"""The controller's lease as a ``coordination.k8s.io`` Lease: ``leaseTransitions`` is the controller epoch.

The Lease says who should be asked. What keeps an old controller from writing is the epoch in the document
(:mod:`document`), which each new holder seals before it does anything else; so nobody compares clocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from minikafka.kubernetes.topics import labels_of
from minikafka.metadata.store import Lease, StoreError

NODE, HOST, PORT = "minikafka.dev/node-id", "minikafka.dev/host", "minikafka.dev/port"
RENEWED = "minikafka.dev/renewed"
POD_UID = "minikafka.dev/pod-uid"
"""The holder's pod, "" outside of one: who looks at the Lease from outside can tell a broker of the cluster from its namesake."""
TERM = "minikafka.dev/term"
"""A random word of the one who took it, by which it recognises its own write when the answer was lost."""


def micro_time(when: datetime) -> str:
    """As Kubernetes' MicroTime."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def to_object(
    name: str,
    cluster: str,
    lease: Lease,
    term: str,
    duration_seconds: float,
    old: Mapping[str, Any] | None,
    pod_uid: str,
    utc_now: datetime,
) -> dict[str, Any]:
    """The Lease to write; over ``old`` as a compare-and-set, or None to create it."""
    now = micro_time(utc_now)
    metadata: dict[str, Any] = {
        "name": name,
        "labels": labels_of(cluster),
        "annotations": {
            NODE: str(lease.holder),
            HOST: lease.host,
            PORT: str(lease.port),
            RENEWED: str(lease.renewed),
            TERM: term,
            POD_UID: pod_uid,
        },
    }
    acquired = now
    if old is not None:
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        if term_of(old) == term:
            acquired = old["spec"].get("acquireTime", now)
    return {
        "metadata": metadata,
        "spec": {
            "holderIdentity": f"{cluster}-broker-{lease.holder}",
            "leaseDurationSeconds": max(math.ceil(duration_seconds), 1),
            "leaseTransitions": lease.epoch,
            "acquireTime": acquired,
            "renewTime": now,
        },
    }


def from_object(value: Mapping[str, Any]) -> Lease:
    """Raises StoreError for a Lease that no broker wrote."""
    try:
        notes = value["metadata"]["annotations"]
        return Lease(
            int(notes[NODE]), value["spec"]["leaseTransitions"], int(notes[RENEWED]), notes[HOST], int(notes[PORT])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"Lease {value['metadata']['name']} was not written by a broker; remove it, or give the cluster another name"
        ) from error


def term_of(value: Mapping[str, Any]) -> str:
    """Whose write this is."""
    return str((value["metadata"].get("annotations") or {}).get(TERM, ""))
