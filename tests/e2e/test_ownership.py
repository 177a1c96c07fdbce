"""What belongs to somebody else survives a cluster of the same name, and a size typed too large is taken back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.broker_cluster import BrokerCluster
from tests.e2e.kubectl import Kubectl, KubectlError, condition, eventually
from tests.e2e.objects import Object

pytestmark = pytest.mark.xdist_group("test_stories")  # their process is the first to have nothing to do

TOLD_SECONDS_MAX = 360
ONE_BROKER = {"brokers": {"replicas": 1}, "replication": {"defaultFactor": 1, "minInsyncReplicas": 1}}


def test_a_strangers_config_map_survives(broker_cluster: Callable[[str], BrokerCluster], namespace: Kubectl) -> None:
    """It has the name of the cluster's settings, and is there first; once it is renamed, the cluster comes up."""
    cluster = broker_cluster("demo")
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo-config"}, "data": {"theirs": "1"}}
    namespace.apply(theirs)
    before = namespace.objects.there("configmap", "demo-config")
    namespace.apply(cluster.manifest({**ONE_BROKER, "storage": {"deleteClaim": True}}))

    def is_conflict(found: Object | None) -> bool:
        return condition(found, "Accepted").get("reason") == "ObjectConflict"

    found = eventually(cluster.get, is_conflict, seconds=TOLD_SECONDS_MAX, what="the conflict is told")
    assert "ConfigMap demo-config" in condition(found, "Ready")["message"]
    assert namespace.objects.there("configmap", "demo-config") == before
    cluster.down()
    assert namespace.objects.there("configmap", "demo-config") == before
    namespace.delete("configmap", "demo-config")
    cluster.up({**ONE_BROKER, "storage": {"deleteClaim": True}})
    assert namespace.objects.there("configmap", "demo-config")["data"].keys() == {"demo-broker-0.properties"}


@pytest.mark.full
def test_a_size_typed_too_large_is_taken_back(
    broker_cluster: Callable[[str], BrokerCluster], namespace: Kubectl
) -> None:
    """Its class cannot grow volumes, so nobody has got any of it; below what the volumes have it cannot go."""
    cluster = broker_cluster("typo")
    cluster.up({**ONE_BROKER, "storage": {"size": "1Gi", "deleteClaim": True}})
    assert cluster.status["storageCapacity"] == "1Gi"
    namespace.patch("minikafkaclusters", "typo", {"spec": {"storage": {"size": "100Ti"}}})
    eventually(
        cluster.get,
        lambda found: condition(found, "Accepted").get("reason") == "ObjectRefused",
        seconds=TOLD_SECONDS_MAX,
        what="the claim may not grow",
    )
    with pytest.raises(KubectlError, match="must be at least what the volumes have already"):
        namespace.patch("minikafkaclusters", "typo", {"spec": {"storage": {"size": "512Mi"}}})
    namespace.patch("minikafkaclusters", "typo", {"spec": {"storage": {"size": "1Gi"}}})
    cluster.wait_ready()
