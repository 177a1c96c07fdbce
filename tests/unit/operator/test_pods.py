"""The brokers' pods: restricted, with the volumes they were promised, replaced only when something about them changed."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_kube.names import CONFIG_ANNOTATION, TEMPLATE_ANNOTATION, config_annotation, config_digest
from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.manifests.objects import ResourceBuilder
from minikafka_operator.manifests.pods import stateful_set

from .world import NAMES

EVERYTHING: dict[str, Any] = {
    "unflushedVolume": {"sizeLimit": "64Mi"},
    "flightRecorder": {"type": "PersistentClaim", "size": "2Gi", "storageClassName": "slow"},
    "storage": {"size": "5Gi", "storageClassName": "fast"},
    "rack": {"topologyKey": "zone"},
    "listeners": {"external": {"type": "NodePort"}},
    "chaos": {"allowed": True},
    "imagePullPolicy": "Never",
    "imagePullSecrets": [{"name": "secret"}],
    "brokers": {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "high",
        "metadata": {"labels": {"team": "a", "minikafka.dev/cluster": "other"}, "annotations": {"note": "b"}},
        "resources": {"limits": {"memory": "256Mi"}},
        "terminationGracePeriodSeconds": 60,
    },
}


def made(image: str = "image:1", replicas: int = 3, found: Any = None, **given: Any) -> dict[str, Any]:
    builder = ResourceBuilder(NAMES, "uid", ClusterSpec.model_validate(given))
    return stateful_set(builder, image, replicas, dict.fromkeys(range(replicas), "digest"), "account-uid", found)


def pod(**given: Any) -> dict[str, Any]:
    found: dict[str, Any] = made(**given)["spec"]["template"]["spec"]
    return found


def volumes(**given: Any) -> dict[str, Any]:
    return {volume.pop("name"): volume for volume in pod(**given)["volumes"]}


def mounts(**given: Any) -> dict[str, str]:
    return {mount["name"]: mount["mountPath"] for mount in pod(**given)["containers"][0]["volumeMounts"]}


class TestSecurity:
    @pytest.mark.parametrize("given", [{}, EVERYTHING], ids=["default", "everything"])
    def test_restricted(self, given: dict[str, Any]) -> None:
        """Pod Security Standards, "restricted": what its admission looks at."""
        spec = pod(**given)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["readOnlyRootFilesystem"] is True
        allowed = {"configMap", "emptyDir", "downwardAPI", "persistentVolumeClaim"}
        assert {kind for volume in spec["volumes"] for kind in volume if kind != "name"} <= allowed
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)

    def test_permissions_are_no_more_than_needed(self) -> None:
        _, role, _ = ResourceBuilder(NAMES, "uid", ClusterSpec()).permissions()
        for rule in role["rules"]:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
            assert not {"secrets", "pods"} & set(rule["resources"])


class TestVolumes:
    def test_default(self) -> None:
        assert mounts() == {
            "config": "/etc/minikafka",
            "data": "/var/lib/minikafka/data",
            "events": "/var/lib/minikafka/events",
            "tmp": "/tmp",
        }
        assert set(volumes()) == {"config", "tmp", "events"}, "data is a claim"
        (claim,) = made()["spec"]["volumeClaimTemplates"]
        assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}

    def test_unflushed_is_memory(self) -> None:
        assert volumes(unflushedVolume={})["unflushed"] == {"emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}}
        assert mounts(unflushedVolume={})["unflushed"] == "/var/lib/minikafka/unflushed"

    def test_ephemeral(self) -> None:
        given = {"storage": {"type": "Ephemeral", "size": "1Gi"}}
        assert volumes(**given)["data"] == {"emptyDir": {"sizeLimit": "1Gi"}}
        assert "volumeClaimTemplates" not in made(**given)["spec"]

    def test_flight_recorder_on_the_node(self) -> None:
        given = {"flightRecorder": {"type": "HostPath", "hostPath": "/var/log/mk"}}
        assert volumes(**given)["events"] == {"hostPath": {"path": "/var/log/mk", "type": "DirectoryOrCreate"}}
        (mount,) = [m for m in pod(**given)["containers"][0]["volumeMounts"] if m["name"] == "events"]
        assert mount["subPathExpr"] == "$(POD_NAME)", "brokers of one node share the directory"

    def test_claims_of_their_own(self) -> None:
        data, events = made(**EVERYTHING)["spec"]["volumeClaimTemplates"]
        assert (data["metadata"]["name"], data["spec"]["storageClassName"]) == ("data", "fast")
        assert (events["metadata"]["name"], events["spec"]["storageClassName"]) == ("events", "slow")

    def test_claim_templates_stay_as_they_are(self) -> None:
        """The API server refuses a change of them."""
        found = made(storage={"size": "1Gi", "storageClassName": "x"})
        again = made(storage={"size": "9Gi", "storageClassName": "x"}, found=found)
        assert again["spec"]["volumeClaimTemplates"] == found["spec"]["volumeClaimTemplates"]


class TestDigests:
    def template_digest(self, **given: Any) -> str:
        return str(made(**given)["spec"]["template"]["metadata"]["annotations"][TEMPLATE_ANNOTATION])

    @pytest.mark.parametrize(
        "given",
        [
            {"image": "image:2"},
            {"unflushedVolume": {}},
            {"brokers": {"resources": {"limits": {"memory": "1Gi"}}}},
            {"listeners": {"external": {"type": "NodePort"}}},
            {"chaos": {"allowed": True}},
        ],
    )
    def test_pods_are_replaced_for(self, given: dict[str, Any]) -> None:
        assert self.template_digest(**given) != self.template_digest()

    @pytest.mark.parametrize(
        "given",
        [
            {"replicas": 5, "brokers": {"replicas": 5}},
            {"storage": {"deleteClaim": True}},
            {"storage": {"size": "20Gi"}},
            {"rollout": {"readyTimeoutSeconds": 5}},
            {"chaos": {"allowed": False}},
            {"config": {"num.partitions": "9"}},  # told apart for each broker
        ],
    )
    def test_and_not_for(self, given: dict[str, Any]) -> None:
        assert self.template_digest(**given) == self.template_digest()

    def test_each_broker_finds_its_own(self) -> None:
        text = config_annotation({0: "aa", 1: "bb", 10: "cc"})
        assert text == "0=aa,1=bb,10=cc"
        assert [config_digest(text, i) for i in (0, 1, 10, 2)] == ["aa", "bb", "cc", ""]
        assert config_digest("", 0) == ""
        assert made()["spec"]["template"]["metadata"]["annotations"][CONFIG_ANNOTATION] == "0=digest,1=digest,2=digest"


def test_what_was_asked_for() -> None:
    whole = made(**EVERYTHING)["spec"]
    template, spec = whole["template"], whole["template"]["spec"]
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["metadata"]["labels"]["minikafka.dev/cluster"] == "demo", "the operator's own win"
    assert template["metadata"]["annotations"]["note"] == "b"
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["priorityClassName"] == "high"
    assert spec["imagePullSecrets"] == [{"name": "secret"}]
    assert spec["terminationGracePeriodSeconds"] == 60
    assert spec["containers"][0]["imagePullPolicy"] == "Never"
    assert spec["containers"][0]["resources"] == {"limits": {"memory": "256Mi"}}
    assert [one["topologyKey"] for one in spec["topologySpreadConstraints"]] == ["zone", "kubernetes.io/hostname"]
    assert (whole["podManagementPolicy"], whole["updateStrategy"]) == ("Parallel", {"type": "OnDelete"})


def test_the_container() -> None:
    container = pod()["containers"][0]
    assert container["args"] == ["broker", "--config", "/etc/minikafka/$(POD_NAME).properties"]
    assert {"POD_NAME", "POD_NAMESPACE", "POD_IP", "NODE_NAME", "POD_UID", "HOST_IP"} <= {
        e["name"] for e in container["env"]
    }
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"client": 9092, "replication": 9091, "metrics": 9404}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == "metrics"


class TestChaosAgent:
    """docs/decisions/011: a neighbour of the broker, only where the cluster allows it."""

    def test_only_where_it_is_allowed(self) -> None:
        for given in ({}, {"chaos": {}}, {"chaos": {"allowed": False}}):
            spec = pod(**given)
            assert [container["name"] for container in spec["containers"]] == ["broker"]
            assert "shareProcessNamespace" not in spec
            assert "chaos" not in {volume["name"] for volume in spec["volumes"]}
            assert "--gate" not in spec["containers"][0]["args"]

    def test_what_it_has(self) -> None:
        spec = pod(**EVERYTHING)
        broker, agent = spec["containers"]
        assert spec["shareProcessNamespace"] is True
        assert agent["name"] == "chaos-agent"
        assert agent["args"] == ["agent", "serve"]
        for same in ("image", "imagePullPolicy", "securityContext"):
            assert agent[same] == broker[same]
        assert "ports" not in agent, "nobody talks to it but by exec"
        theirs = {mount["name"]: mount for mount in broker["volumeMounts"]}
        for mount in agent["volumeMounts"]:
            assert mount["mountPath"] == theirs[mount["name"]]["mountPath"], "the properties' paths hold for both"
        assert {mount["name"]: mount.get("readOnly", False) for mount in agent["volumeMounts"]} == {
            "config": True,
            "data": False,
            "unflushed": False,
            "events": True,
            "chaos": False,
        }
        assert theirs["chaos"] == {"name": "chaos", "mountPath": "/var/lib/minikafka/chaos", "readOnly": True}

    def test_both_mean_the_same_broker_and_the_same_gate(self) -> None:
        broker, agent = pod(chaos={"allowed": True})["containers"]
        environment = {each["name"]: each.get("value") for each in agent["env"]}
        assert broker["args"] == [
            "broker",
            "--config",
            environment["MINIKAFKA_AGENT_CONFIG"],
            "--gate",
            f"{environment['MINIKAFKA_AGENT_FOLDER']}/gate.json",
        ]
        names = [each["name"] for each in agent["env"]]
        assert names[0] == "POD_NAME", "a variable can only name those before it"

    def test_no_unflushed_volume_and_a_flight_recorder_on_the_node(self) -> None:
        given = {"chaos": {"allowed": True}, "flightRecorder": {"type": "HostPath", "hostPath": "/var/log/mk"}}
        _, agent = pod(**given)["containers"]
        found = {mount["name"]: mount for mount in agent["volumeMounts"]}
        assert "unflushed" not in found
        assert (found["events"]["subPathExpr"], found["events"]["readOnly"]) == ("$(POD_NAME)", True)
