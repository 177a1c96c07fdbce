"""The disruption Lease that somebody takes away from an experiment in the middle of it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from minikafka_chaos.controller.phases.transitions import LEASE_MARGIN_SECONDS
from minikafka_chaos.experiment.kinds import ABORT_ANNOTATION, EXPERIMENT
from minikafka_kube.api_server import ApiError
from minikafka_kube.disruption_lease import hold_of
from minikafka_kube.kinds import CLUSTER, LEASE

from tests.unit.chaos.controller.happenings import make_fault, running
from tests.unit.chaos.controller.world import NAMES, World

KEY = (LEASE.name, NAMES.disruption)


def events(world: World, reason: str) -> list[str]:
    return [note for one, note in world.server.events if one == reason]


@pytest.mark.parametrize("how", ["deleted", "given away"])
async def test_it_is_taken_again(how: str) -> None:
    """An admin deletes it: a roll or another experiment could have begun beside this one."""
    world = await running(World())
    make_fault(world)
    outcome = await world.look()
    assert (outcome.retry_seconds or 1e9) <= 10, "nobody tells of a Lease"
    if how == "deleted":
        del world.server.objects[KEY]
    else:
        world.server.objects[KEY]["spec"]["holderIdentity"] = ""
    world.pass_time(100)
    await world.look()
    assert world.phase == "Running" and world.lease_holder().startswith("experiment/try/")
    assert events(world, "LeaseTakenAgain") == [f"Lease shop-disruption was {how} meanwhile; taken again"]
    until = hold_of(world.server.objects[KEY]).until
    deadline = datetime.fromisoformat(world.status["deadline"])
    assert abs(until - deadline - timedelta(seconds=LEASE_MARGIN_SECONDS)) < timedelta(seconds=2)
    before = world.server.writes
    await world.look()
    assert world.server.writes == before, "taken once"


async def test_somebody_else_has_it_by_then() -> None:
    world = await running(World())
    make_fault(world)
    spec = {"holderIdentity": "operator", "leaseDurationSeconds": 600, "renewTime": "2026-11-22T09:00:01.000000Z"}
    world.server.put(LEASE, NAMES.disruption, {"spec": spec, "metadata": {}})
    await world.settle()
    assert (world.phase, world.condition("Complete")[1]) == ("Error", "LeaseLost")
    assert world.status["summary"].startswith("Lease shop-disruption is held by operator now")
    assert not world.on and world.lease_holder() == "operator"


async def test_the_verdict_says_what_the_phase_says() -> None:
    """A runner that is told to end calls that Aborted, and was taken at its word: PHASE Error, VERDICT Aborted."""
    world = await running(World())
    make_fault(world)
    del world.server.objects[CLUSTER.name, "shop"]
    (runner,) = world.runner_pods()
    runner["metadata"]["finalizers"] = ["it takes its time to end"]
    await world.look()
    world.ledger().set_fields(verdict="Aborted", summary="interrupted")
    runner["status"]["phase"] = "Failed"
    await world.settle()
    assert (world.phase, world.status["verdict"], world.status["summary"]) == ("Error", "Error", "cluster shop is gone")


async def test_a_verdict_on_the_records_stands() -> None:
    world = await running(World())
    make_fault(world)
    world.ledger().set_fields(verdict="Failed", summary="1 acknowledged record lost")
    world.annotate(ABORT_ANNOTATION)
    await world.settle()
    assert (world.phase, world.status["verdict"]) == ("Aborted", "Failed")
    assert world.status["summary"] == "1 acknowledged record lost"


async def test_it_is_refused_then() -> None:
    world = await running(World())
    make_fault(world)
    del world.server.objects[KEY]
    world.server.refuses[LEASE.name] = ApiError(403, "Forbidden", "exceeded quota: few")
    await world.settle()
    assert (world.phase, world.condition("Complete")[1]) == ("Error", "LeaseLost") and not world.on
    assert "exceeded quota: few" in world.status["summary"]


async def test_it_cannot_be_made_now() -> None:
    """An admission webhook that does not answer: told, and what the runner is at goes on."""
    world = await running(World())
    make_fault(world)
    world.pass_time(20)
    del world.server.objects[KEY]
    world.server.refuses[LEASE.name] = ApiError(500, "InternalError", "failed calling webhook")
    await world.look()
    says = "it happens to cluster shop; Lease shop-disruption cannot be made now: failed calling webhook"
    assert world.condition("Accepted") == ("True", "Accepted", says)
    world.server.refuses.clear()
    await world.settle()
    assert world.lease_holder() and world.condition("Accepted")[2] == "it happens to cluster shop"


async def test_the_lease_of_another_cluster_of_that_name_is_not_taken() -> None:
    """The first one was deleted, and its Lease with it."""
    world = await running(World())
    make_fault(world)
    world.pass_time(5)
    del world.server.objects[KEY]
    cluster = world.server.objects.pop((CLUSTER.name, "shop"))
    world.server.put(CLUSTER, "shop", {"spec": cluster["spec"], "metadata": {}})
    world.make_ready("shop")
    await world.settle()
    assert (world.phase, world.condition("Complete")[1]) == ("Error", "ClusterNotFound")
    assert world.lease_holder() == "" and KEY not in world.server.objects


async def test_not_while_it_is_judged() -> None:
    """Nothing is broken any more: whoever has it by then may begin."""
    world = await running(World())
    world.experiment["status"]["phase"] = "Judging"
    world.experiment["status"]["runner"] = "try-run-abcde"
    world.server.touch(EXPERIMENT, "try")
    del world.server.objects[KEY]
    await world.look()
    assert world.phase == "Judging" and KEY not in world.server.objects


async def broken_while_healing(error: ApiError | None = None) -> World:
    """An experiment that is called off; somebody deletes its Lease while the broker that it killed is still away."""
    world = await running(World())
    make_fault(world)
    world.slow.add(NAMES.pod(1))
    world.job_ends("Failed")
    for _ in range(4):
        await world.look()
    assert world.phase == "Healing" and world.condition("Healed")[1] == "BrokersNotReady"
    del world.server.objects[KEY]
    if error is not None:
        world.server.refuses[LEASE.name] = error
    return world


async def test_it_is_taken_again_while_a_broker_comes_back() -> None:
    """A roll could have taken the next broker away, and the last in-sync replica with it."""
    world = await broken_while_healing()
    await world.look()
    assert world.lease_holder().startswith("experiment/try/")
    assert events(world, "LeaseTakenAgain") == ["Lease shop-disruption was deleted meanwhile; taken again"]
    world.start_anew(NAMES.pod(1))
    await world.settle()
    assert world.phase == "Error" and world.lease_holder() == ""


async def test_it_is_taken_again_while_an_agent_does_not_answer() -> None:
    world = await running(World())
    make_fault(world)
    world.mute.add(NAMES.pod(1))
    world.job_ends("Failed")
    await world.look()
    assert world.condition("Healed")[1] == "RecoveryFailing"
    del world.server.objects[KEY]
    await world.look()
    assert world.phase == "Healing" and world.lease_holder().startswith("experiment/try/")


@pytest.mark.parametrize("code", [403, 500])
async def test_without_it_what_is_on_is_undone_all_the_same(code: int) -> None:
    world = await broken_while_healing(ApiError(code, "Error", "no"))
    outcome = await world.look()
    assert world.phase == "Healing" and outcome.retry_seconds
    world.start_anew(NAMES.pod(1))
    await world.settle()
    assert world.phase == "Error" and KEY not in world.server.objects
