"""`minikafka demo` does not say Passed where the second judge says something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from minikafka.cli.main import main
from minikafka_chaos.commands import demo as cli_demo
from minikafka_chaos.run import runner
from minikafka_chaos.verdict.verdict import Verdict, judge_run

from tests.unit.verdict_cases.builder import Run

DIFFER = "The two judges differ: the verifier says Passed, the analysis Failed."


WELL = Run().acked("a", 0).final(["a"])


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    return judge_run(WELL.write(tmp_path_factory.mktemp("well")))


@pytest.mark.slow
@pytest.mark.parametrize(("differ", "code"), [(None, 0), (DIFFER, 3)])
def test_judges_that_differ_are_told_first_and_end_with_3(
    passed: Verdict,
    differ: str | None,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(scenario: object, ground: object, directory: Path, **_: Any) -> runner.RunResult:
        (directory / "cluster").mkdir()
        WELL.write(directory)
        return runner.RunResult(directory, passed)

    monkeypatch.setattr(runner, "run_scenario", run)
    monkeypatch.setattr(cli_demo, "_analyse", lambda *_: ([("report", "report.html")], differ))
    assert main(["demo", "--out", str(tmp_path / "a")]) == code
    out = capsys.readouterr().out
    if differ is not None:
        assert out.index("differ") < out.index("no acknowledged record lost")
    (folder,) = (tmp_path / "a").iterdir()
    assert (folder / "cluster").exists() == (differ is not None), "the brokers' data tells who is right"
    assert main(["demo", "--json", "--out", str(tmp_path / "b")]) == code
    assert json.loads(capsys.readouterr().out)["judges_differ"] == differ


def test_without_spark_the_verdict_comes_and_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def passed(scenario: object, ground: object, directory: Path, **options: Any) -> runner.RunResult:
        assert options["after_story"] is None
        Run().acked("a", 0).final(["a"]).write(directory)
        return runner.RunResult(directory, judge_run(directory))

    monkeypatch.setattr(runner, "run_scenario", passed)
    monkeypatch.setattr(cli_demo, "find_spec", lambda module: None)
    assert main(["demo", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Passed" in out
    assert "none: needs the extra 'analytics'" in out
