"""The size of the brokers' volumes. Claims follow ``spec.storage.size`` up; a size typed too large can be taken back.

Volumes do not shrink. But a claim that asks for more has not got it yet: its request may be far above its capacity, and
what counts is the capacity. So a size may go back to the largest capacity, which the status records for the rule in the
CRD. A request is lowered where Kubernetes allows it (from 1.32, and only to more than the capacity). A cluster whose
claims were too large from the start, so that none of them has a volume, is made anew: a StatefulSet's claim templates
cannot be changed.

A claim that never had a volume has no data. It goes with its cluster, whatever ``deleteClaim`` says, or the class and size of
an earlier cluster would override the next one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

from minikafka_kube.instants import instant
from minikafka_kube.kinds import CLAIM, POD, STATEFUL_SET, Object
from minikafka_kube.names import DATA_VOLUME, EVENTS_VOLUME, Names
from minikafka_kube.observed import ObservedCluster, deleting

from minikafka_operator.actions import Action, Delete, Patch
from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.manifests.difference import quantity
from minikafka_operator.manifests.pods import claim_sizes


def size_claims(observed: ObservedCluster, spec: ClusterSpec, replicas: int) -> list[Action]:
    """Requests of bound claims that are not what the spec says; an unbound claim cannot be resized."""
    made: list[Action] = []
    for volume, size in claim_sizes(spec).items():
        wanted = quantity(size)
        for claim in _claims(observed, volume, replicas):
            asked, there = requested(claim), capacity(claim)
            if wanted is None or asked is None or claim.get("status", {}).get("phase") != "Bound" or deleting(claim):
                continue
            if asked < wanted:
                made.append(_request(claim, size, "spec.storage.size grew"))
            elif there is not None and there < wanted < asked:
                made.append(_request(claim, size, "spec.storage.size was taken back", dispensable=True))
    return made


def without_volumes(observed: ObservedCluster, spec: ClusterSpec, replicas: int) -> list[Action]:
    """Return what has to go so that claims that are too large, none of which has a volume yet, can be made smaller."""
    if observed.stateful_set is None or deleting(observed.stateful_set):
        return []
    if not all(pod.never_started for pod in observed.brokers.values()):
        return []  # it has volumes, whatever is seen of its claims: somebody may have removed their labels
    made: list[Action] = []
    for volume, size in claim_sizes(spec).items():
        wanted, template = quantity(size), _template_size(observed.stateful_set, volume)
        if wanted is None or template is None or template <= wanted:
            continue
        claims = list(_claims(observed, volume, replicas))
        if any(claim.get("status", {}).get("phase") != "Pending" for claim in claims):
            return []  # a broker may have written to it
        if not made:
            made.append(Delete.of(STATEFUL_SET, observed.stateful_set, "its claims are too large, and have no volumes"))
        too_large = [claim for claim in claims if (requested(claim) or wanted) > wanted and not deleting(claim)]
        made += [Delete.of(CLAIM, claim, "it has no volume, and asks for too much") for claim in too_large]
    return made


def has_no_data(claim: Object, names: Names) -> bool:
    """Whether nothing was ever written for a claim: it never had a volume, and a StatefulSet has made it. One that a person has
    made for a broker asks for something of its own: a snapshot's records, a certain volume.
    """
    spec, labels = claim["spec"], claim["metadata"].get("labels") or {}
    asks = any(spec.get(name) for name in ("volumeName", "selector", "dataSource", "dataSourceRef"))
    made = names.selector().items() <= labels.items()
    return made and not asks and (claim.get("status") or {}).get("phase", "Pending") == "Pending"


def without_claims_of_an_earlier_cluster(observed: ObservedCluster) -> list[Action]:
    """What has to go of an earlier cluster of this name that left claims without volumes; pods that wait for them keep them."""
    born = instant(observed.cluster["metadata"].get("creationTimestamp"))
    made: list[Action] = []
    for claim in observed.claims:
        since = instant(claim["metadata"].get("creationTimestamp"))
        if born is None or since is None or since >= born or not has_no_data(claim, observed.names):
            continue
        name = claim["metadata"]["name"]
        pod = next((pod for i, pod in observed.brokers.items() if name in _claims_of(observed.names, i)), None)
        if pod is not None and not pod.never_started:
            continue
        if not deleting(claim):
            made.append(Delete.of(CLAIM, claim, "it is of an earlier cluster, and has no volume"))
        if pod is not None and not deleting(pod.thing):
            made.append(
                Delete.of(POD, pod.thing, f"it waits for {name}, which is of an earlier cluster and has no volume")
            )
    return made


def _claims_of(names: Names, broker_id: int) -> list[str]:
    return [names.claim(volume, broker_id) for volume in (DATA_VOLUME, EVENTS_VOLUME)]


def claims_leaving(observed: ObservedCluster) -> list[str]:
    """Claims that were deleted, and that the pod of a broker keeps from going."""
    names = {observed.names.claim(DATA_VOLUME, broker_id) for broker_id in observed.brokers}
    return [name for claim in observed.claims if deleting(claim) and (name := claim["metadata"]["name"]) in names]


def largest_capacity(observed: ObservedCluster, replicas: int) -> str | None:
    """The capacity of the largest of the brokers' volumes as Kubernetes writes it; None while there is none."""
    found = [claim for claim in _claims(observed, DATA_VOLUME, replicas) if capacity(claim) is not None]
    largest = max(found, key=lambda claim: capacity(claim) or 0, default=None)
    return None if largest is None else str(largest["status"]["capacity"]["storage"])


def still_larger(observed: ObservedCluster, spec: ClusterSpec, replicas: int) -> str:
    """A sentence about volumes and requests above what the spec says, which cannot be made smaller; or nothing."""
    shortfalls = []
    for volume, size in claim_sizes(spec).items():
        wanted = quantity(size)
        for claim in _claims(observed, volume, replicas):
            asked, there = requested(claim), capacity(claim)
            if wanted is None or asked is None or there is None or asked <= wanted:
                continue
            name, status = claim["metadata"]["name"], claim["status"]
            if there > wanted:
                shortfalls.append(f"{name} has {status['capacity']['storage']}")
            else:
                request = claim["spec"]["resources"]["requests"]["storage"]
                shortfalls.append(f"{name} has {status['capacity']['storage']} and still asks for {request}")
    return ", ".join(shortfalls)


def requested(claim: Object) -> Decimal | None:
    """Bytes that a claim asks for."""
    return quantity(claim["spec"]["resources"]["requests"]["storage"])


def capacity(claim: Object) -> Decimal | None:
    """Bytes of a claim's volume; None while it has none."""
    there: Mapping[str, str] = claim.get("status", {}).get("capacity") or {}
    return quantity(there["storage"]) if "storage" in there else None


def _claims(observed: ObservedCluster, volume: str, replicas: int) -> Iterator[Object]:
    by_name = {claim["metadata"]["name"]: claim for claim in observed.claims}
    for broker_id in range(replicas):
        claim = by_name.get(observed.names.claim(volume, broker_id))
        if claim is not None:
            yield claim


def _template_size(stateful_set: Object, volume: str) -> Decimal | None:
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        if template["metadata"]["name"] == volume:
            return requested(template)
    return None


def _request(claim: Object, size: str, why: str, *, dispensable: bool = False) -> Patch:
    metadata = claim["metadata"]
    body = {
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        "spec": {"resources": {"requests": {"storage": size}}},
    }
    return Patch(CLAIM, metadata["name"], body, why, dispensable)
