"""Faults that last: undone by their duration, by a step, at the end; each written down before, and none undone twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.clock import MACHINE_CLOCK, MachineClock
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds import BrokerCondition
from minikafka_chaos.record.journal import Journal, read_journal
from minikafka_chaos.run.open_faults import OpenFaults
from minikafka_chaos.scenario.faults import Fault, Handle, Ledgers, Parameters, Targets

from .fake_ground import FakeGround
from .test_scenario import fault
from .test_story import Stage


class HandClock(MachineClock):
    """Timers go off when a test says so."""

    def __init__(self) -> None:
        self.waiting: list[HandTimer] = []

    def call_later(self, seconds: float, event: Callable[[], None]) -> HandTimer:
        self.waiting.append(HandTimer(seconds, event))
        return self.waiting[-1]

    def go_off(self) -> None:
        for timer in self.waiting:
            if not timer.cancelled:
                timer.event()


class HandTimer:
    def __init__(self, seconds: float, event: Callable[[], None]) -> None:
        self.seconds, self.event, self.cancelled = seconds, event, False

    def cancel(self) -> None:
        self.cancelled = True


class Notebook:
    """A ledger that tells what it was told, in words."""

    def __init__(self, ground: FakeGround) -> None:
        self.lines = ground.asked

    def intend(self, fault: Fault, targets: Targets, expires: float | None) -> None:
        self.lines.append(f"intend {fault.id}{' with an end' if expires is not None else ''}")

    def injected(self, handle: Handle) -> None:
        self.lines.append(f"injected {handle.fault.id}")

    def failed(self, fault: Fault, targets: Targets, error: BaseException) -> None:
        self.lines.append(f"failed {fault.id}: {error}")

    def recovered(self, handle: Handle, how: str) -> None:
        self.lines.append(f"recovered {handle.fault.id} by {how}")


class Scene:
    def __init__(self) -> None:
        self.ground = FakeGround()
        self.clock = HandClock()
        self.ground.clock = self.clock
        self.ground.conditions = dict.fromkeys((0, 1, 2), BrokerCondition.RUNNING)
        self.said: list[str] = []
        self.open = OpenFaults(self.ground, Notebook(self.ground), self.said.append)

    def make(self, fault_id: str, verb: Verb, *brokers: int, seconds: float | None = None, peers: Any = ()) -> None:
        about = Fault(fault_id, verb, duration_s=seconds, step=fault_id)
        with self.open.making(about, Targets(brokers, tuple(peers))):
            pass

    def take(self) -> list[str]:
        told, self.ground.asked[:] = list(self.ground.asked), []
        return told


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_fault_is_written_down_before_it_is_made_and_before_it_is_undone(scene: Scene) -> None:
    scene.make("stall", Verb.PAUSE, 1, seconds=5)
    assert scene.take() == ["intend stall with an end", "pause 1", "injected stall"]
    assert [timer.seconds for timer in scene.clock.waiting] == [5]
    scene.clock.go_off()
    assert scene.take() == ["intend stall-end", "resume 1", "injected stall-end", "recovered stall by its duration"]
    assert scene.open.handles == []
    assert scene.said == ["stall: the end of [bold]Pause[/] (resumed broker 1)"]


def test_several_faults_are_on_at_once_and_end_one_by_one(scene: Scene) -> None:
    scene.make("stall", Verb.PAUSE, 1, seconds=5)
    scene.make("full", Verb.DISK_FULL, 2, seconds=1)
    scene.make("part", Verb.CUT, 0, peers=(1, 2))
    assert [handle.fault.id for handle in scene.open.handles] == ["stall", "full", "part"]
    scene.clock.waiting[1].event()
    assert [handle.fault.id for handle in scene.open.handles] == ["stall", "part"]


def test_a_ledger_that_cannot_write_keeps_the_fault_from_being_made(scene: Scene) -> None:
    class Full(Notebook):
        def intend(self, fault: Fault, targets: Targets, expires: float | None) -> None:
            raise ToolTrouble("no room")

    ground = scene.ground
    faults = OpenFaults(ground, Ledgers([Notebook(ground), Full(ground)]), scene.said.append)
    with pytest.raises(ToolTrouble, match="no room"), faults.making(Fault("a", Verb.KILL), Targets((1,))):
        pass
    assert scene.take() == ["intend a"]


@pytest.mark.parametrize(
    ("verb", "ended_by"),
    [(Verb.KILL, Verb.START), (Verb.POWER_LOSS, Verb.START), (Verb.PAUSE, Verb.RESUME), (Verb.KILL, Verb.RECOVER)],
)
def test_what_a_step_has_ended_is_not_ended_again(scene: Scene, verb: Verb, ended_by: Verb) -> None:
    """Else the duration of a kill would start the broker that a later step has killed again."""
    scene.make("first", verb, 1, seconds=5)
    scene.make("back", ended_by, 1)
    assert scene.take()[-2:] == ["recovered first by step back", "injected back"]
    scene.make("again", Verb.KILL, 1)
    scene.take()
    scene.clock.go_off()
    assert scene.take() == []
    assert scene.ground.conditions[1] is BrokerCondition.DEAD


def test_a_start_of_one_of_two_leaves_the_other_to_the_duration(scene: Scene) -> None:
    scene.make("both", Verb.KILL, 1, 2, seconds=5)
    scene.make("back", Verb.START, 1)
    scene.make("again", Verb.KILL, 1)
    scene.take()
    scene.clock.go_off()
    assert scene.take() == ["intend both-end", "start 2", "injected both-end", "recovered both by its duration"]
    assert scene.ground.conditions[1] is BrokerCondition.DEAD


def test_a_heal_ends_the_cuts_of_its_links_only_from_either_side(scene: Scene) -> None:
    scene.make("wide", Verb.CUT, 0, peers=(1, 2), seconds=9)
    scene.make("narrow", Verb.DELAY, 1, peers=(0,), seconds=9)
    scene.make("heal", Verb.HEAL, 0, peers=(1,))
    assert [handle.fault.id for handle in scene.open.handles] == ["wide"]


def test_a_fault_that_cannot_be_undone_is_told_to_whoever_waits(scene: Scene) -> None:
    scene.make("full", Verb.DISK_FULL, 2, seconds=1)
    scene.ground._fail_at = "undo"
    scene.clock.go_off()
    assert isinstance(scene.open.failure, ToolTrouble)
    assert scene.take()[-1] == "failed full-end: the ground is wet"


def test_after_the_end_no_duration_undoes_anything(scene: Scene) -> None:
    scene.make("stall", Verb.PAUSE, 1, seconds=5)
    assert [handle.fault.id for handle in scene.open.close()] == ["stall"]
    scene.take()
    for timer in scene.clock.waiting:
        timer.event()  # one that was on its way already
    assert scene.take() == []
    assert scene.open.close() == []


def test_the_end_waits_for_who_is_at_it(scene: Scene) -> None:
    began, go_on = threading.Event(), threading.Event()
    scene.make("stall", Verb.PAUSE, 1, seconds=5)

    def slow(broker: int) -> None:
        began.set()
        assert go_on.wait(30)
        scene.ground.asked.append("resumed at last")

    scene.ground.resume = slow  # type: ignore[method-assign]
    undoing = threading.Thread(target=scene.clock.go_off)
    undoing.start()
    assert began.wait(30)
    closing = threading.Thread(target=scene.open.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    go_on.set()
    closing.join(30)
    undoing.join(30)
    assert "resumed at last" in scene.take()


def test_the_clock_of_a_machine_calls_from_a_thread_of_its_own() -> None:
    called, cancelled = threading.Event(), threading.Event()
    MACHINE_CLOCK.call_later(3600, cancelled.set).cancel()
    MACHINE_CLOCK.call_later(0.001, called.set)
    assert called.wait(30)
    assert not cancelled.is_set()


# -- in a story ----------------------------------------------------------------------------------------------------------


def test_recover_undoes_what_a_step_did(tmp_path: Path) -> None:
    full = fault("full", "DiskFull", type="Brokers", brokers=[1])
    stage = Stage(tmp_path, [full, {"name": "room", "fault": {"verb": "Recover", "step": "full"}}])
    assert stage.run() is None
    assert stage.ground.asked == ["DiskFull 1", "undo DiskFull", "wait_ready 1"]
    kinds = [(line["kind"], line.get("fault"), line.get("phase")) for line in read_journal(stage.path)]
    assert kinds == [
        ("action", "DiskFull", "begin"),
        ("action", "DiskFull", "end"),
        ("action", "Recover", "begin"),
        ("action", "Recover", "end"),
        ("recovered", "DiskFull", None),
    ]


def test_recover_of_what_has_ended_does_nothing(tmp_path: Path) -> None:
    steps = [
        fault("stall", "Pause", type="Brokers", brokers=[1]),
        fault("back", "Resume", type="SameAs", step="stall"),
        {"name": "sure", "fault": {"verb": "Recover", "step": "stall"}},
    ]
    stage = Stage(tmp_path, steps, rounds=2)
    assert stage.run() is None
    assert stage.ground.asked == ["pause 1", "resume 1"] * 2


def test_the_journal_tells_parameters_peers_and_the_end(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, clock=lambda: 1.0)
    about = Fault("slow", Verb.DELAY, Parameters(millis=20), 3, "slow")
    journal.intend(about, Targets((0,), (1, 2), "leader of t-0"), 4.0)
    journal.close()
    (line,) = read_journal(path)
    told = {key: line[key] for key in ("target", "role", "id", "parameters", "peers", "expires")}
    assert told == {
        "target": "broker-0",
        "role": "leader of t-0",
        "id": "slow",
        "parameters": {"millis": 20},
        "peers": [1, 2],
        "expires": 4.0,
    }
