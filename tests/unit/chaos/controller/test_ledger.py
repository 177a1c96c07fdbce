"""The ledger of a run on Kubernetes: written by compare-and-set before each fault, refused when the experiment is to end."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.controller.ledger import (
    BUDGET_SECONDS,
    Absent,
    FaultRefused,
    StatusLedger,
    StatusStore,
    Unavailable,
)
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.experiment import record
from minikafka_chaos.experiment.budget import BudgetRefusal
from minikafka_chaos.experiment.kinds import ABORT_ANNOTATION, EXPERIMENT
from minikafka_chaos.scenario.faults import Fault, Handle, Ledger, Targets

from tests.unit.chaos.controller.world import BEGIN, NAMES, Store, World

KILL = Fault("f1", Verb.KILL, step="kill")
ONE = Targets((1,), role="Leader")


@pytest.fixture
def world() -> World:
    made = World()
    made.experiment["status"] = {"phase": "Running"}
    return made


def ledger_of(world: World, store: StatusStore | None = None, **more: Any) -> StatusLedger:
    made = StatusLedger(
        store or Store(world.server, world.name), "me", world.locate, now=lambda: world.server.now, **more
    )
    made.take()
    return made


def fault(world: World, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = world.status["faults"][number]
    return found


def test_it_is_a_ledger(world: World) -> None:
    ledger: Ledger = ledger_of(world)
    assert ledger


def test_all_there_is_to_know_is_written_down_before(world: World) -> None:
    ledger_of(world).intend(replace(KILL, duration_s=90), ONE, BEGIN.timestamp() + 90)
    assert fault(world) == {
        "id": "f1",
        "step": "kill",
        "verb": "Kill",
        "state": "Intended",
        "role": "Leader",
        "broker": 1,
        "pod": NAMES.pod(1),
        "podUid": world.server.objects["Pod", NAMES.pod(1)]["metadata"]["uid"],
        "containerId": "containerd://1",
        "expiresAt": "2026-11-22T09:03:30Z",  # its duration, and two minutes for the runner to undo it
        "intendedAt": "2026-11-22T09:00:00Z",
    }
    assert (world.status["faultNow"], world.status["faultsMade"]) == ("Kill broker 1", 1)


def test_without_a_duration_it_expires_all_the_same(world: World) -> None:
    ledger_of(world, expiry_s=600).intend(KILL, ONE, None)
    assert fault(world)["expiresAt"] == "2026-11-22T09:10:00Z"


def test_its_life(world: World) -> None:
    ledger = ledger_of(world)
    ledger.intend(KILL, ONE, None)
    ledger.injected(Handle(KILL, ONE))
    assert fault(world)["state"] == "Injected"
    ledger.recovered(Handle(KILL, ONE), "step back")
    assert (fault(world)["state"], fault(world)["detail"], world.status["faultNow"]) == ("Recovered", "step back", "")


def test_a_fault_on_several_brokers_is_several(world: World) -> None:
    ledger_of(world).intend(KILL, Targets((0, 2)), None)
    assert [one["broker"] for one in world.status["faults"]] == [0, 2]
    assert world.status["faultsMade"] == 2


def test_one_of_the_whole_cluster_has_no_pod(world: World) -> None:
    ledger_of(world).intend(Fault("f", Verb.STORE_OUTAGE, step="s"), Targets(), None)
    assert "pod" not in fault(world) and world.status["faultNow"] == "StoreOutage"


@pytest.mark.parametrize("verb", [verb for verb in Verb if not verb.rule.lasts])
def test_what_does_not_last_is_over_when_it_is_done(world: World, verb: Verb) -> None:
    ledger, done = ledger_of(world), Fault("f", verb, step="s")
    ledger.intend(done, ONE, None)
    ledger.injected(Handle(done, ONE))
    undoing = verb in (Verb.START, Verb.RESUME, Verb.HEAL, Verb.RECOVER)
    assert [one["state"] for one in world.status.get("faults") or ()] == ([] if undoing else ["Recovered"])


def test_what_could_not_be_made_may_be_there_all_the_same(world: World) -> None:
    ledger = ledger_of(world)
    ledger.intend(KILL, ONE, None)
    ledger.failed(KILL, ONE, ToolTrouble("no answer\n from the agent"))
    assert (fault(world)["state"], fault(world)["detail"]) == (
        "Intended",
        "could not be made: no answer from the agent",
    )


class TestCompareAndSet:
    def test_a_change_in_between_is_not_lost(self, world: World) -> None:
        """And the brokers are looked for anew: one may be in another pod by now."""
        store = Store(world.server, world.name)
        ledger = ledger_of(world, store)

        def once() -> None:
            store.before_write = lambda: None
            world.experiment["status"]["conditions"] = [{"type": "Accepted", "message": "by the controller"}]
            world.server.touch(EXPERIMENT, world.name)
            world.replace_pod(1)

        store.before_write = once
        ledger.intend(KILL, ONE, None)
        assert world.status["conditions"] == [{"type": "Accepted", "message": "by the controller"}]
        assert fault(world)["podUid"] == world.server.objects["Pod", NAMES.pod(1)]["metadata"]["uid"]

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (lambda thing: thing["metadata"].update(deletionTimestamp="now"), "being deleted"),
            (lambda thing: thing["metadata"].update(annotations={ABORT_ANNOTATION: "true"}), "being aborted"),
            (lambda thing: thing["status"].update(phase="Healing"), "its phase is Healing"),
            (lambda thing: thing["status"].update(runner="another"), "run by another"),
        ],
        ids=["deleted", "aborted", "healing", "other"],
    )
    def test_the_end_comes_between_the_look_and_the_write(self, world: World, change: Any, says: str) -> None:
        """The write that would be the permission fails, and the next look says no: nothing is written, nothing is made."""
        store = Store(world.server, world.name)
        ledger = ledger_of(world, store)

        def once() -> None:
            store.before_write = lambda: None
            change(world.experiment)
            world.server.touch(EXPERIMENT, world.name)

        store.before_write = once
        with pytest.raises(FaultRefused, match=says):
            ledger.intend(KILL, ONE, None)
        assert not world.status.get("faults")
        ledger.intend(Fault("f1-end", Verb.RECOVER), ONE, None)  # what undoes is never refused

    def test_an_answer_that_was_lost(self, world: World) -> None:
        """The write took effect, and nobody said so: asked again, it is the same fault, and one."""

        class Lossy(Store):
            lost = 1

            def write_status(self, thing: Any) -> None:
                super().write_status(thing)
                if self.lost and thing["status"].get("faults"):
                    self.lost -= 1
                    raise Unavailable("connection reset")

        ledger_of(world, Lossy(world.server, world.name), sleep=lambda _: None).intend(KILL, ONE, None)
        assert len(world.status["faults"]) == world.status["faultsMade"] == 1

    def test_an_api_server_that_stays_away(self, world: World) -> None:
        """No fault without its being written down."""

        class Away(Store):
            def read(self) -> Any:
                raise Unavailable("connection refused")

        clock = iter(range(0, 10_000, 10))
        ledger = StatusLedger(
            Away(world.server, world.name), "me", world.locate, sleep=lambda _: None, monotonic=lambda: next(clock)
        )
        with pytest.raises(ToolTrouble, match="connection refused"):
            ledger.intend(KILL, ONE, None)

    def test_an_experiment_that_is_gone(self, world: World) -> None:
        ledger = ledger_of(world)
        del world.server.objects[EXPERIMENT.name, world.name]
        with pytest.raises(FaultRefused, match="gone"):
            ledger.intend(KILL, ONE, None)


def test_the_budget_is_asked_with_what_is_out(world: World) -> None:
    asked: list[tuple[Verb, tuple[int, ...], frozenset[int]]] = []

    def guard(verb: Verb, targets: Collection[int], out: Collection[int]) -> BudgetRefusal | None:
        asked.append((verb, tuple(targets), frozenset(out)))
        return BudgetRefusal("enough is enough") if out else None

    ledger = ledger_of(world, guard=guard)
    ledger.intend(KILL, ONE, None)
    with pytest.raises(FaultRefused, match="two: Pause: enough is enough"):
        ledger.intend(Fault("f2", Verb.PAUSE, step="two"), Targets((2,)), None)
    assert asked[-1] == (Verb.PAUSE, (2,), frozenset({1}))
    assert len(world.status["faults"]) == 1


@pytest.mark.parametrize(("looks", "refused"), [(3, False), (1_000, True)])
def test_a_budget_that_others_use_up_is_waited_for(world: World, looks: int, refused: bool) -> None:
    """Seen on kind: the last broker's log was not read, since another was not ready for a moment."""
    left = [looks]

    def guard(*_: object) -> BudgetRefusal | None:
        left[0] -= 1
        return BudgetRefusal("broker 0 is not ready", passes=True) if left[0] >= 0 else None

    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    ledger = ledger_of(world, guard=guard, sleep=sleep, monotonic=lambda: clock[0])
    with pytest.raises(FaultRefused, match="Kill: broker 0 is not ready") if refused else contextlib.nullcontext():
        ledger.intend(KILL, ONE, None)
    assert len(world.status.get("faults", ())) == (0 if refused else 1)
    assert (clock[0] >= BUDGET_SECONDS) is refused


def test_a_fault_that_waited_ends_later(world: World) -> None:
    """It begins when it may: by what was written down before it waited, it would be over while its agent holds the broker."""
    left = [20]

    def guard(*_: object) -> BudgetRefusal | None:
        left[0] -= 1
        return BudgetRefusal("broker 0 is not ready", passes=True) if left[0] >= 0 else None

    def sleep(seconds: float) -> None:
        world.server.now += timedelta(seconds=seconds)

    def monotonic() -> float:
        return world.server.now.timestamp()

    ledger = ledger_of(world, guard=guard, sleep=sleep, monotonic=monotonic, slack_s=5)
    ledger.intend(replace(KILL, duration_s=2), ONE, BEGIN.timestamp() + 2)
    assert fault(world)["intendedAt"] == "2026-11-22T09:00:10Z"
    assert fault(world)["expiresAt"] == "2026-11-22T09:00:17Z"


@pytest.mark.parametrize(("looks", "refused"), [(3, False), (1_000, True)])
def test_a_target_whose_pod_is_made_anew_is_waited_for(world: World, looks: int, refused: bool) -> None:
    left, clock = [looks], [0.0]

    def locate(brokers: Collection[int]) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise Absent("broker 1 has no pod shop-broker-1")
        return world.locate(brokers)

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    ledger = StatusLedger(
        Store(world.server, world.name), "me", locate, sleep=sleep, monotonic=lambda: clock[0], now=lambda: BEGIN
    )
    ledger.take()
    with pytest.raises(FaultRefused, match="kill: Kill: broker 1 has no pod") if refused else contextlib.nullcontext():
        ledger.intend(KILL, ONE, None)
    assert len(world.status.get("faults", ())) == (0 if refused else 1)


@pytest.mark.parametrize("who", ["guard", "locate"])
def test_an_api_server_that_is_away_while_the_budget_is_looked_at(world: World, who: str) -> None:
    left = [3]

    def away(*_: object) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise Unavailable("connection refused")

    def locate(brokers: Collection[int]) -> Any:
        if who == "locate":
            away()
        return world.locate(brokers)

    guard = away if who == "guard" else lambda *_: None
    ledger = StatusLedger(Store(world.server, world.name), "me", locate, guard, sleep=lambda _: None)
    ledger.take()
    ledger.intend(KILL, ONE, None)
    assert len(world.status["faults"]) == 1 and left[0] == -1


def test_a_broker_that_only_loses_packets_is_not_out(world: World) -> None:
    """As the story was admitted: only what takes a broker out is counted. One that does not serve is, whoever did it."""
    asked: list[set[int]] = []

    def guard(_verb: Verb, _targets: Collection[int], out: Collection[int]) -> BudgetRefusal | None:
        asked.append(set(out))
        return None

    ledger = ledger_of(world, guard=guard)
    ledger.intend(Fault("f0", Verb.LOSS, step="loss"), Targets((2,), (0,)), None)
    ledger.intend(KILL, ONE, None)
    ledger.intend(Fault("f2", Verb.PAUSE, step="pause"), Targets((0,)), None)
    assert asked == [set(), set(), {1}]


def test_a_pod_that_was_replaced_just_before(world: World) -> None:
    """The agent is asked by the pod's name: the fault is in the new pod, and there it has to be undone."""
    ledger = ledger_of(world)
    ledger.intend(KILL, ONE, None)
    before = fault(world)["podUid"]
    world.replace_pod(1)
    ledger.injected(Handle(KILL, ONE))
    after = world.server.objects["Pod", NAMES.pod(1)]["metadata"]["uid"]
    assert fault(world)["podUid"] == after != before


def test_of_very_many_faults_those_that_are_on_are_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 5
    monkeypatch.setattr(record, "FAULTS_MAX", most)
    ledger = ledger_of(world)
    ledger.intend(KILL, ONE, None)
    other = Targets((2,))
    for number in range(most + 20):
        one = Fault(f"g{number}", Verb.PAUSE, step="p")
        ledger.intend(one, other, None)
        ledger.recovered(Handle(one, other), "step")
    kept = world.status["faults"]
    assert len(kept) == most and kept[0]["id"] == "f1"
    assert kept[-1]["id"] == f"g{most + 19}" and world.status["faultsMade"] == most + 21


def test_judging_only_when_nothing_is_on(world: World) -> None:
    ledger = ledger_of(world)
    ledger.intend(KILL, ONE, None)
    ledger.judging()
    assert world.phase == "Running"
    ledger.recovered(Handle(KILL, ONE), "final heal")
    ledger.judging()
    assert world.phase == "Judging"
    before = copy.deepcopy(world.experiment)
    ledger.judging()
    assert world.experiment == before
