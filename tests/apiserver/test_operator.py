"""The operator against a real API server: what it makes, what it says, and that it then leaves everything alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from minikafka_operator.users.reconciler import REFUSED_RETRY_SECONDS

from tests.apiserver.conftest import make_namespace
from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane
from tests.apiserver.controller_word import LEASE_SECONDS
from tests.apiserver.operator_process import (
    ACTS_SECONDS_MAX,
    IMAGE,
    LOOKS_SECONDS_MAX,
    Cluster,
    Operator,
    apply,
    manifest,
    token_of,
)
from tests.forms import in_full
from tests.waiting import until_now

RETRIED_SECONDS_MAX = REFUSED_RETRY_SECONDS + ACTS_SECONDS_MAX
THREE = ([0, 1, 2], [0, 1, 2])


def settled(cluster: Cluster, operator: Operator) -> dict[str, str]:
    """The versions of all objects, once some looks have changed none of them."""
    deadline = time.monotonic() + LOOKS_SECONDS_MAX
    before = cluster.versions()
    while True:
        operator.look_at(cluster, 6)
        if (after := cluster.versions()) == before:
            return after
        assert time.monotonic() < deadline, f"still written: {[k for k, v in after.items() if before.get(k) != v]}"
        before = after


class TestReconciling:
    def test_from_nothing_to_ready(self, cluster: Cluster) -> None:
        cluster.create()
        assert cluster.wait_for("Ready", "False", "BrokersNotReady") == "0 of 3 brokers are ready"
        cluster.run()
        status = cluster.status()
        assert status["brokersReady"] == "3/3"
        assert status["bootstrap"]["internal"] == f"c-bootstrap.{cluster.names.namespace}.svc:9092"
        table = cluster.plane.kubectl("get", "mkc", "-n", cluster.names.namespace).stdout.split("\n")
        assert table[0].split() == ["NAME", "READY", "BROKERS", "CONTROLLER", "URP", "OFFLINE", "STATUS", "AGE"]
        assert table[1].split()[:3] == ["c", "True", "3/3"]
        until_now(cluster.events, lambda told: ("Normal", "AllBrokersReady", "3 of 3 brokers are ready") in told)

    def test_what_it_makes(self, cluster: Cluster) -> None:
        cluster.create()
        found = until_now(lambda: cluster.find("statefulsets", "c-broker"))
        assert found["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE
        for kind, name in [
            ("serviceaccounts", "c-broker"),
            ("roles", "c-broker"),
            ("rolebindings", "c-broker"),
            ("configmaps", "c-config"),
            ("services", "c-brokers"),
            ("services", "c-bootstrap"),
            ("poddisruptionbudgets", "c-broker"),
            ("statefulsets", "c-broker"),
        ]:
            thing = cluster.find(kind, name)
            assert thing["metadata"]["ownerReferences"][0]["uid"] == cluster.get()["metadata"]["uid"]
            (manager,) = {entry["manager"] for entry in thing["metadata"]["managedFields"]}
            assert manager == "minikafka-operator"

    def test_external_addresses(self, cluster: Cluster) -> None:
        """The API server chooses the node ports; the brokers' settings name them."""
        cluster.create(listeners={"external": {"type": "NodePort"}})
        cluster.run()
        for broker_id in range(3):
            port = cluster.find("services", f"c-broker-{broker_id}-external")["spec"]["ports"][0]["nodePort"]
            settings = cluster.find("configmaps", "c-config")["data"][f"c-broker-{broker_id}.properties"]
            assert f"EXTERNAL://${{env:HOST_IP}}:{port}\n" in settings
            assert cluster.status()["brokers"][broker_id]["external"] == f"10.1.0.1:{port}"
        cluster.edit(listeners={"external": None})
        until_now(lambda: cluster.find("services", "c-bootstrap-external"), lambda thing: thing is None)

    def test_load_balancers(self, cluster: Cluster) -> None:
        """Somebody else gives them their addresses; no broker starts before it knows its own."""
        cluster.create(listeners={"external": {"type": "LoadBalancer"}})
        cluster.wait_for("Progressing", "True", "WaitingForAddress")
        services = [f"c-broker-{broker_id}-external" for broker_id in range(3)]
        for number, name in enumerate([*services, "c-bootstrap-external"]):
            until_now(lambda: cluster.find("services", name))  # noqa: B023
            assert cluster.find("services", name)["spec"]["type"] == "LoadBalancer"
            status = {"loadBalancer": {"ingress": [{"ip": f"10.9.0.{number}"}]}}
            cluster.plane.request("PATCH", f"{cluster.url('services', name)}/status", {"status": status})
        cluster.run()
        for broker_id in range(3):
            settings = cluster.find("configmaps", "c-config")["data"][f"c-broker-{broker_id}.properties"]
            assert f"EXTERNAL://10.9.0.{broker_id}:9094\n" in settings
            assert cluster.status()["brokers"][broker_id]["external"] == f"10.9.0.{broker_id}:9094"
        assert cluster.status()["bootstrap"]["external"] == "10.9.0.3:9094"


class TestGrowingStorage:
    """The API server itself decides whether a claim may grow: its StorageClass says so."""

    @pytest.fixture(params=[True, *in_full([False])], ids=["grows", "fixed"])
    def storage_class(self, plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[tuple[str, bool]]:
        """Its name, and whether its claims may grow."""
        name = "grows" if request.param else "fixed"
        classes = "/apis/storage.k8s.io/v1/storageclasses"
        body = {"metadata": {"name": name}, "provisioner": "example.com/nobody", "allowVolumeExpansion": request.param}
        plane.request("POST", classes, body)
        yield name, request.param
        plane.request("DELETE", f"{classes}/{name}")

    def test_every_claim_follows_the_spec_or_a_condition_says_why_not(
        self, cluster: Cluster, storage_class: tuple[str, bool]
    ) -> None:
        name, grows = storage_class
        cluster.create(storage={"size": "1Gi", "storageClassName": name})
        cluster.run()
        pods = [cluster.find("pods", f"c-broker-{broker_id}")["metadata"]["uid"] for broker_id in range(3)]
        cluster.edit(storage={"size": "2Gi"})

        def sizes() -> list[str]:
            claims = (cluster.find("persistentvolumeclaims", f"data-c-broker-{broker_id}") for broker_id in range(3))
            return [claim["spec"]["resources"]["requests"]["storage"] for claim in claims]

        if grows:
            until_now(sizes, lambda found: found == ["2Gi"] * 3)
        else:
            told = cluster.wait_for("Accepted", "False", "ObjectRefused")
            assert "data-c-broker-0" in told
            assert "storageclass" in told
            assert sizes() == ["1Gi"] * 3
            until_now(cluster.events, lambda events: any("data-c-broker-0" in note for _, _, note in events))
            assert cluster.condition("Available")[0] == "True"
            path = f"/apis/storage.k8s.io/v1/storageclasses/{name}"
            cluster.plane.request("PATCH", path, {"allowVolumeExpansion": True})  # what the message asks for
            until_now(sizes, lambda found: found == ["2Gi"] * 3, seconds=RETRIED_SECONDS_MAX)
        cluster.wait_for("Ready", "True", "AllBrokersReady")
        assert [cluster.find("pods", f"c-broker-{broker_id}")["metadata"]["uid"] for broker_id in range(3)] == pods

    def test_a_size_typed_too_large_is_taken_back(self, cluster: Cluster, storage_class: tuple[str, bool]) -> None:
        """To no less than what the volumes have: that the API server itself refuses (audit B11)."""
        name, grows = storage_class
        cluster.create(storage={"size": "1Gi", "storageClassName": name})
        cluster.run()
        until_now(lambda: cluster.status().get("storageCapacity"), lambda size: size == "1Gi")
        cluster.edit(storage={"size": "100Ti"})

        def sizes() -> set[str]:
            claims = (cluster.find("persistentvolumeclaims", f"data-c-broker-{broker_id}") for broker_id in range(3))
            return {claim["spec"]["resources"]["requests"]["storage"] for claim in claims}

        if grows:
            until_now(sizes, lambda found: found == {"100Ti"})
        else:
            cluster.wait_for("Accepted", "False", "ObjectRefused")
        less = cluster.plane.kubectl(
            "patch",
            "mkc",
            "c",
            "-n",
            cluster.names.namespace,
            "--type=merge",
            '-p={"spec":{"storage":{"size":"512Mi"}}}',
        )
        assert "spec.storage.size must be at least what the volumes have already" in less.stderr
        if grows:
            cluster.edit(storage={"size": "2Gi"})
            until_now(sizes, lambda found: found == {"2Gi"})
        cluster.edit(storage={"size": "1Gi"})
        told = cluster.wait_for("Accepted", "True", "VolumesLarger" if grows else "Accepted")
        assert sizes() == {"2Gi" if grows else "1Gi"}
        assert ("data-c-broker-0 has 1Gi and still asks for 2Gi" in told) == grows
        cluster.wait_for("Ready", "True", "AllBrokersReady")

    @pytest.mark.parametrize("storage_class", [False], ids=["fixed"], indirect=True)
    def test_a_claim_that_may_not_grow_holds_up_nothing_else(
        self, cluster: Cluster, storage_class: tuple[str, bool]
    ) -> None:
        cluster.create(storage={"size": "1Gi", "storageClassName": storage_class[0]})
        cluster.run()
        cluster.start(seconds_ago=100)
        cluster.edit(storage={"size": "2Gi"}, config={"num.partitions": "7"})
        cluster.wait_for("Accepted", "False", "ObjectRefused")
        pods = [f"c-broker-{broker_id}" for broker_id in range(3)]
        until_now(lambda: any("deletionTimestamp" in cluster.find("pods", name)["metadata"] for name in pods))


class TestSteadyState:
    """Nothing is written to a cluster that is as it should be: shown by the resource versions of everything around it."""

    @pytest.mark.parametrize(
        "spec",
        [
            pytest.param({}, marks=pytest.mark.full),
            {
                "listeners": {"external": {"type": "NodePort", "annotations": {"a": "b"}}},
                "unflushedVolume": {"sizeLimit": "4000k"},
                "flightRecorder": {"type": "PersistentClaim", "size": "0.5Gi"},
                "storage": {"size": "1024Mi"},
                "config": {"num.partitions": "3"},
                "imagePullSecrets": [{"name": "secret"}],
                "brokers": {
                    "replicas": 3,
                    "resources": {
                        "requests": {"cpu": "0.5", "memory": "1000Ki"},
                        "limits": {"cpu": 1, "memory": "0.5Gi"},
                    },
                    "tolerations": [{"key": "a", "operator": "Exists"}],
                    "nodeSelector": {"disk": "ssd"},
                    "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
                    "affinity": {
                        "podAntiAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": [
                                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
                            ]
                        }
                    },
                },
            },
            *in_full(
                [
                    {
                        "storage": {"type": "Ephemeral"},
                        "flightRecorder": {"type": "HostPath", "hostPath": "/var/log/mk"},
                    },
                    {"chaos": {"allowed": True}, "unflushedVolume": {"sizeLimit": "64Mi"}},
                ]
            ),
            {
                "brokers": {
                    "tolerations": [
                        {"key": "", "operator": "Exists", "effect": ""},
                        {"key": "a", "operator": "Exists", "effect": "NoSchedule"},
                        {"key": "a", "operator": "Exists", "effect": "NoExecute"},
                    ],
                    "affinity": {
                        "podAntiAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": [
                                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "namespaces": []}
                            ]
                        }
                    },
                }
            },
        ],
        ids=["default", "everything", "ephemeral", "chaos", "what the API server leaves out"],
    )
    def test_nothing_is_written(
        self, cluster: Cluster, operator: Operator, plane: ControlPlane, tmp_path: Path, spec: dict[str, Any]
    ) -> None:
        """Also no apply that changes nothing, and so leaves the versions: one operator looks at this cluster alone."""
        cluster.create(**spec)
        cluster.run()
        cluster.topic("bank", THREE)
        until_now(lambda: cluster.status().get("partitions"), lambda count: count == 1)
        before = settled(cluster, operator)
        alone = Operator(plane, tmp_path, ADMIN_TOKEN, f"--namespace={cluster.names.namespace}", "--resync-seconds=1")
        try:
            alone.wait_until_watching()
            alone.look_at(cluster, 6)
            assert cluster.versions() == before
            assert alone.metric("minikafka_operator_writes_total") == 0
            assert alone.metric("minikafka_operator_reconciliations_total", outcome="steady") >= 4
        finally:
            assert alone.stop() == 0

    def test_what_somebody_changes_is_put_right(self, cluster: Cluster) -> None:
        cluster.create()
        cluster.run()
        plane = cluster.plane
        plane.request("DELETE", cluster.url("services", "c-bootstrap"))
        plane.request("PATCH", cluster.url("statefulsets", "c-broker"), {"spec": {"replicas": 1}})
        plane.request("PATCH", cluster.url("roles", "c-broker"), {"rules": []})
        until_now(lambda: cluster.find("services", "c-bootstrap"))
        until_now(lambda: cluster.find("statefulsets", "c-broker")["spec"]["replicas"], lambda count: count == 3)
        until_now(lambda: cluster.find("roles", "c-broker")["rules"])


class TestRolling:
    def test_one_at_a_time_and_only_while_enough_are_in_sync(self, cluster: Cluster) -> None:
        cluster.create()
        cluster.run()
        cluster.topic("bank", ([0, 1, 2], [0, 1]), ([0, 1, 2], [0, 2]), ([0, 1, 2], [1, 2]))
        until_now(lambda: cluster.status().get("underReplicatedPartitions"), lambda count: count == 3)
        uids = self.uids(cluster)
        cluster.start(seconds_ago=100)
        cluster.edit(config={"num.partitions": "7"})
        message = cluster.wait_for("RolloutBlocked", "True", "PartitionsAtMinIsr")
        assert message == "without broker 0 fewer than min.insync.replicas would be in sync: bank-0, bank-1"
        assert self.uids(cluster) == uids
        cluster.topic("bank", THREE, THREE, THREE)
        replaced = []
        for _ in range(3):
            (name,) = until_now(lambda: [n for n in uids if self.uids(cluster)[n] is None])
            replaced.append(name)
            cluster.end(name)
            assert cluster.make_pods() == [name]
            cluster.start(name, seconds_ago=30)
        cluster.wait_for("Ready", "True", "AllBrokersReady")
        assert sorted(replaced) == sorted(uids)
        settings = cluster.find("configmaps", "c-config")["data"]["c-broker-0.properties"]
        assert "num.partitions=7\n" in settings
        until_now(cluster.events, lambda told: [reason for _, reason, _ in told].count("ReplacingBroker") == 3)

    def test_frozen_statuses_and_a_silent_controller_stop_a_roll(self, cluster: Cluster) -> None:
        """Every status shows a full ISR, but nobody has kept them up to date since the controller fell silent."""
        cluster.create()
        cluster.run()
        cluster.topic("bank", THREE)
        cluster.start(seconds_ago=100)
        cluster.controller.fall_silent()
        time.sleep(LEASE_SECONDS)  # until then it counts as alive
        uids = self.uids(cluster)
        cluster.edit(config={"num.partitions": "7"})
        message = cluster.wait_for("RolloutBlocked", "True", "ControllerAway")
        assert message.startswith("Lease c-controller was not renewed for 9 s")
        assert self.uids(cluster) == uids
        cluster.controller.start()
        until_now(lambda: None in self.uids(cluster).values(), seconds=ACTS_SECONDS_MAX)

    def test_statuses_that_are_behind_the_metadata_stop_a_roll_and_scaling_down(self, cluster: Cluster) -> None:
        cluster.create(brokers={"replicas": 4})
        cluster.run()
        cluster.topic("bank", THREE)
        cluster.start(seconds_ago=100)
        cluster.controller.forget("bank")
        uids = self.uids(cluster)
        cluster.edit(config={"num.partitions": "7"}, brokers={"replicas": 3})
        message = cluster.wait_for("RolloutBlocked", "True", "TopicStatusStale")
        assert "older than the brokers' metadata: the status of bank" in message
        assert self.uids(cluster) == uids
        assert cluster.find("statefulsets", "c-broker")["spec"]["replicas"] == 4
        cluster.topic("bank", THREE)
        until_now(lambda: cluster.find("statefulsets", "c-broker")["spec"]["replicas"], lambda count: count == 3)

    def test_a_drain_that_was_first_holds_up_a_roll(self, cluster: Cluster) -> None:
        """The PodDisruptionBudget counts both: the API server itself refuses the second eviction."""
        cluster.create()
        cluster.run()
        cluster.start(seconds_ago=100)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "c-broker-2"}}
        cluster.plane.request("PATCH", cluster.url("pods", "c-broker-2"), {"metadata": {"finalizers": ["a.b/hold"]}})
        budget = cluster.url("poddisruptionbudgets", "c-broker")
        cluster.plane.request("POST", f"{cluster.url('pods', 'c-broker-2')}/eviction", eviction)
        assert cluster.plane.find(budget)["status"]["disruptionsAllowed"] == 0
        # The operator may still see three ready pods: what counts is that the budget is asked.
        cluster.edit(config={"num.partitions": "7"})
        cluster.wait_for("Progressing", "True", "Rolling")
        time.sleep(3)
        uids = self.uids(cluster)
        assert uids["c-broker-0"] and uids["c-broker-1"], "one broker at a time"
        cluster.plane.request("PATCH", cluster.url("pods", "c-broker-2"), {"metadata": {"finalizers": None}})

    def test_a_budget_with_nothing_to_spare_is_waited_for(self, cluster: Cluster) -> None:
        cluster.create()
        cluster.run()
        cluster.start(seconds_ago=100)
        budget = f"{cluster.url('poddisruptionbudgets', 'c-broker')}/status"
        cluster.plane.request("PATCH", budget, {"status": {"disruptionsAllowed": 0}})
        uids = self.uids(cluster)
        cluster.edit(config={"num.partitions": "7"})
        message = cluster.wait_for("RolloutBlocked", "True", "EvictionRefused")
        assert "disruption budget" in message
        assert self.uids(cluster) == uids
        cluster.count_disruptions()
        until_now(lambda: None in self.uids(cluster).values())

    @staticmethod
    def uids(cluster: Cluster) -> dict[str, str | None]:
        pods = {name: cluster.find("pods", name) for name in map(cluster.names.pod, range(3))}
        return {
            name: None if pod is None or "deletionTimestamp" in pod["metadata"] else pod["metadata"]["uid"]
            for name, pod in pods.items()
        }

    def test_scale_up_and_refused_scale_down(self, cluster: Cluster) -> None:
        cluster.create()
        cluster.run()
        scaled = cluster.plane.kubectl("scale", "mkc", "c", "--replicas=4", "-n", cluster.names.namespace)
        assert scaled.returncode == 0, scaled.stderr
        until_now(cluster.make_pods, lambda made: made == ["c-broker-3"])
        cluster.start("c-broker-3")
        until_now(lambda: cluster.status()["brokersReady"], lambda text: text == "4/4")
        cluster.topic("bank", ([3, 0, 1], [3, 0, 1]))
        cluster.edit(brokers={"replicas": 3})
        message = cluster.wait_for("RolloutBlocked", "True", "ReplicasOnBroker")
        assert message == "spec.brokers.replicas=3: broker 3 still has replicas of bank-0"
        assert cluster.find("statefulsets", "c-broker")["spec"]["replicas"] == 4
        cluster.topic("bank", ([2, 0, 1], [2, 0, 1]))
        until_now(lambda: cluster.find("statefulsets", "c-broker")["spec"]["replicas"], lambda count: count == 3)


class TestTrouble:
    def test_unschedulable(self, cluster: Cluster) -> None:
        cluster.create()
        cluster.make_pods()
        message = "0/1 nodes are available: 1 Insufficient memory."
        unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        cluster.tell("c-broker-1", conditions=[unscheduled])
        told = cluster.wait_for("Ready", "False", "Unschedulable")
        assert told == f"0 of 3 brokers are ready; c-broker-1: {message}"
        until_now(cluster.events, lambda events: ("Warning", "Unschedulable", told) in events)

    def test_a_missing_storage_class(self, cluster: Cluster) -> None:
        cluster.create(storage={"storageClassName": "no-such-class"})
        cluster.make_pods()
        told = cluster.wait_for("Ready", "False", "StorageClassNotFound")
        assert "data-c-broker-0: there is no StorageClass 'no-such-class'" in told

    def test_a_wrong_image(self, cluster: Cluster) -> None:
        cluster.create(image="no/such:image")
        cluster.make_pods()
        waiting = {"reason": "ErrImagePull", "message": "not found"}
        status = {"name": "broker", "image": "", "imageID": "", "ready": False, "restartCount": 0}
        cluster.tell("c-broker-0", containerStatuses=[{**status, "state": {"waiting": waiting}}])
        assert "image no/such:image: cannot be pulled" in cluster.wait_for("Ready", "False", "ImagePullFailed")

    def test_a_broker_that_an_experiment_holds(self, cluster: Cluster) -> None:
        """Read from the experiment that holds the Lease, with the rights that the operator's manifests give it."""
        cluster.create(chaos={"allowed": True})
        cluster.run()
        uid = cluster.find("pods", "c-broker-1")["metadata"]["uid"]
        fault = {"id": "kill", "step": "kill", "verb": "Kill", "state": "Injected", "broker": 1, "podUid": uid}
        experiment = cluster.experiment("try", "c", faults=[{**fault, "expiresAt": "2026-01-01T12:30:00Z"}])
        killed = {"name": "broker", "image": IMAGE, "imageID": "", "restartCount": 1, "ready": False}
        killed |= {
            "state": {"running": {"startedAt": "2026-01-01T12:00:00Z"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "Error"}},
        }
        unready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T12:00:00Z"}
        cluster.tell("c-broker-1", conditions=[unready], containerStatuses=[killed])
        cluster.wait_for("Ready", "False", "BrokerCrashing")
        cluster.hold(f"experiment/try/{experiment}")
        told = cluster.wait_for("Ready", "False", "FaultInjected")
        assert told.endswith(
            "c-broker-1: Kill by experiment try (step kill), which ends at 2026-01-01T12:30:00Z at the latest"
        )
        until_now(cluster.events, lambda events: ("Normal", "FaultInjected", told) in events)
        cluster.hold("experiment/try/of-an-earlier-one")
        cluster.wait_for("Ready", "False", "BrokerCrashing")

    def test_a_setting_that_no_broker_takes(self, cluster: Cluster) -> None:
        cluster.create(config={"no.such.key": "1"})
        told = cluster.wait_for("Accepted", "False", "InvalidConfig")
        assert told.startswith("spec.config: no.such.key=1: ")
        assert cluster.find("statefulsets", "c-broker") is None
        cluster.edit(config=None)
        cluster.wait_for("Accepted", "True", "Accepted")

    def test_what_the_api_server_refuses(self, cluster: Cluster) -> None:
        """The schema leaves affinity to the API server, which looks at it in the StatefulSet."""
        cluster.create()
        cluster.run()
        cluster.start(seconds_ago=100)
        never = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}
        cluster.edit(brokers={"affinity": never}, config={"num.partitions": "7"})
        told = cluster.wait_for("Accepted", "False", "ObjectRefused")
        assert told.startswith("StatefulSet c-broker: ")
        assert "nodeSelectorTerms" in told
        assert "ReplacingBroker" not in {reason for _, reason, _ in cluster.events()}, "what was not done is not told"
        cluster.edit(brokers={"affinity": None})
        cluster.wait_for("Accepted", "True", "Accepted")

    def test_an_object_of_somebody_else(self, cluster: Cluster) -> None:
        spec = {"selector": {"app": "theirs"}, "ports": [{"port": 80}]}
        body = {"metadata": {"name": "c-bootstrap"}, "spec": spec}
        cluster.plane.request("POST", cluster.url("services"), body)
        cluster.create()
        assert "Service c-bootstrap" in cluster.wait_for("Accepted", "False", "ObjectConflict")
        assert cluster.find("services", "c-bootstrap")["spec"]["selector"] == {"app": "theirs"}


class TestDeletion:
    def doomed(self, cluster: Cluster, **storage: Any) -> None:
        cluster.create(storage=storage)
        cluster.run()
        cluster.topic("bank", THREE)
        cluster.metadata()
        cluster.plane.request("DELETE", cluster.path)

    def wait_until_gone(self, cluster: Cluster) -> None:
        until_now(lambda: cluster.plane.find(cluster.path), lambda thing: thing is None, seconds=ACTS_SECONDS_MAX)

    def test_data_stays(self, cluster: Cluster) -> None:
        self.doomed(cluster)
        self.end_pods(cluster)
        self.wait_until_gone(cluster)
        topic = cluster.find("minikafkatopics", "bank")
        assert "finalizers" not in topic["metadata"] and topic["status"]["partitions"]
        assert cluster.find("persistentvolumeclaims", "data-c-broker-0")["metadata"].get("deletionTimestamp") is None
        assert cluster.find("configmaps", "c-metadata")
        assert cluster.find("leases", "c-controller")

    def test_data_goes(self, cluster: Cluster) -> None:
        self.doomed(cluster, deleteClaim=True)
        self.end_pods(cluster)
        self.wait_until_gone(cluster)
        assert cluster.find("minikafkatopics", "bank") is None
        claim = cluster.find("persistentvolumeclaims", "data-c-broker-0")  # its protection is a controller's, not ours
        assert claim is None or "deletionTimestamp" in claim["metadata"]
        assert cluster.find("configmaps", "c-metadata") is None
        assert cluster.find("leases", "c-controller") is None

    def end_pods(self, cluster: Cluster) -> None:
        """Pods with a node end when their kubelet says so."""
        for name in map(cluster.names.pod, range(3)):
            until_now(lambda: "deletionTimestamp" in cluster.find("pods", name)["metadata"], seconds=ACTS_SECONDS_MAX)  # noqa: B023
        assert cluster.find("minikafkatopics", "bank")["metadata"]["finalizers"], "brokers are still there"
        for name in map(cluster.names.pod, range(3)):
            cluster.end(name)


@pytest.mark.full
class TestModes:
    def test_namespaced(self, plane: ControlPlane, tmp_path: Path) -> None:
        """With Roles in its namespaces and nothing cluster-wide it looks after these, and these only."""
        mine, other = make_namespace(plane), make_namespace(plane)
        mine_alone = ("reader", "view", "edit")
        rules = next(
            d for d in manifest() if d["kind"] == "ClusterRole" and not d["metadata"]["name"].endswith(mine_alone)
        )
        namespaced = [
            rule for rule in rules["rules"] if not {"namespaces", "customresourcedefinitions"} & {*rule["resources"]}
        ]
        account = {"kind": "ServiceAccount", "name": "op", "namespace": mine}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "op"}
        rbac = "rbac.authorization.k8s.io/v1"
        metadata = {"name": "op", "namespace": mine}
        apply(
            plane,
            [
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
                {"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": namespaced},
                {
                    "apiVersion": rbac,
                    "kind": "RoleBinding",
                    "metadata": metadata,
                    "roleRef": role,
                    "subjects": [account],
                },
            ],
        )
        operator = Operator(plane, tmp_path, token_of(plane, mine, "op"), f"--namespace={mine}")
        try:
            operator.wait_until_watching()
            theirs, ours = Cluster(plane, other), Cluster(plane, mine)
            theirs.create(paused=True)
            ours.create(storage={"storageClassName": "no-such-class"}, rack={"topologyKey": "zone"})
            ours.make_pods()
            told = ours.wait_for("Accepted", "False", "RackUnknown")
            assert "cannot look at nodes" in told
            assert operator.metric("minikafka_operator_clusters") == 1
        finally:
            assert operator.stop() == 0
        assert "Traceback" not in operator.log.read_text()
