"""`minikafka simulate`: exit codes, what it prints, and one line for bad input."""

from __future__ import annotations

import errno
import io
import json
import shlex
import sys
from typing import NoReturn

import pytest
from minikafka.cli.main import main
from minikafka_simulator.bugs import catalogue
from minikafka_simulator.commands.simulate import ORDINARY, TAIL_LINES, excerpt
from minikafka_simulator.faults.plan import Plan
from minikafka_simulator.schedules import world
from minikafka_simulator.schedules.world import simulate

from tests.forms import in_full

BUG = "hw-on-divergence"
Capture = pytest.CaptureFixture[str]


def test_green_seeds_print_speed_and_counts(capsys: Capture) -> None:
    assert main(["simulate", "--seeds", "1..3", "--workers", "1", "--seconds", "1"]) == 0
    out = capsys.readouterr().out
    for word in (
        "3 schedules",
        "schedules/s",
        "events/s",
        "faults",
        "acknowledged",
        "unclean election",
        "all invariants hold",
    ):
        assert word in out


@pytest.mark.parametrize("shrunk", [False, *in_full([True])])
def test_a_mistake_is_found_and_the_printed_command_replays_it(capsys: Capture, shrunk: bool) -> None:
    assert main(["simulate", "--bug", BUG, "--workers", "1", "--seconds", "4", *(["--shrink"] if shrunk else [])]) == 1
    out = capsys.readouterr().out
    assert "caught by B14 offsets after" in out and "VIOLATION B14 offsets" in out
    commands = [line.removeprefix("replay:").strip() for line in out.splitlines() if line.startswith("replay:")]
    assert len(commands) == 1 + shrunk, "as it was found, and shrunk"
    for command in commands:
        words = shlex.split(command)
        assert words[:2] == ["minikafka", "simulate"]
        assert main(words[1:]) == 1
        assert "VIOLATION B14 offsets" in capsys.readouterr().out


def test_a_mistake_that_is_not_found_is_said_so(capsys: Capture) -> None:
    assert (
        main(["simulate", "--bug", BUG, "--seeds", "1..1", "--strikes", "0", "--workers", "1", "--seconds", "2"]) == 0
    )
    assert "NOT FOUND" in capsys.readouterr().out


def test_one_seed_prints_its_hash(capsys: Capture) -> None:
    assert main(["simulate", "--seed", "4", "--seconds", "3"]) == 0
    short = capsys.readouterr().out
    assert main(["simulate", "--seed", "4", "--seconds", "3", "--trace"]) == 0
    whole = capsys.readouterr().out
    assert "trace hash" in short and whole.endswith(short)
    assert whole.splitlines()[0].endswith("min ISR 2") and len(whole.splitlines()) > 100


def test_json(capsys: Capture) -> None:
    assert main(["simulate", "--bug", BUG, "--workers", "1", "--json", "--seconds", "4"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["violations"][0]["invariant"] == "B14 offsets"
    seed = found["violations"][0]["seed"]
    assert main(["simulate", "--seed", str(seed), "--bug", BUG, "--json", "--seconds", "4"]) == 1
    replayed = json.loads(capsys.readouterr().out)
    assert replayed["trace_hash"] == found["violations"][0]["trace_hash"]


def test_keep_going_counts_all(capsys: Capture) -> None:
    assert (
        main(
            ["simulate", "--bug", BUG, "--seeds", "7..8", "--keep-going", "--workers", "1", "--json", "--seconds", "4"]
        )
        == 1
    )
    assert json.loads(capsys.readouterr().out)["schedules"] == 2


def test_bugs_are_listed(capsys: Capture) -> None:
    assert main(["simulate", "--list-bugs"]) == 0
    assert BUG in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--bug", "hw-on-divergenc"], f"did you mean {BUG}?"),
        (["--seeds", "9..1"], "allowed: A..B"),
        (["--seeds", "1-3"], "allowed: A..B"),
        (["--seeds", "1..99999999999999999999"], "at most 1,000,000,000"),
        (["--seeds", "1..3", "--trace"], "--seed"),
        (["--seeds", "1..3", "--seed", "1"], "not allowed with"),
        (["--seed", "-1"], "allowed: 0 or more"),
        (["--steps", "0"], "allowed: 1..150000"),
        (["--seconds", "nan"], "allowed: above 0"),
        (["--steps", "10", "--seconds", "1"], "give one"),
        (["--skip", "1,,2"], "allowed: 1 or more"),
        (["--workers", "0"], "allowed: 1..64"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], hint: str, capsys: Capture) -> None:
    assert main(["simulate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith("minikafka simulate: ") and hint in captured.err


def test_a_bug_seed_whose_text_is_gone_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    gone = catalogue.BUG_SEEDS[BUG]._replace(old="no such text")
    monkeypatch.setattr(catalogue, "BUG_SEEDS", {BUG: gone})
    assert main(["simulate", "--seed", "1", "--bug", BUG]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith(f"minikafka simulate: --bug: {BUG}: its text stands 0 times in broker-image/")


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> NoReturn:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Full())
        assert main(["simulate", "--seed", "1", "--seconds", "0.5", "--trace"]) == 3
    assert capsys.readouterr().err == "minikafka simulate: no space left on the device that it writes to\n"


def test_a_long_schedule_may_make_more_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--seconds 600` called a healthy cluster wild: it counted as many events as for eight seconds."""
    monkeypatch.setattr(world, "SECONDS_USUAL", 1.0)
    monkeypatch.setattr(world, "EVENTS_MAX", simulate(3, Plan(seconds=1)).events)
    long = simulate(3, Plan(seconds=3))
    assert long.violation is None and long.events > world.EVENTS_MAX


def test_the_end_of_a_trace_is_told_without_ordinary_appends() -> None:
    trace = [f"{i:8.3f} b1 t-0 {'appends 1..2' if i % 3 else 'truncates 2 -> 1'}" for i in range(300)]
    lines = excerpt(trace)
    assert lines[-12:] == trace[-12:]
    assert len([line for line in lines if "more" not in line]) == TAIL_LINES
    assert not any(word in line for line in lines[:-12] for word in ORDINARY)
    assert excerpt(trace[:5]) == trace[:5]
