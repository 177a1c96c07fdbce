"""What a cluster consists of apart from its pods, as it is desired: settings, Services, permissions, budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from minikafka_kube.api import API_VERSION, GROUP
from minikafka_kube.kinds import (
    BUDGET,
    CLAIM,
    CLUSTER,
    CONFIG_MAP,
    LEASE,
    NETWORK_POLICY,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    TOPIC,
    USER,
    Kind,
    Object,
)
from minikafka_kube.names import CLIENT_PORT, EXTERNAL_PORT, MANAGER, METRICS_PORT, REPLICATION_PORT, Names

from minikafka_operator.api.cluster import ClusterSpec

_METRICS_PEERS: Final[list[dict[str, Any]]] = [
    {"podSelector": {}},
    {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}},
]
"""Who may read metrics when the spec does not say: the cluster's own namespace, and any Prometheus."""

OWNED: Final = (
    SERVICE_ACCOUNT,
    ROLE,
    ROLE_BINDING,
    SECRET,
    CONFIG_MAP,
    SERVICE,
    BUDGET,
    NETWORK_POLICY,
    STATEFUL_SET,
)
"""What the operator makes for a cluster, in the order it is made."""

BY_NAME: Final = {kind.name: kind for kind in (*OWNED, CLUSTER, TOPIC, USER, POD, CLAIM, LEASE)}
"""What the operator reads and writes in a cluster's namespace, by kind."""

CONFIG_COMPONENT = "config"
"""Tells the settings' ConfigMap from the one in which brokers keep metadata, which changes all the time."""


def owner_reference(name: str, uid: str, kind: Kind = CLUSTER) -> dict[str, Any]:
    """Makes the garbage collector delete an object with its cluster, or with its user."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind.name,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


class ResourceBuilder:
    """Makes the objects of one cluster."""

    def __init__(self, names: Names, uid: str, spec: ClusterSpec) -> None:
        self.names = names
        self.spec = spec
        self._owner = owner_reference(names.cluster, uid)

    def object(self, kind: Kind, name: str, component: str = "", **content: Any) -> Object:
        """An object that belongs to the cluster."""
        return {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {
                "name": name,
                "namespace": self.names.namespace,
                "labels": self.names.labels(component),
                "ownerReferences": [self._owner],
            },
            **content,
        }

    def settings(self, files: Mapping[int, str]) -> Object:
        """The ConfigMap with the properties file of each broker."""
        data = {self.names.properties_file(broker_id): text for broker_id, text in files.items()}
        return self.object(CONFIG_MAP, self.names.config, CONFIG_COMPONENT, data=data)

    def services(self, brokers: int) -> list[Object]:
        """Headless and bootstrap Service."""
        headless = {
            "clusterIP": "None",
            # Brokers look for each other before they are ready, and a broker's name must not go while it restarts.
            "publishNotReadyAddresses": True,
            "selector": self.names.selector(),
            "ports": [
                _port("client", CLIENT_PORT),
                _port("replication", REPLICATION_PORT),
                _port("metrics", METRICS_PORT),
            ],
        }
        bootstrap = {
            "type": "ClusterIP",
            "selector": self.names.selector(),
            "ports": [_port("client", CLIENT_PORT)],
        }
        return [
            self.object(SERVICE, self.names.brokers, spec=headless),
            self.object(SERVICE, self.names.bootstrap, spec=bootstrap),
            *self._external(brokers),
        ]

    def _external(self, brokers: int) -> list[Object]:
        external = self.spec.listeners.external
        if external is None:
            return []
        made = []
        for broker_id in range(brokers):
            first = external.first_broker_node_port
            port = _port("external", EXTERNAL_PORT, node_port=None if first is None else first + broker_id)
            spec = {
                "type": external.type.value,
                # The leader of a partition is at one address only, and its clients find out sooner than the kubelet
                # whether it serves.
                "publishNotReadyAddresses": True,
                "selector": {
                    **self.names.selector(),
                    "statefulset.kubernetes.io/pod-name": self.names.pod(broker_id),
                },
                "ports": [port],
            }
            made.append(self.object(SERVICE, self.names.external(broker_id), spec=spec))
        port = _port("external", EXTERNAL_PORT, node_port=external.bootstrap_node_port)
        spec = {"type": external.type.value, "selector": self.names.selector(), "ports": [port]}
        made.append(self.object(SERVICE, self.names.bootstrap_external, spec=spec))
        if external.annotations:
            for service in made:
                service["metadata"]["annotations"] = dict(external.annotations)
        return made

    def permissions(self) -> list[Object]:
        """ServiceAccount, Role and RoleBinding: no more than brokers need to keep the cluster's metadata."""
        names = self.names
        rules = [
            _rule("", "configmaps", ["get", "list", "watch", "update"], [names.metadata]),
            _rule("", "configmaps", ["create"]),  # a name is not known to the authorizer before it exists
            _rule("coordination.k8s.io", "leases", ["get", "update"], [names.controller]),
            _rule("coordination.k8s.io", "leases", ["create"]),
            _rule(GROUP, "minikafkatopics", ["get", "list", "watch", "create", "patch", "delete"]),
            _rule(GROUP, "minikafkatopics/status", ["get", "update"]),
        ]
        account = {"kind": SERVICE_ACCOUNT.name, "name": names.broker, "namespace": names.namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": ROLE.name, "name": names.broker}
        return [
            self.object(SERVICE_ACCOUNT, names.broker, automountServiceAccountToken=False),
            self.object(ROLE, names.broker, rules=rules),
            self.object(ROLE_BINDING, names.broker, roleRef=role, subjects=[account]),
        ]

    def budget(self) -> Object:
        """The PodDisruptionBudget: a drain of nodes takes one broker at a time, and waits until it is back."""
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": self.names.selector()}}
        return self.object(BUDGET, self.names.broker, spec=spec)

    def network_policy(self) -> list[Object]:
        """The NetworkPolicy: who may reach which port of the brokers; none where the spec switches it off.

        On the replication port brokers believe what they are told (who is in sync, who is fenced), so it is for brokers.
        """
        desired = self.spec.network_policy
        if not desired.enabled:
            return []
        peers: list[dict[str, Any]] = [{"podSelector": {"matchLabels": self.names.selector()}}]
        if self.spec.secured:  # it makes users and ACLs there; the certificate is what lets it in
            peers.append({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": MANAGER}}})
        replication = {
            "from": peers,
            "ports": [_policy_port(REPLICATION_PORT)],
        }
        metrics = {
            "from": list(_METRICS_PEERS if desired.metrics_from is None else desired.metrics_from),
            "ports": [_policy_port(METRICS_PORT)],
        }
        clients = [CLIENT_PORT] if self.spec.listeners.external is None else [CLIENT_PORT, EXTERNAL_PORT]
        rules: list[dict[str, Any]] = [{"ports": [_policy_port(port) for port in clients]}, replication]
        if metrics["from"]:  # an empty list would let everybody in
            rules.append(metrics)
        spec = {
            "podSelector": {"matchLabels": self.names.selector()},
            "policyTypes": ["Ingress"],
            "ingress": rules,
        }
        return [self.object(NETWORK_POLICY, self.names.broker, spec=spec)]


def made_by_brokers(names: Names) -> list[tuple[Kind, str]]:
    """Objects that brokers make and that outlive them: what the cluster is, beside its topics and claims."""
    return [(CONFIG_MAP, names.metadata), (LEASE, names.controller)]


def _port(name: str, number: int, *, node_port: int | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}
    if node_port is not None:
        made["nodePort"] = node_port
    return made


def _policy_port(number: int) -> dict[str, Any]:
    return {"port": number, "protocol": "TCP"}


def _rule(group: str, resource: str, verbs: list[str], names: list[str] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"apiGroups": [group], "resources": [resource], "verbs": verbs}
    if names:
        made["resourceNames"] = names
    return made
