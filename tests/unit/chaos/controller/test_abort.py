"""An experiment that somebody ends, and one whose pod is another one by then."""

from __future__ import annotations

import pytest
from minikafka_chaos.controller.ledger import FaultRefused
from minikafka_chaos.experiment.kinds import (
    ABORT_ANNOTATION,
    FORCE_ANNOTATION,
)
from minikafka_kube.kinds import CLUSTER

from tests.unit.chaos.controller.happenings import (
    KILL,
    LEADER,
    make_fault,
    running,
)
from tests.unit.chaos.controller.world import NAMES, SCENARIO, World


class TestAbort:
    @pytest.mark.parametrize("how", ["delete", "annotation", "deadline"])
    async def test_heals_within_seconds(self, how: str) -> None:
        world = await running(World())
        make_fault(world)
        began = world.server.now
        if how == "delete":
            world.delete()
        elif how == "annotation":
            world.annotate(ABORT_ANNOTATION)
        else:
            world.pass_time(3601)
            began = world.server.now
        await world.settle()
        assert not world.on and world.lease_holder() == ""
        assert (world.server.now - began).total_seconds() < 10
        if how == "delete":
            assert not world.there
        else:
            reason = "Aborted" if how == "annotation" else "DeadlineExceeded"
            assert (world.phase, world.condition("Complete")[1]) == ("Aborted", reason)
            assert world.status["verdict"] == "Aborted"
            assert [fault["state"] for fault in world.status["faults"]] == ["Recovered"]

    async def test_while_the_runner_still_ends_faults_are_undone_at_once_and_once_more_after_it(self) -> None:
        world = await running(World())
        make_fault(world)
        pod = world.runner_pods()[0]
        pod["metadata"]["finalizers"] = ["test/slow"]  # it takes its time to end
        world.annotate(ABORT_ANNOTATION)
        await world.look()
        assert not world.on and world.status["faults"][0]["state"] == "Injected"
        world.on[NAMES.pod(1)] = {"f1"}  # what it was in the middle of
        world.server.objects.pop(("Pod", pod["metadata"]["name"]))
        await world.settle()
        assert not world.on and world.status["faults"][0]["state"] == "Recovered"

    async def test_no_fault_can_begin_any_more(self) -> None:
        world = await running(World())
        ledger = world.ledger()
        ledger.take()
        world.annotate(ABORT_ANNOTATION)
        with pytest.raises(FaultRefused, match="being aborted"):
            ledger.intend(KILL, LEADER, None)
        await world.look()
        del world.experiment["metadata"]["annotations"]
        with pytest.raises(FaultRefused, match="not running"):
            ledger.intend(KILL, LEADER, None)
        assert not world.status.get("faults")

    @pytest.mark.slow
    async def test_with_a_dead_agent_the_faults_expire(self) -> None:
        world = await running(World())
        make_fault(world)
        world.mute.add(NAMES.pod(1))
        world.delete()
        for _ in range(20):
            await world.look()
            world.kubernetes()
            world.pass_time(2)
        assert world.phase == "Healing" and world.condition("Healed")[:2] == ("False", "RecoveryFailing")
        world.pass_time(1800)
        await world.settle()
        assert not world.there and ("FaultRecovered", "Kill broker 1 (kill): it has expired") in world.server.events

    @pytest.mark.slow
    async def test_a_forged_end_holds_nobody_up(self) -> None:
        """With an end years ahead, and an agent that does not answer, only the force annotation let the experiment go."""
        world = await running(World())
        make_fault(world)
        world.experiment["status"]["faults"][0]["expiresAt"] = "2039-01-01T00:00:00Z"
        world.mute.add(NAMES.pod(1))
        world.delete()
        await world.look()
        await world.look()
        assert "ends by itself at 2026-11-22T11:00:" in world.condition("Healed")[2], "an hour after the deadline"
        world.pass_time(7300)
        await world.settle()
        assert not world.there

    async def test_a_pod_that_is_gone(self) -> None:
        world = await running(World())
        make_fault(world)
        world.mute.add(NAMES.pod(1))
        world.replace_pod(1)
        world.annotate(ABORT_ANNOTATION)
        await world.settle()
        assert world.phase == "Aborted" and world.status["faults"][0]["detail"] == "its pod is gone"

    async def test_force(self) -> None:
        world = await running(World())
        make_fault(world)
        world.mute.add(NAMES.pod(1))
        world.delete()
        await world.look()
        world.annotate(FORCE_ANNOTATION)
        await world.settle()
        assert not world.there and world.lease_holder() == ""
        assert any(reason == "ForceDeleted" and "Kill broker 1" in note for reason, note in world.server.events)

    @pytest.mark.slow
    async def test_before_it_has_begun(self) -> None:
        world = World({**SCENARIO})
        world.server.objects[CLUSTER.name, "shop"]["status"] = {}
        await world.look()
        assert world.phase == "Pending"
        world.delete()
        await world.settle()
        assert not world.there


class TestAPodThatWasReplaced:
    """Its name is the next one's, and by its name an agent is asked."""

    async def test_before_the_fault_was_made_and_the_runner_died(self) -> None:
        world = await running(World())
        make_fault(world, injected=False)
        world.replace_pod(1)
        world.on[NAMES.pod(1)] = {"f1"}  # the runner asked again, and then it died
        world.annotate(ABORT_ANNOTATION)
        await world.settle()
        assert world.phase == "Aborted" and not world.on and NAMES.pod(1) in world.asked

    async def test_after_it_was_made_nothing_is_left(self) -> None:
        world = await running(World())
        make_fault(world)
        world.replace_pod(1)
        world.mute.add(NAMES.pod(1))
        world.annotate(ABORT_ANNOTATION)
        await world.settle()
        assert world.phase == "Aborted" and world.status["faults"][0]["detail"] == "its pod is gone"
