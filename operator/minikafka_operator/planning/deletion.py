"""What happens when a cluster is deleted, step by step; each look at the cluster finds out which step it is at.

1. The brokers stop, in good order: their pods and what would make them again are deleted.
2. Topics lose the finalizer of the controller broker, for there is none any more that could remove it.
3. With ``deleteClaim`` the data goes: topics, claims, and what brokers keep in their ConfigMap and Lease. Without it all
   of that stays, for claims are worth nothing without the metadata, but for claims that never had a volume. A cluster of the
   same name goes on with them.
4. The cluster's own finalizer goes. Everything else is the garbage collector's.

Only what is the cluster's goes (:mod:`~minikafka_kube.ownership`), whatever has its names.

It always ends: pods that do not go (their node is gone) hold it up for :data:`STOP_SECONDS_MAX` and no longer.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from minikafka_kube.events import Emit
from minikafka_kube.instants import instant
from minikafka_kube.kinds import CLAIM, CLUSTER, POD, STATEFUL_SET, TOPIC
from minikafka_kube.names import CLUSTER_FINALIZER, TOPIC_FINALIZER
from minikafka_kube.observed import ObservedCluster, deleting, has_topic_finalizer

from minikafka_operator.actions import (
    Action,
    ClusterPlan,
    Delete,
    Finalizers,
)
from minikafka_operator.conditions import ClusterReason
from minikafka_operator.manifests.objects import made_by_brokers
from minikafka_operator.manifests.storage import has_no_data

STOP_SECONDS_MAX: Final = 180
_RETRY_SECONDS: Final = 2.0


def plan_deletion(observed: ObservedCluster, *, delete_claim: bool) -> ClusterPlan:
    """The next step."""
    if CLUSTER_FINALIZER not in (observed.cluster["metadata"].get("finalizers") or ()):
        return ClusterPlan()
    began = instant(observed.cluster["metadata"].get("deletionTimestamp")) or observed.now
    late = observed.now - began > timedelta(seconds=STOP_SECONDS_MAX)
    stopping = _stop(observed)
    if (observed.stateful_set is not None or observed.brokers) and not late:
        return ClusterPlan(stopping, retry_seconds=_RETRY_SECONDS)
    data = _drop_data(observed, delete_claim)
    if data:
        return ClusterPlan(data, retry_seconds=_RETRY_SECONDS)
    metadata = observed.cluster["metadata"]
    left = [name for name in metadata["finalizers"] if name != CLUSTER_FINALIZER]
    release = Finalizers(CLUSTER, metadata["name"], metadata["resourceVersion"], left, "everything is in order")
    return ClusterPlan((release,), events=_farewell(observed, delete_claim, late))


def _stop(observed: ObservedCluster) -> list[Action]:
    made: list[Action] = []
    if observed.stateful_set is not None and not deleting(observed.stateful_set):
        made.append(Delete.of(STATEFUL_SET, observed.stateful_set, "the cluster is being deleted"))
    elif observed.stateful_set is None:
        made += [
            Delete.of(POD, pod.thing, "the cluster is being deleted")
            for pod in observed.brokers.values()
            if not deleting(pod.thing)
        ]
    return made


def _drop_data(observed: ObservedCluster, delete_claim: bool) -> list[Action]:
    made: list[Action] = []
    for topic in observed.topics:
        metadata = topic["metadata"]
        if delete_claim and not deleting(topic):
            made.append(Delete.of(TOPIC, topic, "deleteClaim"))  # the finalizer at the next look: this one changes it
        elif has_topic_finalizer(topic):
            left = [name for name in metadata["finalizers"] if name != TOPIC_FINALIZER]
            made.append(
                Finalizers(
                    TOPIC, metadata["name"], metadata["resourceVersion"], left, "there is no controller any more"
                )
            )
    going = [claim for claim in observed.claims if not deleting(claim)]
    if not delete_claim:
        made += [Delete.of(CLAIM, claim, "it has no volume") for claim in going if has_no_data(claim, observed.names)]
    else:
        made += [Delete.of(CLAIM, claim, "deleteClaim") for claim in going]
        for kind, name in made_by_brokers(observed.names):
            kept = observed.kept_by_brokers(kind, name)
            if kept is not None and not deleting(kept):
                made.append(Delete.of(kind, kept, "deleteClaim"))
    return made


def _farewell(observed: ObservedCluster, delete_claim: bool, late: bool) -> list[Emit]:
    kept = "its claims, topics and metadata were deleted" if delete_claim else "its claims, topics and metadata stay"
    events = [Emit(ClusterReason.DELETING.value, f"Brokers were stopped; {kept}", action="Delete")]
    if late and observed.brokers:
        pods = ", ".join(pod.name for pod in observed.brokers.values())
        note = f"Pods did not end within {STOP_SECONDS_MAX} s: {pods}"
        events.insert(0, Emit(ClusterReason.DELETING.value, note, warning=True, action="Delete"))
    return events
