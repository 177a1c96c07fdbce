"""Every condition and every reason of a MiniKafkaCluster, declared once; ``docs/guide/kubernetes.md`` is checked against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final


class Type(StrEnum):
    """The conditions, in the order in which they are written."""

    READY = "Ready"
    AVAILABLE = "Available"
    REPLICATION_HEALTHY = "ReplicationHealthy"
    PROGRESSING = "Progressing"
    ROLLOUT_BLOCKED = "RolloutBlocked"
    ACCEPTED = "Accepted"


MEANINGS: Final[Mapping[Type, str]] = {
    Type.READY: "all brokers serve, run what the spec says, and every partition is available",
    Type.AVAILABLE: "every partition has a leader, and as many in-sync replicas as acks=all needs",
    Type.REPLICATION_HEALTHY: "every replica is in sync",
    Type.PROGRESSING: "the operator is on the way to what the spec says",
    Type.ROLLOUT_BLOCKED: "pods have to be replaced or removed, and that is not safe now",
    Type.ACCEPTED: "the spec makes sense; while it does not, what was accepted before stays in force",
}


class Reason(StrEnum):
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
    CONTROLLER_AWAY = "ControllerAway"
    CONTROLLER_UNCONFIRMED = "ControllerUnconfirmed"
    TOPIC_STATUS_STALE = "TopicStatusStale"
    EVICTION_REFUSED = "EvictionRefused"
    DISRUPTION_LEASE_HELD = "DisruptionLeaseHeld"
    OBJECT_LEAVING = "ObjectLeaving"
    # Accepted
    ACCEPTED = "Accepted"
    INVALID_SPEC = "InvalidSpec"
    INVALID_CONFIG = "InvalidConfig"
    OBJECT_REFUSED = "ObjectRefused"
    OBJECT_CONFLICT = "ObjectConflict"
    RACK_UNKNOWN = "RackUnknown"
    VOLUMES_LARGER = "VolumesLarger"


class TopicReason(StrEnum):
    """What the operator says in the condition Ready of a MiniKafkaTopic that no broker looks after."""

    CLUSTER_NOT_FOUND = "ClusterNotFound"
    WAITING_FOR_BROKERS = "WaitingForBrokers"


@dataclass(frozen=True)
class Judgement:
    """What is to be said in one condition."""

    type: StrEnum
    holds: bool | None
    reason: StrEnum
    message: str

    @property
    def status(self) -> str:
        """As Kubernetes writes it."""
        return "Unknown" if self.holds is None else str(self.holds)


def condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """One of the conditions that a status has; empty when it has none of that type."""
    return next((one for one in status.get("conditions") or () if one["type"] == kind), {})


def written(
    judgements: Sequence[Judgement], before: Sequence[Mapping[str, Any]], generation: int, now: datetime
) -> list[dict[str, Any]]:
    """The conditions as they stand in the status; the time of the last transition is kept where there was none."""
    old = {condition["type"]: condition for condition in before}
    made = []
    for judgement in judgements:
        same = old.get(judgement.type.value, {})
        changed = same.get("status") != judgement.status
        made.append(
            {
                "type": judgement.type.value,
                "status": judgement.status,
                "reason": judgement.reason.value,
                "message": judgement.message,
                "lastTransitionTime": time_text(now) if changed else same["lastTransitionTime"],
                "observedGeneration": generation,
            }
        )
    return made


def time_text(now: datetime) -> str:
    """A point in time as Kubernetes writes it."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
