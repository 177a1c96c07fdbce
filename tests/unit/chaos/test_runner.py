"""The runner: trouble is never Failed, and whatever happens the brokers are taken down."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.errors import NotSupported, ToolTrouble
from minikafka_chaos.record.journal import read_journal
from minikafka_chaos.run.interrupts import Interrupts
from minikafka_chaos.run.runner import new_run_directory, run_scenario
from minikafka_chaos.verdict.verdict import Outcome

from .fake_ground import FakeGround
from .test_scenario import fault, parse


def test_a_ground_that_does_not_come_up_is_an_error(tmp_path: Path) -> None:
    ground = FakeGround(fail_at="up")
    result = run_scenario(parse(), ground, tmp_path)
    assert result.verdict.outcome is Outcome.ERROR
    assert result.verdict.summary == "the ground is wet"
    assert ground.asked == ["up", "down", "collect_events"]


def test_an_interrupt_is_aborted_and_takes_the_brokers_down(tmp_path: Path) -> None:
    ground = FakeGround(fail_at="up", error=KeyboardInterrupt())
    result = run_scenario(parse(), ground, tmp_path)
    assert result.verdict.outcome is Outcome.ABORTED
    assert "down" in ground.asked


def test_a_bug_of_the_tool_is_an_error_with_its_trace_in_the_journal(tmp_path: Path) -> None:
    result = run_scenario(parse(), FakeGround(fail_at="up", error=ZeroDivisionError("oops")), tmp_path)
    assert result.verdict.outcome is Outcome.ERROR
    assert any("ZeroDivisionError" in line.get("traceback", "") for line in read_journal(tmp_path / "journal.jsonl"))


def test_trouble_while_taking_down_does_not_hide_what_came_before(tmp_path: Path) -> None:
    ground = FakeGround(fail_at="up", error=KeyboardInterrupt())
    ground.down = lambda: (_ for _ in ()).throw(ToolTrouble("stuck"))  # type: ignore[assignment,method-assign]
    assert run_scenario(parse(), ground, tmp_path).verdict.outcome is Outcome.ABORTED
    assert ground.asked == ["up", "collect_events"]  # of the brokers that were not stuck


def test_a_verb_that_the_ground_lacks_is_refused_before_anything_starts(tmp_path: Path) -> None:
    ground = FakeGround()
    ground.lacks = {Verb.CUT: "it is all one piece"}
    with pytest.raises(NotSupported, match="step a: the fake ground cannot Cut: it is all one piece"):
        run_scenario(parse(steps=[fault("a", "Cut", type="Any")]), ground, tmp_path)
    assert ground.asked == []


def test_what_the_ground_refuses_is_said_before_anything_starts(tmp_path: Path) -> None:
    ground = FakeGround()
    ground.refused = ["cluster.config log.dirs: not here"]
    with pytest.raises(NotSupported, match=r"scenario test: cluster.config log.dirs: not here"):
        run_scenario(parse(), ground, tmp_path)
    assert ground.asked == []


def test_a_journal_begins_with_the_scenario_and_ends_with_the_verdict(tmp_path: Path) -> None:
    run_scenario(parse(seed=3), FakeGround(fail_at="up"), tmp_path, seed=4)
    lines = read_journal(tmp_path / "journal.jsonl")
    assert (lines[0]["kind"], lines[0]["ground"], lines[0]["seed"]) == ("scenario", "fake", 4)
    assert lines[0]["scenario"]["spec"]["seed"] == 3
    assert (lines[-1]["kind"], lines[-1]["verdict"]) == ("verdict", "Error")
    assert json.dumps(lines[-1])


def test_runs_get_directories_of_their_own(tmp_path: Path) -> None:
    assert len({new_run_directory(tmp_path, "demo") for _ in range(3)}) == 3


def test_a_place_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolTrouble, match="Not a directory"):
        new_run_directory(tmp_path / "file", "demo")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_interrupts_and_the_second_does_nothing(number: signal.Signals) -> None:
    interrupts = Interrupts()
    before = signal.getsignal(number)
    with interrupts.watched():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
    assert interrupts.came
    assert signal.getsignal(number) is before


def test_an_interrupt_in_a_callback_of_an_extension_is_an_interrupt_all_the_same(tmp_path: Path) -> None:
    """librdkafka's makes a SystemError of it, or nothing."""
    ground = FakeGround()

    def up(*_: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise SystemError("returned a result with an exception set") from None

    ground.up = up  # type: ignore[method-assign]
    assert run_scenario(parse(), ground, tmp_path).verdict.outcome is Outcome.ABORTED


def test_an_interrupt_that_was_swallowed_is_raised_where_the_story_waits() -> None:
    interrupts = Interrupts()
    with interrupts.watched():
        interrupts.check()
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_a_signal_while_held_waits() -> None:
    interrupts = Interrupts()
    with interrupts.watched(), interrupts.held():
        os.kill(os.getpid(), signal.SIGINT)
    assert interrupts.came
