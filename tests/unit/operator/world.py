"""A Kubernetes in memory, as far as the planner can see it: it stores what is applied, makes pods, and lets them run.

What a real API server adds to objects (defaults, node ports, uids) is added here where the planner could stumble over it;
that the real one adds no more is what ``tests/apiserver`` shows.
"""

from __future__ import annotations

import itertools
import json
import pickle
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from minikafka.kubernetes.document import Document
from minikafka.kubernetes.lease import POD_UID
from minikafka.metadata.image import CLUSTER_CONFIG, MIN_ISR
from minikafka_kube.api import API_VERSION
from minikafka_kube.freshness import Signs
from minikafka_kube.kinds import CLAIM, CLUSTER, POD, STATEFUL_SET, TOPIC, Object
from minikafka_kube.names import CLUSTER_FINALIZER, DATA_VOLUME, MANAGER, TOPIC_FINALIZER, Names
from minikafka_kube.observed import ObservedCluster, Warned, annotations_of
from minikafka_operator.actions import (
    Apply,
    ClusterPlan,
    Create,
    Delete,
    Finalizers,
    Patch,
    ReplacePod,
    SetTopicCondition,
    WriteDisruptionLease,
)
from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.conditions import ClusterReason
from minikafka_operator.planning.planner import OperatorSettings, plan

from tests.copies import copied

BEGIN = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
SETTINGS = OperatorSettings(broker_image="minikafka/broker:1")
NAMES = Names("ns", "demo")


CREATED = {"manager": MANAGER, "operation": "Update", "fieldsV1": {"f:spec": {}}}
APPLIED = {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {}}}


def stamp(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def full_spec(**spec: Any) -> dict[str, Any]:
    """The spec with the defaults that the API server fills in."""
    return ClusterSpec.model_validate(spec).model_dump(mode="json", by_alias=True, exclude_none=True)


@cache
def _settled(spec: str) -> bytes:
    world = World(**json.loads(spec))
    world.settle()
    return pickle.dumps(world)


def settled(**spec: Any) -> World:
    """Return a cluster of which nothing is to be done any more. One of each spec is settled, and the others are its copies."""
    made: World = pickle.loads(_settled(json.dumps(spec)))
    return made


class World:
    """One cluster and all around it. ``step`` carries out one plan; ``settle`` goes on until nothing is to be done."""

    def __init__(self, **spec: Any) -> None:
        self.now = BEGIN
        self._uids = itertools.count(1)
        self.versions = itertools.count(100)
        self.objects: dict[tuple[str, str], Object] = {}
        self.pods: dict[str, Object] = {}
        self.topics: dict[str, Object] = {}
        self.racks: dict[str, str] = {}
        self.warnings: list[Warned] = []
        self.missing_classes: frozenset[str] = frozenset()
        self.refused: dict[str, str] = {}
        self.experiment: Object | None = None
        self.events: list[str] = []
        self.broken_images: set[str] = set()
        self.gone = False
        self.controller_signs = Signs(renewed_within=1.0)
        self.revisions: dict[str, int] = {}
        """Of each topic, in the brokers' metadata; those of topics that are not here are as their statuses say."""
        self.recorded_min_isr: int | None = None
        """The brokers' default of min.insync.replicas, as their metadata has it."""
        self.journal: dict[str, Any] = {}
        metadata = {"name": "demo", "namespace": "ns", "uid": "cluster-uid", "generation": 1, "resourceVersion": "1"}
        self.cluster: Object = {
            "apiVersion": API_VERSION,
            "kind": CLUSTER.name,
            "metadata": metadata,
            "spec": full_spec(**spec),
        }

    # -- looking --------------------------------------------------------------------------------------------------------

    def observed(self) -> ObservedCluster:
        return copied(
            ObservedCluster(
                cluster=self.cluster,
                now=self.now,
                objects=self.objects,
                pods=list(self.pods.values()),
                topics=list(self.topics.values()),
                metadata=self.metadata(),
                controller_signs=self.controller_signs,
                racks=self.racks,
                warnings=self.warnings,
                missing_storage_classes=self.missing_classes,
                experiment=self.experiment,
                refused=self.refused,
            )
        )

    def metadata(self) -> Object:
        """What the brokers keep in their ConfigMap."""
        taken_up = {name: topic["status"] for name, topic in self.topics.items() if topic["status"].get("partitions")}
        shown = {name: status["revision"] for name, status in taken_up.items()}
        settings = {} if self.recorded_min_isr is None else {MIN_ISR: str(self.recorded_min_isr)}
        document = Document(
            "id",
            records={CLUSTER_CONFIG: (1, settings)},
            topics={**shown, **self.revisions},
            journal=self.journal,
            resource_version="1",
            uid="1",
        )
        made = document.to_config_map(NAMES.metadata, NAMES.labels())
        return {"kind": "ConfigMap", **made, "metadata": {**made["metadata"], "uid": "1"}}

    def plan(self, refused: tuple[ClusterReason, str] | None = None, held_up: str = "") -> ClusterPlan:
        return plan(self.observed(), SETTINGS, refused, held_up)

    def condition(self, kind: str) -> tuple[str, str, str]:
        """Status, reason and message."""
        for condition in self.cluster["status"]["conditions"]:
            if condition["type"] == kind:
                return condition["status"], condition["reason"], condition["message"]
        raise AssertionError(f"no condition {kind}")

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster["status"]
        return found

    def ready(self) -> list[int]:
        return [i for i, pod in self.observed().brokers.items() if pod.ready]

    # -- changing -------------------------------------------------------------------------------------------------------

    def edit(self, **spec: Any) -> None:
        """Merge into the spec, as a person would; a None removes."""
        merged = {**self.cluster["spec"], **spec}
        self.cluster["spec"] = full_spec(**{name: value for name, value in merged.items() if value is not None})
        self.cluster["metadata"]["generation"] += 1

    def delete(self) -> None:
        self.cluster["metadata"]["deletionTimestamp"] = stamp(self.now)

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def topic(
        self, name: str, *partitions: tuple[list[int], list[int]], min_isr: int | None = None, leader: int | None = None
    ) -> None:
        """A topic as brokers tell it; each partition is its replicas and its ISR."""
        states = [
            {
                "partition": index,
                "replicas": list(replicas),
                "isr": list(isr),
                "leader": leader if leader is not None else (isr[0] if isr else -1),
                "leaderEpoch": 0,
                "partitionEpoch": 0,
            }
            for index, (replicas, isr) in enumerate(partitions)
        ]
        self.topics[name] = {
            "apiVersion": API_VERSION,
            "kind": TOPIC.name,
            "metadata": {**self._metadata(name), "finalizers": [TOPIC_FINALIZER]},
            "spec": {"clusterRef": {"name": "demo"}},
            "status": {
                "topicName": name,
                "revision": 7,
                "partitions": states,
                "configs": {} if min_isr is None else {"min.insync.replicas": str(min_isr)},
            },
        }

    def controller(self, broker_id: int) -> None:
        name = NAMES.controller
        self.objects["Lease", name] = {
            "kind": "Lease",
            "metadata": {
                **self._metadata(name),
                "labels": NAMES.labels(),
                "annotations": {POD_UID: self.pods[NAMES.pod(broker_id)]["metadata"]["uid"]},
            },
            "spec": {"holderIdentity": NAMES.pod(broker_id), "leaseDurationSeconds": 9},
        }

    # -- carrying out ---------------------------------------------------------------------------------------------------

    def step(self) -> ClusterPlan:
        """Look once and carry out the plan."""
        made = self.plan()
        for action in made.actions:
            self._do(action)
        if made.status is not None:
            self.cluster["status"] = copied(dict(made.status))
        self.events += [event.reason for event in made.events]
        return made

    def settle(self, *, steps: int = 200) -> int:
        """Step, with controllers and brokers at work in between, until the plan is empty; how many pods were replaced."""
        replaced = 0
        for _ in range(steps):
            made = self.step()
            replaced += sum(isinstance(action, ReplacePod) for action in made.actions)
            moved = self.controllers() | self.kubelets()
            if made.steady and not moved and made.retry_seconds is None:
                return replaced
            self.wait(1)
        raise AssertionError(f"not settled after {steps} steps: {self.plan()}")

    def controllers(self) -> bool:
        """The StatefulSet controller: makes the pods that are missing, removes those that are too many."""
        found = self.objects.get((STATEFUL_SET.name, NAMES.broker))
        if found is None:
            return False
        moved = False
        for broker_id in range(found["spec"]["replicas"]):
            name = NAMES.pod(broker_id)
            if name not in self.pods:
                self.pods[name] = self._pod(name, found["spec"]["template"])
                moved = True
            for claim in found["spec"].get("volumeClaimTemplates") or ():
                self._claim(f"{claim['metadata']['name']}-{name}", claim)
        for name in list(self.pods):
            if int(name.rpartition("-")[2]) >= found["spec"]["replicas"]:
                del self.pods[name]
                self._elect()
                moved = True
        return moved

    def kubelets(self) -> bool:
        """Pods whose image is good become ready, and are in sync at once."""
        moved = False
        for pod in self.pods.values():
            image = pod["spec"]["containers"][0]["image"]
            if image in self.broken_images:
                waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
                pod["status"] = {"containerStatuses": [{"name": "broker", "state": {"waiting": waiting}}]}
            elif not pod.get("status", {}).get("conditions"):
                self.start(pod["metadata"]["name"])
                moved = True
        return moved

    def start(self, name: str) -> None:
        """The pod's broker is ready."""
        pod = self.pods[name]
        pod["spec"]["nodeName"] = "node-1"
        pod["status"] = {
            "hostIP": "10.1.0.1",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(self.now)}],
            "containerStatuses": [{"name": "broker", "restartCount": 0, "state": {"running": {}}}],
        }
        broker_id = int(name.rpartition("-")[2])
        if ("Lease", NAMES.controller) not in self.objects:
            self.controller(max(int(pod.rpartition("-")[2]) for pod in self.pods))
        self._elect()
        for topic in self.topics.values():
            for partition in topic["status"]["partitions"]:
                if broker_id in partition["replicas"] and broker_id not in partition["isr"]:
                    partition["isr"].append(broker_id)

    def stop(self, name: str) -> None:
        """The pod's broker is not ready any more, and out of every ISR where it is not the last."""
        conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": stamp(self.now)}]
        self.pods[name]["status"]["conditions"] = conditions
        self._leave(int(name.rpartition("-")[2]))

    def _elect(self) -> None:
        """When the controller's pod is gone, a ready broker takes the Lease."""
        lease = self.objects.get(("Lease", NAMES.controller))
        observed = self.observed()
        if lease is None or POD_UID not in annotations_of(lease) or observed.controller:
            return
        ready = [broker_id for broker_id, pod in observed.brokers.items() if pod.ready]
        if ready:
            self.controller(ready[0])

    def _leave(self, broker_id: int) -> None:
        self._elect()
        for topic in self.topics.values():
            for partition in topic["status"]["partitions"]:
                if broker_id in partition["isr"] and len(partition["isr"]) > 1:
                    partition["isr"].remove(broker_id)
                    partition["leader"] = partition["isr"][0]

    def _do(self, action: Any) -> None:
        match action:
            case Create(thing):
                key = (thing["kind"], thing["metadata"]["name"])
                assert key not in self.objects, f"{key} is there: creating it fails"
                metadata = {**thing["metadata"], **self._metadata(key[1]), "managedFields": [dict(CREATED)]}
                self.objects[key] = self._defaulted(copied({**thing, "metadata": metadata}))
            case Apply(thing, _, _, _):
                key = (thing["kind"], thing["metadata"]["name"])
                found = self._expected(key, action.uid, action.resource_version)
                assert (action.body()["metadata"]["uid"], thing["metadata"].get("uid")) == (action.uid, None)
                assert found["metadata"]["managedFields"] == [APPLIED], f"{key}: fields would outlive the wish for them"
                metadata = {**found["metadata"], **thing["metadata"], "resourceVersion": str(next(self.versions))}
                self.objects[key] = self._defaulted(copied({**thing, "metadata": metadata}))
            case Patch(kind, name, body, _, _):
                target = self.pods[name] if kind is POD else self.objects[kind.name, name]
                assert body["metadata"]["uid"] == target["metadata"]["uid"]
                assert body["metadata"].get("resourceVersion") in (None, target["metadata"]["resourceVersion"])
                _merge(target, copied(dict(body)))
                target["metadata"]["resourceVersion"] = str(next(self.versions))
            case Finalizers(kind, name, version, finalizers, _):
                target = self.cluster if kind is CLUSTER else self.topics[name]
                assert version == target["metadata"]["resourceVersion"]
                target["metadata"]["finalizers"] = list(finalizers)
                target["metadata"]["resourceVersion"] = str(next(self.versions))
                if (
                    kind is CLUSTER
                    and "deletionTimestamp" in target["metadata"]
                    and CLUSTER_FINALIZER not in finalizers
                ):
                    self.gone = True
                if kind is TOPIC and "deletionTimestamp" in target["metadata"] and not finalizers:
                    del self.topics[name]
            case ReplacePod(name, uid, _) | Delete(_, name, uid, _, _) if name in self.pods:
                assert uid == self.pods[name]["metadata"]["uid"]
                del self.pods[name]
                self._leave(int(name.rpartition("-")[2]))
            case WriteDisruptionLease(lease, new, _):
                key = ("Lease", lease["metadata"]["name"])
                if new:
                    assert key not in self.objects
                    lease = {**lease, "metadata": {**lease["metadata"], **self._metadata(key[1])}}
                else:
                    assert lease["metadata"]["resourceVersion"] == self.objects[key]["metadata"]["resourceVersion"]
                self.objects[key] = copied(lease)
                self.objects[key]["metadata"]["resourceVersion"] = str(next(self.versions))
            case SetTopicCondition(name, condition):
                self.topics[name].setdefault("status", {})["conditions"] = [dict(condition)]
            case Delete(kind, name, uid, version, _):
                if kind is TOPIC:
                    metadata = self.topics[name]["metadata"]
                    assert (uid, version) == (metadata["uid"], metadata["resourceVersion"])
                    metadata["deletionTimestamp"] = stamp(self.now)
                    metadata["resourceVersion"] = str(next(self.versions))
                    if not self.topics[name]["metadata"].get("finalizers"):
                        del self.topics[name]
                else:
                    self._expected((kind.name, name), uid, version)
                    del self.objects[kind.name, name]
            case _:
                raise AssertionError(f"what is {action}?")

    def _expected(self, key: tuple[str, str], uid: str, version: str | None) -> Object:
        """What the API server finds, if it is what the operator has looked at."""
        metadata = self.objects[key]["metadata"]
        assert (uid, version) == (metadata["uid"], metadata["resourceVersion"]), f"{key}: it is another one"
        return self.objects[key]

    def stranger(self, kind: str, name: str, **content: Any) -> Object:
        """An object that somebody else has made."""
        made = {"kind": kind, "metadata": self._metadata(name), **content}
        self.objects[kind, name] = made
        return copied(made)

    def _metadata(self, name: str) -> dict[str, Any]:
        number = next(self._uids)
        return {"name": name, "namespace": "ns", "uid": f"uid-{number}", "resourceVersion": str(next(self.versions))}

    def _defaulted(self, thing: Object) -> Object:
        if thing["kind"] == "Service" and thing["spec"].get("type") in ("NodePort", "LoadBalancer"):
            for port in thing["spec"]["ports"]:
                port.setdefault("nodePort", 30_000 + next(self._uids))
        thing["spec"] = {**thing.get("spec", {}), "somethingDefaulted": True}
        return thing

    def _pod(self, name: str, template: Object) -> Object:
        made = copied(template)
        made["kind"] = POD.name
        uid = self.objects[STATEFUL_SET.name, NAMES.broker]["metadata"]["uid"]
        owner = {"kind": STATEFUL_SET.name, "name": NAMES.broker, "uid": uid, "controller": True}
        made["metadata"] = {
            **made["metadata"],
            **self._metadata(name),
            "ownerReferences": [owner],
            "creationTimestamp": stamp(self.now),
        }
        return made

    def _claim(self, name: str, template: Object) -> None:
        if (CLAIM.name, name) not in self.objects:
            metadata = {**copied(template["metadata"]), **self._metadata(name)}
            spec = {"storageClassName": "standard", **copied(template["spec"])}
            self.objects[CLAIM.name, name] = {
                "kind": CLAIM.name,
                "metadata": {**metadata, "creationTimestamp": stamp(self.now)},
                "spec": spec,
                "status": {"phase": "Bound", "capacity": {"storage": spec["resources"]["requests"]["storage"]}},
            }

    def data_claim(self, broker_id: int) -> Object:
        return self.objects[CLAIM.name, NAMES.claim(DATA_VOLUME, broker_id)]


def _merge(target: dict[str, Any], change: dict[str, Any]) -> None:
    for name, value in change.items():
        if isinstance(value, dict):
            _merge(target.setdefault(name, {}), value)
        else:
            target[name] = value
