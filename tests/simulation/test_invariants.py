"""No invariant is dead code: for each there is a healthy world in which one thing is made wrong, and it fires.

Those of clients, replicas, logs, groups and the controller are in modules of their own beside this one; here are the
rest, and that none is left out.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import minikafka_simulator
import pytest
from minikafka.log.errors import CorruptBatch
from minikafka.replication.replica_host import ReplicaHost
from minikafka_simulator.checks.invariants import INVARIANTS
from minikafka_simulator.schedules import world
from minikafka_simulator.schedules.world import EVENT_FAILED, simulate

from tests.simulation import test_invariants_attacked as attacked
from tests.simulation import test_invariants_of_clients as clients
from tests.simulation import test_invariants_of_controller as controller
from tests.simulation import test_invariants_of_groups as groups
from tests.simulation import test_invariants_of_logs as logs
from tests.simulation import test_invariants_of_replicas as replicas
from tests.simulation.scene import MakeWrong, Scene, fires

SIMULATION = Path(str(minikafka_simulator.__file__)).parent


def no_leader_in_the_end(scene: Scene) -> None:
    scene.checker.states[scene.tp] = replace(scene.state, leader=-1)
    scene.checker.final()


def not_in_sync_in_the_end(scene: Scene) -> None:
    scene.checker.states[scene.tp] = replace(scene.state, isr=(scene.leader.id,))
    scene.checker.final()


def not_hosted_in_the_end(scene: Scene) -> None:
    scene.follower.gate.replicas.remove(scene.follower.partitions[scene.tp])
    scene.checker.final()


def unanswered_in_the_end(scene: Scene) -> None:
    scene.lane.unanswered.append(scene.sent)
    scene.checker.final()


def a_topic_that_is_not_shown_in_the_end(scene: Scene) -> None:
    """What is out of line is looked for in `test_kubernetes_store.py`."""
    scene.world.store.out_of_line = lambda: "one is missing"  # type: ignore[method-assign]
    scene.checker.final()


def endless_events(scene: Scene) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "EVENTS_MAX", scene.world.scheduler.events)
        scene.world._until(lambda: False)


WRONG: dict[str, MakeWrong] = {
    "L6 TopicObjects": a_topic_that_is_not_shown_in_the_end,
    "L1 leader": no_leader_in_the_end,
    "L2 full ISR": not_in_sync_in_the_end,
    "L2 full ISR, not hosted": not_hosted_in_the_end,
    "L3 progress": unanswered_in_the_end,
    "L4 bounded": endless_events,
}


@pytest.mark.parametrize(("invariant", "make_wrong"), WRONG.items(), ids=[wrong.__name__ for wrong in WRONG.values()])
def test_the_invariant_fires(invariant: str, make_wrong: MakeWrong) -> None:
    fires(invariant, make_wrong)


def test_an_error_of_the_log_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes everything gives no reason for one; it used to be noted in the trace and forgotten (audit)."""

    def refuses(host: ReplicaHost) -> NoReturn:
        raise CorruptBatch(f"broker {host.broker_id}")

    monkeypatch.setattr(ReplicaHost, "high_watermarks", refuses)
    assert simulate(1).invariant == EVENT_FAILED


def test_an_unexpected_exception_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(host: ReplicaHost) -> NoReturn:
        raise KeyError(host.broker_id)

    monkeypatch.setattr(ReplicaHost, "high_watermarks", breaks)
    result = simulate(1)
    assert result.invariant == EVENT_FAILED
    assert "KeyError" in (result.violation or "") and "VIOLATION" in result.trace[-1]


def test_every_declared_invariant_is_exercised_here() -> None:
    everywhere = (WRONG, attacked.WRONG, clients.WRONG, controller.WRONG, groups.WRONG, logs.WRONG, replicas.WRONG)
    assert {name.split(",")[0] for wrong in everywhere for name in wrong} | {EVENT_FAILED} == set(INVARIANTS)


def test_every_reported_invariant_is_declared() -> None:
    reported = {
        call.args[0].value
        for module in SIMULATION.rglob("*.py")
        for call in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "fail"
        and isinstance(call.args[0], ast.Constant)
    }
    assert reported | {EVENT_FAILED} == set(INVARIANTS)
