"""The brokers' Role, as the operator makes it, is enough for everything they do, and lets them do little else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from minikafka.kubernetes import Access
from minikafka.kubernetes.api import CONFIG_MAP, ApiError, Kind, KubernetesApi
from minikafka_kube.names import Names
from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.manifests.objects import ResourceBuilder

from tests.apiserver.conftest import CLUSTER, MakeBrokers
from tests.apiserver.control_plane import ControlPlane
from tests.waiting import ANSWER_SECONDS_MAX, until_now

PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}


def broker_token(plane: ControlPlane, namespace: str) -> str:
    """A token of the service account that the operator gives to brokers, with the operator's own Role."""
    names = Names(namespace, CLUSTER)
    for value in ResourceBuilder(
        names, "00000000-0000-0000-0000-000000000000", ClusterSpec.model_construct()
    ).permissions():
        value["metadata"].pop("ownerReferences")
        plane.request("POST", PATHS[value["kind"]].format(namespace), value)
    path = f"{PATHS['ServiceAccount'].format(namespace)}/{names.broker}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(plane.request("POST", path, asked)["status"]["token"])


def test_enough(plane: ControlPlane, namespace: str, make_brokers: MakeBrokers, tmp_path: Path) -> None:
    """Topics come, change and go by clients and by kubectl; nothing that a broker does is forbidden."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(plane.kubeconfig(broker_token(plane, namespace), namespace=namespace)))
    brokers = make_brokers(namespace, kubeconfig=kubeconfig)
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    admin.create_topics([NewTopic("client", 1, 3)])["client"].result(timeout=ANSWER_SECONDS_MAX)
    topics = f"/apis/minikafka.dev/v1alpha1/namespaces/{namespace}/minikafkatopics"
    plane.request(
        "POST",
        topics,
        {
            "apiVersion": "minikafka.dev/v1alpha1",
            "kind": "MiniKafkaTopic",
            "metadata": {"name": "person"},
            "spec": {"clusterRef": {"name": CLUSTER}},
        },
    )

    def ready(name: str) -> bool:
        return "topicId" in ((plane.find(f"{topics}/{name}") or {}).get("status") or {})

    until_now(lambda: ready("client") and ready("person"))
    plane.request("PATCH", f"{topics}/client", {"spec": {"partitions": 2}})
    until_now(lambda: plane.find(f"{topics}/client")["status"]["partitionCount"], lambda n: n == 2)
    plane.request("DELETE", f"{topics}/client")
    until_now(lambda: plane.find(f"{topics}/client"), lambda value: value is None)
    admin.delete_topics(["person"])["person"].result(timeout=ANSWER_SECONDS_MAX)
    until_now(lambda: plane.find(f"{topics}/person"), lambda value: value is None)
    node = int(
        plane.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{CLUSTER}-controller")[
            "metadata"
        ]["annotations"]["minikafka.dev/node-id"]
    )
    brokers.all[node].kill()
    until_now(lambda: [b for b in brokers.all if b.events("controller_elected")], lambda found: len(found) == 2)
    logs = "\n".join(broker.log.read_text(errors="replace") for broker in brokers.all)
    assert "Kubernetes API: 403" not in logs
    assert "orbidden" not in logs


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (CONFIG_MAP, "c-config"),
        (CONFIG_MAP, "other-metadata"),
        (Kind("coordination.k8s.io/v1", "leases", "Lease"), "other-controller"),
        (Kind("v1", "secrets", "Secret"), "any"),
        (Kind("v1", "pods", "Pod"), "c-broker-0"),
        (Kind("minikafka.dev/v1alpha1", "minikafkaclusters", "MiniKafkaCluster"), "c"),
    ],
)
async def test_not_more(plane: ControlPlane, namespace: str, kind: Kind, name: str) -> None:
    """Other clusters' state, secrets, pods and the cluster's own object are none of a broker's business."""
    api = KubernetesApi(Access(plane.url, plane.tls, token=broker_token(plane, namespace)), namespace)
    with pytest.raises(ApiError, match="403 Forbidden"):
        await api.get(kind, name)
    with pytest.raises(ApiError, match="403 Forbidden"):
        await api.list(kind)
    api.close()


@pytest.mark.full
def test_without_the_role(plane: ControlPlane, namespace: str, make_brokers: MakeBrokers, tmp_path: Path) -> None:
    """One line names what is missing; the broker ends with exit code 2, and does not hang."""
    account: dict[str, Any] = {"metadata": {"name": "nobody"}}
    plane.request("POST", PATHS["ServiceAccount"].format(namespace), account)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"{PATHS['ServiceAccount'].format(namespace)}/nobody/token"
    token = plane.request("POST", path, asked)["status"]["token"]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(plane.kubeconfig(token)))
    with pytest.raises(AssertionError, match=r'broker 0 ended: (?s:.*)cannot list resource "configmaps"'):
        make_brokers(namespace, count=1, kubeconfig=kubeconfig)
