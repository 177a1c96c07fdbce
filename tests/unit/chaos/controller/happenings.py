"""What happens to an experiment, for tests: a fault is made, somebody edits it."""

from __future__ import annotations

from typing import Any

from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.experiment.kinds import (
    EXPERIMENT,
)
from minikafka_chaos.scenario.faults import Fault, Handle, Targets

from tests.unit.chaos.controller.world import NAMES, SCENARIO, World

KILL = Fault("f1", Verb.KILL, step="kill")
LEADER = Targets((1,), role="Leader")


def handle() -> Handle:
    return Handle(KILL, LEADER)


def make_fault(world: World, *, injected: bool = True) -> None:
    """As the runner does: written down, made, written down."""
    ledger = world.ledger()
    ledger.take()
    ledger.intend(KILL, LEADER, None)
    world.on[NAMES.pod(1)] = {"f1"}
    if injected:
        ledger.injected(handle())


def bring_back(world: World) -> None:
    """As the runner does: the broker is started, and ready."""
    world.on.clear()
    world.start_anew(NAMES.pod(1))


async def running(world: World) -> World:
    await world.settle()
    assert world.phase == "Running"
    return world


def edit(world: World, **spec: Any) -> None:
    """As `kubectl edit` does; a field that is None goes."""
    there = world.experiment["spec"]
    there |= spec
    for name in [name for name, value in there.items() if value is None]:
        del there[name]
    world.experiment["metadata"]["generation"] += 1
    world.server.touch(EXPERIMENT, world.name)


def world_with_own_cluster() -> World:
    """An experiment for which a cluster is made."""
    return World({**{key: value for key, value in SCENARIO.items() if key != "clusterRef"}, "cluster": {"brokers": 3}})
