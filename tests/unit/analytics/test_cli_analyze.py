"""`minikafka analyze`: exit codes and what is said, without starting Spark."""

from __future__ import annotations

import argparse
import errno
import json
import os
from pathlib import Path

import pytest
from minikafka_analytics import analyze as analyze_module
from minikafka_analytics.commands import analyze as analyze_command
from minikafka_analytics.landing.run_folder import NoRun, open_runs
from minikafka_analytics.spark import session
from minikafka_analytics.spark.java import JavaMissing
from minikafka_analytics.storage.stores import StorePath, lines, put_text


def run(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    analyze_command.add_arguments(parser)
    return analyze_command.run(parser.parse_args([str(argument) for argument in arguments]))


def test_a_folder_that_is_not_there_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "nowhere") == 2
    assert capsys.readouterr().err == f"minikafka analyze: {tmp_path / 'nowhere'}: no such run folder\n"


def test_a_folder_without_a_run_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 2
    assert "not a run folder" in capsys.readouterr().err


@pytest.mark.parametrize("named", ["loop", "~nobody-has-this-name/run"])
def test_a_path_that_leads_nowhere_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "journal.jsonl").write_text("{}\n")
    for arguments in ([named], [named, "other"], [".", "--out", named]):
        assert run(*arguments) == 2
        assert named in capsys.readouterr().err


@pytest.mark.parametrize("name", ["run", "run/events/broker-0.jsonl"])
def test_a_name_that_is_no_text_is_bad_input(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / ("r\udcff" if name == "run" else "run")
    (folder / "events").mkdir(parents=True)
    (folder / "journal.jsonl").write_text("{}\n")
    (folder / "events" / ("0.jsonl" if name == "run" else "b\udcff.jsonl")).write_text("{}\n")
    assert run(folder) == 2
    assert "its name is no UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("in_a_store", [False, True])
def test_only_a_newline_ends_a_line_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_a_store: bool) -> None:
    """The journal has text as it is, and some characters of Unicode are ends of lines to others."""
    text = json.dumps({"kind": "verdict", "summary": "a\u2028b\x85c\x1cd"}, ensure_ascii=False) + "\n{}\n"
    (tmp_path / "journal.jsonl").write_text(text, encoding="utf-8")
    monkeypatch.setattr(StorePath, "read_text", lambda _self, **_options: text)
    journal = StorePath("s3a", "runs", ("journal.jsonl",)) if in_a_store else tmp_path / "journal.jsonl"
    assert [line.strip() for line in lines(journal) if line.strip()] == text.split("\n")[:2]


def test_half_of_a_surrogate_pair_is_written(tmp_path: Path) -> None:
    """A journal of valid JSON may hold one; no text of UTF-8 can."""
    put_text(tmp_path / "report.json", json.dumps("a \ud800 b", ensure_ascii=False))
    assert json.loads((tmp_path / "report.json").read_text()) == "a \ud800 b"


def test_bad_settings_for_spark_are_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--conf", "spark.x") == 2
    assert "KEY=VALUE" in capsys.readouterr().err


def test_without_java_it_could_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> None:
        raise JavaMissing("Spark needs Java: do this")

    monkeypatch.setattr(session, "find_java", none)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    (tmp_path / "history.jsonl").write_text('{"time": 1}\n')
    assert run(tmp_path) == 3
    assert capsys.readouterr().err == "minikafka analyze: Spark needs Java: do this\n"


def said(*verdicts: str, differ: bool = False) -> list[analyze_module.ReportedRun]:
    """What a report says of runs; with `differ` the judges do not agree on the last."""
    found = [analyze_module.ReportedRun(f"run-{n}", verdict, "So it is.", True) for n, verdict in enumerate(verdicts)]
    return [*found[:-1], found[-1]._replace(agree=False, sentence="The two judges differ.")] if differ else found


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (said("Passed"), 0),
        (said("Passed", "Failed"), 1),
        (said("Inconclusive"), 3),
        (said("Error", "Failed"), 1),
        (said("Aborted", "Passed"), 3),
        (said("Failed", "Inconclusive", differ=True), 3),
        (said("Passed", "Passed", differ=True), 3),
    ],
)
def test_the_exit_code_is_the_worst_verdict(found: list[analyze_module.ReportedRun], code: int) -> None:
    assert analyze_command.exit_code(found) == code


def test_judges_that_differ_are_told_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(analyze_module, "analyze", lambda *_: analyze_module.ReportPaths(tmp_path, tmp_path, tmp_path))
    monkeypatch.setattr(analyze_module, "reported_runs", lambda paths: said("Failed", "Inconclusive", differ=True))
    assert run(tmp_path / "a", tmp_path / "a", tmp_path / "b") == 3
    assert capsys.readouterr().out.splitlines()[:2] == ["run-1: The two judges differ.", "run-0: Failed"]


def test_several_runs_are_compared_beside_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def fake(run_dirs: list[Path], out: Path, master: str, settings: dict[str, str]) -> analyze_module.ReportPaths:
        asked.append(out)
        return analyze_module.ReportPaths(out / "report.html", out / "report.json", out / "parquet")

    monkeypatch.setattr(analyze_module, "analyze", fake)
    monkeypatch.setattr(analyze_module, "reported_runs", lambda paths: said("Passed", "Passed"))
    assert run(tmp_path / "a", tmp_path / "b") == 0
    assert run(tmp_path / "a") == 0
    assert asked == [tmp_path / "comparison", tmp_path / "a"]


def test_a_full_disk_could_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path))

    monkeypatch.setattr(analyze_module, "analyze", full)
    assert run(tmp_path) == 3
    assert capsys.readouterr().err == f"minikafka analyze: {tmp_path}: No space left on device\n"


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for parent in ("x", "y"):
        (tmp_path / parent / "run").mkdir(parents=True)
        (tmp_path / parent / "run" / "history.jsonl").write_text("{}\n")
    assert [run.id for run in open_runs([tmp_path / "x" / "run", tmp_path / "y" / "run"])] == ["x-run", "y-run"]
    with pytest.raises(NoRun, match="no run given"):
        open_runs([])
