"""What is not the cluster's is neither written nor deleted, whatever its name; and that is told (audit, issue 9, B7)."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_kube.names import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER, RACK_ANNOTATION, Names
from minikafka_operator.actions import Apply, Create, Delete, Patch
from minikafka_operator.planning.managed_fields import as_applied

from .world import NAMES, World, settled

MADE = [
    ("ServiceAccount", "demo-broker"),
    ("Role", "demo-broker"),
    ("RoleBinding", "demo-broker"),
    ("ConfigMap", "demo-config"),
    ("Service", "demo-brokers"),
    ("Service", "demo-bootstrap"),
    ("PodDisruptionBudget", "demo-broker"),
    ("NetworkPolicy", "demo-broker"),
    ("StatefulSet", "demo-broker"),
]
EXTERNAL = [("Service", "demo-broker-0-external"), ("Service", "demo-bootstrap-external")]
OUTSIDE = {"listeners": {"external": {"type": "NodePort"}}}
OWNER = {"apiVersion": "minikafka.dev/v1alpha1", "kind": "MiniKafkaCluster", "name": "demo", "controller": True}


def touched(world: World) -> list[tuple[str, str]]:
    """Kind and name of what the next plan would write or delete, apart from the cluster itself."""
    found = []
    for action in world.plan().actions:
        if isinstance(action, Create | Apply):
            found.append((action.thing["kind"], action.thing["metadata"]["name"]))
        elif isinstance(action, Patch | Delete):
            found.append((action.kind.name, action.name))
    return found


class TestForeign:
    @pytest.mark.parametrize(("kind", "name"), [*MADE, *EXTERNAL])
    def test_a_cluster_that_comes_later_leaves_it_alone(self, kind: str, name: str) -> None:
        world = World(**OUTSIDE)
        theirs = world.stranger(kind, name, data={"theirs": "1"}, spec={"theirs": 1})
        for _ in range(3):
            world.step()
        assert world.objects[kind, name] == theirs
        status, reason, message = world.condition("Accepted")
        assert (status, reason) == ("False", "ObjectConflict")
        says = f"not this cluster's, and left alone: {kind} {name}; remove it, or give the cluster another name"
        assert message == says
        assert world.condition("Ready")[:2] == ("False", "ObjectConflict")
        assert "ObjectConflict" in world.events
        assert touched(world) == [], "nothing is half made"

    def test_all_are_told_at_once_in_one_line(self) -> None:
        world = World()
        for kind, name in [*MADE, ("Lease", NAMES.controller)]:
            world.stranger(kind, name, spec={})
        world.step()
        _, _, message = world.condition("Accepted")
        named = [f"{kind} {name}" for kind, name in [*MADE, ("Lease", NAMES.controller)]]
        assert all(one in message for one in named), message
        assert message.endswith("; remove them, or give the cluster another name") and len(message) < 400
        assert touched(world) == []

    def test_what_brokers_would_keep_and_somebody_else_has(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """They would end with it again and again."""
        world = World()
        theirs = {"kind": "ConfigMap", "metadata": {"name": NAMES.metadata, "uid": "x", "resourceVersion": "1"}}
        monkeypatch.setattr(world, "metadata", lambda: theirs)
        world.step()
        says = f"not this cluster's, and left alone: ConfigMap {NAMES.metadata}; remove it, or give the cluster another name"
        assert world.condition("Accepted") == ("False", "ObjectConflict", says)

    @pytest.mark.parametrize(("kind", "name"), MADE)
    def test_its_deletion_leaves_it_alone(self, kind: str, name: str) -> None:
        world = World(storage={"deleteClaim": True})
        world.step()
        world.objects.clear()
        theirs = world.stranger(kind, name, spec={"replicas": 7})
        world.delete()
        for _ in range(10):
            world.step()
        assert world.gone
        assert world.objects == {(kind, name): theirs}

    @pytest.mark.parametrize(("kind", "name"), MADE)
    def test_what_was_ours_and_was_let_go_is_left_alone(self, kind: str, name: str) -> None:
        """Somebody takes our owner reference off: from then on it is theirs."""
        world = settled()
        world.objects[kind, name]["metadata"]["ownerReferences"] = []
        world.objects[kind, name]["spec"] = {"replicas": 1}
        assert touched(world) == []
        world.step()
        assert world.condition("Accepted")[1] == "ObjectConflict"
        world.delete()
        assert (kind, name) not in touched(world)

    @pytest.mark.parametrize("label", [MANAGED_BY_LABEL, CLUSTER_LABEL])
    def test_the_labels_count_too(self, label: str) -> None:
        world = settled()
        del world.objects["Service", "demo-bootstrap"]["metadata"]["labels"][label]
        assert touched(world) == []
        world.step()
        assert world.condition("Accepted")[1] == "ObjectConflict"

    @pytest.mark.parametrize(
        "owner",
        [
            {**OWNER, "uid": "cluster-uid", "controller": False},
            {**OWNER, "kind": "Other", "uid": "cluster-uid"},
            {**OWNER, "name": "other", "uid": "other-uid"},
            {**OWNER, "apiVersion": "example.com/v1", "uid": "other-uid"},
        ],
    )
    def test_whose_controller_is_something_else(self, owner: dict[str, Any]) -> None:
        world = settled()
        world.objects["ConfigMap", "demo-config"]["metadata"]["ownerReferences"] = [owner]
        world.edit(config={"num.partitions": "7"})
        assert touched(world) == []
        world.step()
        assert world.condition("Accepted")[1] == "ObjectConflict"

    def test_a_settled_cluster_looks_soon_whether_it_is_gone(self) -> None:
        """An object without our labels is not watched, so its going is no event."""
        world = settled()
        world.stranger("Service", "demo-broker-0-external", spec={})
        world.edit(**OUTSIDE)
        world.step()
        made = world.plan()
        assert made.retry_seconds is not None and made.retry_seconds <= 30

    def test_brokers_that_are_made_again_meanwhile_are_told_their_rack(self) -> None:
        world = World(rack={"topologyKey": "zone"})
        world.racks = {"node-1": "a"}
        world.settle()
        world.stranger("Service", "demo-broker-0-external", spec={})
        world.edit(**OUTSIDE)
        world.step()
        del world.pods["demo-broker-1"]["metadata"]["annotations"][RACK_ANNOTATION]
        assert touched(world) == [("Pod", "demo-broker-1")]
        world.edit(listeners={}, config={"no.such.setting": "1"})
        assert touched(world) == [("Pod", "demo-broker-1")]

    def test_when_it_goes_the_cluster_is_made(self) -> None:
        world = World()
        world.stranger("ConfigMap", "demo-config")
        world.step()
        del world.objects["ConfigMap", "demo-config"]
        world.settle()
        assert world.condition("Ready")[0] == "True"

    @pytest.mark.slow
    def test_no_leftover_of_somebody_else_is_removed(self) -> None:
        """Services are found by a label that anybody may set."""
        world = settled(**OUTSIDE)
        theirs = world.stranger("Service", "demo-broker-7-external")
        world.objects["Service", "demo-broker-7-external"]["metadata"]["labels"] = theirs["metadata"]["labels"] = (
            NAMES.labels()
        )
        world.edit(listeners={})
        world.settle()
        assert world.objects["Service", "demo-broker-7-external"] == theirs
        assert ("Service", "demo-broker-0-external") not in world.objects


class TestEarlierCluster:
    """A cluster that is deleted and created again finds what the garbage collector has not removed yet."""

    def test_it_waits_for_the_garbage_collector(self) -> None:
        world = World()
        leftover = world.stranger("ConfigMap", "demo-config", data={})
        metadata = {"labels": NAMES.labels(), "ownerReferences": [{**OWNER, "uid": "earlier-uid"}]}
        world.objects["ConfigMap", "demo-config"]["metadata"].update(metadata)
        world.step()
        assert world.objects["ConfigMap", "demo-config"]["data"] == leftover["data"]
        assert world.condition("Accepted")[0] == "True"
        assert "ConfigMap demo-config" in world.condition("Progressing")[2]
        assert world.plan().retry_seconds is not None
        assert "ObjectConflict" not in world.events
        del world.objects["ConfigMap", "demo-config"]
        world.settle()
        assert world.condition("Ready")[0] == "True"


class TestPods:
    @pytest.mark.parametrize(
        "owners", [[], [{"kind": "StatefulSet", "name": "demo-broker", "uid": "x", "controller": True}]]
    )
    def test_one_of_somebody_else_is_no_broker(self, owners: list[dict[str, Any]]) -> None:
        """It has the name and the labels, and is not the StatefulSet's: it is neither counted nor replaced nor deleted."""
        world = settled()
        world.pods["demo-broker-1"]["metadata"]["ownerReferences"] = owners
        world.pods["demo-broker-1"]["status"] = {"phase": "Failed"}
        world.edit(config={"num.partitions": "7"})
        world.step()
        assert ("Pod", "demo-broker-1") not in touched(world)
        assert world.status["replicas"] == 2

    def test_those_of_a_stateful_set_that_was_let_go_stay_with_it(self) -> None:
        """Somebody takes our owner reference off the StatefulSet: then its pods are theirs as well."""
        world = settled()
        world.objects["StatefulSet", "demo-broker"]["metadata"]["ownerReferences"] = []
        world.delete()
        for _ in range(10):
            world.step()
        assert world.gone and len(world.pods) == 3

    def test_deletion_leaves_them_alone(self) -> None:
        world = settled()
        world.pods["demo-broker-1"]["metadata"]["labels"] = {}
        world.delete()
        for _ in range(10):
            world.step()
        assert world.gone and list(world.pods) == ["demo-broker-1"]


class TestClaims:
    def test_a_claim_of_somebody_else_gets_no_broker(self) -> None:
        """A StatefulSet takes a claim by its name, whosever it is, and the broker would write to it."""
        world = World()
        world.stranger(
            "PersistentVolumeClaim", "data-demo-broker-1", spec={"resources": {"requests": {"storage": "1Gi"}}}
        )
        world.step()
        assert world.condition("Accepted")[1] == "ObjectConflict"
        assert "PersistentVolumeClaim data-demo-broker-1" in world.condition("Accepted")[2]
        assert touched(world) == []

    def test_one_without_labels_that_a_broker_uses_stays_in_use(self) -> None:
        world = settled()
        world.data_claim(1)["metadata"]["labels"] = {}
        assert world.plan().steady

    def test_claims_of_an_earlier_cluster_are_taken_up(self) -> None:
        world = settled()
        again = World()
        again.objects = {key: thing for key, thing in world.objects.items() if key[0] == "PersistentVolumeClaim"}
        again.settle()
        assert again.condition("Ready")[0] == "True"

    def test_delete_claim_takes_only_what_the_stateful_set_has_made(self) -> None:
        """A copy of a claim, made to keep it, has its labels, too."""
        world = settled(storage={"deleteClaim": True})
        copy = world.stranger("PersistentVolumeClaim", "copy-of-data-demo-broker-0")
        world.objects["PersistentVolumeClaim", copy["metadata"]["name"]]["metadata"]["labels"] = NAMES.labels("broker")
        world.delete()
        for _ in range(10):
            world.step()
        left = [name for kind, name in world.objects if kind == "PersistentVolumeClaim"]
        assert world.gone and left == ["copy-of-data-demo-broker-0"]


class TestKeptByBrokers:
    @pytest.mark.parametrize(("kind", "name"), [("ConfigMap", "demo-metadata"), ("Lease", "demo-controller")])
    def test_delete_claim_leaves_those_of_somebody_else(self, kind: str, name: str) -> None:
        world = settled(storage={"deleteClaim": True})
        theirs = world.stranger(kind, name)
        world.delete()
        for _ in range(10):
            world.step()
        assert world.gone and world.objects[kind, name] == theirs

    def test_a_lease_of_somebody_else_names_no_controller(self) -> None:
        world = settled()
        world.stranger("Lease", "demo-controller", spec={"holderIdentity": "demo-broker-0"})
        world.step()
        assert "controller" not in world.status

    @pytest.mark.parametrize(("kind", "name"), [("ConfigMap", "demo-metadata"), ("Lease", "demo-controller")])
    def test_deleting_them_names_what_was_looked_at(self, kind: str, name: str) -> None:
        world = settled(storage={"deleteClaim": True})
        world.stranger(kind, name)
        world.objects[kind, name]["metadata"]["labels"] = NAMES.labels()
        metadata = world.objects[kind, name]["metadata"]
        world.delete()
        for _ in range(10):
            found = [a for a in world.plan().actions if isinstance(a, Delete) and a.kind.name == kind]
            if found:
                break
            world.step()
        assert [(a.uid, a.resource_version) for a in found] == [(metadata["uid"], metadata["resourceVersion"])]


class TestManagedFields:
    def test_of_the_creation_become_those_of_the_apply(self) -> None:
        created = {"manager": MANAGER, "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}, ".": {}}}}
        applied = {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:data": {"f:b": {}}}}
        status = {"manager": MANAGER, "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}}
        other = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {"f:c": {}}}}
        assert as_applied([created, status, other]) == [{**created, "operation": "Apply"}, status, other]
        union = {"f:data": {"f:a": {}, "f:b": {}, ".": {}}}
        assert as_applied([other, created, applied]) == [{**applied, "fieldsV1": union}, other]

    @pytest.mark.parametrize("operation", ["Apply", ""])
    def test_there_is_nothing_to_do(self, operation: str) -> None:
        assert as_applied([{"manager": MANAGER, "operation": operation}] if operation else []) is None


def test_names_of_claims() -> None:
    names = Names("ns", "demo")
    assert names.is_claim("data-demo-broker-0") and names.is_claim("events-demo-broker-12")
    assert not any(
        map(names.is_claim, ["data-demo-broker-", "data-other-broker-0", "x-demo-broker-0", "demo-broker-0"])
    )
