"""Pods that do not get ready while a cluster is rolled: stuck, crashing, or running, one or several. Rules: ``rollout.py``."""

from __future__ import annotations

import math
from typing import Any

import pytest
from minikafka_kube.freshness import Signs

from .rolls import CRASHING, THREE, crash, replaced, rolling, run_unready
from .world import NAMES, World, settled, stamp


class TestStuckPods:
    def test_a_wrong_image_is_easy_to_put_right(self) -> None:
        world = World(image="wrong")
        world.broken_images = {"wrong"}
        for _ in range(5):
            world.step()
            world.controllers()
            world.kubelets()
        assert world.condition("Ready")[1] == "ImagePullFailed"
        world.edit(image="right")
        assert sorted(replaced(world)) == ["demo-broker-0", "demo-broker-1", "demo-broker-2"], "none of them ever ran"
        world.settle()
        assert world.ready() == [0, 1, 2]

    @pytest.mark.slow
    def test_a_wrong_image_stops_the_roll_at_the_first(self) -> None:
        world = settled()
        world.topic("bank", THREE)
        world.wait(100)
        world.broken_images = {"wrong"}
        world.edit(image="wrong")
        for _ in range(60):
            world.step()
            world.controllers()
            world.kubelets()
            world.wait(10)
        assert world.ready() == [1, 2]
        assert world.condition("Ready")[1] == "ImagePullFailed"
        assert world.condition("RolloutBlocked")[1] == "BrokerNotReady"
        assert world.condition("Available")[0] == "True"
        world.edit(image="right")
        world.settle()
        assert world.ready() == [0, 1, 2]

    def test_an_outdated_broker_that_is_not_ready_is_given_time(self) -> None:
        """It may be recovering its logs."""
        world = rolling(rollout={"readyTimeoutSeconds": 100})
        world.stop("demo-broker-1")
        assert replaced(world) == []
        assert world.plan().retry_seconds is not None
        world.wait(101)
        assert replaced(world) == ["demo-broker-1"]

    def test_one_that_catches_up_may_be_needed(self) -> None:
        """It is not ready before it is in sync, but leads partitions meanwhile."""
        world = rolling(rollout={"readyTimeoutSeconds": 100})
        world.topic("bank", THREE)
        world.stop("demo-broker-1")
        world.topic("bank", ([0, 1, 2], [0, 2]), ([0, 1, 2], [1, 2]))
        world.wait(101)
        assert replaced(world) == []
        world.step()
        assert world.condition("RolloutBlocked")[1] == "PartitionsAtMinIsr"
        world.controller_signs = Signs(None, 30.0)
        world.step()
        assert world.condition("RolloutBlocked")[1] == "ControllerAway"
        world.controller_signs = Signs(1.0)
        world.topic("bank", ([0, 1, 2], [0, 2]), ([0, 1, 2], [0, 2]))
        assert replaced(world) == ["demo-broker-1"]

    def test_one_that_crashes_is_not(self) -> None:
        world = rolling()
        world.stop("demo-broker-1")
        waiting = {"name": "broker", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        world.pods["demo-broker-1"]["status"]["containerStatuses"] = [waiting]
        assert replaced(world) == ["demo-broker-1"]

    def test_unless_its_unflushed_records_are_the_last_copy(self) -> None:
        world = rolling(unflushedVolume={})
        world.topic("bank", ([0, 1, 2], [1]))
        world.stop("demo-broker-1")
        waiting = {"name": "broker", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        world.pods["demo-broker-1"]["status"]["containerStatuses"] = [waiting]
        assert replaced(world) == []
        world.step()
        assert world.condition("RolloutBlocked")[2].startswith(
            "demo-broker-1 may have the last copy of unflushed records of"
        )


class TestSeveralCrash:
    """Too little memory, or a broken image, brings all brokers down; what mends it has to reach them."""

    @pytest.mark.slow
    @pytest.mark.parametrize("brokers", [(0, 1), (0, 1, 2)])
    def test_what_mends_them_reaches_them_one_by_one(self, brokers: tuple[int, ...]) -> None:
        world = rolling()
        world.topic("bank", THREE)
        crash(world, *brokers)
        world.controller_signs = Signs(None, 30.0)  # without a majority nobody renews the Lease
        for count in range(len(brokers)):
            assert len(replaced(world)) == 1
            world.step()
            assert replaced(world) == [], "one is away"
            world.controllers()
            assert len(world.pods) == 3 and replaced(world) == [NAMES.pod(i) for i in brokers[count + 1 :]][:1]
            world.kubelets()
        world.controller_signs = Signs(1.0)
        world.settle()
        assert world.ready() == [0, 1, 2]

    def test_one_that_runs_is_not_taken_beside_one_that_crashes(self) -> None:
        """It may be recovering its logs, and have what the other one lacks."""
        world = rolling()
        world.topic("bank", THREE)
        world.stop("demo-broker-0")
        crash(world, 1)
        world.wait(10_000)
        assert replaced(world) == ["demo-broker-1"]
        world.pods["demo-broker-1"]["status"]["containerStatuses"] = [{**CRASHING, "state": {"running": {}}}]
        ready = {"type": "Ready", "status": "False", "lastTransitionTime": stamp(world.now)}
        world.pods["demo-broker-1"]["status"]["conditions"] = [ready]
        assert replaced(world) == [], "it has only just been started"

    def test_none_takes_what_is_only_in_its_memory_along(self) -> None:
        world = rolling(unflushedVolume={})
        world.topic("bank", THREE)
        crash(world, 0, 1, 2)
        world.controller_signs = Signs(None, 30.0)
        assert replaced(world) == []


class TestSeveralRun:
    """Several run and are not ready. They waited for each other for ever."""

    def world(self, *brokers: int, **spec: Any) -> World:
        world = rolling(rollout={"readyTimeoutSeconds": 100}, **spec)
        world.topic("bank", THREE)
        run_unready(world, *brokers)
        return world

    def test_each_is_given_its_time(self) -> None:
        world = self.world(0, 1)
        assert replaced(world) == []
        world.wait(99)
        assert replaced(world) == []
        world.wait(2)
        assert replaced(world) == ["demo-broker-0"]

    @pytest.mark.slow
    def test_one_at_a_time_until_all_are_well(self) -> None:
        world = self.world(0, 1)
        world.wait(101)
        world.step()
        assert replaced(world) == [], "broker 0 is away"
        world.controllers()
        assert replaced(world) == [], "broker 0 has only just been made again"
        world.kubelets()
        assert replaced(world) == ["demo-broker-1"], "it is the only one left that is not ready"
        world.settle()
        assert world.ready() == [0, 1, 2]

    def test_one_that_does_not_get_well_either_is_waited_for(self) -> None:
        world = self.world(0, 1)
        world.wait(101)
        world.step()
        world.controllers()
        world.kubelets()
        run_unready(world, 0)
        world.wait(99)
        assert replaced(world) == []
        world.wait(2)
        assert replaced(world) == ["demo-broker-1"]

    def test_one_that_partitions_count_on_stays(self) -> None:
        world = self.world(0, 1)
        world.topic("bank", ([0, 1, 2], [0, 2]))
        world.wait(101)
        assert replaced(world) == ["demo-broker-1"], "it is in no ISR"
        world.topic("bank", ([0, 1, 2], [0, 2]), ([0, 1, 2], [1, 2]))
        assert replaced(world) == []
        world.step()
        assert world.condition("RolloutBlocked")[1] == "PartitionsAtMinIsr"

    def test_nobody_is_served_by_a_partition_without_a_leader(self) -> None:
        world = self.world(0, 1)
        world.topic("bank", ([0, 1], [0]), leader=-1)
        world.wait(101)
        assert replaced(world) == ["demo-broker-0"]

    def test_without_a_controller_one_is_taken_only_when_no_broker_is_ready(self) -> None:
        world = self.world(0, 1)
        world.controller_signs = Signs(None, 30.0)
        world.wait(101)
        assert replaced(world) == []
        world.step()
        assert world.condition("RolloutBlocked")[1] == "ControllerAway"
        run_unready(world, 2)
        world.wait(101)
        assert replaced(world) == ["demo-broker-0"]

    def test_a_cluster_that_never_came_about_is_mended(self) -> None:
        """Its first settings kept every broker from becoming ready: there is no Lease, and no metadata of any topic."""
        world = rolling(rollout={"readyTimeoutSeconds": 100})
        run_unready(world, 0, 1, 2)
        del world.objects["Lease", "demo-controller"]
        world.controller_signs = Signs(None, math.inf)
        world.wait(101)
        assert replaced(world) == ["demo-broker-0"]
        world.step()
        world.controllers()
        world.kubelets()
        world.controller_signs = Signs(1.0)
        world.settle()
        assert world.ready() == [0, 1, 2]

    def test_none_takes_the_last_copy_along(self) -> None:
        world = self.world(0, 1, 2, unflushedVolume={})
        world.topic("bank", ([0, 1, 2], [0]), leader=-1)
        world.wait(101)
        assert replaced(world) == ["demo-broker-1"]
        world.controller_signs = Signs(None, 30.0)
        assert replaced(world) == []

    def test_without_a_controller_a_claim_that_goes_keeps_its_pod(self) -> None:
        """Nobody knows whether others have what is on its volume; of the rest one is taken."""
        world = self.world(0, 1, 2)
        world.controller_signs = Signs(None, 30.0)
        world.wait(101)
        assert replaced(world) == ["demo-broker-0"]
        world.data_claim(0)["metadata"]["deletionTimestamp"] = stamp(world.now)
        assert replaced(world) == ["demo-broker-1"]
        for broker_id in (1, 2):
            world.data_claim(broker_id)["metadata"]["deletionTimestamp"] = stamp(world.now)
        assert replaced(world) == []
        world.step()
        assert world.condition("RolloutBlocked")[1] == "ControllerAway"
