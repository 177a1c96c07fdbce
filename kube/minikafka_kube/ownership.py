"""Whose an object is. The operator changes and deletes only what is provably this cluster's; names prove nothing.

==========================================  =========================================================================
object                                      it is this cluster's when
==========================================  =========================================================================
what the operator makes                     it has the operator's labels, and its controller (owner reference with
                                            ``controller: true``) is the MiniKafkaCluster of this uid
a user's Secret                             it has the labels, and its controller is the MiniKafkaUser of this uid
pod                                         it has the labels, and its controller is the cluster's StatefulSet
claim                                       it has the labels and a name that the StatefulSet gives; claims outlive their
                                            cluster, so they have no owner
ConfigMap ``<c>-metadata``, Lease           they have the labels that brokers put on them; they outlive the cluster, too
topic                                       its ``spec.clusterRef`` says so
==========================================  =========================================================================

Something of a name that the operator needs and that is not the cluster's is left alone, and the condition Accepted says
ObjectConflict. Each write names uid and resource version of what was looked at (or creates, which fails where something
is), so whatever happens between a look and a write, nothing of somebody else's is written or deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from minikafka_kube.api import GROUP
from minikafka_kube.kinds import CLUSTER, STATEFUL_SET, USER, Kind, Object
from minikafka_kube.names import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER, Names


class Standing(Enum):
    """What an object is to a cluster, or a Secret to a user."""

    OURS = "ours"
    EARLIER = "of an earlier cluster of this name"
    """Its owner is gone, so the garbage collector is about to delete it; then it can be made anew."""
    FOREIGN = "somebody else's"


def standing(thing: Object, names: Names, uid: str) -> Standing:
    """Judge whose an object is that the operator makes."""
    return _standing(thing, names, CLUSTER, names.cluster, uid)


def standing_to_user(secret: Object, names: Names, user: Object) -> Standing:
    """Judge whose a Secret is that has the name of a user's."""
    return _standing(secret, names, USER, user["metadata"]["name"], user["metadata"]["uid"])


def _standing(thing: Object, names: Names, kind: Kind, name: str, uid: str) -> Standing:
    owner = controller_of(thing)
    if not has_labels(thing, names) or owner.get("kind") != kind.name:
        return Standing.FOREIGN
    if owner.get("uid") == uid:
        return Standing.OURS
    group = str(owner.get("apiVersion")).partition("/")[0]
    same_name = owner.get("name") == name and group == GROUP
    return Standing.EARLIER if same_name else Standing.FOREIGN


def has_labels(thing: Object, names: Names) -> bool:
    """Return whether an object has the labels that operator and brokers put on everything of this cluster."""
    labels = thing["metadata"].get("labels") or {}
    return labels.get(MANAGED_BY_LABEL) == MANAGER and labels.get(CLUSTER_LABEL) == names.cluster


def is_brokers_pod(pod: Object, names: Names, uid: str, stateful_set: Object | None) -> bool:
    """Whether a pod is one of the brokers of the cluster of this uid. ``stateful_set``: what has the name of the cluster's,
    whosever it is; the cluster's own may be gone before its pods.
    """
    owner = controller_of(pod)
    if not has_labels(pod, names) or (owner.get("kind"), owner.get("name")) != (STATEFUL_SET.name, names.broker):
        return False
    if stateful_set is None:
        return True
    if standing(stateful_set, names, uid) is Standing.OURS:
        return bool(owner.get("uid") == stateful_set["metadata"]["uid"])
    # One that is not the cluster's has its own pods, and what else there is was the cluster's.
    return bool(owner.get("uid") != stateful_set["metadata"]["uid"])


def is_brokers_claim(claim: Object, names: Names) -> bool:
    """Return whether a claim is one that the cluster's StatefulSet has made, for this cluster or an earlier one of its name."""
    return has_labels(claim, names) and names.is_claim(claim["metadata"]["name"])


def controller_of(thing: Object) -> Mapping[str, Any]:
    """The owner reference of what controls an object, or nothing."""
    for owner in thing["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return {}
