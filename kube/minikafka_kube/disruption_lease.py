"""The disruption Lease of a cluster (``<cluster>-disruption``): who takes brokers away on purpose now, rolls or chaos.

Each side looks at it before it begins, and takes it by compare-and-set, so that two never begin at once. It is not renewed:
its duration says how long the disruption may last at most, from ``renewTime`` on, and who ends sooner gives it back. Clocks of
two machines are compared, which seconds of difference do not harm: the times are minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from minikafka_kube.instants import instant, micro_time_text
from minikafka_kube.kinds import LEASE, Object
from minikafka_kube.names import Names

EXPERIMENT_PREFIX: Final = "experiment/"
"""What the identity of an experiment begins with, as the holder of the disruption Lease."""


@dataclass(frozen=True)
class LeaseHold:
    """Who holds the Lease, and until when."""

    holder: str
    until: datetime

    def by_other(self, identity: str, now: datetime) -> bool:
        """Return whether somebody else holds it now."""
        return self.holder not in ("", identity) and now < self.until


FREE = LeaseHold("", datetime.min.replace(tzinfo=UTC))


def hold_of(lease: Object | None) -> LeaseHold:
    """Return who holds a Lease. One without a time is held by nobody."""
    spec: Mapping[str, Any] = (lease or {}).get("spec") or {}
    renewed = instant(spec.get("renewTime") or spec.get("acquireTime"))
    if not spec.get("holderIdentity") or renewed is None:
        return FREE
    until = renewed + timedelta(seconds=int(spec.get("leaseDurationSeconds") or 0))
    return LeaseHold(str(spec["holderIdentity"]), until)


def taken(lease: Object | None, names: Names, cluster: Object, identity: str, seconds: int, now: datetime) -> Object:
    """The Lease as it is to be written to hold it for so long; at the resource version that was looked at, if there is one.

    It goes with its cluster, and has the labels of what belongs to it, whoever made it: both sides write it.
    """
    owner = {
        "apiVersion": cluster["apiVersion"],
        "kind": cluster["kind"],
        "name": names.cluster,
        "uid": cluster["metadata"]["uid"],
    }
    metadata: dict[str, Any] = {"name": names.disruption, "namespace": names.namespace}
    if lease is not None:
        metadata = {key: value for key, value in lease["metadata"].items() if key != "managedFields"}
    metadata |= {"labels": names.labels(), "ownerReferences": [owner]}
    time = micro_time_text(now)
    spec = {"holderIdentity": identity, "leaseDurationSeconds": max(1, seconds), "acquireTime": time, "renewTime": time}
    return {"apiVersion": LEASE.api_version, "kind": LEASE.name, "metadata": metadata, "spec": spec}


def given_back(lease: Object) -> Object:
    """The same Lease, held by nobody."""
    metadata = {key: value for key, value in lease["metadata"].items() if key != "managedFields"}
    spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
    return {"apiVersion": LEASE.api_version, "kind": LEASE.name, "metadata": metadata, "spec": spec}


def identity(experiment: Object) -> str:
    """Return how an experiment is called as a holder: its name for people, its uid because a name is no identity."""
    metadata = experiment["metadata"]
    return f"{EXPERIMENT_PREFIX}{metadata['name']}/{metadata['uid']}"


def is_experiment(hold: LeaseHold) -> bool:
    """Return whether the holder is an experiment."""
    return hold.holder.startswith(EXPERIMENT_PREFIX)


def experiment_name(hold: LeaseHold) -> str:
    """Its name."""
    return hold.holder.removeprefix(EXPERIMENT_PREFIX).partition("/")[0]
