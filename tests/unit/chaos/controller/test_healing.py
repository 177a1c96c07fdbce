"""Faults that cannot be undone now, and those that are over because their pod is gone."""

from __future__ import annotations

from minikafka_chaos.controller.kinds import ABORT_ANNOTATION
from minikafka_chaos.controller.record import stamp

from tests.unit.chaos.controller.test_experiments import make_fault, running
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
        since = stamp(world.server.now)
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
