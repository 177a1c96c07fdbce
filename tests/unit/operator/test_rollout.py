"""Rolls: one pod at a time, never below min.insync.replicas, the controller last. Rules: ``rollout.py``."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minikafka.kubernetes.lease import POD_UID
from minikafka_kube.freshness import Renewals, Signs
from minikafka_kube.observed import PartitionState, TopicState
from minikafka_operator.actions import Apply, Delete, ReplacePod
from minikafka_operator.conditions import ClusterReason
from minikafka_operator.planning.planner import RETRY_SECONDS
from minikafka_operator.rollout.order import cannot_go, highest_used

from .rolls import THREE, crash, replaced, rolling
from .world import CREATED, World, settled, stamp


class TestOrder:
    def test_one_at_a_time(self) -> None:
        world = rolling()
        assert replaced(world) == ["demo-broker-0"]
        world.step()
        assert world.condition("Progressing")[1] == "Rolling"
        assert replaced(world) == [], "broker 0 is away"
        world.controllers()
        assert replaced(world) == [], "broker 0 is not ready"
        world.kubelets()
        assert replaced(world) == [], "broker 0 has only just become ready"
        world.wait(6)
        assert replaced(world) == ["demo-broker-1"]
        assert world.settle() == 2

    def test_a_pod_that_takes_its_time_to_end_is_no_blocked_roll(self) -> None:
        """It had been ready for long before it was told to go; and the end of its grace period is not when that was."""
        world = rolling()
        world.wait(1000)
        world.step()
        world.controllers()
        pod = world.pods["demo-broker-0"]
        world.start("demo-broker-0")
        world.wait(1000)
        pod["metadata"] |= {
            "deletionTimestamp": stamp(world.now + timedelta(seconds=30)),
            "deletionGracePeriodSeconds": 30,
        }
        world.wait(2)
        world.step()
        assert world.condition("RolloutBlocked")[:2] == ("False", "NotBlocked")
        world.wait(60)
        world.step()
        assert world.condition("RolloutBlocked") == ("True", "BrokerNotReady", "demo-broker-0 is being replaced")

    @pytest.mark.slow
    def test_the_controller_last(self) -> None:
        world = rolling()
        world.controller(0)
        assert replaced(world) == ["demo-broker-1"]
        world.settle()
        assert world.status["controller"] == "demo-broker-1", "it moved once"

    def test_it_follows_a_controller_that_moves(self) -> None:
        world = rolling()
        world.controller(0)
        world.step()
        world.controllers()
        world.kubelets()
        world.wait(10)
        world.controller(2)
        assert replaced(world) == ["demo-broker-0"]

    @pytest.mark.slow
    def test_only_whose_settings_changed(self) -> None:
        """An address of one broker is nothing to the others."""
        world = settled(listeners={"external": {"type": "NodePort"}})
        world.wait(100)
        world.objects["Service", "demo-broker-1-external"]["spec"]["ports"][0]["nodePort"] = 31999
        assert replaced(world) == ["demo-broker-1"]
        assert world.settle() == 1

    def test_a_newer_spec_overtakes(self) -> None:
        """What has to be replaced is written on the pods, so a roll can be interrupted and changed at any point."""
        world = rolling()
        world.step()
        world.controllers()
        world.kubelets()
        world.wait(10)
        world.edit(config={})  # as it was: brokers 1 and 2 are right again
        assert world.settle() == 1


def of_an_earlier(metadata: dict[str, Any]) -> dict[str, Any]:
    """What an object had when it belonged to a cluster of this name that is gone."""
    return {**metadata, "ownerReferences": [{**metadata["ownerReferences"][0], "uid": "earlier-uid"}]}


class TestWhatPodsAreMadeOf:
    """A pod that is replaced before its StatefulSet or settings have changed is made as it was, and has to go twice."""

    @pytest.mark.slow
    @pytest.mark.parametrize(("kind", "name"), [("StatefulSet", "demo-broker"), ("ConfigMap", "demo-config")])
    def test_not_applied_yet(self, kind: str, name: str) -> None:
        """It was created, and the patch by which it is applied from then on has not been carried out: one came between."""
        world = rolling()
        world.objects[kind, name]["metadata"]["managedFields"] = [dict(CREATED)]
        assert replaced(world) == []
        world.step()
        assert world.condition("Progressing")[1] == "Rolling"
        assert replaced(world) == ["demo-broker-0"]
        assert world.settle() == 3

    @pytest.mark.parametrize(("kind", "name"), [("StatefulSet", "demo-broker"), ("ConfigMap", "demo-config")])
    def test_on_its_way_out(self, kind: str, name: str) -> None:
        """Somebody deleted it; it stays until its finalizers are done."""
        world = rolling()
        world.objects[kind, name]["metadata"]["deletionTimestamp"] = stamp(world.now)
        assert replaced(world) == []
        world.step()
        assert world.condition("RolloutBlocked")[0] == "False"
        world.wait(90)
        world.step()
        told = f"{kind} {name}: was deleted and does not go; see its finalizers"
        assert world.condition("RolloutBlocked") == ("True", "ObjectLeaving", told)

    @pytest.mark.slow
    @pytest.mark.parametrize("leaving", [True, False], ids=["leaving", "not applied yet"])
    def test_settings_come_before_the_stateful_set(self, leaving: bool) -> None:
        """A pod that is made meanwhile starts with the old settings, and must not look like one that has the new ones."""
        world = rolling()
        metadata = world.objects["ConfigMap", "demo-config"]["metadata"]
        if leaving:
            metadata["deletionTimestamp"] = stamp(world.now)
        else:
            metadata["managedFields"] = [dict(CREATED)]
        world.step()
        del world.pods["demo-broker-1"]  # a drain
        world.controllers()
        assert "num.partitions=7" not in world.objects["ConfigMap", "demo-config"]["data"]["demo-broker-1.properties"]
        world.kubelets()
        early = world.pods["demo-broker-1"]["metadata"]["uid"]
        if leaving:
            del world.objects["ConfigMap", "demo-config"]
        world.settle()
        assert world.pods["demo-broker-1"]["metadata"]["uid"] != early

    def test_settings_that_cannot_be_applied(self) -> None:
        """The StatefulSet waits for them, and they are not tried again every second."""
        world = rolling()
        world.objects["ConfigMap", "demo-config"]["metadata"]["managedFields"] = [dict(CREATED)]
        plan = world.plan()
        assert not [
            action for action in plan.actions if isinstance(action, Apply) and action.thing["kind"] == "StatefulSet"
        ]
        assert world.plan((ClusterReason.OBJECT_REFUSED, "forbidden")).retry_seconds == RETRY_SECONDS

    def test_settings_that_stay_as_they_are_may_go(self) -> None:
        """Only the image is another one: a pod that is made while they are gone waits until they are back."""
        world = settled()
        world.wait(100)
        world.edit(image="minikafka:next")
        world.objects["ConfigMap", "demo-config"]["metadata"]["deletionTimestamp"] = stamp(world.now)
        assert replaced(world) == ["demo-broker-0"]

    def test_settings_of_an_earlier_cluster(self) -> None:
        """The garbage collector has still to remove them: a StatefulSet is not made before, for its pods would have those."""
        world = settled()
        earlier = dict(world.objects["ConfigMap", "demo-config"])
        earlier["metadata"] = of_an_earlier(earlier["metadata"])
        earlier["data"] = {}
        fresh = World()
        fresh.objects["ConfigMap", "demo-config"] = earlier
        fresh.step()
        assert ("StatefulSet", "demo-broker") not in fresh.objects
        del fresh.objects["ConfigMap", "demo-config"]
        fresh.settle()
        assert ("StatefulSet", "demo-broker") in fresh.objects

    def test_an_earlier_clusters_leftover_stops_a_roll_and_it_is_told(self) -> None:
        world = rolling()
        leftover = world.objects["RoleBinding", "demo-broker"]
        leftover["metadata"] = of_an_earlier(leftover["metadata"])
        world.step()
        assert world.condition("Ready")[:2] == ("False", "Rolling")


class TestClaims:
    @pytest.mark.slow
    def test_the_last_copy_is_not_given_up_for_a_roll(self) -> None:
        """Somebody deleted a claim: its pod is all that keeps the volume."""
        world = rolling()
        world.topic("bank", ([0], [0]))
        claim = world.data_claim(0)
        claim["metadata"]["deletionTimestamp"] = stamp(world.now)
        assert "demo-broker-0" not in replaced(world)
        for _ in range(20):
            world.step()
            world.controllers()
            world.kubelets()
            world.wait(10)
        assert world.condition("RolloutBlocked")[:2] == ("True", "PartitionsAtMinIsr")
        assert "demo-broker-0 may have the last copy of records of bank-0" in world.condition("RolloutBlocked")[2]

    def test_claims_without_labels_are_no_sign_that_there_are_no_volumes(self) -> None:
        world = settled(storage={"size": "10Gi"})
        for (kind, _), thing in world.objects.items():
            if kind == "PersistentVolumeClaim":
                thing["metadata"]["labels"] = {}
        world.step()
        world.edit(storage={"size": "1Gi"})
        assert not [action for action in world.plan().actions if isinstance(action, Delete)]


class TestSafety:
    @pytest.mark.parametrize(
        ("isr", "min_isr", "broker_id", "may"),
        [
            ([0, 1, 2], 2, 0, True),
            ([0, 1], 2, 0, False),
            ([0, 1], 2, 2, True),  # it is out of the ISR, which is at the minimum without it
            ([0], 2, 2, False),  # it may be the first to catch up
            ([0], 1, 2, True),
            ([0], 1, 0, False),
            ([0, 1, 2], 3, 0, True),  # it could never be taken otherwise
            ([0, 1], 3, 0, False),  # but it can wait for broker 2
            ([], 1, 0, False),
            ([0, 1, 2], 1, 5, True),  # it has no replica
        ],
    )
    def test_golden_table(self, isr: list[int], min_isr: int, broker_id: int, may: bool) -> None:
        """After KafkaAvailability.canRoll of Strimzi."""
        partition = PartitionState("bank", 0, (0, 1, 2), tuple(isr), isr[0] if isr else -1)
        told = cannot_go([TopicState("bank", min_isr, (partition,))], broker_id, default_min_isr=2)
        assert (told == "") is may
        if told:
            assert "bank-0" in told

    def test_one_replica_is_no_reason_to_wait_for_ever(self) -> None:
        partition = PartitionState("single", 0, (1,), (1,), 1)
        assert not cannot_go([TopicState("single", None, (partition,))], 1, default_min_isr=2)

    def test_the_default_of_the_cluster_holds(self) -> None:
        partition = PartitionState("bank", 0, (0, 1, 2), (0, 1), 0)
        assert cannot_go([TopicState("bank", None, (partition,))], 0, default_min_isr=2)
        assert not cannot_go([TopicState("bank", None, (partition,))], 0, default_min_isr=1)

    def test_it_waits_until_the_others_are_in_sync(self) -> None:
        world = rolling()
        world.topic("bank", ([0, 1, 2], [0, 1]))
        assert replaced(world) == ["demo-broker-2"], "the one that is out of the ISR anyway"
        world.topic("bank", ([0, 1, 2], [0, 1]), ([0, 1, 2], [0, 2]), ([0, 1, 2], [1, 2]))
        assert replaced(world) == []
        world.step()
        assert world.condition("RolloutBlocked")[:2] == ("True", "PartitionsAtMinIsr")
        assert (
            "without broker 0 fewer than min.insync.replicas would be in sync: bank-0, bank-1"
            in world.condition("RolloutBlocked")[2]
        )
        assert "PartitionsAtMinIsr" in world.events

    def test_a_broker_that_is_away_for_another_reason(self) -> None:
        world = rolling()
        world.stop("demo-broker-2")
        world.step()
        template = world.objects["StatefulSet", "demo-broker"]["spec"]["template"]
        world.pods["demo-broker-2"]["metadata"]["annotations"] = template["metadata"]["annotations"]
        assert replaced(world) == []
        world.wait(90)
        world.step()
        assert world.condition("RolloutBlocked")[1:] == ("BrokerNotReady", "demo-broker-2 is not ready")

    @pytest.mark.slow
    def test_paused(self) -> None:
        world = rolling()
        world.edit(rollout={"paused": True})
        for _ in range(3):
            assert not [action for action in world.step().actions if isinstance(action, ReplacePod)]
        assert world.condition("RolloutBlocked")[1] == "RolloutPaused"
        assert world.condition("RolloutBlocked")[2] == "spec.rollout.paused: brokers 0, 1, 2 have to be replaced"
        world.edit(rollout={"paused": False})
        assert world.settle() == 3


class TestFreshness:
    """What is known of the ISR must be what the brokers know now (issue 9, B9)."""

    @pytest.mark.slow
    def test_frozen_statuses_and_no_controller_stop_a_roll(self) -> None:
        """Pods 0, 1 and 2 were replaced at seconds 0, 5 and 10: every look found the same full ISR."""
        world = rolling()
        world.topic("bank", THREE)
        del world.objects["Lease", "demo-controller"]
        world.controller_signs = Signs(None, math.inf)
        for _ in range(60):
            assert not [action for action in world.step().actions if isinstance(action, ReplacePod)]
            world.wait(1)
        assert world.condition("RolloutBlocked") == (
            "True",
            "ControllerAway",
            "no broker is controller: there is no Lease demo-controller",
        )

    @pytest.mark.parametrize(
        ("signs", "blocked"),
        [(Signs(None, 0.0), False), (Signs(None, 9.5), True), (Signs(120.0, 1.0), False), (Signs(20.0, 12.0), True)],
    )
    def test_a_lease_has_to_be_seen_renewed(self, signs: Signs, blocked: bool) -> None:
        world = rolling()
        world.controller_signs = signs
        assert replaced(world) == []
        made = world.step()
        assert made.retry_seconds == 1.0, "that will be known soon"
        assert world.condition("RolloutBlocked")[0] == str(blocked)
        world.controller_signs = Signs(3.0, 1.0)
        assert replaced(world) == ["demo-broker-0"]

    def test_a_status_that_is_older_than_the_metadata(self) -> None:
        world = rolling()
        world.topic("bank", THREE)
        world.revisions["bank"] = 8
        assert replaced(world) == []
        world.step()
        assert world.condition("RolloutBlocked")[1:] == (
            "TopicStatusStale",
            "older than the brokers' metadata: the status of bank",
        )
        world.topics["bank"]["status"]["revision"] = 9
        assert replaced(world) == ["demo-broker-0"], "newer is fine: the metadata was read first"

    def test_what_the_metadata_holds_itself_counts(self) -> None:
        world = rolling()
        world.topic("bank", THREE)
        world.revisions["bank"] = 8
        state = {"replicas": [0, 1, 2], "isr": [2], "leader": 2}
        world.journal["bank"] = {"topicId": "x", "partitions": [state], "configs": {}}
        assert replaced(world) == []
        world.step()
        assert world.condition("RolloutBlocked")[1] == "PartitionsAtMinIsr"

    def test_a_topic_without_a_status(self) -> None:
        world = rolling()
        world.revisions["bank"] = 8
        assert replaced(world) == []

    def test_no_broker_is_taken_away(self) -> None:
        world = settled(brokers={"replicas": 5})
        world.revisions["bank"] = 8  # it may have replicas anywhere
        world.edit(brokers={"replicas": 3})
        world.step()
        assert world.objects["StatefulSet", "demo-broker"]["spec"]["replicas"] == 5
        assert world.condition("RolloutBlocked")[1] == "TopicStatusStale"
        assert world.condition("Ready")[1] == "TopicStatusStale"
        world.topic("bank", THREE)
        world.revisions.clear()
        world.settle()
        assert world.objects["StatefulSet", "demo-broker"]["spec"]["replicas"] == 3
        assert world.condition("Ready")[0] == "True"

    def test_nor_when_the_stateful_set_is_deleted_meanwhile(self) -> None:
        """Made anew with fewer brokers it would take those away of which nothing is known."""
        world = settled(brokers={"replicas": 5})
        world.controller_signs = Signs(None, 30.0)
        world.edit(brokers={"replicas": 3})
        world.step()
        del world.objects["StatefulSet", "demo-broker"]
        world.pods.clear()
        world.step()
        assert world.objects["StatefulSet", "demo-broker"]["spec"]["replicas"] == 5

    @pytest.mark.slow
    def test_an_unready_broker_may_hold_the_last_copy(self) -> None:
        world = rolling(unflushedVolume={})
        world.topic("bank", THREE)
        world.stop("demo-broker-1")
        waiting = {"name": "broker", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        world.pods["demo-broker-1"]["status"]["containerStatuses"] = [waiting]
        world.controller_signs = Signs(None, 30.0)
        assert replaced(world) == []


class TestEviction:
    def test_a_ready_broker_is_evicted(self) -> None:
        (action,) = [action for action in rolling().plan().actions if isinstance(action, ReplacePod)]
        assert action.evict

    def test_one_that_serves_nobody_is_deleted(self) -> None:
        world = rolling()
        world.stop("demo-broker-1")
        world.wait(10_000)
        (action,) = [action for action in world.plan().actions if isinstance(action, ReplacePod)]
        assert not action.evict

    def test_a_refusal_is_waited_out(self) -> None:
        world = rolling()
        made = world.plan(held_up="demo-broker-0: Cannot evict pod as it would violate the pod's disruption budget.")
        assert made.retry_seconds == 1.0
        told = {one["type"]: one for one in made.status["conditions"]} if made.status else {}
        assert (told["RolloutBlocked"]["status"], told["RolloutBlocked"]["reason"]) == ("True", "EvictionRefused")
        assert "budget" in told["RolloutBlocked"]["message"]


class TestRenewals:
    @staticmethod
    def lease(version: int, touched: int = 0) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": f"{version}{touched}"}, "spec": {"renewTime": str(version)}}

    def test_a_change_that_is_no_renewal_says_nothing(self) -> None:
        """Whoever put a label on the Lease of a controller that was dead made it look alive."""
        seen = Renewals()
        for touched in range(4):
            signs = seen.look("c", self.lease(1, touched), 4.0 * touched)
        assert signs == Signs(None, 12.0)

    def test_only_a_change_between_two_looks_is_a_sign_of_life(self) -> None:
        seen = Renewals()
        assert seen.look("c", self.lease(1), 0.0) == Signs(None, 0.0)
        assert seen.look("c", self.lease(1), 4.0) == Signs(None, 4.0)
        assert seen.look("c", self.lease(2), 6.0) == Signs(2.0, 0.0), "renewed after the look at 4"
        assert seen.look("c", self.lease(2), 9.0) == Signs(5.0, 3.0)
        assert seen.look("c", self.lease(3), 100.0) == Signs(91.0, 0.0), "it may have been long ago"
        assert seen.look("c", None, 101.0) == Signs(None, math.inf)
        assert seen.look("c", self.lease(4), 102.0) == Signs(None, 0.0)

    def test_neither_alive_nor_dead(self) -> None:
        assert not Signs(None, 1.0).live(9) and not Signs(None, 1.0).dead(9)
        assert Signs(4.5, 4.5).live(9) and not Signs(4.5, 4.5).dead(9)
        assert not Signs(5.0, 1.0).live(9) and not Signs(5.0, 1.0).dead(9)
        assert not Signs(10.0, 9.5).live(9) and Signs(10.0, 9.5).dead(9)

    @pytest.mark.parametrize("duration", [1, 2, 3, 9])
    def test_looks_that_are_far_apart_for_a_short_lease(self, duration: int) -> None:
        """With broker.session.timeout.ms=3000 a roll waited for ever: no two looks were within half of that."""
        seen = Renewals()
        signs = [seen.look("c", self.lease(number), 1.8 * number) for number in range(3)]
        assert signs[-1].live(duration)
        dead = seen.look("c", self.lease(2), 3.6 + duration + 0.1)
        assert dead.dead(duration) and not dead.live(duration)


class TestWhoIsController:
    """The Lease says that somebody looks after the partitions if a broker of this cluster holds it."""

    def blocked(self, world: World) -> str:
        assert replaced(world) == []
        world.step()
        status, reason, message = world.condition("RolloutBlocked")
        assert (status, reason) == ("True", "ControllerAway")
        assert "controller" not in world.status
        return message

    def test_a_holder_that_is_no_broker(self) -> None:
        world = rolling()
        world.objects["Lease", "demo-controller"]["spec"]["holderIdentity"] = "my-laptop"
        assert self.blocked(world) == (
            "no broker is controller: Lease demo-controller is held by my-laptop, which is no pod of this cluster's brokers"
        )

    @pytest.mark.parametrize("uid", ["of-an-earlier-pod", ""])
    def test_a_namesake_of_a_broker(self, uid: str) -> None:
        world = rolling()
        world.objects["Lease", "demo-controller"]["metadata"]["annotations"][POD_UID] = uid
        self.blocked(world)

    def test_a_lease_that_is_not_the_clusters(self) -> None:
        world = rolling()
        del world.objects["Lease", "demo-controller"]["metadata"]["labels"]
        self.blocked(world)

    def test_brokers_of_before_did_not_say_which_pod_they_are(self) -> None:
        """Their roll to a version that does must not wait for it."""
        world = rolling()
        del world.objects["Lease", "demo-controller"]["metadata"]["annotations"]
        assert replaced(world) == ["demo-broker-0"]


class TestMinIsr:
    """What counts is what the brokers go by, not what the spec has asked them for."""

    def lowered(self) -> World:
        world = rolling()
        world.topic("bank", ([0, 1, 2], [0, 1]))
        world.recorded_min_isr = 2
        world.edit(replication={"minInsyncReplicas": 1})
        return world

    def test_a_lower_one_counts_once_the_brokers_have_it(self) -> None:
        """With the spec's, broker 0 went while producers with acks=all still needed it."""
        world = self.lowered()
        assert replaced(world) == ["demo-broker-2"], "the one that is out of the ISR"
        world.topic("bank", ([0, 1], [0, 1]), ([0, 1, 2], [0, 1]), ([0, 1, 2], [0, 2]), ([0, 1, 2], [1, 2]))
        assert replaced(world) == []
        world.recorded_min_isr = 1
        assert replaced(world) == ["demo-broker-0"]

    def test_the_status_says_what_producers_see(self) -> None:
        world = self.lowered()
        world.topic("bank", ([0, 1, 2], [0]))
        world.step()
        assert world.status["underMinIsrPartitions"] == 1
        world.recorded_min_isr = 1
        world.step()
        assert world.status["underMinIsrPartitions"] == 0


class TestEphemeralStorage:
    """The pod's deletion is the end of its data (``storage.type: Ephemeral``)."""

    def test_the_last_copy_is_not_deleted(self) -> None:
        world = rolling(storage={"type": "Ephemeral"})
        world.topic("bank", ([0, 1, 2], [1]))
        crash(world, 1)
        assert replaced(world) == []
        world.step()
        assert world.condition("RolloutBlocked")[1] == "PartitionsAtMinIsr"

    def test_nor_one_of_which_nothing_is_known(self) -> None:
        world = rolling(storage={"type": "Ephemeral"})
        world.topic("bank", THREE)
        crash(world, 1)
        world.controller_signs = Signs(None, 30.0)
        assert replaced(world) == []


def test_highest_used() -> None:
    partition = PartitionState("bank", 0, (4, 1), (1,), 1)
    assert highest_used([TopicState("bank", None, (partition,))]) == 4
    assert highest_used([]) == -1


EVENTS = st.lists(
    st.sampled_from(["config", "image", "unready", "recover", "evict", "pause", "unpause", "wait", "controller"]),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(EVENTS)
def test_whatever_happens_no_partition_falls_below_its_minimum(events: list[str]) -> None:
    """The operator itself never takes a broker that min.insync.replicas needs, and in the end all is as wished for."""
    world = settled()
    world.topic("bank", THREE, THREE, min_isr=2)
    for number, event in enumerate(events):
        _happen(world, event, number)
        for _ in range(6):
            ready_before = set(world.ready())
            made = world.plan()
            taken = {int(a.name.rpartition("-")[2]) for a in made.actions if isinstance(a, ReplacePod)} & ready_before
            assert len(taken) <= 1
            if taken:
                assert ready_before == {0, 1, 2}
                assert all(len(set(p["isr"]) - taken) >= 2 for p in world.topics["bank"]["status"]["partitions"])
            world.step()
            world.controllers()
            world.kubelets()
            world.wait(2)
    for broker_id in range(3):
        if f"demo-broker-{broker_id}" in world.pods:
            world.start(f"demo-broker-{broker_id}")
    world.edit(rollout={"paused": False})
    world.settle(steps=400)
    assert world.ready() == [0, 1, 2]
    assert world.condition("Ready")[0] == "True"


def _happen(world: World, event: str, number: int) -> None:
    match event:
        case "config":
            world.edit(config={"num.partitions": str(number + 1)})
        case "image":
            world.edit(image=f"image:{number}")
        case "unready" if "demo-broker-1" in world.pods and world.pods["demo-broker-1"].get("status"):
            world.stop("demo-broker-1")
        case "recover":
            for name in world.pods:
                world.start(name)
        case "evict" if "demo-broker-2" in world.pods:
            world.pods["demo-broker-2"]["status"] = {"phase": "Failed"}
        case "pause" | "unpause":
            world.edit(rollout={"paused": event == "pause"})
        case "wait":
            world.wait(400)
        case "controller":
            world.controller(number % 3)
