"""Deleting a cluster: the brokers stop first, then the topics are let go, and the data goes only when that is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_kube.names import CLUSTER_FINALIZER, TOPIC_FINALIZER
from minikafka_operator.actions import Delete

from .world import NAMES, World, settled


def doomed(**storage: Any) -> World:
    world = settled(storage=storage)
    world.topic("bank", ([0, 1, 2], [0, 1, 2]))
    world.stranger("ConfigMap", NAMES.metadata)
    world.objects["ConfigMap", NAMES.metadata]["metadata"]["labels"] = NAMES.labels()
    world.controller(0)
    world.settle()
    world.delete()
    return world


def finish(world: World, *, steps: int = 50) -> None:
    for _ in range(steps):
        if world.gone:
            return
        world.step()
        world.wait(1)
    raise AssertionError(f"not gone: {world.plan()}")


class TestOrder:
    def test_brokers_first(self) -> None:
        world = doomed()
        (action,) = world.plan().actions
        assert isinstance(action, Delete) and action.name == "demo-broker" and action.kind.name == "StatefulSet"
        world.step()
        assert [a.name for a in world.plan().actions if isinstance(a, Delete)] == [NAMES.pod(i) for i in range(3)]
        assert world.topics["bank"]["metadata"]["finalizers"] == [TOPIC_FINALIZER], "brokers may still put it on again"

    def test_pods_that_are_ending_are_waited_for(self) -> None:
        world = doomed()
        world.step()
        for pod in world.pods.values():
            pod["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
        made = world.plan()
        assert not made.actions and made.retry_seconds is not None

    def test_but_not_for_ever(self) -> None:
        """A node that is gone never says that its pods have ended."""
        world = doomed()
        world.step()
        for pod in world.pods.values():
            pod["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
        world.wait(1000)
        finish(world)
        assert "Deleting" in world.events


class TestPolicy:
    def test_data_stays_by_default(self) -> None:
        world = doomed()
        finish(world)
        assert CLUSTER_FINALIZER not in world.cluster["metadata"]["finalizers"]
        assert world.topics["bank"]["metadata"]["finalizers"] == []
        assert ("PersistentVolumeClaim", "data-demo-broker-0") in world.objects
        assert ("ConfigMap", NAMES.metadata) in world.objects
        assert ("Lease", NAMES.controller) in world.objects

    def test_delete_claim(self) -> None:
        world = doomed(deleteClaim=True)
        finish(world)
        assert not world.topics
        assert not [name for kind, name in world.objects if kind == "PersistentVolumeClaim"]
        assert ("ConfigMap", NAMES.metadata) not in world.objects
        assert ("Lease", NAMES.controller) not in world.objects

    def test_an_unreadable_spec_keeps_the_data(self) -> None:
        world = doomed(deleteClaim=True)
        world.cluster["spec"] = {"storage": "gone mad", "deleteClaim": True}
        finish(world)
        assert ("PersistentVolumeClaim", "data-demo-broker-0") in world.objects

    @pytest.mark.slow
    def test_a_paused_cluster_goes_too(self) -> None:
        world = doomed()
        world.cluster["spec"]["paused"] = True
        finish(world)


def test_a_cluster_that_never_got_anything() -> None:
    world = World(config={"no.such.key": "1"})
    world.step()
    world.delete()
    finish(world)


def test_finalizers_of_others_are_respected() -> None:
    world = doomed()
    world.cluster["metadata"]["finalizers"].append("example.com/backup")
    finish(world)
    assert world.cluster["metadata"]["finalizers"] == ["example.com/backup"]
    assert not world.plan().actions


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_it_goes_on_wherever_the_last_operator_stopped(steps: int) -> None:
    world = doomed(deleteClaim=True)
    for _ in range(steps):
        world.step()
    finish(world)
    assert not world.topics


@pytest.mark.slow
def test_again_under_the_same_name() -> None:
    """With what was kept: brokers that have replicas are made again, even if the new spec has fewer."""
    world = doomed()
    finish(world)
    kept = {key: thing for key, thing in world.objects.items() if key[0] in ("PersistentVolumeClaim", "Lease")}
    again = World(brokers={"replicas": 1}, replication={"defaultFactor": 1, "minInsyncReplicas": 1})
    again.objects = kept
    again.topics = world.topics
    for _ in range(4):
        again.step()
        again.controllers()
        again.kubelets()
    assert again.ready() == [0, 1, 2]
    assert again.condition("RolloutBlocked")[1] == "ReplicasOnBroker"


@pytest.mark.parametrize("delete_claim", [False, True])
def test_claims_that_never_had_a_volume_go_in_any_case(delete_claim: bool) -> None:
    world = doomed(deleteClaim=delete_claim)
    world.data_claim(1)["status"] = {"phase": "Pending"}
    finish(world)
    left = [name for kind, name in world.objects if kind == "PersistentVolumeClaim"]
    assert left == ([] if delete_claim else ["data-demo-broker-0", "data-demo-broker-2"])
