"""Kinds of objects, and where the API server has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from minikafka_kube.api import API_VERSION

Object = dict[str, Any]
"""A Kubernetes object as JSON."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object."""

    api_version: str
    name: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """The URL's path of the collection, of one object, or of a part of it."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace is not None else ""
        return (
            f"{root}{scope}/{self.plural}" + (f"/{name}" if name else "") + (f"/{subresource}" if subresource else "")
        )


CLUSTER: Final = Kind(API_VERSION, "MiniKafkaCluster", "minikafkaclusters")
TOPIC: Final = Kind(API_VERSION, "MiniKafkaTopic", "minikafkatopics")
USER: Final = Kind(API_VERSION, "MiniKafkaUser", "minikafkausers")
EXPERIMENT: Final = Kind(API_VERSION, "ChaosExperiment", "chaosexperiments")
CONFIG_MAP: Final = Kind("v1", "ConfigMap", "configmaps")
SECRET: Final = Kind("v1", "Secret", "secrets")
SERVICE: Final = Kind("v1", "Service", "services")
SERVICE_ACCOUNT: Final = Kind("v1", "ServiceAccount", "serviceaccounts")
POD: Final = Kind("v1", "Pod", "pods")
CLAIM: Final = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
NODE: Final = Kind("v1", "Node", "nodes", namespaced=False)
EVENT: Final = Kind("events.k8s.io/v1", "Event", "events")
ROLE: Final = Kind("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDING: Final = Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
STATEFUL_SET: Final = Kind("apps/v1", "StatefulSet", "statefulsets")
BUDGET: Final = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY: Final = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
LEASE: Final = Kind("coordination.k8s.io/v1", "Lease", "leases")
STORAGE_CLASS: Final = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False)
