"""The CustomResourceDefinitions, made from the models in ``minikafka_operator.api``.

``make docs`` writes them to ``crds/``. Charts have links to the files there, which helm follows, also when it packs a chart.
"""

from __future__ import annotations

from typing import Any, Final

from minikafka_kube.crds import by_file, column, definition

from minikafka_operator.api.cluster import Cluster
from minikafka_operator.api.topic import Topic
from minikafka_operator.api.user import User

MODELS: Final = "operator/minikafka_operator/api"


_READY = column("Ready", '.status.conditions[?(@.type=="Ready")].status')
_AGE = column("Age", ".metadata.creationTimestamp", "date")


def cluster_definition() -> dict[str, Any]:
    """The CRD of MiniKafkaCluster."""
    return definition(
        "MiniKafkaCluster",
        "minikafkaclusters",
        "mkc",
        Cluster,
        [
            _READY,
            column("Brokers", ".status.brokersReady", description="Ready and desired brokers"),
            column("Controller", ".status.controller", description="The broker that is controller"),
            column("Topics", ".status.topics", "integer", priority=1),
            column("Partitions", ".status.partitions", "integer", priority=1),
            column("URP", ".status.underReplicatedPartitions", "integer", "Under-replicated partitions"),
            column("Offline", ".status.offlinePartitions", "integer", "Partitions without a leader"),
            column("Status", '.status.conditions[?(@.type=="Ready")].message'),
            column("Bootstrap", ".status.bootstrap.internal", priority=1),
            column("External", ".status.bootstrap.external", priority=1),
            _AGE,
        ],
        scale={
            "specReplicasPath": ".spec.brokers.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    )


def topic_definition() -> dict[str, Any]:
    """The CRD of MiniKafkaTopic."""
    return definition(
        "MiniKafkaTopic",
        "minikafkatopics",
        "mkt",
        Topic,
        [
            column("Topic", ".status.topicName", description="Its name to Kafka's clients"),
            column("Cluster", ".spec.clusterRef.name"),
            column("Partitions", ".status.partitionCount", "integer"),
            column("RF", ".status.replicationFactor", "integer", "Replication factor"),
            column("Leaders", ".status.leaders", description="Leaders of the partitions"),
            column("ISR", ".status.isr", description="Smallest ISR and replication factor"),
            _READY,
            column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
            _AGE,
        ],
        selectable=[".spec.clusterRef.name"],  # a broker watches the topics of its cluster only
    )


def user_definition() -> dict[str, Any]:
    """The CRD of MiniKafkaUser."""
    return definition(
        "MiniKafkaUser",
        "minikafkausers",
        "mku",
        User,
        [
            column("Cluster", ".spec.clusterRef.name"),
            column("Authentication", ".spec.authentication.type"),
            column("User", ".status.userName", description="As whom brokers know it"),
            _READY,
            column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
            _AGE,
        ],
        selectable=[".spec.clusterRef.name"],
    )


def documents() -> dict[str, dict[str, Any]]:
    """The CRDs by file name."""
    return by_file(cluster_definition(), topic_definition(), user_definition())
