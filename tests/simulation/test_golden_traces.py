"""Golden traces: what replicas and the controller decide in some thirty schedules, line by line (`golden/trace.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from minikafka_simulator.bugs.catalogue import with_bug_seed

from .golden import trace


@pytest.mark.parametrize("path", trace.files(), ids=lambda path: path.stem)
def test_it_is_decided_as_it_was(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert trace.told(text) == text, (
        f"python -m tests.simulation.golden.trace --write {path.stem}; then read the difference"
    )


def test_each_says_what_it_shows() -> None:
    assert len(trace.files()) >= 30
    for path in trace.files():
        assert path.read_text(encoding="utf-8").startswith("# "), path.name


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("kip-279-two-epochs", "one-shot-truncation"),
        ("kip-101-a", "truncate-to-hw"),
        ("below-min-isr", "hw-under-min-isr"),
        ("store-away", "tell-of-failed-commit"),
        ("follower-cut-off", "committed-isr-for-hw"),
        ("clean-election-only", "keep-uncleanly-stopped"),
    ],
)
def test_a_mistake_changes_a_trace(name: str, bug: str) -> None:
    text = (trace.FOLDER / f"{name}{trace.SUFFIX}").read_text(encoding="utf-8")
    with with_bug_seed(bug):
        assert trace.told(text) != text


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("> topic 1,0\n", "the first line has to be: cluster N"),
        ("> cluster 2\n> jump 1\n", "jump 1: unknown"),
        ("> cluster 2\n> kill 7\n", "kill 7: KeyError"),
        ("> cluster 2\n> kill\n", "no broker is named"),
        ("> cluster 2\n> wipe 1\n", "broker 1 runs"),
        ("> cluster 2\n> topic 1,5\n", "the topic was not made"),
        ("> cluster 2\n> topic 1,0\n> send m0 acks=2\n", "acks=2"),
    ],
)
def test_a_schedule_that_cannot_be_carried_out(schedule: str, problem: str) -> None:
    with pytest.raises(trace.BadSchedule, match=problem):
        trace.told(schedule)


def test_the_command_tells_what_differs_and_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trace, "FOLDER", tmp_path)
    (tmp_path / "one.txt").write_text("# One.\n\n> cluster 2\n> topic 1,0\n", encoding="utf-8")
    assert trace.main([]) == 1
    assert trace.main(["--write"]) == 0
    assert trace.main(["one"]) == 0
    assert capsys.readouterr().out == "one.txt differs\none.txt written\n"
    assert "b1 leads epoch 0" in (tmp_path / "one.txt").read_text(encoding="utf-8")
    (tmp_path / "one.txt").write_text("> jump\n", encoding="utf-8")
    assert trace.main(["one"]) == trace.main(["two"]) == 2
