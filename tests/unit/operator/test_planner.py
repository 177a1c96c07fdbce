"""The planner: what it makes, and that it makes nothing when all is as it should be."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_kube.kinds import POD
from minikafka_kube.names import APPLIED_ANNOTATION, CLUSTER_FINALIZER, RACK_ANNOTATION
from minikafka_operator.actions import Apply, Create, Delete, Finalizers, Patch, ReplacePod
from minikafka_operator.conditions import ClusterReason

from .world import NAMES, World, settled, stamp

THREE = ([0, 1, 2], [0, 1, 2])


def applied(world: World) -> list[str]:
    """What would be created or applied."""
    writes = [action for action in world.plan().actions if isinstance(action, Create | Apply)]
    return [f"{action.thing['kind']} {action.thing['metadata']['name']}" for action in writes]


class TestCreation:
    def test_everything_is_made_in_order(self) -> None:
        """The finalizer first: nothing may be left behind. The StatefulSet last: its pods need all the rest, and carry the uid
        of the ServiceAccount, which is known once it is there.
        """
        world = World()
        first, *rest = world.plan().actions
        assert isinstance(first, Finalizers) and first.finalizers == [CLUSTER_FINALIZER]
        assert all(isinstance(action, Create) for action in rest)
        assert applied(world) == [
            "ServiceAccount demo-broker",
            "Role demo-broker",
            "RoleBinding demo-broker",
            "Service demo-brokers",
            "Service demo-bootstrap",
            "PodDisruptionBudget demo-broker",
            "NetworkPolicy demo-broker",
        ]
        assert world.step().retry_seconds == 1.0
        assert world.condition("Progressing") == ("True", "Creating", "3 brokers are being made")
        assert applied(world) == ["ConfigMap demo-config", "StatefulSet demo-broker"]

    def test_all_belong_to_the_cluster(self) -> None:
        for action in World().plan().actions[1:]:
            assert isinstance(action, Create)
            metadata = action.thing["metadata"]
            assert [owner["uid"] for owner in metadata["ownerReferences"]] == ["cluster-uid"]
            assert metadata["labels"]["minikafka.dev/cluster"] == "demo"
            assert metadata["labels"]["app.kubernetes.io/managed-by"] == "minikafka-operator"

    def test_it_becomes_ready(self) -> None:
        world = settled()
        assert world.condition("Ready") == ("True", "AllBrokersReady", "3 of 3 brokers are ready")
        assert world.status["brokersReady"] == "3/3"
        assert world.status["bootstrap"] == {"internal": "demo-bootstrap.ns.svc:9092"}
        assert world.events == ["AllBrokersReady"]


class TestSteadyState:
    """A converged input gives no actions: no writes, whatever the spec."""

    @pytest.mark.parametrize(
        "spec",
        [
            {},
            {"brokers": {"replicas": 1}, "replication": {"defaultFactor": 1, "minInsyncReplicas": 1}},
            {"storage": {"type": "Ephemeral", "size": "1Gi"}},
            {"unflushedVolume": {}, "flightRecorder": {"type": "PersistentClaim", "size": "2Gi"}},
            {"listeners": {"external": {"type": "NodePort", "firstBrokerNodePort": 31000}}},
            {"config": {"num.partitions": "3", "log.retention.hours": "24"}, "brokers": {"replicas": 5}},
            {"brokers": {"resources": {"requests": {"cpu": 1, "memory": "0.5Gi"}, "limits": {"memory": "1024Mi"}}}},
            {"networkPolicy": {"metricsFrom": []}},
            {"networkPolicy": {"enabled": False}},
            {"paused": True},
        ],
        ids=lambda spec: ",".join(spec) or "default",
    )
    def test_nothing_is_written(self, spec: dict[str, Any]) -> None:
        world = settled(**spec)
        made = world.plan()
        assert made.steady, made
        assert made.retry_seconds is None

    def test_time_alone_changes_nothing(self) -> None:
        world = settled()
        world.wait(100_000)
        assert world.plan().steady

    @pytest.mark.parametrize(
        ("kind", "name", "change"),
        [
            ("StatefulSet", "demo-broker", lambda thing: thing["spec"].update(replicas=7)),
            ("ConfigMap", "demo-config", lambda thing: thing["data"].pop("demo-broker-1.properties")),
            ("Role", "demo-broker", lambda thing: thing["rules"].append({"verbs": ["*"]})),
            ("Service", "demo-bootstrap", lambda thing: thing["metadata"]["labels"].pop("app.kubernetes.io/name")),
            ("PodDisruptionBudget", "demo-broker", lambda thing: thing["spec"].update(maxUnavailable=3)),
        ],
    )
    def test_what_somebody_changes_is_put_right(self, kind: str, name: str, change: Any) -> None:
        world = settled()
        change(world.objects[kind, name])
        (action,) = world.plan().actions
        assert isinstance(action, Apply)
        assert (action.thing["kind"], action.thing["metadata"]["name"]) == (kind, name)
        world.settle()

    def test_what_others_add_stays(self) -> None:
        world = settled()
        world.objects["Service", "demo-bootstrap"]["metadata"]["labels"]["team"] = "a"
        world.objects["StatefulSet", "demo-broker"]["metadata"]["annotations"]["note"] = "b"
        assert world.plan().steady

    @pytest.mark.slow
    def test_a_field_that_is_not_wished_for_any_more_is_noticed(self) -> None:
        """Comparing with what is wished for cannot show it; the digest among the annotations does."""
        world = settled(listeners={"external": {"type": "NodePort", "annotations": {"a": "b"}}})
        service = world.objects["Service", "demo-broker-0-external"]
        before = service["metadata"]["annotations"][APPLIED_ANNOTATION]
        world.edit(listeners={"external": {"type": "NodePort"}})
        assert "Service demo-broker-0-external" in applied(world)
        world.settle()
        assert (
            world.objects["Service", "demo-broker-0-external"]["metadata"]["annotations"][APPLIED_ANNOTATION] != before
        )


class TestScaling:
    def test_up(self) -> None:
        """Brokers that are there are not replaced, though the pod template names the new ones' settings."""
        world = settled()
        world.edit(brokers={"replicas": 5})
        assert world.settle() == 0
        assert world.status["brokersReady"] == "5/5"

    @pytest.mark.slow
    def test_down_waits_for_replicas_to_move(self) -> None:
        world = settled(brokers={"replicas": 4})
        world.topic("bank", THREE, ([3, 0, 1], [3, 0, 1]))
        world.edit(brokers={"replicas": 3})
        for _ in range(5):
            world.step()
            world.controllers()
        assert len(world.pods) == 4
        status, reason, message = world.condition("RolloutBlocked")
        assert (status, reason) == ("True", "ReplicasOnBroker")
        assert message == "spec.brokers.replicas=3: broker 3 still has replicas of bank-1"
        assert world.condition("Ready")[0] == "False"
        assert "ReplicasOnBroker" in world.events
        world.topic("bank", THREE, ([2, 0, 1], [2, 0, 1]))
        world.settle()
        assert sorted(world.pods) == ["demo-broker-0", "demo-broker-1", "demo-broker-2"]
        assert world.condition("Ready")[0] == "True"

    def test_down_takes_the_external_service_along(self) -> None:
        world = settled(brokers={"replicas": 4}, listeners={"external": {"type": "NodePort"}})
        world.edit(brokers={"replicas": 3})
        world.settle()
        assert ("Service", "demo-broker-3-external") not in world.objects
        assert ("Service", "demo-broker-2-external") in world.objects


class TestExternal:
    def test_pods_wait_for_node_ports(self) -> None:
        """A broker's settings name its node port, which the API server chooses."""
        world = World(listeners={"external": {"type": "NodePort"}})
        assert "StatefulSet demo-broker" not in applied(world)
        world.step()
        assert world.condition("Progressing")[1] == "WaitingForAddress"
        assert "StatefulSet demo-broker" in applied(world)
        world.settle()
        port = world.objects["Service", "demo-broker-1-external"]["spec"]["ports"][0]["nodePort"]
        settings = world.objects["ConfigMap", "demo-config"]["data"]["demo-broker-1.properties"]
        assert f"EXTERNAL://${{env:HOST_IP}}:{port}" in settings
        assert world.status["brokers"][1]["external"] == f"10.1.0.1:{port}"
        bootstrap = world.objects["Service", "demo-bootstrap-external"]["spec"]["ports"][0]["nodePort"]
        assert world.status["bootstrap"]["external"] == f"10.1.0.1:{bootstrap}"

    def test_load_balancers(self) -> None:
        world = World(listeners={"external": {"type": "LoadBalancer"}}, brokers={"replicas": 3})
        for _ in range(3):
            world.step()
        assert not world.pods
        assert world.condition("Ready")[1] in ("WaitingForAddress", "BrokersNotReady")
        for name in ("demo-broker-0-external", "demo-broker-1-external", "demo-broker-2-external"):
            world.objects["Service", name]["status"] = {"loadBalancer": {"ingress": [{"hostname": f"{name}.example"}]}}
        world.objects["Service", "demo-bootstrap-external"]["status"] = {
            "loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}
        }
        world.settle()
        assert world.status["bootstrap"]["external"] == "1.2.3.4:9094"
        assert world.status["brokers"][0]["external"] == "demo-broker-0-external.example:9094"

    def test_advertised_host(self) -> None:
        world = settled(
            listeners={
                "external": {"type": "NodePort", "firstBrokerNodePort": 31000, "advertisedHost": "b{id}.example"}
            }
        )
        assert [broker["external"] for broker in world.status["brokers"]] == [
            "b0.example:31000",
            "b1.example:31001",
            "b2.example:31002",
        ]

    @pytest.mark.slow
    def test_turned_off(self) -> None:
        world = settled(listeners={"external": {"type": "NodePort"}})
        world.edit(listeners={})
        assert world.settle() == 3
        assert not [name for kind, name in world.objects if name.endswith("-external")]


class TestBadSpecs:
    """What the API server lets through and makes no sense is told in a condition, and nothing of it is done."""

    @pytest.mark.slow
    def test_a_setting_no_broker_takes(self) -> None:
        world = settled()
        before = dict(world.objects)
        world.edit(config={"no.such.key": "1", "num.partitions": "many"})
        made = world.step()
        assert not made.actions
        status, reason, message = world.condition("Accepted")
        assert (status, reason) == ("False", "InvalidConfig")
        assert "spec.config: num.partitions=many: not a whole number; allowed: whole number from 1" in message
        assert "no.such.key" in message
        assert world.condition("Ready")[:2] == ("False", "InvalidConfig")
        assert world.objects == before
        assert world.plan().steady, "told once"
        world.edit(config={"num.partitions": "2"})
        world.settle()
        assert world.condition("Accepted")[0] == "True"

    def test_at_creation(self) -> None:
        world = World(config={"no.such.key": "1"})
        made = world.step()
        assert [type(action) for action in made.actions] == [Finalizers]
        assert world.condition("Ready")[:2] == ("False", "InvalidConfig")

    @pytest.mark.parametrize(
        ("spec", "says"),
        [
            ({"brokers": {"replicas": "three"}}, "spec.brokers.replicas: "),
            ({"storage": "lots"}, "spec.storage: "),
            ({"flightRecorder": {"type": "Tape"}}, "spec.flightRecorder.type: "),
        ],
    )
    def test_another_shape(self, spec: dict[str, Any], says: str) -> None:
        """From a CRD that is older or newer than the operator."""
        world = settled()
        world.cluster["spec"] = spec
        made = world.step()
        assert not made.actions
        status, reason, message = world.condition("Accepted")
        assert (status, reason) == ("False", "InvalidSpec")
        assert message.startswith(says)
        assert world.condition("Available")[0] == "True", "what was known stays"
        assert world.plan().steady

    def test_refused_by_the_api_server(self) -> None:
        world = World()
        made = world.plan((ClusterReason.OBJECT_REFUSED, "StatefulSet demo-broker: exceeded quota"))
        assert made.status is not None
        accepted = next(c for c in made.status["conditions"] if c["type"] == "Accepted")
        assert accepted["reason"] == "ObjectRefused"
        assert accepted["message"] == "StatefulSet demo-broker: exceeded quota"
        assert [event.reason for event in made.events] == ["ObjectRefused"]


class TestPaused:
    @pytest.mark.slow
    def test_nothing_is_done(self) -> None:
        world = settled()
        world.edit(paused=True, config={"num.partitions": "7"})
        del world.objects["Service", "demo-bootstrap"]
        assert not world.step().actions
        assert world.condition("Progressing")[:2] == ("False", "Paused")
        world.edit(paused=False)
        assert world.settle() == 3


class TestClaims:
    def test_they_grow(self) -> None:
        world = settled(storage={"size": "1Gi"})
        world.edit(storage={"size": "2Gi"})
        patches = [action for action in world.plan().actions if isinstance(action, Patch)]
        assert [patch.name for patch in patches] == ["data-demo-broker-0", "data-demo-broker-1", "data-demo-broker-2"]
        assert world.settle() == 0, "a StatefulSet's claim templates cannot be changed, and need not be"
        assert world.data_claim(2)["spec"]["resources"]["requests"]["storage"] == "2Gi"

    def test_the_same_size_in_other_words(self) -> None:
        world = settled(storage={"size": "1Gi"})
        world.edit(storage={"size": "1024Mi"})
        assert not [action for action in world.plan().actions if isinstance(action, Patch)]

    def test_unbound_ones_cannot(self) -> None:
        world = settled(storage={"size": "1Gi"})
        world.data_claim(0)["status"] = {"phase": "Pending"}
        world.edit(storage={"size": "2Gi"})
        assert "data-demo-broker-0" not in [a.name for a in world.plan().actions if isinstance(a, Patch)]


RACKS = {"rack": {"topologyKey": "topology.kubernetes.io/zone"}}


class TestRacks:
    def test_pods_are_told(self) -> None:
        world = World(**RACKS)
        world.racks = {"node-1": "a"}
        world.settle()
        assert {pod["metadata"]["annotations"][RACK_ANNOTATION] for pod in world.pods.values()} == {"a"}
        assert world.status["brokers"][0]["rack"] == "a"
        settings = world.objects["ConfigMap", "demo-config"]["data"]["demo-broker-0.properties"]
        assert "broker.rack=${env:BROKER_RACK}" in settings

    def test_one_that_did_not_wait_is_replaced(self) -> None:
        """Without an operator a pod starts after some seconds all the same; then it does not know its rack."""
        world = World(**RACKS)
        world.racks = {"node-1": "a"}
        world.settle()
        told = {"name": "rack", "state": {"terminated": {"message": ""}}}
        world.pods["demo-broker-1"]["status"]["initContainerStatuses"] = [told]
        world.wait(60)
        (action,) = [action for action in world.plan().actions if isinstance(action, ReplacePod)]
        assert action.name == "demo-broker-1"
        assert "rack is a" in action.why

    def test_nodes_that_may_not_be_read(self) -> None:
        world = World(**RACKS)
        world.refused = {"nodes": "nodes is forbidden"}
        world.step()
        assert world.condition("Accepted")[:2] == ("False", "RackUnknown")


def test_a_pod_that_ended_for_good_makes_room() -> None:
    """An evicted pod stays, Failed, and the StatefulSet waits for its name to be free."""
    world = settled()
    uid = world.pods["demo-broker-1"]["metadata"]["uid"]
    world.pods["demo-broker-1"]["status"] = {"phase": "Failed", "reason": "Evicted"}
    (action,) = world.plan().actions
    assert action == Delete(POD, "demo-broker-1", uid, None, "it has ended for good")
    world.settle()
    assert world.ready() == [0, 1, 2]


def test_a_deleted_object_is_not_fought_over() -> None:
    """What is being deleted comes back once it is gone."""
    world = settled()
    world.objects["Service", "demo-bootstrap"]["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    world.objects["Service", "demo-bootstrap"]["spec"] = {}
    assert world.plan().steady
    del world.objects["Service", "demo-bootstrap"]
    assert applied(world) == ["Service demo-bootstrap"]


def test_names() -> None:
    assert NAMES.broker_id("demo-broker-12") == 12
    assert NAMES.broker_id("demo-broker-") is None
    assert NAMES.broker_id("other-broker-1") is None


class TestWhatIsTold:
    """The reason that a person can act on is not behind another one."""

    def test_no_address(self) -> None:
        world = World(listeners={"external": {"type": "LoadBalancer"}})
        for _ in range(3):
            world.step()
        said = "brokers 0, 1, 2: no external address yet"
        assert world.condition("Ready") == ("False", "WaitingForAddress", said)

    def test_what_an_earlier_cluster_has_left(self) -> None:
        world = World()
        left = world.stranger("ConfigMap", NAMES.config)
        owner = {"apiVersion": "minikafka.dev/v1alpha1", "kind": "MiniKafkaCluster", "name": "demo", "uid": "earlier"}
        left["metadata"] |= {
            "labels": NAMES.labels(),
            "ownerReferences": [{**owner, "controller": True}],
            "deletionTimestamp": stamp(world.now),
        }
        world.objects["ConfigMap", NAMES.config] = left
        for _ in range(3):
            world.step()
        told = "waiting until what an earlier cluster of this name has left is gone: ConfigMap demo-config"
        assert world.condition("Ready") == ("False", "Creating", told)
        assert world.events == []
        world.wait(100)
        world.step()
        assert world.condition("Ready") == (
            "False",
            "ObjectLeaving",
            f"{told}; it does not go; see its metadata.finalizers",
        )
        assert world.events == ["ObjectLeaving"]

    def test_a_scale_down_that_is_held_back_is_not_settled(self) -> None:
        world = settled(brokers={"replicas": 4})
        world.topic("bank", ([3, 0, 1], [3, 0, 1]))
        world.edit(brokers={"replicas": 3})
        world.step()
        assert world.condition("Progressing")[:2] == ("False", "ReplicasOnBroker")

    def test_a_cluster_without_a_broker_has_no_replica_in_sync(self) -> None:
        world = World()
        world.step()
        assert world.condition("ReplicationHealthy")[:2] == ("Unknown", "NoBrokerReady")

    def test_a_claim_that_goes_with_its_pod(self) -> None:
        world = settled()
        world.data_claim(1)["metadata"]["deletionTimestamp"] = stamp(world.now)
        world.step()
        told = "3 of 3 brokers are ready; deleted, and gone when its broker's pod ends: data-demo-broker-1"
        assert world.condition("Ready") == ("True", "ClaimLeaving", told)
        assert world.events[-1] == "ClaimLeaving"
