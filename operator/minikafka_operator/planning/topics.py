"""Topics without brokers. What becomes of a topic is the brokers' work; where there are none, nobody says so.

A MiniKafkaTopic may be applied before its cluster, outlive it, or name one that never was (a slip of the pen). It gets
the condition Ready with the reason ClusterNotFound, beside whatever brokers have left in its status, which is the
topic's durable state. Once the cluster is there it waits for its brokers, whose word then replaces ours: so does a new
topic of a cluster without a broker that is ready, which may be for long (an invalid spec, an image that is not there).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from minikafka_kube.conditions import condition
from minikafka_kube.instants import time_text
from minikafka_kube.kinds import CLUSTER, TOPIC, Object
from minikafka_kube.names import TOPIC_FINALIZER
from minikafka_kube.observed import ObservedCluster, deleting, has_topic_finalizer

from minikafka_operator.actions import Action, Finalizers, SetTopicCondition
from minikafka_operator.conditions import TopicReason

READY: Final = "Ready"
"""The condition that brokers keep."""


def without_cluster(topics: Sequence[Object], cluster: str, now: datetime) -> list[Action]:
    """Return what to do about topics that name a cluster that is not there."""
    made: list[Action] = []
    for topic in topics:
        metadata = topic["metadata"]
        if not deleting(topic):
            message = f"spec.clusterRef.name={cluster}: there is no {CLUSTER.name} of that name in its namespace"
            made += _set_ready(topic, "False", TopicReason.CLUSTER_NOT_FOUND, message, now)
        elif has_topic_finalizer(topic):
            left = [name for name in metadata["finalizers"] if name != TOPIC_FINALIZER]
            why = "its cluster is not there, so no broker could let it go"
            made.append(Finalizers(TOPIC, metadata["name"], metadata["resourceVersion"], left, why))
    return made


def with_cluster(observed: ObservedCluster) -> list[Action]:
    """What to say of topics that were said to have no cluster, and have one, or of which no broker could say anything yet."""
    made: list[Action] = []
    silent = not any(pod.ready for pod in observed.brokers.values())
    for topic in observed.topics:
        reason = _ready(topic).get("reason")
        if reason == TopicReason.CLUSTER_NOT_FOUND or (silent and reason is None and not deleting(topic)):
            message = f"{CLUSTER.name} {observed.names.cluster} is there; its brokers have not taken up the topic yet"
            made += _set_ready(topic, "Unknown", TopicReason.WAITING_FOR_BROKERS, message, observed.now)
    return made


def _set_ready(topic: Object, status: str, reason: TopicReason, message: str, now: datetime) -> list[Action]:
    metadata, old = topic["metadata"], _ready(topic)
    said = {
        "type": READY,
        "status": status,
        "reason": reason.value,
        "message": message,
        "observedGeneration": metadata.get("generation", 0),
    }
    if said.items() <= old.items():
        return []
    since = old["lastTransitionTime"] if old.get("status") == status else time_text(now)
    return [SetTopicCondition(metadata["name"], {**said, "lastTransitionTime": since})]


def _ready(topic: Object) -> Mapping[str, Any]:
    return condition(topic.get("status") or {}, READY)
