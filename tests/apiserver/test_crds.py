"""What the API server refuses of MiniKafkaClusters and MiniKafkaTopics, in words that name the field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.apiserver.control_plane import ControlPlane

CONFIG = {"config": {"node.id": "3"}}
HOST_PATH = {"flightRecorder": {"type": "HostPath"}}
BALANCER = {"listeners": {"external": {"type": "LoadBalancer", "bootstrapNodePort": 31000}}}
NO_TLS = {"listeners": {"internal": {"authentication": {"type": "tls"}}}}
GIVEN_NO_TLS = {"listeners": {"external": {"type": "NodePort", "certificateSecret": {"name": "s"}}}}
SCRAM = {"listeners": {"internal": {"authentication": {"type": "scram-sha-512"}}}}
ISSUER = {"type": "oauthbearer", "expectedIssuer": "https://issuer.example"}
URL, KEYS = {"jwksEndpointUrl": "https://issuer.example/keys"}, {"name": "issuer", "key": "keys.json"}
TOKENS = {"listeners": {"internal": {"tls": True, "authentication": {**ISSUER, **URL}}}}
SIMPLE = {"authorization": {"type": "simple", "superUsers": ["CN=admin"]}}
CLASH = {"listeners": {"external": {"type": "NodePort", "bootstrapNodePort": 31005, "firstBrokerNodePort": 31000}}}


def believing(*, tls: bool = True, **authentication: Any) -> dict[str, Any]:
    """The spec of a cluster that believes tokens, with something that is not to be said."""
    return {"listeners": {"internal": {"tls": tls, "authentication": {**ISSUER, **authentication}}}}


def apply(plane: ControlPlane, namespace: str, kind: str, name: str, spec: Any) -> str:
    """kubectl apply; what it complained about."""
    document = {"apiVersion": "minikafka.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    done = plane.kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=json.dumps(document))
    assert (done.returncode == 0) == (not done.stderr), done
    return done.stderr


class TestClusters:
    @pytest.mark.parametrize(
        ("spec", "says"),
        [
            ({"brokers": {"replicas": 0}}, "spec.brokers.replicas: Invalid value: 0"),
            ({"brokers": {"replicas": 2}}, "spec.replication.defaultFactor must be at most spec.brokers.replicas"),
            (
                {"replication": {"defaultFactor": 4}},
                "spec.replication.defaultFactor must be at most spec.brokers.replicas",
            ),
            (
                {"replication": {"minInsyncReplicas": 4}},
                "spec.replication.minInsyncReplicas must be at most spec.replication.defaultFactor",
            ),
            ({"storage": {"size": "lots"}}, "spec.storage.size: Invalid value"),
            ({"storage": {"size": "0"}}, "spec.storage.size must be more than 0"),
            ({"storage": {"type": "Tape"}}, 'spec.storage.type: Unsupported value: "Tape"'),
            (CONFIG, "spec.config: node.id is made by the operator"),
            (
                {"config": {"min.insync.replicas": "1"}},
                "instead of min.insync.replicas set spec.replication.minInsyncReplicas",
            ),
            ({"config": {"num.partitions": 3}}, "spec.config.num.partitions: expected string"),
            (HOST_PATH, "spec.flightRecorder.hostPath is needed with type HostPath"),
            (BALANCER, "spec.listeners.external.bootstrapNodePort and firstBrokerNodePort need type NodePort"),
            (CLASH, "spec.listeners.external.bootstrapNodePort must not be one of the brokers' ports"),
            (NO_TLS, "spec.listeners.internal.authentication.type tls needs spec.listeners.internal.tls"),
            (GIVEN_NO_TLS, "spec.listeners.external.certificateSecret needs spec.listeners.external.tls"),
            (
                believing(**URL, tls=False),
                "authentication.type oauthbearer needs spec.listeners.internal.tls: whoever sees",
            ),
            (
                {"listeners": {"internal": {"tls": True, "authentication": {"type": "oauthbearer", **URL}}}},
                "spec.listeners.internal.authentication.expectedIssuer is needed by oauthbearer",
            ),
            (believing(), "needs exactly one of jwksEndpointUrl, jwksConfigMap and jwksSecret"),
            (
                believing(**URL, jwksConfigMap=KEYS),
                "needs exactly one of jwksEndpointUrl, jwksConfigMap and jwksSecret",
            ),
            (
                believing(jwksSecret=KEYS, trustedCertificatesSecret={"name": "ca"}),
                "trustedCertificatesSecret needs spec.listeners.internal.authentication.jwksEndpointUrl",
            ),
            (believing(**URL, type="scram-sha-512"), "internal.authentication.jwksEndpointUrl is for oauthbearer only"),
            (believing(jwksEndpointUrl="http://issuer.example/keys"), "authentication.jwksEndpointUrl: Invalid value"),
            (believing(jwksEndpointUrl="https://u:p@issuer.example"), "authentication.jwksEndpointUrl: Invalid value"),
            (believing(**URL, expectedAudience=["a,b"]), "authentication.expectedAudience[0]: Invalid value"),
            ({"metrics": {"secured": True}}, "spec.metrics.secured needs a cluster with TLS"),
            ({"authorization": {"type": "opa"}}, "spec.authorization.type: Unsupported value"),
            ({"authorization": {"type": "simple", "superUsers": ["a;User:b"]}}, "spec.authorization.superUsers[0]"),
            ({"authorization": {"type": "simple", "superUsers": ["User:b"]}}, "superUsers: names only, without User:"),
            (
                {"clusterCa": {"validityDays": 30}},
                "spec.clusterCa.renewalDays must be less than spec.clusterCa.validityDays",
            ),
            (
                {"clientsCa": {"renewalDays": 1, "graceSeconds": 43200}},
                "spec.clientsCa.graceSeconds must be less than half of spec.clientsCa.renewalDays",
            ),
            ({"rack": {}}, "spec.rack.topologyKey: Required value"),
            (
                {"brokers": {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1024Mi"}}}},
                "spec.brokers.resources.requests.memory must be at most spec.brokers.resources.limits.memory",
            ),
            (
                {"brokers": {"resources": {"requests": {"cpu": 3}, "limits": {"cpu": "2500m"}}}},
                "spec.brokers.resources.requests.cpu must be at most spec.brokers.resources.limits.cpu",
            ),
            ({"storrage": {}}, ".spec.storrage: field not declared in schema"),
        ],
        ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else "",
    )
    def test_refused(self, plane: ControlPlane, namespace: str, spec: Any, says: str) -> None:
        told = apply(plane, namespace, "MiniKafkaCluster", "c", spec)
        assert says in told

    @pytest.mark.parametrize("name", ["1st", "a.b", "x" * 41])
    def test_names(self, plane: ControlPlane, namespace: str, name: str) -> None:
        told = apply(plane, namespace, "MiniKafkaCluster", name, {})
        assert "metadata.name must begin with a letter" in told

    @pytest.mark.parametrize(
        ("before", "after", "says"),
        [
            ({"storage": {"size": "2Gi"}}, {}, ""),  # 10Gi, the default, is more
            ({"storage": {"size": "2Gi"}}, {"storage": {"size": "2048Mi"}}, ""),
            ({}, SCRAM, "spec.listeners: a cluster that was made without TLS"),
            (SIMPLE, {}, "spec.listeners: a cluster that was made without TLS"),
            ({}, {"listeners": {"internal": {"tls": False}}}, ""),
            (SIMPLE, SCRAM, ""),
            (SIMPLE, TOKENS, ""),
            (
                believing(jwksConfigMap=KEYS),
                {**TOKENS, "authorization": {"type": "simple", "superUsers": ["a:b:c"]}},
                "",
            ),
            ({}, {"storage": {"type": "Ephemeral"}}, "spec.storage.type cannot be changed"),
            ({}, {"storage": {"storageClassName": "a"}}, "spec.storage.storageClassName cannot be changed"),
            (
                {"storage": {"storageClassName": "a"}},
                {"storage": {"storageClassName": "b"}},
                "spec.storage.storageClassName cannot be changed",
            ),
            ({}, {"flightRecorder": {"type": "PersistentClaim"}}, "spec.flightRecorder.type cannot be changed"),
            ({"config": {"num.partitions": "3"}}, {"config": {}}, ""),  # server-side apply makes null of it
            ({"brokers": {"nodeSelector": {"a": "b"}}}, {"brokers": {"nodeSelector": {}}}, ""),
            ({"brokers": {"resources": {"requests": {"cpu": 1}}}}, {"brokers": {"resources": {}}}, ""),
            ({}, {"storage": {"deleteClaim": True}, "unflushedVolume": {}, "brokers": {"replicas": 9}}, ""),
        ],
        ids=str,
    )
    def test_changes(self, plane: ControlPlane, namespace: str, before: Any, after: Any, says: str) -> None:
        assert apply(plane, namespace, "MiniKafkaCluster", "c", before) == ""
        told = apply(plane, namespace, "MiniKafkaCluster", "c", after)
        assert says in told and bool(says) == bool(told), told

    def test_a_size_may_go_back_to_what_the_volumes_have(self, plane: ControlPlane, namespace: str) -> None:
        """Without volumes to anything; a capacity above the size (rounded up) does not keep a status from being written."""
        path = f"/apis/minikafka.dev/v1alpha1/namespaces/{namespace}/minikafkaclusters/c"
        assert apply(plane, namespace, "MiniKafkaCluster", "c", {"storage": {"size": "10Ti"}}) == ""
        assert apply(plane, namespace, "MiniKafkaCluster", "c", {"storage": {"size": "1500M"}}) == ""
        plane.request("PATCH", f"{path}/status", {"status": {"storageCapacity": "2Gi"}})
        plane.request("PATCH", f"{path}/status", {"status": {"replicas": 1}})
        assert apply(plane, namespace, "MiniKafkaCluster", "c", {"storage": {"size": "10Ti"}}) == ""
        says = "spec.storage.size must be at least what the volumes have already"
        assert says in apply(plane, namespace, "MiniKafkaCluster", "c", {"storage": {"size": "1500M"}})
        assert apply(plane, namespace, "MiniKafkaCluster", "c", {"storage": {"size": "2Gi"}}) == ""

    def test_scaling_is_checked_too(self, plane: ControlPlane, namespace: str) -> None:
        assert apply(plane, namespace, "MiniKafkaCluster", "c", {}) == ""
        done = plane.kubectl("scale", "mkc", "c", "--replicas=2", "-n", namespace)
        assert "spec.replication.defaultFactor must be at most spec.brokers.replicas" in done.stderr
        assert plane.kubectl("scale", "mkc", "c", "--replicas=5", "-n", namespace).returncode == 0

    def test_defaults(self, plane: ControlPlane, namespace: str) -> None:
        document = {"apiVersion": "minikafka.dev/v1alpha1", "kind": "MiniKafkaCluster", "metadata": {"name": "c"}}
        path = f"/apis/minikafka.dev/v1alpha1/namespaces/{namespace}/minikafkaclusters"
        spec = plane.request("POST", path, document)["spec"]
        assert spec["brokers"]["replicas"] == 3
        assert spec["replication"] == {"defaultFactor": 3, "minInsyncReplicas": 2}
        assert spec["storage"] == {"type": "PersistentClaim", "size": "10Gi", "deleteClaim": False}

    def test_whole_and_quoted_amounts(self, plane: ControlPlane, namespace: str) -> None:
        requests = {"cpu": 2, "memory": "512Mi"}
        assert (
            apply(plane, namespace, "MiniKafkaCluster", "c", {"brokers": {"resources": {"requests": requests}}}) == ""
        )


ALICE: dict[str, Any] = {"clusterRef": {"name": "c"}, "authentication": {"type": "tls"}}


def acls(resource: dict[str, str], **more: Any) -> dict[str, Any]:
    rule = {"resource": resource, "operations": ["Read"], **more}
    return {**ALICE, "authorization": {"type": "simple", "acls": [rule]}}


class TestUsers:
    @pytest.mark.parametrize(
        ("spec", "says"),
        [
            ({**ALICE, "authentication": {"type": "plain"}}, 'spec.authentication.type: Unsupported value: "plain"'),
            ({**ALICE, "userName": "a=b"}, "spec.userName: Invalid value"),
            ({**ALICE, "userName": "ANONYMOUS"}, "spec.userName cannot be ANONYMOUS"),
            (
                {**ALICE, "userName": "x" * 65},
                "spec.userName of a user with spec.authentication has at most 64 characters",
            ),
            ({"clusterRef": {"name": "c"}, "userName": "x" * 257}, "spec.userName: Too long"),
            (
                {"clusterRef": {"name": "c"}, "userName": "CN=a"},
                "spec.userName without spec.authentication cannot begin with",
            ),
            (acls({"type": "topic"}), "spec.authorization.acls.resource.name is needed"),
            (
                acls({"type": "cluster", "name": "x"}),
                "spec.authorization.acls.resource.name is needed, but with type cluster",
            ),
            (
                acls({"type": "cluster", "patternType": "prefix"}),
                "spec.authorization.acls.resource.patternType is for types",
            ),
            (acls({"type": "disk", "name": "x"}), "spec.authorization.acls[0].resource.type: Unsupported value"),
            (acls({"type": "topic", "name": "x"}, operations=["Burn"]), "operations[0]: Unsupported value"),
            (acls({"type": "topic", "name": "x"}, operations=[]), "operations: Invalid value"),
            ({**ALICE, "quotas": {"bytes": 1}}, ".spec.quotas.bytes"),
            ({**ALICE, "quotas": {"producerByteRate": 0}}, "spec.quotas.producerByteRate: Invalid value: 0"),
            ({**ALICE, "quotas": {"requestPercentage": 0.5}}, "spec.quotas.requestPercentage: Invalid value"),
            (
                {**ALICE, "quotas": {"controllerMutationRate": 0}},
                "spec.quotas.controllerMutationRate: Invalid value: 0",
            ),
        ],
        ids=lambda value: json.dumps(value)[50:90] if isinstance(value, dict) else "",
    )
    def test_refused(self, plane: ControlPlane, namespace: str, spec: Any, says: str) -> None:
        assert says in apply(plane, namespace, "MiniKafkaUser", "alice", spec)

    @pytest.mark.parametrize(
        ("after", "says"),
        [
            (acls({"type": "group", "name": "g", "patternType": "prefix"}, host="10.0.0.1", type="deny"), ""),
            (acls({"type": "cluster"}), ""),
            ({**ALICE, "quotas": {"consumerByteRate": 1, "controllerMutationRate": 5}}, ""),
            ({**ALICE, "authentication": {"type": "scram-sha-512"}}, "spec.authentication.type cannot be changed"),
            ({"clusterRef": {"name": "c"}}, "spec.authentication cannot be added or removed"),
            ({**ALICE, "clusterRef": {"name": "d"}}, "spec.clusterRef.name cannot be changed"),
            ({**ALICE, "userName": "bob"}, "spec.userName cannot be added or removed"),
        ],
        ids=lambda value: json.dumps(value)[50:90] if isinstance(value, dict) else "",
    )
    def test_changes(self, plane: ControlPlane, namespace: str, after: Any, says: str) -> None:
        assert apply(plane, namespace, "MiniKafkaUser", "alice", ALICE) == ""
        told = apply(plane, namespace, "MiniKafkaUser", "alice", after)
        assert says in told and bool(says) == bool(told)

    def test_names(self, plane: ControlPlane, namespace: str) -> None:
        says = "metadata.name: the name of a user has at most 64 characters"
        assert says in apply(plane, namespace, "MiniKafkaUser", "x" * 65, ALICE)
        assert apply(plane, namespace, "MiniKafkaUser", "x" * 65, {**ALICE, "userName": "Alice_1"}) == ""
        token = {"clusterRef": {"name": "c"}, "userName": "system:serviceaccount:ns:a|b"}
        assert apply(plane, namespace, "MiniKafkaUser", "y" * 65, token) == ""


class TestTopics:
    REF = {"clusterRef": {"name": "c"}}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("spec", "says"),
        [
            ({}, "spec.clusterRef: Required value"),
            ({**REF, "partitions": 0}, "spec.partitions: Invalid value: 0"),
            ({**REF, "topicName": "a/b"}, "spec.topicName: Invalid value"),
            ({**REF, "topicName": ".."}, "spec.topicName cannot be '.' or '..'"),
            ({**REF, "replicaAssignment": [[0], []]}, "spec.replicaAssignment[1]: Invalid value"),
            ({**REF, "config": {"retention.ms": 1}}, "spec.config.retention.ms: expected string"),
        ],
        ids=str,
    )
    def test_refused(self, plane: ControlPlane, namespace: str, spec: Any, says: str) -> None:
        assert says in apply(plane, namespace, "MiniKafkaTopic", "t", spec)

    @pytest.mark.parametrize(
        ("before", "after", "says"),
        [
            ({"config": {"retention.ms": "1"}}, {"config": {}}, ""),
            ({"partitions": 3}, {"partitions": 2}, "spec.partitions may only grow"),
            ({"partitions": 3}, {"partitions": 4}, ""),
            ({"partitions": 3}, {}, "spec.partitions cannot be removed"),
            ({}, {"partitions": 4, "replicationFactor": 2}, ""),  # as brokers fill them in
            ({"replicationFactor": 2}, {"replicationFactor": 3}, "spec.replicationFactor cannot be changed"),
            ({"topicName": "A"}, {"topicName": "B"}, "spec.topicName cannot be changed"),
            ({"topicName": "A"}, {}, "spec.topicName cannot be added or removed"),
            ({}, {"topicName": "A"}, "spec.topicName cannot be added or removed"),
            (
                {"replicaAssignment": [[0, 1]]},
                {"replicaAssignment": [[1, 0]]},
                "spec.replicaAssignment cannot be changed",
            ),
            ({"replicaAssignment": [[0, 1]]}, {"replicaAssignment": [[0, 1]], "partitions": 1}, ""),
            ({"config": {"a": "b"}}, {"config": {"c": "d"}}, ""),
            ({"config": {"a": "b"}}, {}, ""),
            ({}, {"clusterRef": {"name": "other"}}, "spec.clusterRef.name cannot be changed"),
        ],
        ids=str,
    )
    def test_changes(self, plane: ControlPlane, namespace: str, before: Any, after: Any, says: str) -> None:
        assert apply(plane, namespace, "MiniKafkaTopic", "t", {**self.REF, **before}) == ""
        told = apply(plane, namespace, "MiniKafkaTopic", "t", {**self.REF, **after})
        assert says in told and bool(says) == bool(told), told

    def test_found_by_cluster(self, plane: ControlPlane, namespace: str) -> None:
        for name, cluster in (("a", "c"), ("b", "d")):
            assert apply(plane, namespace, "MiniKafkaTopic", name, {"clusterRef": {"name": cluster}}) == ""
        listed = plane.kubectl("get", "mkt", "-n", namespace, "--field-selector=spec.clusterRef.name=d", "-o", "name")
        assert listed.stdout.split() == ["minikafkatopic.minikafka.dev/b"]

    def test_the_largest_one_passes(self, plane: ControlPlane, namespace: str) -> None:
        """The rules stay within the cost limits of the API server also at run time."""
        assignment = [[0, 1, 2]] * 10_000
        assert apply(plane, namespace, "MiniKafkaTopic", "t", {**self.REF, "replicaAssignment": assignment}) == ""
        spec = {**self.REF, "replicaAssignment": assignment, "config": {"a": "b"}}
        assert apply(plane, namespace, "MiniKafkaTopic", "t", spec) == ""


def test_explain(plane: ControlPlane) -> None:
    told = plane.kubectl("explain", "mkc.spec.storage.deleteClaim").stdout
    assert "Whether deleting the cluster deletes its data" in told
