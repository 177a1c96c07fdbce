"""Every condition and every reason of a MiniKafkaCluster, declared once; ``docs/guide/kubernetes.md`` is checked against it.

Why what is known of the partitions may be old has its reasons in :class:`~minikafka_kube.freshness.GapReason`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class ClusterCondition(StrEnum):
    """The conditions, in the order in which they are written."""

    READY = "Ready"
    AVAILABLE = "Available"
    REPLICATION_HEALTHY = "ReplicationHealthy"
    PROGRESSING = "Progressing"
    ROLLOUT_BLOCKED = "RolloutBlocked"
    ACCEPTED = "Accepted"


MEANINGS: Final[Mapping[ClusterCondition, str]] = {
    ClusterCondition.READY: "all brokers serve, run what the spec says, and every partition is available",
    ClusterCondition.AVAILABLE: "every partition has a leader, and as many in-sync replicas as acks=all needs",
    ClusterCondition.REPLICATION_HEALTHY: "every replica is in sync",
    ClusterCondition.PROGRESSING: "the operator is on the way to what the spec says",
    ClusterCondition.ROLLOUT_BLOCKED: "pods have to be replaced or removed, and that is not safe now",
    ClusterCondition.ACCEPTED: "the spec makes sense; while it does not, what was accepted before stays in force",
}


class ClusterReason(StrEnum):
    """Why a condition is as it is."""

    # Ready
    ALL_BROKERS_READY = "AllBrokersReady"
    CLAIM_LEAVING = "ClaimLeaving"
    BROKERS_NOT_READY = "BrokersNotReady"
    # what keeps a broker from being ready
    UNSCHEDULABLE = "Unschedulable"
    STORAGE_CLASS_NOT_FOUND = "StorageClassNotFound"
    CLAIM_PENDING = "ClaimPending"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_NOT_CREATED = "ContainerNotCreated"
    BROKER_CRASHING = "BrokerCrashing"
    OUT_OF_MEMORY = "OutOfMemory"
    DISK_FULL = "DiskFull"
    FAULT_INJECTED = "FaultInjected"
    POD_NOT_CREATED = "PodNotCreated"
    # Available, ReplicationHealthy
    PARTITIONS_AVAILABLE = "PartitionsAvailable"
    NO_BROKER_READY = "NoBrokerReady"
    PARTITIONS_OFFLINE = "PartitionsOffline"
    PARTITIONS_UNDER_MIN_ISR = "PartitionsUnderMinIsr"
    ALL_IN_SYNC = "AllInSync"
    UNDER_REPLICATED = "UnderReplicated"
    # Progressing
    SETTLED = "Settled"
    CREATING = "Creating"
    SCALING = "Scaling"
    ROLLING = "Rolling"
    RECOVERING = "Recovering"
    WAITING_FOR_ADDRESS = "WaitingForAddress"
    PAUSED = "Paused"
    DELETING = "Deleting"
    # RolloutBlocked
    NOT_BLOCKED = "NotBlocked"
    ROLLOUT_PAUSED = "RolloutPaused"
    PARTITIONS_AT_MIN_ISR = "PartitionsAtMinIsr"
    REPLICAS_ON_BROKER = "ReplicasOnBroker"
    BROKER_NOT_READY = "BrokerNotReady"
    EVICTION_REFUSED = "EvictionRefused"
    DISRUPTION_LEASE_HELD = "DisruptionLeaseHeld"
    OBJECT_LEAVING = "ObjectLeaving"
    # Accepted
    ACCEPTED = "Accepted"
    INVALID_SPEC = "InvalidSpec"
    INVALID_CONFIG = "InvalidConfig"
    CERTIFICATE_UNUSABLE = "CertificateUnusable"
    TOKEN_KEYS_UNUSABLE = "TokenKeysUnusable"
    OBJECT_REFUSED = "ObjectRefused"
    OBJECT_CONFLICT = "ObjectConflict"
    RACK_UNKNOWN = "RackUnknown"
    VOLUMES_LARGER = "VolumesLarger"


class TopicReason(StrEnum):
    """What the operator says in the condition Ready of a MiniKafkaTopic that no broker looks after."""

    CLUSTER_NOT_FOUND = "ClusterNotFound"
    WAITING_FOR_BROKERS = "WaitingForBrokers"


class UserReason(StrEnum):
    """Why the condition Ready of a MiniKafkaUser is as it is."""

    IN_FORCE = "InForce"
    CLUSTER_NOT_FOUND = "ClusterNotFound"
    WAITING_FOR_CLUSTER = "WaitingForCluster"
    WAITING_FOR_BROKERS = "WaitingForBrokers"
    AUTHENTICATION_DISABLED = "AuthenticationDisabled"
    AUTHORIZATION_DISABLED = "AuthorizationDisabled"
    DUPLICATE = "Duplicate"
    OBJECT_CONFLICT = "ObjectConflict"
    INVALID_SPEC = "InvalidSpec"
    REFUSED = "Refused"
