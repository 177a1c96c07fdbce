"""What was observed of one cluster, as values the planner can ask questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from minikafka.kubernetes.lease import POD_UID

from minikafka_kube.freshness import Freshness, MetadataGap, Partitions, Signs, controller_gap, newest
from minikafka_kube.instants import instant
from minikafka_kube.kinds import CLAIM, LEASE, SERVICE_ACCOUNT, STATEFUL_SET, Kind, Object
from minikafka_kube.names import (
    ACCOUNT_ANNOTATION,
    CONFIG_ANNOTATION,
    CONTAINER,
    RACK_ANNOTATION,
    RACK_CONTAINER,
    TEMPLATE_ANNOTATION,
    TOPIC_FINALIZER,
    Names,
    config_digest,
)
from minikafka_kube.ownership import Standing, has_labels, is_brokers_claim, is_brokers_pod, standing

Key = tuple[str, str]
"""Kind and name of an object in the cluster's namespace."""


def annotations_of(thing: Object) -> Mapping[str, str]:
    """The annotations of an object."""
    return thing["metadata"].get("annotations") or {}


def deleting(thing: Object) -> bool:
    """Return whether an object is being deleted."""
    return "deletionTimestamp" in thing["metadata"]


@dataclass(frozen=True)
class Warned:
    """A Kubernetes Event of type Warning about an object of the cluster."""

    kind: str
    name: str
    reason: str
    message: str


@dataclass(frozen=True)
class ObservedCluster:
    """One look at a cluster and everything that belongs to it.

    ``metadata`` is the ConfigMap of the brokers, ``controller_signs`` what was seen of their controller's Lease.
    ``objects`` have the names of what the operator makes, of claims, and of what brokers keep; whose they are is a question
    of their own (:mod:`~minikafka_kube.ownership`). ``racks`` holds what is known of nodes: the value of
    the rack's label, "" where a node has none. ``experiment`` is the ChaosExperiment that has its turn with the cluster, looked
    at while a broker is not ready. ``refused`` holds what could not be looked at, and why.
    """

    cluster: Object
    now: datetime
    objects: Mapping[Key, Object] = field(default_factory=dict)
    pods: Sequence[Object] = ()
    topics: Sequence[Object] = ()
    metadata: Object | None = None
    controller_signs: Signs = field(default_factory=Signs)
    racks: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[Warned] = ()
    missing_storage_classes: frozenset[str] = frozenset()
    experiment: Object | None = None
    refused: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def names(self) -> Names:
        metadata = self.cluster["metadata"]
        return Names(metadata["namespace"], metadata["name"])

    @property
    def uid(self) -> str:
        return str(self.cluster["metadata"]["uid"])

    @property
    def generation(self) -> int:
        return int(self.cluster["metadata"].get("generation", 0))

    def find(self, kind: Kind, name: str) -> Object | None:
        """An object of this name, whosever it is, or None."""
        return self.objects.get((kind.name, name))

    def of_kind(self, kind: Kind) -> list[Object]:
        """All objects of a kind."""
        return [thing for (name, _), thing in sorted(self.objects.items()) if name == kind.name]

    def standing(self, thing: Object) -> Standing:
        """Whose an object is that the operator makes."""
        return standing(thing, self.names, self.uid)

    @cached_property
    def stateful_set(self) -> Object | None:
        """The cluster's own; one of somebody else is none."""
        found = self.find(STATEFUL_SET, self.names.broker)
        return found if found is not None and self.standing(found) is Standing.OURS else None

    @cached_property
    def account(self) -> str | None:
        """The uid of the brokers' ServiceAccount; None while there is none of the cluster's own that stays."""
        found = self.find(SERVICE_ACCOUNT, self.names.broker)
        if found is None or deleting(found) or self.standing(found) is not Standing.OURS:
            return None
        return str(found["metadata"]["uid"])

    def cut_off(self, pod: Pod) -> bool:
        """Return whether the API server refuses a pod's token: it was made with another ServiceAccount than the one there is."""
        found = self.find(SERVICE_ACCOUNT, self.names.broker)
        if found is None or self.account is None:
            return False
        if pod.account:
            return pod.account != self.account
        made = instant(found["metadata"].get("creationTimestamp"))
        return made is not None and pod.created is not None and pod.created < made

    @cached_property
    def claims(self) -> list[Object]:
        """The brokers' claims, also those that an earlier cluster of this name has left."""
        return [claim for claim in self.of_kind(CLAIM) if is_brokers_claim(claim, self.names)]

    def kept_by_brokers(self, kind: Kind, name: str) -> Object | None:
        """Return what brokers keep in the cluster: their ConfigMap and their Lease."""
        found = self.find(kind, name)
        return found if found is not None and has_labels(found, self.names) else None

    @cached_property
    def brokers(self) -> dict[int, Pod]:
        """The brokers' pods by broker id."""
        made = {}
        stateful_set = self.find(STATEFUL_SET, self.names.broker)
        for thing in self.pods:
            broker_id = self.names.broker_id(thing["metadata"]["name"])
            if broker_id is not None and is_brokers_pod(thing, self.names, self.uid, stateful_set):
                made[broker_id] = Pod(thing, broker_id)
        return dict(sorted(made.items()))

    @cached_property
    def topic_states(self) -> list[TopicState]:
        """Return what brokers last said of each topic, as far as it is known here: :attr:`gap` says whether that is all."""
        return [TopicState.of(name, status) for name, status in sorted(self._partitions.statuses.items())]

    @cached_property
    def _partitions(self) -> Partitions:
        return newest(self.topics, self.metadata, self.names.metadata)

    @cached_property
    def gap(self) -> MetadataGap | None:
        """Return why no broker may be taken away because of what is known of the partitions; None when that is all there is."""
        return self._controller_gap(just_now=True) or self._partitions.gap

    @cached_property
    def freshness(self) -> Freshness:
        """Return how far what is known may be told."""
        return Freshness(self._controller_gap(just_now=False), self._partitions.gap)

    def _controller_gap(self, *, just_now: bool) -> MetadataGap | None:
        name = self.names.controller
        return controller_gap(self.find(LEASE, name), name, self.controller_signs, self.controller, just_now=just_now)

    def default_min_isr(self, asked: int) -> int:
        """``min.insync.replicas`` where a topic says nothing: the brokers' record, which follows what the spec has ``asked``
        with the next controller; until the brokers have one, that.
        """
        recorded = self._partitions.min_isr
        return asked if recorded is None else recorded

    @cached_property
    def controller(self) -> str:
        """The pod of the controller; empty when there is none, or the Lease's holder is no broker of this cluster.

        A pod made again has the name of the one before it, so the uid counts. Brokers that did not write theirs yet are
        known by the name.
        """
        lease = self.kept_by_brokers(LEASE, self.names.controller)
        holder = str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")
        pod = next((pod for pod in self.brokers.values() if pod.name == holder), None)
        if lease is None or pod is None:
            return ""
        return holder if annotations_of(lease).get(POD_UID, pod.uid) == pod.uid else ""


@dataclass(frozen=True)
class Pod:
    """A broker's pod."""

    thing: Object
    broker_id: int

    @property
    def name(self) -> str:
        return str(self.thing["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.thing["metadata"]["uid"])

    @property
    def node(self) -> str:
        """The node it was bound to; empty while it waits for one."""
        return str(self.thing["spec"].get("nodeName") or "")

    @property
    def host_ip(self) -> str:
        return str(self._status.get("hostIP") or "")

    @property
    def leaving(self) -> bool:
        """Return whether it is being deleted, or has ended for good."""
        return deleting(self.thing) or self._status.get("phase") in ("Failed", "Succeeded")

    @property
    def failed(self) -> bool:
        """Ended for good (evicted, say) and not made again before it is deleted."""
        return not deleting(self.thing) and self._status.get("phase") in ("Failed", "Succeeded")

    @property
    def ready(self) -> bool:
        return not self.leaving and self.condition("Ready").get("status") == "True"

    @property
    def ready_since(self) -> datetime | None:
        """Return when it last became ready or stopped being so."""
        return instant(self.condition("Ready").get("lastTransitionTime"))

    @property
    def leaving_since(self) -> datetime | None:
        """Return when it was deleted, or ended for good. A pod's ``deletionTimestamp`` is the end of its grace period."""
        metadata = self.thing["metadata"]
        ends = instant(metadata.get("deletionTimestamp"))
        if ends is None:
            return self.ready_since
        return ends - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)

    @property
    def created(self) -> datetime | None:
        return instant(self.thing["metadata"].get("creationTimestamp"))

    @property
    def template_digest(self) -> str:
        return annotations_of(self.thing).get(TEMPLATE_ANNOTATION, "")

    @property
    def config_digest(self) -> str:
        return config_digest(annotations_of(self.thing).get(CONFIG_ANNOTATION, ""), self.broker_id)

    @property
    def account(self) -> str:
        """The uid of the ServiceAccount it was made with; empty in pods of earlier operators, which did not write it down."""
        return annotations_of(self.thing).get(ACCOUNT_ANNOTATION, "")

    @property
    def rack(self) -> str | None:
        """The rack that the operator wrote on it; None: not yet."""
        return annotations_of(self.thing).get(RACK_ANNOTATION)

    @property
    def rack_at_start(self) -> str | None:
        """The rack it started with; None while that is not known."""
        state = self._container("initContainerStatuses", RACK_CONTAINER).get("state", {}).get("terminated")
        return None if state is None else str(state.get("message") or "").strip()

    @property
    def image(self) -> str:
        for container in self.thing["spec"].get("containers", ()):
            if container["name"] == CONTAINER:
                return str(container["image"])
        return ""

    @property
    def never_started(self) -> bool:
        """Return whether its broker has not run yet: nothing was written, nobody follows it, so nothing is lost with it."""
        broker = self._container("containerStatuses", CONTAINER)
        state = broker.get("state", {})
        return not (
            "running" in state or "terminated" in state or broker.get("lastState") or broker.get("restartCount", 0)
        )

    @property
    def running(self) -> bool:
        """Return whether its broker's process runs, as far as the kubelet says."""
        return "running" in self._container("containerStatuses", CONTAINER).get("state", {})

    @property
    def container(self) -> Mapping[str, Any]:
        """The status of the broker's container; empty while there is none."""
        return self._container("containerStatuses", CONTAINER)

    @property
    def crashing(self) -> bool:
        """Return whether a container ends again and again, and waits for its next start."""
        return self.waiting[0] == "CrashLoopBackOff"

    @property
    def waiting(self) -> tuple[str, str]:
        """Reason and message of the first container that cannot be started; empty when there is none."""
        for status in self._statuses:
            waiting = status.get("state", {}).get("waiting")
            if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                return str(waiting["reason"]), str(waiting.get("message") or "")
        return "", ""

    @property
    def last_words(self) -> tuple[str, str]:
        """Reason and message of the broker's last end; empty when it has not ended."""
        broker = self._container("containerStatuses", CONTAINER)
        for state in (broker.get("state", {}), broker.get("lastState", {})):
            ended = state.get("terminated")
            if ended:
                return str(ended.get("reason") or ""), str(ended.get("message") or "").strip()
        return "", ""

    def condition(self, kind: str) -> Mapping[str, Any]:
        """One of the pod's conditions, or nothing."""
        for condition in self._status.get("conditions") or ():
            if condition["type"] == kind:
                return dict(condition)
        return {}

    @property
    def ip(self) -> str:
        """Its own address; empty while it has none."""
        return str(self._status.get("podIP") or "")

    @property
    def _status(self) -> Mapping[str, Any]:
        return self.thing.get("status") or {}

    @property
    def _statuses(self) -> list[Mapping[str, Any]]:
        return [*(self._status.get("initContainerStatuses") or ()), *(self._status.get("containerStatuses") or ())]

    def _container(self, group: str, name: str) -> Mapping[str, Any]:
        for status in self._status.get(group) or ():
            if status["name"] == name:
                return dict(status)
        return {}


@dataclass(frozen=True)
class PartitionState:
    """The controller's word on one partition."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class TopicState:
    """What brokers last said of a topic. ``min_isr`` is None where the brokers' default holds."""

    name: str
    min_isr: int | None
    partitions: tuple[PartitionState, ...]

    @classmethod
    def of(cls, name: str, status: Mapping[str, Any]) -> TopicState:
        """From the status of a MiniKafkaTopic."""
        given = (status.get("configs") or {}).get("min.insync.replicas", "")
        partitions = tuple(
            PartitionState(name, one["partition"], tuple(one["replicas"]), tuple(one["isr"]), one["leader"])
            for one in status["partitions"]
        )
        return cls(name, int(given) if given.isdecimal() else None, partitions)


def has_topic_finalizer(topic: Object) -> bool:
    """Return whether a topic waits for the controller broker before it may go."""
    return TOPIC_FINALIZER in (topic["metadata"].get("finalizers") or ())
