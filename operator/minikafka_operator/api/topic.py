"""MiniKafkaTopic (``mkt``): a topic as an object. Brokers keep its durable state in the status (decision 004).

``kubectl apply``, ``edit`` and ``delete`` and a Kafka client's CreateTopics, AlterConfigs and DeleteTopics are one and
the same thing: the controller broker makes the object match the topic, and the topic match the object's spec. So every
rule here must also let through what brokers write: filling in what was left out, more partitions, other settings.
"""

from __future__ import annotations

from typing import Annotated

from minikafka_kube.api.part import Conditions, Part, rule, rules
from pydantic import ConfigDict, Field

PARTITIONS_MAX = 10_000
"""The state of all partitions is in one object, and etcd refuses objects above 1.5 MiB."""

REPLICAS_MAX = 100

TOPIC_NAME_PATTERN = r"^[a-zA-Z0-9._-]+$"

BrokerId = Annotated[int, Field(ge=0, le=REPLICAS_MAX - 1)]
Replicas = Annotated[list[BrokerId], Field(min_length=1, max_length=REPLICAS_MAX)]


class ClusterReference(Part):
    """The cluster that a topic belongs to."""

    name: Annotated[
        str,
        Field(
            pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
            max_length=40,
            description="Name of the MiniKafkaCluster, in the same namespace. It cannot be changed.",
            json_schema_extra=rules(rule("self == oldSelf", "spec.clusterRef.name cannot be changed")),
        ),
    ]


class TopicSpec(Part):
    """The desired topic."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.topicName) == has(oldSelf.topicName)",
                "spec.topicName cannot be added or removed: a topic cannot be renamed",
                ".topicName",
            ),
            rule(
                "!has(oldSelf.partitions) || has(self.partitions)",
                "spec.partitions cannot be removed",
                ".partitions",
            ),
            rule(
                "!has(oldSelf.replicationFactor) || has(self.replicationFactor)",
                "spec.replicationFactor cannot be removed",
                ".replicationFactor",
            ),
            rule(
                "has(self.replicaAssignment) == has(oldSelf.replicaAssignment)",
                "spec.replicaAssignment cannot be added or removed",
                ".replicaAssignment",
            ),
        )
    )

    cluster_ref: Annotated[ClusterReference, Field(description="The cluster that the topic belongs to.")]
    topic_name: Annotated[
        str | None,
        Field(
            pattern=TOPIC_NAME_PATTERN,
            max_length=249,
            description="Name of the topic where it cannot be the object's (capitals, underscores). Without it: metadata.name.",
            json_schema_extra=rules(
                rule("self == oldSelf", "spec.topicName cannot be changed: a topic cannot be renamed"),
                rule("self != '.' && self != '..'", "spec.topicName cannot be '.' or '..'"),
            ),
        ),
    ] = None
    partitions: Annotated[
        int | None,
        Field(
            ge=1,
            le=PARTITIONS_MAX,
            description="Number of partitions. It may only grow. Without it: num.partitions of the cluster.",
            json_schema_extra=rules(rule("self >= oldSelf", "spec.partitions may only grow")),
        ),
    ] = None
    replication_factor: Annotated[
        int | None,
        Field(
            ge=1,
            le=REPLICAS_MAX,
            description="Replicas of each partition. It cannot be changed. Without it: the cluster's defaultFactor.",
            json_schema_extra=rules(rule("self == oldSelf", "spec.replicationFactor cannot be changed")),
        ),
    ] = None
    config: Annotated[
        dict[str, Annotated[str, Field(max_length=4096)]] | None,
        Field(
            max_length=100,
            description="Settings of the topic by Kafka's names (retention.ms, min.insync.replicas, ...); values are text. "
            "A refused one is told in the condition Ready.",
        ),
    ] = None
    replica_assignment: Annotated[
        list[Replicas] | None,
        Field(
            min_length=1,
            max_length=PARTITIONS_MAX,
            description="Brokers of each partition, the preferred leader first, instead of partitions and replicationFactor. "
            "It cannot be changed.",
            json_schema_extra=rules(rule("self == oldSelf", "spec.replicaAssignment cannot be changed")),
        ),
    ] = None


class PartitionStatus(Part):
    """The controller's word on one partition."""

    model_config = ConfigDict(
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}  # a newer broker's fields must not be pruned
    )

    partition: Annotated[int, Field(description="Number of the partition.")]
    replicas: Annotated[list[int], Field(description="Brokers that have it, the preferred leader first.")]
    isr: Annotated[list[int], Field(description="Brokers that are in sync.")]
    leader: Annotated[int, Field(description="Broker that leads it; -1: none.")]
    leader_epoch: Annotated[int, Field(description="Grows when the leader changes.")] = 0
    partition_epoch: Annotated[int, Field(description="Grows with each change of this state (KIP-497).")] = 0
    eligible_leader_replicas: Annotated[
        list[int] | None, Field(description="Brokers outside the ISR that hold all that is committed (KIP-966).")
    ] = None
    last_known_elr: Annotated[
        list[int] | None,
        Field(alias="lastKnownELR", description="The ELR members lost by unclean shutdowns (KIP-966)."),
    ] = None
    recovering: Annotated[bool | None, Field(description="Whether an unclean election is being recovered from.")] = None
    adding_replicas: Annotated[list[int] | None, Field(description="Replicas a reassignment adds.")] = None
    removing_replicas: Annotated[list[int] | None, Field(description="Replicas a reassignment removes.")] = None


class TopicStatus(Part):
    """The topic as it is: its durable state, written by the controller broker alone."""

    observed_generation: Annotated[
        int | None,
        Field(json_schema_extra={"format": "int64"}, description="The generation of the spec that was acted on."),
    ] = None
    topic_id: Annotated[str | None, Field(description="Identity of the topic; a topic created again has another.")] = (
        None
    )
    topic_name: Annotated[str | None, Field(description="Name of the topic.")] = None
    revision: Annotated[
        int | None, Field(json_schema_extra={"format": "int64"}, description="Revision of the store this state is of.")
    ] = None
    partition_count: Annotated[int | None, Field(description="Number of partitions.")] = None
    replication_factor: Annotated[int | None, Field(description="Replicas of each partition.")] = None
    partitions: Annotated[
        list[PartitionStatus] | None,
        Field(
            max_length=PARTITIONS_MAX,
            description="The state of each partition.",
            json_schema_extra={"x-kubernetes-list-type": "atomic"},  # one writer, and managedFields stay small
        ),
    ] = None
    configs: Annotated[dict[str, str] | None, Field(description="The topic's settings that are in force.")] = None
    leaders: Annotated[str | None, Field(description="Leaders of the partitions, for kubectl get.")] = None
    isr: Annotated[str | None, Field(description="Smallest ISR and replication factor, for kubectl get.")] = None
    under_replicated: Annotated[
        int | None, Field(description="Partitions with fewer in-sync replicas than replicas.")
    ] = None
    offline: Annotated[int | None, Field(description="Partitions without a leader.")] = None
    conditions: Conditions | None = None


class Topic(Part):
    """MiniKafkaTopic is a topic of a MiniKafkaCluster."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.spec.topicName) || size(self.metadata.name) <= 249",
                "metadata.name: the name of a topic has at most 249 characters",
            )
        )
    )

    spec: Annotated[TopicSpec, Field(description="The desired topic.")]
    status: Annotated[TopicStatus | None, Field(description="The topic as it is.")] = None
