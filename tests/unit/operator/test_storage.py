"""The size of volumes: it grows, and one typed too large is taken back (audit, issue 9, B11)."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_operator.actions import Delete, Patch

from .world import World, settled, stamp


def requests(world: World) -> list[str]:
    return [world.data_claim(i)["spec"]["resources"]["requests"]["storage"] for i in range(3)]


def typed_too_large() -> World:
    """10Gi volumes, whose claims ask for 10Ti, which nobody has."""
    world = settled(storage={"size": "10Gi"})
    world.edit(storage={"size": "10Ti"})
    world.settle()
    assert requests(world) == ["10Ti"] * 3
    return world


def test_the_status_tells_the_largest_capacity() -> None:
    """What the rule in the CRD compares a smaller size with."""
    world = settled(storage={"size": "10Gi"})
    assert world.status["storageCapacity"] == "10Gi"
    world.data_claim(1)["status"]["capacity"]["storage"] = "11Gi"
    world.settle()
    assert world.status["storageCapacity"] == "11Gi"


def test_without_volumes_nothing_is_told() -> None:
    assert "storageCapacity" not in settled(storage={"type": "Ephemeral"}).status


def test_a_size_typed_too_large_is_taken_back() -> None:
    """Kubernetes lets a request go back to anything above the capacity."""
    world = typed_too_large()
    world.edit(storage={"size": "11Gi"})
    world.settle()
    assert requests(world) == ["11Gi"] * 3
    assert world.condition("Accepted") == ("True", "Accepted", "the spec is in force")


def test_a_refused_way_back_is_no_trouble() -> None:
    """Kubernetes before 1.32 lowers no request."""
    world = typed_too_large()
    world.edit(storage={"size": "11Gi"})
    patches = [action for action in world.plan().actions if isinstance(action, Patch)]
    assert len(patches) == 3 and all(patch.dispensable for patch in patches)
    growing = settled(storage={"size": "10Gi"})
    growing.edit(storage={"size": "11Gi"})
    assert not any(action.dispensable for action in growing.plan().actions if isinstance(action, Patch))


def test_back_to_the_capacity_itself() -> None:
    """The request cannot go there, and is left alone; the condition tells it, and nothing is wrong."""
    world = typed_too_large()
    world.edit(storage={"size": "10Gi"})
    world.settle()
    assert requests(world) == ["10Ti"] * 3
    status, reason, message = world.condition("Accepted")
    assert (status, reason) == ("True", "VolumesLarger")
    assert "data-demo-broker-0 has 10Gi and still asks for 10Ti" in message
    assert world.condition("Ready")[0] == "True"


def test_volumes_that_have_grown_do_not_shrink() -> None:
    """Where the CRD's rule does not know yet: claims of an earlier cluster, or a status that is late."""
    world = typed_too_large()
    for broker_id in range(3):
        world.data_claim(broker_id)["status"]["capacity"]["storage"] = "10Ti"
    world.edit(storage={"size": "10Gi"})
    world.settle()
    assert requests(world) == ["10Ti"] * 3
    assert world.condition("Accepted")[:2] == ("True", "VolumesLarger")
    assert "data-demo-broker-0 has 10Ti" in world.condition("Accepted")[2]


@pytest.mark.slow
def test_a_provisioner_that_rounds_up_is_no_news() -> None:
    world = settled(storage={"size": "1500M"})
    world.data_claim(0)["status"]["capacity"]["storage"] = "2Gi"
    world.settle()
    assert world.condition("Accepted")[1] == "Accepted"


class TestFromTheStart:
    """A cluster made with a size that nobody has: no claim ever gets its volume."""

    def pending(self) -> World:
        world = World(storage={"size": "10Ti"})
        for _ in range(3):
            world.step()
            world.controllers()
        for broker_id in range(3):
            claim = world.data_claim(broker_id)
            claim["status"] = {"phase": "Pending"}
        return world

    def test_it_is_made_anew(self) -> None:
        world = self.pending()
        world.edit(storage={"size": "10Gi"})
        world.step()
        assert ("StatefulSet", "demo-broker") not in world.objects
        world.pods.clear()  # the garbage collector
        world.settle()
        assert requests(world) == ["10Gi"] * 3
        assert world.condition("Ready")[0] == "True"

    def test_not_when_one_broker_has_its_volume(self) -> None:
        world = self.pending()
        world.data_claim(1)["status"] = {"phase": "Bound", "capacity": {"storage": "10Ti"}}
        world.edit(storage={"size": "10Gi"})
        assert not any(isinstance(action, Delete) for action in world.plan().actions)

    def test_not_when_a_volume_was_lost(self) -> None:
        world = self.pending()
        world.data_claim(1)["status"] = {"phase": "Lost"}
        world.edit(storage={"size": "10Gi"})
        assert not any(isinstance(action, Delete) for action in world.plan().actions)


class TestClaimsOfAnEarlierCluster:
    """A claim that never had a volume has no data, and asks for a class and a size that the next cluster need not want."""

    def applied_again(self, **spec: Any) -> World:
        """A cluster that finds the claims of an earlier one: they wait for a class that is not there."""
        before = settled(storage={"storageClassName": "nope", "size": "100Ti"})
        world = World(**spec)
        world.wait(3600)
        world.cluster["metadata"]["creationTimestamp"] = stamp(world.now)
        for i in range(3):
            claim = before.data_claim(i)
            claim["status"] = {"phase": "Pending"}
            world.objects["PersistentVolumeClaim", claim["metadata"]["name"]] = claim
        return world

    @pytest.mark.slow
    def test_they_are_made_anew(self) -> None:
        world = self.applied_again()
        world.settle()
        assert {world.data_claim(i)["spec"]["storageClassName"] for i in range(3)} == {"standard"}
        assert requests(world) == ["10Gi"] * 3

    def test_also_where_pods_wait_for_them(self) -> None:
        """Of an operator that left them: a claim does not go as long as a pod names it."""
        world = self.applied_again()
        left = {name: claim for (kind, name), claim in world.objects.items() if kind == "PersistentVolumeClaim"}
        world.settle()
        for name, claim in left.items():
            world.objects["PersistentVolumeClaim", name] = claim
        for pod in world.pods.values():
            pod["status"] = {}
        assert {type(a).__name__ + " " + a.name for a in world.plan().actions if isinstance(a, Delete)} == {
            f"Delete {name}{pod}" for pod in world.pods for name in ("", "data-")
        }
        world.settle()
        assert requests(world) == ["10Gi"] * 3

    @pytest.mark.parametrize(
        "change",
        [
            lambda claim: claim.update(status={"phase": "Bound"}),
            lambda claim: claim.update(status={"phase": "Lost"}),
            lambda claim: claim["spec"].update(volumeName="pv-1"),
            lambda claim: claim["spec"].update(dataSource={"kind": "VolumeSnapshot", "name": "s"}),
            lambda claim: claim["spec"].update(selector={"matchLabels": {"disk": "1"}}),
            lambda claim: claim["metadata"]["labels"].pop("app.kubernetes.io/component"),
        ],
        ids=["bound", "lost", "named", "snapshot", "selector", "labelled by a person"],
    )
    def test_others_stay(self, change: Any) -> None:
        world = self.applied_again()
        for i in range(3):
            change(world.data_claim(i))
        assert not [action for action in world.plan().actions if isinstance(action, Delete)]

    def test_those_of_this_cluster_stay(self) -> None:
        """They may wait for a pod to be put on a node."""
        world = self.applied_again()
        for i in range(3):
            world.data_claim(i)["metadata"]["creationTimestamp"] = stamp(world.now)
        assert not [action for action in world.plan().actions if isinstance(action, Delete)]
