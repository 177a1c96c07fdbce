"""What stands in a cluster's way under the names it needs: objects of somebody else, and what an earlier cluster has left."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.kubernetes.lease import POD_UID
from minikafka_kube.instants import instant
from minikafka_kube.kinds import CLAIM, CONFIG_MAP, LEASE, STATEFUL_SET, Object
from minikafka_kube.names import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER
from minikafka_kube.observed import ObservedCluster, annotations_of
from minikafka_kube.ownership import Standing, has_labels

from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.manifests.objects import BY_NAME
from minikafka_operator.manifests.pods import claim_sizes

_SHOWN_MAX = 10


def in_the_way(observed: ObservedCluster, spec: ClusterSpec, desired: Sequence[Object], replicas: int) -> list[str]:
    """Sentences about objects of somebody else that have the names of what is desired, or of what brokers would make."""
    foreign = []
    for kind, name in _names_of(observed, desired):
        found = observed.find(BY_NAME[kind], name)
        if found is not None and observed.standing(found) is Standing.FOREIGN:
            foreign.append(f"{kind} {name}")
    metadata, lease = observed.metadata, observed.find(LEASE, observed.names.controller)
    if metadata is not None and not has_labels(metadata, observed.names):
        foreign.append(f"{CONFIG_MAP.name} {observed.names.metadata}")
    # Labels that are taken off a Lease of theirs brokers put on again as they renew it.
    if lease is not None and not has_labels(lease, observed.names) and POD_UID not in annotations_of(lease):
        foreign.append(f"{LEASE.name} {observed.names.controller}")
    claims = _claims_in_the_way(observed, spec, replicas)
    return [*([conflict(foreign)] if foreign else ()), *([claim_conflict(claims)] if claims else ())]


def _claims_in_the_way(observed: ObservedCluster, spec: ClusterSpec, replicas: int) -> list[str]:
    found = []
    for volume in claim_sizes(spec):
        for broker_id in range(replicas):
            name = observed.names.claim(volume, broker_id)
            claim = observed.find(CLAIM, name)
            # One that a broker's pod uses already is the broker's, whatever happened to its labels.
            if claim is not None and not has_labels(claim, observed.names) and broker_id not in observed.brokers:
                found.append(name)
    return found


def of_an_earlier_cluster(observed: ObservedCluster, desired: Sequence[Object]) -> list[Object]:
    """Return what the garbage collector has still to remove."""
    found = [observed.find(BY_NAME[kind], name) for kind, name in _names_of(observed, desired)]
    return [there for there in found if there is not None and observed.standing(there) is Standing.EARLIER]


def overdue_seconds(observed: ObservedCluster, leftover: Object) -> float:
    """Return for how long an object of an earlier cluster should have been gone."""
    since = leftover["metadata"].get("deletionTimestamp") or observed.cluster["metadata"].get("creationTimestamp")
    return (observed.now - (instant(since) or observed.now)).total_seconds()


def _names_of(observed: ObservedCluster, desired: Sequence[Object]) -> list[tuple[str, str]]:
    """Kinds and names of what is desired, and of what pods are made of, which is not always desired yet."""
    names = [(thing["kind"], thing["metadata"]["name"]) for thing in desired]
    later = [(CONFIG_MAP.name, observed.names.config), (STATEFUL_SET.name, observed.names.broker)]
    return list(dict.fromkeys([*names, *later]))


def conflict(names: Sequence[str]) -> str:
    """The sentence about objects (kind and name) that are in the way."""
    others = _listed(names)
    return f"not this cluster's, and left alone: {others}; remove {_them(names)}, or give the cluster another name"


def claim_conflict(names: Sequence[str]) -> str:
    """The same about claims, which a StatefulSet would take for its own by their names alone."""
    labels = f"{MANAGED_BY_LABEL}={MANAGER} and {CLUSTER_LABEL}"
    return (
        f"not this cluster's, and a broker would write to {_them(names)}: PersistentVolumeClaim {_listed(names)}; "
        f"remove {_them(names)}, or add the labels {labels} to let the broker have {_them(names)}"
    )


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(names[:_SHOWN_MAX]) + more
