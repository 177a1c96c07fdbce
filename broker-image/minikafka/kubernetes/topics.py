"""A topic as a MiniKafkaTopic object: its name, what its spec asks for, what its status says. Values in, values out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minikafka.metadata.image import NO_LEADER, TopicState

FIELD_MANAGER = "minikafka-broker"
FINALIZER = "minikafka.dev/topic"
CLUSTER_LABEL = "minikafka.dev/cluster"
TOPIC_ID = "minikafka.dev/topic-id"
"""Annotation of an object that brokers made: whose it is, until its status says so."""
OBJECT_NAME_MAX = 253
READY = "Ready"
LEADERS_SHOWN = 12
"""Leaders in the printer column; further ones are three dots."""

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_SLUG_LENGTH_MAX = 63

Object = Mapping[str, Any]


def labels_of(cluster: str) -> dict[str, str]:
    """Labels of every object of a cluster."""
    return {
        "app.kubernetes.io/name": "minikafka",
        "app.kubernetes.io/instance": cluster,
        "app.kubernetes.io/managed-by": "minikafka-operator",
        CLUSTER_LABEL: cluster,
    }


def object_name(topic: str) -> str:
    """The name of a topic's object: its own where Kubernetes allows that, else a readable part and a hash of it."""
    if len(topic) <= OBJECT_NAME_MAX and _SUBDOMAIN.fullmatch(topic):
        return topic
    return hashed_name(topic)


def hashed_name(topic: str, cluster: str | None = None) -> str:
    """The other name; with ``cluster``, one that differs between the clusters of a namespace."""
    slug = re.sub(r"[^a-z0-9]+", "-", topic.lower()).strip("-")[:_SLUG_LENGTH_MAX].strip("-")
    hashed = topic if cluster is None else f"{cluster}/{topic}"
    digest = hashlib.sha256(hashed.encode()).hexdigest()[:8]
    return f"{slug}-{digest}" if slug else f"topic-{digest}"


def topic_name(value: Object) -> str:
    """The topic an object speaks of."""
    return str(value.get("spec", {}).get("topicName") or value["metadata"]["name"])


def belongs_to(value: Object, cluster: str) -> bool:
    return bool(value.get("spec", {}).get("clusterRef", {}).get("name") == cluster)


def state_of(value: Object) -> tuple[int, dict[str, Any]] | None:
    """Revision and record that an object's status holds; None when it holds none."""
    status = value.get("status") or {}
    if "topicId" not in status or "revision" not in status:
        return None
    rows = sorted(status.get("partitions") or (), key=lambda row: row["partition"])
    partitions = [{k: v for k, v in row.items() if k != "partition"} for row in rows]
    record = {
        "topicId": status["topicId"],
        "partitions": partitions,
        "configs": dict(status.get("configs") or {}),
    }
    return int(status["revision"]), record


def topic_id(value: Object) -> str | None:
    """The topic that an object shows, or was made to show; None: a person's, and no topic has been made of it yet.

    A name is not enough: a client can delete a topic and make another of the same name before the object has a status,
    and the end of the object must not be taken as asking to delete the other topic.
    """
    found = (value.get("status") or {}).get("topicId") or (value["metadata"].get("annotations") or {}).get(TOPIC_ID)
    return None if found is None else str(found)


def shows_another(value: Object, state: TopicState) -> bool:
    """The object is of an earlier topic of this name."""
    return topic_id(value) not in (None, str(state.topic_id))


def is_deleting(value: Object) -> bool:
    return "deletionTimestamp" in value["metadata"]


def has_finalizer(value: Object) -> bool:
    return FINALIZER in (value["metadata"].get("finalizers") or ())


def slim(value: Object) -> dict[str, Any]:
    """Without the bulk of ``managedFields``, of which only the managers' names are of use."""
    managers = [{"manager": entry.get("manager")} for entry in value["metadata"].get("managedFields") or ()]
    return {**value, "metadata": {**value["metadata"], "managedFields": managers}}


def made_by_brokers(value: Object) -> bool:
    """Whether no person has written a word of it: then it shows a client's topic, and asks for none."""
    return {entry.get("manager") for entry in value["metadata"].get("managedFields") or ()} == {FIELD_MANAGER}


# -- the spec ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DesiredTopic:
    """What a spec asks for. Counts that are left out are None."""

    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] = ()


def desired_of(value: Object) -> DesiredTopic:
    spec = value.get("spec") or {}
    return DesiredTopic(
        spec.get("partitions"),
        spec.get("replicationFactor"),
        {str(k): str(v) for k, v in (spec.get("config") or {}).items()},
        spec.get("replicaAssignment") or (),
    )


@dataclass(frozen=True, slots=True)
class Edit:
    """How what is desired differs from what was last written into the status: what a person has changed since."""

    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str | None] = field(default_factory=dict)
    """Overrides to set; None: to take away."""

    def __bool__(self) -> bool:
        return self.partitions is not None or self.replication_factor is not None or bool(self.config)


def edit_of(value: Object, state: TopicState) -> Edit:
    """A person's edits: the spec against the status, which is what both sides agreed on last.

    Not against the ``state`` of now, or a change by a Kafka client that has not reached the object yet would look like a
    person who asks to undo it. A new object for a topic that is there already adds to it and takes nothing away.
    """
    if shows_another(value, state):
        return Edit()  # the topic was deleted and made anew by a client: what the spec says is of the old one
    desired = desired_of(value)
    agreed = state_of(value)
    if agreed is not None:
        base_config = agreed[1]["configs"]
        base_partitions = len(agreed[1]["partitions"])
    else:
        base_config, base_partitions = {}, len(state.partitions)
    config: dict[str, str | None] = {k: v for k, v in desired.config.items() if base_config.get(k) != v}
    config |= {k: None for k in base_config if k not in desired.config}
    config = {k: v for k, v in config.items() if state.configs.get(k) != v}
    partitions = (
        desired.partitions if desired.partitions not in (None, base_partitions, len(state.partitions)) else None
    )
    factor = None
    if agreed is None and desired.replication_factor != replication_factor(state):
        factor = desired.replication_factor  # later the API server sees to it that nobody changes it
    return Edit(partitions, factor, config)


def spec_patch(value: Object, state: TopicState) -> dict[str, Any]:
    """What to write into a spec so that it says what clients have changed; empty when it does. A person's edit stays."""
    desired, edit = desired_of(value), edit_of(value, state)
    patch: dict[str, Any] = {}
    if desired.partitions is None or (edit.partitions is None and desired.partitions != len(state.partitions)):
        patch["partitions"] = len(state.partitions)
    if desired.replication_factor is None:
        patch["replicationFactor"] = replication_factor(state)
    config: dict[str, str | None] = {
        k: v for k, v in state.configs.items() if desired.config.get(k) != v and k not in edit.config
    }
    config |= {k: None for k in desired.config if k not in state.configs and k not in edit.config}
    if config:
        patch["config"] = config
    return patch


def new_object(name: str, cluster: str, state: TopicState) -> dict[str, Any]:
    """The object of a topic that a client made."""
    spec: dict[str, Any] = {
        "clusterRef": {"name": cluster},
        "partitions": len(state.partitions),
        "replicationFactor": replication_factor(state),
    }
    if name != state.name:
        spec["topicName"] = state.name
    if state.configs:
        spec["config"] = dict(state.configs)
    metadata = {
        "name": name,
        "labels": labels_of(cluster),
        "annotations": {TOPIC_ID: str(state.topic_id)},
        "finalizers": [FINALIZER],
    }
    return {"metadata": metadata, "spec": spec}


def metadata_patch(value: Object, cluster: str) -> dict[str, Any]:
    """Labels and finalizer that an object lacks."""
    metadata = value["metadata"]
    have = metadata.get("labels") or {}
    patch: dict[str, Any] = {}
    wanted = {k: v for k, v in labels_of(cluster).items() if k not in have}
    if have.get(CLUSTER_LABEL) != cluster:
        wanted[CLUSTER_LABEL] = cluster
    if wanted:
        patch["labels"] = wanted
    if not has_finalizer(value):
        patch["finalizers"] = [*(metadata.get("finalizers") or ()), FINALIZER]
    return patch


# -- the status -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicRefusal:
    """Why what is desired is not so."""

    reason: str
    message: str


def status_of(
    value: Object, state: TopicState, revision: int, refusal: TopicRefusal | None, now: str
) -> dict[str, Any]:
    """The whole status. ``now`` (RFC 3339) is used where a condition changes; else the old time stays."""
    rows = [{"partition": i, **p.to_json()} for i, p in enumerate(state.partitions)]
    factor = replication_factor(state)
    offline = sum(1 for p in state.partitions if p.leader == NO_LEADER)
    behind = sum(1 for p in state.partitions if len(p.isr) < len(p.replicas))
    smallest = min((len(p.isr) for p in state.partitions), default=0)
    generation = value["metadata"].get("generation", 0)
    if refusal is not None:
        ready = ("False", refusal.reason, refusal.message)
    elif offline:
        have = "has" if offline == 1 else "have"
        ready = ("False", "PartitionsOffline", f"{offline} of {len(rows)} partitions {have} no leader")
    elif behind:
        lack = "lacks" if behind == 1 else "lack"
        ready = ("True", "UnderReplicated", f"{behind} of {len(rows)} partitions {lack} in-sync replicas")
    else:
        ready = (
            "True",
            "InSync",
            f"{len(rows)} {'partition' if len(rows) == 1 else 'partitions'}, all replicas in sync",
        )
    return {
        "observedGeneration": generation,
        "topicId": str(state.topic_id),
        "topicName": state.name,
        "revision": revision,
        "partitionCount": len(rows),
        "replicationFactor": factor,
        "partitions": rows,
        "configs": dict(state.configs),
        "leaders": _leaders(state),
        "isr": f"{smallest}/{factor}",
        "underReplicated": behind,
        "offline": offline,
        "conditions": _with_ready(value, ready, generation, now),
    }


def refused_status(value: Object, refusal: TopicRefusal, now: str) -> dict[str, Any]:
    """The status of an object whose topic could not be made: nothing but why."""
    generation = value["metadata"].get("generation", 0)
    ready = ("False", refusal.reason, refusal.message)
    return {
        "observedGeneration": generation,
        "conditions": _with_ready(value, ready, generation, now),
    }


def _with_ready(value: Object, ready: tuple[str, str, str], generation: int, now: str) -> list[dict[str, Any]]:
    """The conditions there are, with ours set; those of others stay."""
    conditions = [dict(c) for c in (value.get("status") or {}).get("conditions") or ()]
    old = next((c for c in conditions if c.get("type") == READY), None)
    status, reason, message = ready
    since = old["lastTransitionTime"] if old is not None and old.get("status") == status else now
    new = {
        "type": READY,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }
    return [new, *(c for c in conditions if c.get("type") != READY)]


def _leaders(state: TopicState) -> str:
    shown = ["-" if p.leader == NO_LEADER else str(p.leader) for p in state.partitions[:LEADERS_SHOWN]]
    return ",".join(shown) + (",..." if len(state.partitions) > LEADERS_SHOWN else "")


def replication_factor(state: TopicState) -> int:
    """Replicas of partition 0, those that a reassignment is still adding not counted."""
    first = state.partitions[0]
    return len(first.replicas) - len(first.adding)


def reason_of(code_name: str) -> str:
    """``INVALID_REPLICATION_FACTOR`` as the reason of a condition: ``InvalidReplicationFactor``."""
    return "".join(part.capitalize() for part in code_name.lower().split("_"))
