"""Annotations by which people end an experiment, or let it go: what is asked for, and what is not understood."""

from __future__ import annotations

import pytest
from minikafka_chaos.experiment.kinds import ABORT_ANNOTATION, FORCE_ANNOTATION

from tests.unit.chaos.controller.happenings import KILL, LEADER, make_fault, running
from tests.unit.chaos.controller.world import NAMES, World

WRONG = ["false", "", "yes", "now", "1", " true", "x; annotation y"]


def unread_notes(world: World) -> list[str]:
    return [note for reason, note in world.server.events if reason == "AnnotationUnread"]


def says(name: str, value: str) -> str:
    return f"annotation {name}={value!r} does nothing; allowed: true"


class TestAbort:
    @pytest.mark.parametrize("value", ["true", "True", "TRUE"])
    async def test_asked_for(self, value: str) -> None:
        world = await running(World())
        make_fault(world)
        world.annotate(ABORT_ANNOTATION, value)
        await world.settle()
        assert world.phase == "Aborted" and not world.on and not unread_notes(world)

    @pytest.mark.parametrize("value", WRONG)
    async def test_another_value_is_told_and_does_nothing(self, value: str) -> None:
        """`false` aborted."""
        world = await running(World())
        world.annotate(ABORT_ANNOTATION, value)
        await world.settle()
        line = says(ABORT_ANNOTATION, value)
        assert world.phase == "Running" and unread_notes(world) == [line]
        assert world.condition("Complete") == ("False", "GoingOn", f"its phase is Running; {line}")
        before = world.server.writes
        await world.look()
        assert world.server.writes == before, "told once"
        ledger = world.ledger()
        ledger.take()
        ledger.intend(KILL, LEADER, None)  # and the runner reads it alike

    async def test_put_right(self) -> None:
        world = await running(World())
        world.annotate(ABORT_ANNOTATION, "yes")
        await world.settle()
        world.annotate(ABORT_ANNOTATION, "true")
        await world.settle()
        assert world.phase == "Aborted" and len(unread_notes(world)) == 1

    async def test_taken_back(self) -> None:
        world = await running(World())
        world.annotate(ABORT_ANNOTATION, "yes")
        await world.settle()
        del world.experiment["metadata"]["annotations"]
        await world.settle()
        assert world.condition("Complete")[2] == "its phase is Running" and len(unread_notes(world)) == 1

    async def test_before_it_has_begun(self) -> None:
        world = World()
        world.annotate(ABORT_ANNOTATION, "yes")
        await running(world)
        assert unread_notes(world) == [says(ABORT_ANNOTATION, "yes")]


class TestForce:
    @staticmethod
    async def stuck() -> World:
        """It is being deleted, and one agent does not answer."""
        world = await running(World())
        make_fault(world)
        world.mute.add(NAMES.pod(1))
        world.delete()
        for _ in range(3):
            await world.look()
            world.kubernetes()
            world.pass_time(2)
        assert world.phase == "Healing"
        return world

    @pytest.mark.parametrize("value", ["true", "True", "TRUE"])
    async def test_asked_for(self, value: str) -> None:
        world = await self.stuck()
        world.annotate(FORCE_ANNOTATION, value)
        await world.settle()
        assert not world.there and not unread_notes(world)

    @pytest.mark.parametrize("value", WRONG)
    async def test_another_value_is_told_and_does_nothing(self, value: str) -> None:
        """It was ignored without a word."""
        world = await self.stuck()
        world.annotate(FORCE_ANNOTATION, value)
        await world.look()
        line = says(FORCE_ANNOTATION, value)
        assert unread_notes(world) == [line] and world.condition("Complete")[2] == f"its phase is Healing; {line}"
        before = world.server.writes
        await world.look()
        assert world.there and world.server.writes == before, "told once"

    async def test_both(self) -> None:
        world = await self.stuck()
        world.annotate(ABORT_ANNOTATION, "no")
        world.annotate(FORCE_ANNOTATION, "no")
        await world.look()
        assert unread_notes(world) == [f"{says(ABORT_ANNOTATION, 'no')}; {says(FORCE_ANNOTATION, 'no')}"]
