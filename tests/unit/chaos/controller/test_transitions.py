"""The phases of an experiment: whatever the table allows does happen, and nothing else is written."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_chaos.controller.phases.transitions import TRANSITIONS
from minikafka_chaos.experiment.kinds import ABORT_ANNOTATION, EXPERIMENT
from minikafka_chaos.experiment.status import Phase
from minikafka_kube.kinds import CLUSTER, Kind, Object

from tests.unit.chaos.controller.happenings import edit, running, world_with_own_cluster
from tests.unit.chaos.controller.world import SCENARIO, World
from tests.unit.kube.fake_api_server import FakeApiServer

Step = tuple[Phase | None, Phase]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> set[Step]:
    """Every change of a phase that the API server takes."""
    found: set[Step] = set()
    replaced = FakeApiServer._replaced

    def record(server: FakeApiServer, kind: Kind, thing: Object, *rest: Any) -> Any:
        before = server.objects[kind.name, thing["metadata"]["name"]].get("status") or {}
        answer = replaced(server, kind, thing, *rest)
        after = thing.get("status") or {}
        if kind is EXPERIMENT and after.get("phase") != before.get("phase"):
            found.add((Phase(before["phase"]) if before.get("phase") else None, Phase(after["phase"])))
        return answer

    monkeypatch.setattr(FakeApiServer, "_replaced", record)
    return found


def waiting() -> World:
    """An experiment with a cluster that is not ready."""
    world = World()
    world.server.objects[CLUSTER.name, "shop"]["status"]["conditions"][0]["status"] = "False"
    return world


async def called_off_at_once() -> None:
    world = World()
    world.annotate(ABORT_ANNOTATION)
    await world.settle()


async def judged() -> None:
    world = await running(World())
    world.ledger().take()
    world.ledger().judging()
    world.ledger().set_fields(verdict="Passed", summary="")
    world.job_ends()
    await world.settle()


async def without_a_verdict() -> None:
    world = await running(World())
    world.job_ends("Failed")
    await world.settle()


async def refused_and_edited() -> None:
    world = World({**SCENARIO, "clusterRef": {"name": "nowhere"}})
    await world.settle()
    edit(world, clusterRef={"name": "shop"})
    await running(world)


async def refused_later() -> None:
    world = waiting()
    await world.look()
    edit(world, clusterRef={"name": "nowhere"})
    await world.settle()


async def refused_with_a_cluster_of_its_own() -> None:
    world = world_with_own_cluster()
    await world.look()
    edit(world, workload={"topic": "none"})
    await world.settle()


async def called_off_while_it_waits() -> None:
    world = waiting()
    await world.look()
    world.annotate(ABORT_ANNOTATION)
    await world.settle()


async def test_what_the_table_allows_is_what_happens(written: set[Step]) -> None:
    for happens in (
        called_off_at_once,
        judged,
        without_a_verdict,
        refused_and_edited,
        refused_later,
        refused_with_a_cluster_of_its_own,
        called_off_while_it_waits,
    ):
        await happens()
    allowed = {(before, after) for before, phases in TRANSITIONS.items() for after in phases}
    assert written == allowed
