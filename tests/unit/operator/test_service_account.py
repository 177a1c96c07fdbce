"""A ServiceAccount that was deleted and made anew: the tokens of all running pods are refused from then on."""

from __future__ import annotations

import math
from typing import Any

import pytest
from minikafka_kube.freshness import Signs
from minikafka_kube.names import ACCOUNT_ANNOTATION
from minikafka_operator.actions import ReplacePod

from .rolls import THREE, replaced
from .world import NAMES, World, settled, stamp

ACCOUNT = ("ServiceAccount", NAMES.broker)


def cut_off(**spec: Any) -> World:
    """A settled cluster whose ServiceAccount somebody deletes, as the operator has just made it anew."""
    world = settled(**spec)
    world.topic("bank", THREE)
    world.wait(100)
    del world.objects[ACCOUNT]
    world.controller_signs = Signs(None, 30.0)  # nobody's token is good for the Lease
    world.step()
    return world


def account(world: World, name: str) -> str:
    return str(world.pods[name]["metadata"]["annotations"][ACCOUNT_ANNOTATION])


class TestRoll:
    @pytest.mark.slow
    def test_all_are_replaced_one_after_the_other_without_a_controller(self) -> None:
        world = cut_off()
        taken = []
        for _ in range(30):
            made = [action.name for action in world.step().actions if isinstance(action, ReplacePod)]
            assert len(made) <= 1
            taken += made
            world.controllers()
            world.kubelets()
            world.wait(1)
        assert sorted(taken) == ["demo-broker-0", "demo-broker-1", "demo-broker-2"]
        new = world.objects[ACCOUNT]["metadata"]["uid"]
        assert {account(world, name) for name in world.pods} == {new}
        world.controller_signs = Signs(1.0)
        assert world.settle() == 0

    def test_it_is_told(self) -> None:
        world = cut_off()
        world.step()
        assert "ReplacingBroker" in world.events
        assert world.condition("Ready")[:2] == ("False", "ControllerAway")

    def test_one_that_is_the_controller_and_fences_the_others_is_no_reason_to_wait(self) -> None:
        """The first that is made anew takes the Lease, and fences those that it does not hear: they are the rest of the ISR."""
        world = cut_off()
        for _ in range(2):
            world.step()
            world.controllers()
            world.kubelets()
            world.wait(1)
        first = next(name for name in world.pods if account(world, name) == world.objects[ACCOUNT]["metadata"]["uid"])
        world.controller(int(first[-1]))
        world.controller_signs = Signs(1.0)
        last = max({0, 1, 2} - {int(first[-1])})
        world.topic("bank", ([0, 1, 2], [last]), leader=-1)
        assert world.condition("Available")[0] != "True"
        assert len(replaced(world)) == 1

    @pytest.mark.parametrize("what", ["gone", "leaving"])
    def test_nothing_is_known_as_long_as_there_is_none(self, what: str) -> None:
        """Pods of the account that is gone are as good as those of the next; there is none to compare them with."""
        world = settled()
        world.wait(100)
        before = world.objects["StatefulSet", "demo-broker"]["spec"]["template"]
        if what == "gone":
            del world.objects[ACCOUNT]
        else:
            world.objects[ACCOUNT]["metadata"]["deletionTimestamp"] = stamp(world.now)
        assert replaced(world) == []
        world.step()
        assert world.objects["StatefulSet", "demo-broker"]["spec"]["template"] == before

    def test_one_that_is_not_ready_otherwise_is_waited_for(self) -> None:
        world = cut_off()
        world.step()
        assert replaced(world) == []
        world.controllers()
        assert replaced(world) == [], "the new one is not ready"

    def test_those_that_are_not_ready_come_first(self) -> None:
        world = cut_off()
        world.controllers()
        world.stop("demo-broker-2")
        world.objects[ACCOUNT]["metadata"]["uid"] = "yet another"
        assert replaced(world) == ["demo-broker-2"]

    @pytest.mark.slow
    def test_records_that_would_go_with_the_last_copy_are_kept(self) -> None:
        world = settled(storage={"type": "Ephemeral", "size": "1Gi"})
        world.topic("bank", ([2], [2]))
        world.wait(100)
        world.objects[ACCOUNT]["metadata"]["uid"] = "another"
        world.controller_signs = Signs(None, math.inf)
        for _ in range(20):
            assert "demo-broker-2" not in replaced(world)
            world.step()
            world.controllers()
            world.kubelets()
            world.wait(1)
        assert world.condition("RolloutBlocked") == (
            "True",
            "PartitionsAtMinIsr",
            "demo-broker-2 may have the last copy of records of bank-0; delete it to give them up",
        )

    def test_unflushed_records_are_flushed_by_one_that_is_stopped_in_good_order(self) -> None:
        world = settled(unflushedVolume={}, brokers={"replicas": 1})
        world.topic("bank", ([0], [0]))
        world.objects[ACCOUNT]["metadata"]["uid"] = "another"
        assert replaced(world) == ["demo-broker-0"]
        world.stop("demo-broker-0")
        assert replaced(world) == []

    def test_a_paused_roll_stays_paused(self) -> None:
        world = cut_off(rollout={"paused": True})
        world.step()
        assert world.condition("RolloutBlocked")[:2] == ("True", "RolloutPaused")


class TestPodsOfAnEarlierOperator:
    """It wrote down no account: the time tells, for a pod is never made before its account."""

    @pytest.mark.parametrize(("later", "outdated"), [(-10, False), (0, False), (10, True)])
    def test_time(self, later: float, outdated: bool) -> None:
        world = settled()
        for pod in world.pods.values():
            pod["metadata"]["annotations"].pop(ACCOUNT_ANNOTATION)
            pod["metadata"]["creationTimestamp"] = stamp(world.now)
        world.wait(later)
        world.objects[ACCOUNT]["metadata"]["creationTimestamp"] = stamp(world.now)
        world.wait(100)
        assert bool(replaced(world)) is outdated
