"""What is not the cluster's stays as it is, to the last resource version, on a real API server (audit, issue 9, B7)."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka.kubernetes.document import Document
from minikafka.metadata.store import StoreError

from tests.apiserver.conftest import OpenStore
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.operator_process import ACTS_SECONDS_MAX, Cluster, Operator
from tests.waiting import until_now

RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
LABELS = {"app": "theirs"}
POD = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "a", "image": "theirs"}]}}
ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "theirs"}
CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

THEIRS: dict[tuple[str, str], dict[str, Any]] = {
    ("serviceaccounts", "c-broker"): {"automountServiceAccountToken": True},
    ("roles", "c-broker"): {"rules": [RULE]},
    ("rolebindings", "c-broker"): {"roleRef": ROLE_REF, "subjects": []},
    ("configmaps", "c-config"): {"data": {"theirs": "1"}},
    ("services", "c-brokers"): {"spec": {"selector": LABELS, "ports": [{"port": 80}]}},
    ("poddisruptionbudgets", "c-broker"): {"spec": {"selector": {"matchLabels": LABELS}}},
    ("networkpolicies", "c-broker"): {"spec": {"podSelector": {"matchLabels": LABELS}}},
    ("statefulsets", "c-broker"): {
        "spec": {"serviceName": "theirs", "selector": {"matchLabels": LABELS}, "template": POD}
    },
    ("persistentvolumeclaims", "data-c-broker-1"): {"spec": CLAIM_SPEC},
}


ALIKE = [key for key in THEIRS if key[0] not in {"configmaps", "statefulsets", "persistentvolumeclaims"}]
"""Met by the operator as a ConfigMap is."""


@pytest.mark.parametrize(
    ("plural", "name"),
    [pytest.param(*key, marks=[pytest.mark.full] if key in ALIKE else []) for key in THEIRS],
)
def test_a_strangers_object_survives_the_cluster(cluster: Cluster, operator: Operator, plural: str, name: str) -> None:
    """Before it, beside it and after it."""
    cluster.plane.request("POST", cluster.url(plural), {"metadata": {"name": name}, **THEIRS[plural, name]})
    before = cluster.find(plural, name)
    cluster.create(storage={"deleteClaim": True})
    told = cluster.wait_for("Accepted", "False", "ObjectConflict")
    assert name in told
    until_now(cluster.events, lambda events: ("Warning", "ObjectConflict", told) in events)
    shown = cluster.plane.kubectl("get", "mkc", "-n", cluster.names.namespace).stdout
    assert "not this cluster's, and " in shown and f" {name};" in shown
    operator.look_at(cluster)
    assert cluster.find(plural, name) == before
    cluster.plane.request("DELETE", cluster.path)
    until_now(lambda: cluster.plane.find(cluster.path), lambda thing: thing is None, seconds=ACTS_SECONDS_MAX)
    assert cluster.find(plural, name) == before


@pytest.mark.parametrize(("plural", "name"), [("configmaps", "c-metadata"), ("leases", "c-controller")])
def test_what_has_the_names_of_the_brokers_own_survives_delete_claim(cluster: Cluster, plural: str, name: str) -> None:
    cluster.plane.request("POST", cluster.url(plural), {"metadata": {"name": name}})
    before = cluster.find(plural, name)
    cluster.create(storage={"deleteClaim": True})
    until_now(  # a conflict that is told before anything is made, or one that brokers meet
        lambda: cluster.find("statefulsets", "c-broker") or [e for e in cluster.events() if e[1] == "ObjectConflict"]
    )
    cluster.plane.request("DELETE", cluster.path)
    until_now(lambda: cluster.plane.find(cluster.path), lambda thing: thing is None, seconds=ACTS_SECONDS_MAX)
    assert cluster.find(plural, name) == before


def test_an_object_that_comes_between_look_and_write(cluster: Cluster, operator: Operator) -> None:
    """A Service without the labels is not even seen by a look; creating is what finds it, and says so."""
    spec = {"selector": LABELS, "ports": [{"port": 80}]}
    cluster.plane.request("POST", cluster.url("services"), {"metadata": {"name": "c-broker-1-external"}, "spec": spec})
    before = cluster.find("services", "c-broker-1-external")
    cluster.create(listeners={"external": {"type": "NodePort"}})
    assert "Service c-broker-1-external" in cluster.wait_for("Accepted", "False", "ObjectConflict")
    operator.look_at(cluster)
    assert cluster.find("services", "c-broker-1-external") == before


def test_what_was_created_can_be_taken_back(cluster: Cluster) -> None:
    """Fields that a POST created are owned by the later applies, so what is not wished for any more goes."""
    external = {"type": "NodePort", "annotations": {"note": "b"}}
    cluster.create(listeners={"external": external})
    service = "c-broker-0-external"
    until_now(lambda: cluster.find("services", service))
    assert cluster.find("services", service)["metadata"]["annotations"]["note"] == "b"
    cluster.edit(listeners={"external": {"annotations": None}})
    until_now(lambda: "note" in cluster.find("services", service)["metadata"]["annotations"], lambda there: not there)
    (entry,) = cluster.find("services", service)["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("minikafka-operator", "Apply")


def test_a_topic_that_names_no_cluster_says_so(cluster: Cluster) -> None:
    """Until the cluster is there; then it waits for brokers; and when the cluster is gone it says so again (B11)."""
    plane, name = cluster.plane, cluster.names.cluster
    spec = {"clusterRef": {"name": name}}
    body = {
        "apiVersion": "minikafka.dev/v1alpha1",
        "kind": "MiniKafkaTopic",
        "metadata": {"name": "bank"},
        "spec": spec,
    }
    plane.request("POST", cluster.url("minikafkatopics"), body)

    def ready() -> tuple[str, str, str]:
        (condition,) = cluster.find("minikafkatopics", "bank").get("status", {}).get("conditions") or [{}]
        return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")

    message = until_now(ready, lambda told: told[:2] == ("False", "ClusterNotFound"))[2]
    assert message == f"spec.clusterRef.name={name}: there is no MiniKafkaCluster of that name in its namespace"
    cluster.create()
    until_now(ready, lambda told: told[:2] == ("Unknown", "WaitingForBrokers"))
    cluster.topic("bank", ([0, 1, 2], [0, 1, 2]))
    before = cluster.find("minikafkatopics", "bank")["status"]
    cluster.plane.request("DELETE", cluster.path)
    until_now(ready, lambda told: told[:2] == ("False", "ClusterNotFound"))
    assert cluster.find("minikafkatopics", "bank")["status"]["partitions"] == before["partitions"], "its state is kept"


@pytest.mark.parametrize("labels", [None, {"minikafka.dev/cluster": "other"}])
async def test_brokers_leave_a_strangers_config_map_alone(
    plane: ControlPlane, namespace: str, open_store: OpenStore, labels: dict[str, str] | None
) -> None:
    """Even one that looks like a cluster's metadata: it is not this cluster's without the label."""
    body = Document("stranger").to_config_map("c-metadata", labels or {})
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    before = plane.request("POST", path, body)
    with pytest.raises(StoreError, match=r"ConfigMap c-metadata in namespace .* is not this cluster's"):
        await open_store()
    assert plane.find(f"{path}/c-metadata")["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_brokers_leave_a_strangers_lease_alone(
    plane: ControlPlane, namespace: str, open_store: OpenStore
) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    before = plane.request("POST", path, {"metadata": {"name": "c-controller"}, "spec": {"holderIdentity": "theirs"}})
    with pytest.raises(StoreError, match="Lease c-controller was not written by a broker; remove it"):
        await open_store()
    assert plane.find(f"{path}/c-controller")["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
