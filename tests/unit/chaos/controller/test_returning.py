"""Nobody else gets the turn with a cluster before the brokers that an experiment took are ready again.

Seen on kind: the experiment was Completed and Healed, the Lease given back, and a broker was down for two minutes more.
"""

from __future__ import annotations

from typing import Any

import pytest
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.controller.phases.returning import BACK_SECONDS_MAX, UNNOTICED_SECONDS_MAX
from minikafka_chaos.experiment.kinds import ABORT_ANNOTATION, EXPERIMENT
from minikafka_chaos.scenario.faults import Fault, Handle
from minikafka_kube.instants import time_text
from minikafka_kube.kinds import CLUSTER, POD

from tests.unit.chaos.controller.happenings import (
    LEADER,
    bring_back,
    handle,
    make_fault,
    running,
    world_with_own_cluster,
)
from tests.unit.chaos.controller.world import NAMES, World

BROKER = NAMES.pod(1)


def call_off(world: World, how: str) -> None:
    if how == "abort":
        world.annotate(ABORT_ANNOTATION)
    elif how == "delete":
        world.delete()
    if how != "force-deleted runner":
        world.job_ends("Failed")
    else:
        for kind, name in (("Job", "try-run"), ("Pod", "try-run-abcde")):
            world.server.objects.pop((kind, name))


async def look(world: World, seconds: float = 0) -> None:
    """Let the time pass, and have the controller do all that there is to do now."""
    world.pass_time(seconds)
    for _ in range(5):
        await world.look()
        world.kubernetes()


def waits(world: World, over: str) -> bool:
    says = f"no fault is on; not ready again yet: broker 1 (Kill, step kill, over at {over})"
    told = world.condition("Healed") == ("False", "BrokersNotReady", says)
    return told and world.phase == "Healing" and world.lease_holder().startswith("experiment/try/")


@pytest.mark.parametrize("how", ["abort", "delete", "force-deleted runner"])
async def test_what_the_kubelet_has_not_noticed_is_not_believed(how: str) -> None:
    """The pod still tells that the container which was killed runs, and is ready."""
    world = await running(World())
    make_fault(world)
    world.slow.add(BROKER)
    call_off(world, how)
    over = time_text(world.server.now)
    await look(world)
    assert [fault["state"] for fault in world.status["faults"]] == ["Recovered"]
    assert waits(world, over)
    world.start_anew(BROKER, ready=False)  # the kubelet tells of it at last: it waits, as after every crash
    await look(world, 100)
    assert waits(world, over), "a pod that is not ready, however long its container is another"
    world.start_anew(BROKER)
    await look(world)
    assert world.lease_holder() == ""
    assert not world.there or world.condition("Healed") == ("True", "NoFaults", "no fault is on")


async def test_one_that_the_runner_has_started_and_not_waited_for() -> None:
    """A step may start a broker and go on; then the runner is gone."""
    world = await running(World())
    make_fault(world)
    over = time_text(world.server.now)
    world.ledger().recovered(handle(), "step back")
    world.start_anew(BROKER, ready=False)
    call_off(world, "force-deleted runner")
    await look(world)
    assert waits(world, over)
    bring_back(world)
    await look(world)
    assert (world.phase, world.condition("Healed")[0]) == ("Error", "True") and world.lease_holder() == ""


async def test_at_the_end_the_runner_does_not_say_that_it_is_healed() -> None:
    """It knows of its faults; whether the brokers are back, the controller looks."""
    world = await running(World())
    make_fault(world)
    world.annotate(ABORT_ANNOTATION)
    world.runner_pods()[0]["metadata"]["finalizers"] = ["it takes its time to end"]
    await world.look()
    assert world.phase == "Healing"
    world.ledger().recovered(handle(), "final heal")
    assert world.status["faultNow"] == "" and world.condition("Healed")[0] == "False"


async def test_with_a_verdict_too() -> None:
    """The log of a broker was read last, and the runner took an old word of the kubelet for its return."""
    world = await running(World())
    make_fault(world)
    over = time_text(world.server.now)
    world.ledger().recovered(handle(), "its log was read")
    world.ledger().set_fields(verdict="Passed", summary="nothing lost")
    world.job_ends()
    await look(world)
    assert waits(world, over)
    world.start_anew(BROKER)
    await look(world)
    assert (world.phase, world.condition("Healed")[0]) == ("Completed", "True")


async def test_one_that_does_not_come_back_is_told() -> None:
    world = await running(World())
    make_fault(world)
    world.slow.add(BROKER)
    call_off(world, "abort")
    over = time_text(world.server.now)
    world.server.objects[POD.name, BROKER]["status"]["conditions"][0]["status"] = "False"
    await look(world)
    assert waits(world, over)
    await look(world, BACK_SECONDS_MAX)
    says = f"no fault is on; not ready again within 420 s: broker 1 (Kill, step kill, over at {over})"
    assert (world.phase, world.condition("Healed")) == ("Aborted", ("False", "BrokersNotReady", says))
    assert world.lease_holder() == "" and ("BrokersNotReady", says) in world.server.events
    before = world.server.writes
    world.start_anew(BROKER)
    await look(world)
    assert world.server.writes == before, "what was said at the end stays: from then on others may take the broker"


async def test_a_fault_that_was_never_made() -> None:
    """The container is the same, and rightly so. A kubelet would have noticed by then, or be taken for dead."""
    world = await running(World())
    make_fault(world, injected=False)
    world.slow.add(BROKER)
    call_off(world, "abort")
    await look(world)
    assert world.phase == "Healing"
    await look(world, UNNOTICED_SECONDS_MAX)
    assert (world.phase, world.condition("Healed")[0]) == ("Aborted", "True")


async def test_of_a_pause_the_container_stays() -> None:
    world = await running(World())
    pause = Fault("p1", Verb.PAUSE, step="pause")
    world.ledger().take()
    world.ledger().intend(pause, LEADER, None)
    world.ledger().injected(Handle(pause, LEADER))
    call_off(world, "abort")
    await look(world)
    assert (world.phase, world.condition("Healed")[0]) == ("Aborted", "True")


def scaled_down(world: World) -> None:
    world.server.objects[CLUSTER.name, "shop"]["spec"]["brokers"]["replicas"] = 1


def deleted(world: World) -> None:
    world.server.objects.pop((CLUSTER.name, "shop"))


def made_anew(world: World) -> None:
    metadata = world.server.objects[CLUSTER.name, "shop"]["metadata"]
    metadata |= {"uid": "another", "creationTimestamp": time_text(world.server.now)}


@pytest.mark.parametrize("what", [scaled_down, deleted, made_anew])
async def test_nobody_waits_for_what_will_not_come(what: Any) -> None:
    world = await running(World())
    make_fault(world)
    world.pass_time(5)
    world.server.objects.pop((POD.name, BROKER))
    what(world)
    call_off(world, "abort")
    await look(world)
    assert world.phase in ("Aborted", "Error") and world.condition("Healed")[0] == "True"


async def test_a_cluster_of_its_own_goes_as_a_whole() -> None:
    world = world_with_own_cluster()
    await world.look()
    name = world.status["cluster"]
    world.make_ready(name)
    world.brokers(name)
    await running(world)
    pod = world.server.objects[POD.name, f"{name}-broker-1"]
    pod["status"]["conditions"][0]["status"] = "False"
    kill = {"id": "f1", "step": "kill", "verb": "Kill", "state": "Recovered", "broker": 1, "podUid": "u"}
    world.experiment["status"]["faults"] = [{**kill, "recoveredAt": time_text(world.server.now)}]
    world.server.touch(EXPERIMENT, world.name)
    call_off(world, "abort")
    await look(world)
    assert (world.phase, world.condition("Healed")[0]) == ("Aborted", "True")
    assert (CLUSTER.name, name) not in world.server.objects
