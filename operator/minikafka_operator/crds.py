"""The CustomResourceDefinitions, made from the models in ``minikafka_operator.api``.

``make docs`` writes them to ``crds/``. Charts have links to the files there, which helm follows, also when it packs a chart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import yaml
from pydantic import BaseModel

from minikafka_operator.api import GROUP, VERSION
from minikafka_operator.api.cluster import Cluster
from minikafka_operator.api.schema import structural
from minikafka_operator.api.topic import Topic

MODELS: Final = "operator/minikafka_operator/api"


def column(name: str, path: str, kind: str = "string", description: str = "", priority: int = 0) -> dict[str, Any]:
    """One of ``kubectl get``'s columns; with a priority it is one of ``-o wide``."""
    made: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    if description:
        made["description"] = description
    if priority:
        made["priority"] = priority
    return made


_READY = column("Ready", '.status.conditions[?(@.type=="Ready")].status')
_AGE = column("Age", ".metadata.creationTimestamp", "date")


def definition(
    kind: str,
    plural: str,
    short: str,
    model: type[BaseModel],
    columns: list[dict[str, Any]],
    *,
    scale: dict[str, str] | None = None,
    selectable: Sequence[str] = (),
    schema: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The CRD of a kind whose spec and status the model declares. ``schema``: the model's, where rules were added to it."""
    schema = structural(model) if schema is None else schema
    schema["properties"] = {
        "apiVersion": {"type": "string", "description": "Version of the API this object is written in."},
        "kind": {"type": "string", "description": "Kind of this object."},
        "metadata": {"type": "object"},
        **schema["properties"],
    }
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}, **({"scale": scale} if scale else {})},
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": schema},
    }
    if selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in selectable]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "labels": {"app.kubernetes.io/name": "minikafka", "app.kubernetes.io/component": "crd"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["minikafka"],
            },
            "versions": [version],
        },
    }


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


def documents() -> dict[str, dict[str, Any]]:
    """The CRDs by file name."""
    return by_file(cluster_definition(), topic_definition())


def by_file(*definitions: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Definitions under the names of their files."""
    return {f"{GROUP}_{made['spec']['names']['plural']}.yaml": made for made in definitions}


class _Dumper(yaml.SafeDumper):
    """Writes the same value in full wherever it stands, instead of anchors, which readers of a CRD do not expect."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def as_text(definition: dict[str, Any], models: str) -> str:
    """Write the file that holds a definition. ``models`` says where these are."""
    body = yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return f"# Made from the models in {models} by `make docs`; do not edit.\n{body}"
