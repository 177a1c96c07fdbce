"""An experiment whose runner or whose controller dies."""

from __future__ import annotations

import pytest
from minikafka_chaos.controller.ledger import FaultRefused
from minikafka_chaos.experiment.kinds import (
    ABORT_ANNOTATION,
    JOB,
)
from minikafka_kube.kinds import CLUSTER, USER

from tests.unit.chaos.controller.happenings import (
    KILL,
    LEADER,
    bring_back,
    handle,
    make_fault,
    running,
)
from tests.unit.chaos.controller.world import Killed, World


class TestRunnerDies:
    async def test_without_a_word(self) -> None:
        world = await running(World())
        make_fault(world)
        world.job_ends("Failed", "Job has reached the specified backoff limit")
        await world.settle()
        assert (world.phase, world.status["verdict"]) == ("Error", "Error")
        assert "backoff limit" in world.condition("Complete")[2] and not world.on

    async def test_its_job_is_deleted_by_hand(self) -> None:
        world = await running(World())
        make_fault(world)
        world.server.objects.pop((JOB.name, "try-run"))
        world.server.objects.pop(("Pod", "try-run-abcde"))
        await world.settle()
        assert (world.phase, world.condition("Complete")[2]) == ("Error", "its Job is gone") and not world.on

    async def test_another_runner_makes_no_faults(self) -> None:
        world = await running(World())
        make_fault(world)
        with pytest.raises(FaultRefused, match="run by try-run-abcde"):
            world.ledger("other").take()
        with pytest.raises(FaultRefused, match="run by try-run-abcde"):
            world.ledger("other").intend(KILL, LEADER, None)


class TestControllerDies:
    """Killed at every write of an experiment's life, before it took effect and after; started anew; the end is the same."""

    async def life(self, world: World, ending: str) -> None:
        """A whole experiment, with a controller that is started again whenever it dies."""
        await self.go_on(world)
        assert world.phase == "Running", world.status
        died, world.server.dies_at = world.server.dies_at, None  # the runner lives
        writes = world.server.writes
        make_fault(world)
        if ending == "verdict":
            bring_back(world)
            world.ledger().recovered(handle(), "step back")
            world.ledger().set_fields(verdict="Passed", summary="well", lost=0)
            world.job_ends()
        elif ending == "abort":
            world.annotate(ABORT_ANNOTATION)
        elif ending == "runner":
            world.job_ends("Failed")
        else:
            world.delete()
        if died is not None:
            world.server.dies_at = died + world.server.writes - writes
        await self.go_on(world)

    async def go_on(self, world: World) -> None:
        for _ in range(5):
            try:
                await world.settle()
                return
            except Killed:
                world.server.dies_at = None
                world.new_reconciler()
        raise AssertionError("never settled")

    @staticmethod
    def secured() -> World:
        """A user is made for the experiment, too."""
        world = World()
        listeners = {"internal": {"tls": True, "authentication": {"type": "tls"}}}
        world.server.objects[CLUSTER.name, "shop"]["spec"]["listeners"] = listeners
        return world

    @pytest.mark.slow
    @pytest.mark.parametrize("ending", ["verdict", "abort", "runner", "delete"])
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    async def test_at_every_write(self, ending: str, after: bool) -> None:
        whole = self.secured()
        await self.life(whole, ending)
        expected = whole.server.log
        # The runner's own writes are in the log too; the controller's are counted apart from them.
        for point in range(1, len([told for told in expected if told != "runner"]) + 1):
            world = self.secured()
            world.server.dies_at, world.server.dies_after = point, after
            await self.life(world, ending)
            said = f"killed {'after' if after else 'before'} write {point} of {expected}"
            assert not world.on, said
            assert world.lease_holder() == "", said
            assert (USER.name, "try-run") not in world.server.objects, said
            if ending == "delete":
                assert not world.there, said
            else:
                told = {"verdict": "Completed", "abort": "Aborted", "runner": "Error"}[ending]
                assert world.phase == told == whole.phase, said
                assert [one["state"] for one in world.status["faults"]] == ["Recovered"], said
                assert world.status["faultNow"] == "", said
                assert not world.experiment["metadata"].get("finalizers"), said
            assert sum(told == "create Job" for told in world.server.log) == 1, said
