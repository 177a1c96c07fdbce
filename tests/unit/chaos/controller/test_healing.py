"""Faults that cannot be undone now, and those that are over because their pod is gone."""

from __future__ import annotations

import pytest
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.experiment.kinds import ABORT_ANNOTATION
from minikafka_chaos.scenario.faults import Fault, Handle
from minikafka_kube.instants import time_text
from minikafka_kube.kinds import POD

from tests.unit.chaos.controller.happenings import KILL, LEADER, make_fault, running
from tests.unit.chaos.controller.world import NAMES, World


class TestAnAgentThatDoesNotAnswer:
    """Seen on kind: the controller's log said so, and the object said Healing for half an hour."""

    @staticmethod
    async def heals(world: World, looks: int) -> None:
        for _ in range(looks):
            await world.look()
            world.kubernetes()
            world.pass_time(2)

    async def test_it_is_told_once(self) -> None:
        world = await running(World())
        make_fault(world)
        world.mute.add(NAMES.pod(1))
        world.annotate(ABORT_ANNOTATION)
        world.server.objects.pop(("Job", "try-run"))
        world.server.objects.pop(("Pod", "try-run-abcde"))
        since = time_text(world.server.now)
        ends = world.status["faults"][0]["expiresAt"]
        await self.heals(world, 2)
        says = (
            f"Kill broker 1: cannot be undone in shop-broker-1 since {since} (no agent answers), and is tried again; ends by "
            f"itself at {ends} at the latest; to let go at once, with nothing undone: delete the experiment, and annotate it "
            "minikafka.dev/force-delete=true"
        )
        assert world.condition("Healed") == ("False", "RecoveryFailing", says)
        before, asked = world.server.log.copy(), len(world.asked)
        await self.heals(world, 20)
        assert world.server.log == before, "written once"
        assert len(world.asked) == asked + 20, "and asked each time"
        assert [note for reason, note in world.server.events if reason == "RecoveryFailing"] == [says]

    async def test_then_it_answers(self) -> None:
        world = await running(World())
        make_fault(world)
        world.mute.add(NAMES.pod(1))
        world.annotate(ABORT_ANNOTATION)
        await self.heals(world, 3)
        assert world.status["recoveryFailing"][0]["pod"] == NAMES.pod(1)
        world.mute.clear()
        await world.settle()
        assert world.phase == "Aborted" and "recoveryFailing" not in world.status
        assert world.condition("Healed")[:2] == ("True", "NoFaults")

    async def test_its_pod_is_replaced(self) -> None:
        world = await running(World())
        make_fault(world)
        world.mute.add(NAMES.pod(1))
        world.annotate(ABORT_ANNOTATION)
        await self.heals(world, 3)
        world.replace_pod(1)
        await world.settle()
        assert world.phase == "Aborted" and "recoveryFailing" not in world.status


class TestAPodThatIsGoneWhileItRuns:
    """Deleted by force, say: the fault stayed Injected in the status until the end of the experiment."""

    async def test_the_fault_is_over(self) -> None:
        world = await running(World())
        make_fault(world)
        outcome = await world.look()
        assert (outcome.retry_seconds or 1e9) <= 10, "nobody tells of a broker's pod that goes"
        world.replace_pod(1)
        await world.look()
        (fault,) = world.status["faults"]
        assert (world.phase, fault["state"], fault["detail"]) == ("Running", "Recovered", "its pod is gone")
        assert world.condition("Healed")[:2] == ("True", "NoFaults") and world.status["faultNow"] == ""
        assert ("FaultRecovered", "Kill broker 1 (kill): its pod is gone") in world.server.events
        before = world.server.writes
        await world.look()
        assert world.server.writes == before, "told once"

    async def test_what_the_runner_says_later_changes_nothing(self) -> None:
        """It ends the fault by its story, and goes on with the next one."""
        world = await running(World())
        make_fault(world)
        world.replace_pod(1)
        await world.look()
        over = world.status["faults"][0]
        world.ledger().recovered(Handle(KILL, LEADER), "step back")
        assert world.status["faults"] == [over]
        again = Fault("f2", Verb.KILL, step="again")
        world.ledger().intend(again, LEADER, None)
        world.ledger().injected(Handle(again, LEADER))
        await world.look()
        assert [fault["state"] for fault in world.status["faults"]] == ["Recovered", "Injected"]

    async def test_not_of_one_that_is_still_to_be_made(self) -> None:
        """The runner waits for the next pod of that name, and makes it there."""
        world = await running(World())
        make_fault(world, injected=False)
        pod = world.server.objects.pop((POD.name, NAMES.pod(1)))
        await world.look()
        assert world.status["faults"][0]["state"] == "Intended"
        world.server.objects[POD.name, NAMES.pod(1)] = pod
        world.replace_pod(1)
        world.ledger().injected(Handle(KILL, LEADER))
        await world.look()
        assert world.status["faults"][0]["state"] == "Injected"


class TestWhatSomebodyElseWroteIntoTheStatus:
    """Whoever may write the status: nothing in it keeps what is on from being undone. Each was seen on kind, with a cut."""

    @staticmethod
    async def aborted(world: World) -> None:
        world.annotate(ABORT_ANNOTATION)
        world.job_ends("Failed")
        await world.settle()
        assert (world.phase, world.on.get(NAMES.pod(1))) == ("Aborted", None)
        assert not world.lease_holder()

    async def test_a_condition_of_their_own(self) -> None:
        """Another tool tells of something, as Kubernetes means conditions to be used. It stays, after ours."""
        world = await running(World())
        make_fault(world)
        reviewed = {"type": "Reviewed", "status": "True", "reason": "Mine", "message": "by hand"}
        world.experiment["status"]["conditions"].append(reviewed)
        await self.aborted(world)
        assert [one["type"] for one in world.status["conditions"]] == ["Accepted", "Healed", "Complete", "Reviewed"]
        assert world.status["conditions"][-1] == reviewed

    @pytest.mark.parametrize("when", ["9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z", "2026-11-22t09:30:00z"])
    async def test_an_end_that_is_no_time(self, when: str) -> None:
        """The API server takes all of these for times."""
        world = await running(World())
        make_fault(world)
        world.experiment["status"]["faults"][0]["expiresAt"] = when
        await self.aborted(world)
