"""Rolls and chaos take turns, by the Lease that both take before they take a broker away."""

from __future__ import annotations

import pytest
from minikafka_kube.disruption_lease import hold_of
from minikafka_operator.actions import ReplacePod, WriteDisruptionLease

from tests.unit.operator.world import NAMES, World, settled

KEY = ("Lease", NAMES.disruption)


@pytest.fixture
def world() -> World:
    made = settled()
    made.topic("bank", ([0, 1, 2], [0, 1, 2]))
    made.wait(60)
    return made


def held_by(world: World, holder: str, seconds: int) -> None:
    metadata = {
        "name": NAMES.disruption,
        "namespace": "ns",
        "uid": "l",
        "resourceVersion": "1",
        "labels": NAMES.labels(),
    }
    time = world.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": time}
    world.objects[KEY] = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def test_the_lease_is_taken_before_the_first_broker_and_given_back_after_the_last(world: World) -> None:
    assert KEY not in world.objects
    world.edit(config={"num.partitions": "3"})
    made = world.step()
    while not any(isinstance(action, ReplacePod) for action in made.actions):
        world.wait(1)
        made = world.step()
    kinds = [type(action) for action in made.actions if isinstance(action, WriteDisruptionLease | ReplacePod)]
    assert kinds == [WriteDisruptionLease, ReplacePod]
    assert hold_of(world.objects[KEY]).by_other("an experiment", world.now)
    assert world.settle() == 2
    assert hold_of(world.objects[KEY]).holder == ""
    assert world.step().steady


@pytest.mark.slow
def test_while_an_experiment_goes_on_no_broker_is_replaced(world: World) -> None:
    held_by(world, "experiment/try/uid", 3600)
    world.edit(config={"num.partitions": "3"})
    for _ in range(50):
        made = world.step()
        assert not any(isinstance(action, ReplacePod | WriteDisruptionLease) for action in made.actions)
        world.wait(1)
    status, reason, message = world.condition("RolloutBlocked")
    assert (status, reason) == ("True", "DisruptionLeaseHeld") and "experiment/try/uid holds Lease" in message
    assert made.retry_seconds is not None and made.retry_seconds <= 5
    world.objects[KEY]["spec"]["holderIdentity"] = ""
    assert world.settle() == 3


def test_it_stays_told_while_the_experiment_has_a_broker_away(world: World) -> None:
    """The roll would wait for that broker in any case; but what stands in the way is the experiment."""
    held_by(world, "experiment/try/uid", 3600)
    world.edit(config={"num.partitions": "3"})
    for change in (world.stop, world.start, world.pods.pop):
        change("demo-broker-1")
        world.step()
        assert world.condition("RolloutBlocked")[:2] == ("True", "DisruptionLeaseHeld")


@pytest.mark.slow
def test_a_lease_ends_although_nobody_gives_it_back(world: World) -> None:
    held_by(world, "experiment/try/uid", 60)
    world.edit(config={"num.partitions": "3"})
    world.wait(61)
    assert world.settle() == 3


def test_a_lease_that_chaos_took_in_between_stops_the_roll(world: World) -> None:
    """The operator's own write is bound to what it looked at: another resource version is a refusal, and nothing follows."""
    held_by(world, "", 1)
    world.edit(config={"num.partitions": "3"})
    while not (holds := [action for action in world.plan().actions if isinstance(action, WriteDisruptionLease)]):
        world.step()
        world.wait(1)
    assert holds[0].lease["metadata"]["resourceVersion"] == world.objects[KEY]["metadata"]["resourceVersion"]
