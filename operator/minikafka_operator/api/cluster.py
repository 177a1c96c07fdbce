"""MiniKafkaCluster (``mkc``): brokers, their storage, settings and listeners."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from minikafka_kube.api.part import (
    OPAQUE,
    Conditions,
    Labels,
    LocalObject,
    Part,
    Quantity,
    ResourceAmount,
    rule,
    rules,
)
from minikafka_kube.security import LISTENERS, is_secured
from pydantic import ConfigDict, Field

from minikafka_operator.api.listeners import BROKERS_MAX, Listeners
from minikafka_operator.api.security import AuthorizationSpec, CertificateAuthority, authority_rules

NAME_MAX: Final = 40
"""``<name>-broker-99-external`` and the hash that a StatefulSet adds to its pods' labels have to fit into 63 characters."""

OPERATOR_KEYS: Final = (
    "advertised.listeners",
    "broker.id",
    "broker.rack",
    "cluster.id",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "minikafka.events.max.bytes",
    "minikafka.events.path",
    "minikafka.kubernetes.cluster",
    "minikafka.kubernetes.namespace",
    "minikafka.metadata.store",
    "minikafka.metrics.host",
    "minikafka.metrics.port",
    "minikafka.metrics.ssl.keystore.location",
    "minikafka.metrics.tokens.path",
    "minikafka.unflushed.dir",
    "minikafka.unflushed.max.bytes",
    "node.id",
)
"""Broker settings that follow from the rest of the spec, and so cannot be given in ``spec.config``."""

TYPED_KEYS: Final = {
    "default.replication.factor": "spec.replication.defaultFactor",
    "min.insync.replicas": "spec.replication.minInsyncReplicas",
}
"""Broker settings that have a field of their own."""


LIMITED: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources whose request is held against the limit. For all that there may be the rule would cost the API server too much."""


# --- the parts of the spec --------------------------------------------------------------------------------------------


class Resources(Part):
    """CPU and memory of a broker, as in a container."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            *(
                rule(
                    f"!has(self.requests) || !has(self.limits) || !('{name}' in self.requests) || !('{name}' in self.limits) || "
                    f"!quantity(string(self.requests['{name}'])).isGreaterThan(quantity(string(self.limits['{name}'])))",
                    f"spec.brokers.resources.requests.{name} must be at most spec.brokers.resources.limits.{name}",
                    f".requests['{name}']",
                )
                for name in LIMITED
            )
        )
    )

    requests: Annotated[
        dict[str, ResourceAmount] | None, Field(max_length=10, description="What the scheduler reserves: cpu, memory.")
    ] = None
    limits: Annotated[
        dict[str, ResourceAmount] | None, Field(max_length=10, description="What the broker may use at most.")
    ] = None


class PodMetadata(Part):
    """Labels and annotations for the pods of brokers, beside the operator's own, which win."""

    labels: Annotated[Labels | None, Field(description="Labels.")] = None
    annotations: Annotated[Labels | None, Field(description="Annotations.")] = None


class Brokers(Part):
    """The brokers and their pods."""

    replicas: Annotated[
        int,
        Field(
            ge=1,
            le=BROKERS_MAX,
            description="Number of brokers; their ids are 0 to replicas-1. Fewer is refused while the brokers that would go "
            "still have replicas of partitions.",
        ),
    ] = 3
    resources: Annotated[
        Resources | None, Field(description="CPU and memory of each broker. Without it: 100m and 128Mi are requested.")
    ] = None
    metadata: Annotated[PodMetadata | None, Field(description="Labels and annotations for the pods.")] = None
    node_selector: Annotated[Labels | None, Field(description="Labels that a node must have to run a broker.")] = None
    tolerations: Annotated[
        list[Annotated[dict[str, Any], Field(json_schema_extra=OPAQUE)]] | None,
        Field(max_length=50, description="Taints that brokers tolerate, as in a pod."),
    ] = None
    affinity: Annotated[
        dict[str, Any] | None,
        Field(json_schema_extra=OPAQUE, description="Affinity as in a pod. Without it brokers are spread over nodes."),
    ] = None
    priority_class_name: Annotated[str | None, Field(max_length=253, description="PriorityClass of the pods.")] = None
    termination_grace_period_seconds: Annotated[
        int,
        Field(ge=1, le=3600, description="How long a broker may take to hand over its partitions and flush its logs."),
    ] = 30


class Replication(Part):
    """How often records are kept, and how many replicas must have one before it is acknowledged."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.minInsyncReplicas <= self.defaultFactor",
                "spec.replication.minInsyncReplicas must be at most spec.replication.defaultFactor",
                ".minInsyncReplicas",
            )
        )
    )

    default_factor: Annotated[
        int,
        Field(
            ge=1,
            le=BROKERS_MAX,
            description="Replicas of a topic that is created without a number. At most the brokers.",
        ),
    ] = 3
    min_insync_replicas: Annotated[
        int,
        Field(
            ge=1,
            le=BROKERS_MAX,
            description="With acks=all, how many replicas must have a record before it is acknowledged (min.insync.replicas).",
        ),
    ] = 2


class StorageType(StrEnum):
    """PersistentClaim outlives pods. Ephemeral is lost with the pod."""

    PERSISTENT_CLAIM = "PersistentClaim"
    EPHEMERAL = "Ephemeral"


class Storage(Part):
    """Where the logs are."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("self.type == oldSelf.type", "spec.storage.type cannot be changed", ".type"),
            rule(
                "has(self.storageClassName) == has(oldSelf.storageClassName) && "
                "(!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
                "spec.storage.storageClassName cannot be changed",
                ".storageClassName",
            ),
        )
    )

    type: Annotated[
        StorageType, Field(description="PersistentClaim (outlives pods) or Ephemeral (lost with the pod).")
    ] = StorageType.PERSISTENT_CLAIM
    size: Annotated[
        Quantity,
        Field(
            description="Size of each broker's volume. It may grow; it may shrink to status.storageCapacity, so that a size "
            "that no volume has got yet can be taken back.",
            json_schema_extra=rules(
                rule("quantity(self).isGreaterThan(quantity('0'))", "spec.storage.size must be more than 0"),
            ),
        ),
    ] = "10Gi"
    storage_class_name: Annotated[
        str | None,
        Field(
            max_length=253,
            description="StorageClass of the claims. Without it: the default class. It cannot be changed.",
        ),
    ] = None
    delete_claim: Annotated[
        bool,
        Field(
            description="Whether deleting the cluster deletes its data: claims, topics and metadata. Otherwise they stay, and a "
            "cluster created again under the same name goes on with them."
        ),
    ] = False


class UnflushedVolume(Part):
    """A volume in memory for what is written and not flushed: a deleted pod then loses what a power loss would take."""

    size_limit: Annotated[
        Quantity,
        Field(
            description="Most bytes that are not flushed, a sixteenth of it as head room: from half of it on brokers flush, and "
            "appends wait where there is no room. They count towards the broker's memory limit. At least 2.2 times "
            "message.max.bytes."
        ),
    ] = "256Mi"


class FlightRecorderType(StrEnum):
    """EmptyDir goes with the pod, PersistentClaim and HostPath stay."""

    EMPTY_DIR = "EmptyDir"
    PERSISTENT_CLAIM = "PersistentClaim"
    HOST_PATH = "HostPath"


class FlightRecorder(Part):
    """Where each broker's event log is kept, apart from the data, so that it can tell what happened to the data."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("self.type == oldSelf.type", "spec.flightRecorder.type cannot be changed", ".type"),
            rule(
                "(self.type == 'HostPath') == has(self.hostPath)",
                "spec.flightRecorder.hostPath is needed with type HostPath, and only with it",
                ".hostPath",
            ),
        )
    )

    type: Annotated[
        FlightRecorderType,
        Field(
            description="EmptyDir (lost with the pod), PersistentClaim (a claim of its own, deleted with deleteClaim), or "
            "HostPath (a directory of the node that user 65532 may write; the restricted Pod Security Standard forbids it)."
        ),
    ] = FlightRecorderType.EMPTY_DIR
    size: Annotated[
        Quantity,
        Field(description="Size of the claim, or limit of the EmptyDir. The oldest events go when it is full."),
    ] = "1Gi"
    storage_class_name: Annotated[str | None, Field(max_length=253, description="StorageClass of the claim.")] = None
    host_path: Annotated[
        str | None,
        Field(
            pattern=r"^/[^:]*$",
            max_length=1024,
            description="Directory on the node; each pod has one of its name below it.",
        ),
    ] = None


class NetworkPolicy(Part):
    """Who may reach the brokers' ports, where the network enforces NetworkPolicies."""

    enabled: Annotated[
        bool,
        Field(
            description="Whether the operator makes a NetworkPolicy: the replication port (9091) is for the cluster's brokers, "
            "the metrics port (9404) for metricsFrom, the clients' ports (9092, 9094) for everybody."
        ),
    ] = True
    metrics_from: Annotated[
        list[Annotated[dict[str, Any], Field(json_schema_extra=OPAQUE)]] | None,
        Field(
            max_length=50,
            description="Who may read the brokers' metrics, as in the field from of a NetworkPolicy; an empty list: nobody. "
            "Without it: pods of this namespace, and pods labelled app.kubernetes.io/name=prometheus anywhere.",
        ),
    ] = None


class Metrics(Part):
    """The port of the brokers' metrics (9404)."""

    secured: Annotated[
        bool,
        Field(
            description="Whether it has TLS, with certificates of the cluster CA, and asks for the token in the Secret "
            "NAME-metrics-access; the kubelet's probes do without. Needs a cluster with TLS, authentication or authorization. "
            "A change rolls the pods."
        ),
    ] = False


class Rack(Part):
    """Spreads brokers and replicas over racks (KIP-36)."""

    topology_key: Annotated[
        str,
        Field(
            min_length=1,
            max_length=317,
            description="Label of the nodes whose value is the rack, such as topology.kubernetes.io/zone.",
        ),
    ]


class Rollout(Part):
    """How changes reach the brokers: one at a time, and never below min.insync.replicas."""

    paused: Annotated[bool, Field(description="Changes are made ready, and no pod is replaced.")] = False
    ready_timeout_seconds: Annotated[
        int,
        Field(
            ge=1,
            le=86_400,
            description="How long a broker may take to become ready before one that has to be replaced anyway is replaced.",
        ),
    ] = 300


class Chaos(Part):
    """Whether the brokers may be broken on purpose, and by whom."""

    allowed: Annotated[
        bool,
        Field(
            description="Whether each broker's pod gets the container chaos-agent, which can kill and pause the broker, and take "
            "what it has not flushed, or its volume. It has the broker's user id and no privilege; RBAC on pods/exec says who "
            "may use it. A change rolls the pods."
        ),
    ] = False


def _secured(spec: str) -> str:
    """The CEL expression that says what :func:`~minikafka_kube.security.is_secured` does."""
    listeners = " || ".join(
        f"(has({spec}.listeners.{name}) && ({spec}.listeners.{name}.tls || has({spec}.listeners.{name}.authentication)))"
        for name in LISTENERS
    )
    return f"(has({spec}.authorization) || {listeners})"


class ClusterSpec(Part):
    """The desired cluster."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"{_secured('self')} == {_secured('oldSelf')}",
                "spec.listeners: a cluster that was made without TLS, authentication and authorization cannot get its first, and "
                "one that has some cannot lose its last: brokers with and without them do not understand each other",
                ".listeners",
            ),
            rule(
                f"!self.metrics.secured || {_secured('self')}",
                "spec.metrics.secured needs a cluster with TLS, authentication or authorization, whose CA signs certificates",
                ".metrics.secured",
            ),
            rule(
                "self.replication.defaultFactor <= self.brokers.replicas",
                "spec.replication.defaultFactor must be at most spec.brokers.replicas",
                ".replication.defaultFactor",
            ),
        )
    )

    image: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=1024,
            description="Image of the brokers. Without it: the one the operator came with.",
        ),
    ] = None
    image_pull_policy: Annotated[
        str | None,
        Field(
            json_schema_extra={"enum": ["Always", "IfNotPresent", "Never"]},
            description="When the image is pulled. Without it: as Kubernetes does for its tag.",
        ),
    ] = None
    image_pull_secrets: Annotated[
        list[LocalObject] | None, Field(max_length=10, description="Secrets to pull the image with.")
    ] = None
    brokers: Annotated[Brokers, Field(description="The brokers and their pods.")] = Brokers()
    replication: Annotated[
        Replication,
        Field(description="How often records are kept, and when they are acknowledged."),
    ] = Replication()
    config: Annotated[
        dict[str, Annotated[str, Field(max_length=4096)]] | None,
        Field(
            max_length=200,
            description="Settings of the brokers by Kafka's names; values are text. One that no broker would take is told in the "
            "condition Accepted, and nothing is changed.",
            json_schema_extra=rules(
                *(
                    rule(f"!('{key}' in self)", f"spec.config: {key} is made by the operator from the rest of the spec")
                    for key in OPERATOR_KEYS
                ),
                *(
                    rule(f"!('{key}' in self)", f"spec.config: instead of {key} set {field}")
                    for key, field in TYPED_KEYS.items()
                ),
            ),
        ),
    ] = None
    storage: Annotated[Storage, Field(description="Where the logs are.")] = Storage()
    unflushed_volume: Annotated[
        UnflushedVolume | None,
        Field(
            description="Keeps what is not flushed in memory, so that deleting a pod is a power loss. For experiments."
        ),
    ] = None
    flight_recorder: Annotated[FlightRecorder, Field(description="Where each broker's event log is kept.")] = (
        FlightRecorder()
    )
    listeners: Annotated[Listeners, Field(description="How clients reach the brokers.")] = Listeners()
    authorization: Annotated[
        AuthorizationSpec | None, Field(description="Who may do what. Without it: whoever is let in may do everything.")
    ] = None
    cluster_ca: Annotated[
        CertificateAuthority,
        Field(
            description="The CA that signs brokers' certificates, where there is TLS, authentication or authorization.",
            json_schema_extra=rules(*authority_rules("clusterCa")),
        ),
    ] = CertificateAuthority()
    clients_ca: Annotated[
        CertificateAuthority,
        Field(
            description="The CA that signs the certificates of users with authentication of type tls.",
            json_schema_extra=rules(*authority_rules("clientsCa")),
        ),
    ] = CertificateAuthority()
    network_policy: Annotated[NetworkPolicy, Field(description="Who may reach the brokers' ports.")] = NetworkPolicy()
    metrics: Annotated[Metrics, Field(description="The port of the brokers' metrics.")] = Metrics()
    rack: Annotated[Rack | None, Field(description="Spreads brokers and replicas over racks.")] = None
    chaos: Annotated[Chaos, Field(description="Faults on purpose.")] = Chaos()
    rollout: Annotated[Rollout, Field(description="How changes reach the brokers.")] = Rollout()
    paused: Annotated[
        bool,
        Field(
            description="The operator leaves the cluster alone, and only tells its status. Brokers fail over as ever."
        ),
    ] = False

    @property
    def secured(self) -> bool:
        """Return whether TLS, authentication or authorization is asked for."""
        return is_secured(self.model_dump(by_alias=True, exclude_none=True))


# --- the status -------------------------------------------------------------------------------------------------------


class BrokerStatus(Part):
    """One broker."""

    id: Annotated[int, Field(description="Its id.")]
    pod: Annotated[str, Field(description="Its pod.")]
    ready: Annotated[bool, Field(description="Whether it serves clients.")]
    node: Annotated[str | None, Field(description="The node it runs on.")] = None
    rack: Annotated[str | None, Field(description="Its rack.")] = None
    external: Annotated[str | None, Field(description="What clients outside are told to connect to.")] = None
    message: Annotated[str | None, Field(description="What keeps it from being ready.")] = None


class Bootstrap(Part):
    """What clients start from (bootstrap.servers)."""

    internal: Annotated[str | None, Field(description="Inside the Kubernetes cluster.")] = None
    external: Annotated[str | None, Field(description="Outside of it.")] = None


class CertificatesStatus(Part):
    """The CAs."""

    cluster_ca_expires: Annotated[
        datetime | None, Field(description="Until when the cluster CA is valid that signs now.")
    ] = None
    clients_ca_expires: Annotated[
        datetime | None, Field(description="Until when the clients CA is valid that signs now.")
    ] = None
    renewing: Annotated[bool | None, Field(description="Whether one of them is being renewed.")] = None


class ClusterStatus(Part):
    """The cluster as it is, as far as the operator sees it."""

    observed_generation: Annotated[
        int | None,
        Field(json_schema_extra={"format": "int64"}, description="The generation of the spec this speaks of."),
    ] = None
    conditions: Conditions | None = None
    replicas: Annotated[int | None, Field(description="Pods of brokers that are there (for scale).")] = None
    ready_replicas: Annotated[int | None, Field(description="Brokers that are ready.")] = None
    selector: Annotated[str | None, Field(description="Label selector of the brokers' pods (for scale).")] = None
    brokers_ready: Annotated[str | None, Field(description="Ready and desired brokers, for kubectl get.")] = None
    brokers: Annotated[
        list[BrokerStatus] | None,
        Field(
            description="Each broker.",
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
        ),
    ] = None
    controller: Annotated[str | None, Field(description="The pod of the broker that is controller.")] = None
    storage_capacity: Annotated[
        Quantity | None, Field(description="Capacity of the largest of the brokers' volumes, once there is one.")
    ] = None
    bootstrap: Annotated[Bootstrap | None, Field(description="What clients start from.")] = None
    certificates: Annotated[
        CertificatesStatus | None, Field(description="The CAs of a cluster with TLS, authentication or authorization.")
    ] = None
    topics: Annotated[int | None, Field(description="Topics.")] = None
    partitions: Annotated[int | None, Field(description="Partitions of all topics.")] = None
    under_replicated_partitions: Annotated[
        int | None, Field(description="Partitions with fewer in-sync replicas than replicas.")
    ] = None
    under_min_isr_partitions: Annotated[
        int | None, Field(description="Partitions with fewer in-sync replicas than min.insync.replicas.")
    ] = None
    offline_partitions: Annotated[int | None, Field(description="Partitions without a leader.")] = None


class Cluster(Part):
    """MiniKafkaCluster is a cluster of MiniKafka brokers."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"self.metadata.name.matches('^[a-z]([-a-z0-9]{{0,{NAME_MAX - 2}}}[a-z0-9])?$')",
                f"metadata.name must begin with a letter, hold a-z, 0-9 and - only, and have at most {NAME_MAX} characters",
            ),
            rule(
                "quantity(self.spec.storage.size).compareTo(quantity(oldSelf.spec.storage.size)) >= 0 || "
                "!has(self.status) || !has(self.status.storageCapacity) || "
                "quantity(self.spec.storage.size).compareTo(quantity(self.status.storageCapacity)) >= 0",
                "spec.storage.size must be at least what the volumes have already (status.storageCapacity): they do not shrink",
                ".spec.storage.size",
            ),
        )
    )

    spec: Annotated[ClusterSpec, Field(description="The desired cluster.")] = ClusterSpec()
    status: Annotated[ClusterStatus | None, Field(description="The cluster as it is.")] = None
