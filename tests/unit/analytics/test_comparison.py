"""`minikafka analyze` of a folder of runs: which are analysed, which are compared, and what is said of the others."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from golden_runs import GOLDEN
from minikafka_analytics.commands import analyze as analyze_command
from minikafka_analytics.comparison import compare as comparison_module
from minikafka_analytics.landing.pending import is_parent, runs_in

pytestmark = pytest.mark.timeout(900)


def command(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    analyze_command.add_arguments(parser)
    return analyze_command.run(parser.parse_args([str(argument) for argument in arguments]))


def document(parent: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((parent / "comparison" / "comparison.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.full
def test_a_folder_of_runs(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(GOLDEN / "data-loss", runs / "a")
    shutil.copytree(GOLDEN / "no-loss", runs / "b [1]")
    shutil.copytree(GOLDEN / "no-loss", runs / "twin of b")
    shutil.copytree(GOLDEN / "no-loss", runs / "unfinished")
    journal = (runs / "unfinished" / "journal.jsonl").read_text().splitlines(keepends=True)
    (runs / "unfinished" / "journal.jsonl").write_text("".join(line for line in journal if '"verdict"' not in line))
    (runs / "lost+found").mkdir()

    assert command(runs) == 1  # a run has failed
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line.endswith("3)")] == [
        "a: is analysed (1 of 3)",
        "b [1]: is analysed (2 of 3)",
        "twin of b: is analysed (3 of 3)",
    ]
    assert said.count(" bytes of 6 files") == 3
    assert f"left out: {runs / 'twin of b'}: a copy of b [1]: it has the same history.jsonl" in said
    assert f"left out: {runs / 'unfinished'}: its journal has no verdict" in said
    found = document(runs)
    assert [(row["run"], row["verdict"], row["lost"]) for row in found["runs"]] == [
        ("a", "Failed", 1),
        ("b [1]", "Passed", 0),
    ]
    assert [(row["scenario"], row["runs"], row["failed"]) for row in found["outcomes"]] == [
        ("kip-101-data-loss.high-watermark", 1, 1),
        ("kip-101-data-loss.leader-epoch", 1, 0),
    ]
    elected = {row["kind"]: row for row in found["recovery"] if row["measure"] == "elected"}["pause, then kill -9"]
    assert (elected["runs"], elected["times"], elected["longest"]) == (2, 2, elected["p95"])
    assert [row["folder"] for row in found["left_out"]] == [str(runs / "unfinished"), str(runs / "twin of b")]

    assert command(runs) == 1  # the second time nothing is landed
    again = capsys.readouterr().out
    assert "is analysed" not in again
    assert f"landed: 0 bytes; every run in {runs} has its report" in again
    assert document(runs) == found


@pytest.mark.full
def test_one_more_run_and_one_whose_file_has_grown_are_analysed_alone(
    spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(GOLDEN / "data-loss", runs / "a")
    shutil.copytree(GOLDEN / "no-loss", runs / "b [1]")
    assert command(runs) == 1
    capsys.readouterr()
    shutil.copytree(GOLDEN / "no-loss", runs / "c")
    history = (runs / "c" / "history.jsonl").read_bytes()
    (runs / "c" / "history.jsonl").write_bytes(history.replace(b'"time":', b'"time": '))
    with (runs / "a" / "events" / "broker-0.jsonl").open("ab") as file:
        file.write(b"not an event\n")
    assert command(runs, "--json") == 1
    captured = capsys.readouterr()
    size = (runs / "a" / "events" / "broker-0.jsonl").stat().st_size
    assert captured.err.splitlines()[:2] == [
        "a: is analysed (1 of 2)",
        f"landed: {size:,} bytes of 1 file, 1 bad lines in quarantine; 5 files had been before",
    ]
    assert [row["run"] for row in json.loads(captured.out)["runs"]] == ["a", "b [1]", "c"]


@pytest.mark.full
def test_a_run_that_cannot_be_analysed_does_not_stop_the_others(
    spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(GOLDEN / "no-loss", tmp_path / "good")
    shutil.copytree(GOLDEN / "no-loss", tmp_path / "bad")
    (tmp_path / "bad" / "parquet").write_text("in the way")
    assert command(tmp_path) == 3
    captured = capsys.readouterr()
    assert "minikafka analyze: bad: " in captured.err
    found = document(tmp_path)
    assert [row["run"] for row in found["runs"]] == ["good"]
    (left,) = found["left_out"]
    assert left["folder"] == str(tmp_path / "bad")
    assert left["reason"].startswith("it could not be analysed: ")


def test_which_folders_are_folders_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(GOLDEN / "no-loss", tmp_path / "runs" / "a")
    assert is_parent(tmp_path / "runs")
    assert not is_parent(tmp_path / "runs" / "a")
    assert not is_parent(tmp_path)
    assert not is_parent(tmp_path / "nowhere")
    assert command(tmp_path / "runs", tmp_path / "runs" / "a") == 2
    assert "a folder of runs is compared alone" in capsys.readouterr().err


def test_a_report_of_other_files_is_none(tmp_path: Path) -> None:
    run = tmp_path / "a"
    shutil.copytree(GOLDEN / "no-loss", run)
    for text in ("", "{}", '{"runs": [{"files": {"landed": []}}]}'):
        (run / "report.json").write_text(text)
        assert runs_in(tmp_path).missing == (run,)


def test_the_text_of_a_comparison() -> None:
    row = {"kind": "kill -9", "measure": "elected", "runs": 2, "faults": 3, "times": 1200, "never": 0}
    outlier = {"of": "fault kill -9", "measure": "elected", "run": "r6", "value": 10.0, "median": 1.1, "among": 7}
    whole = {
        "runs": [{"untold_faults": 2}],
        "outcomes": [],
        "recovery": [{**row, "p50": 0.25, "p95": None, "longest": 12.0}],
        "outliers": [outlier],
        "left_out": [{"folder": "runs/x", "reason": "it goes on"}],
    }
    assert comparison_module.text(whole)[3:] == [
        "fault    until    runs  faults  times  never     p50  p95  longest",
        "kill -9  elected     2       3  1,200      0  0.25 s    -   12.0 s",
        "",
        "unlike the others:",
        "  r6: elected 10.0 s, where the median of 7 is 1.10 s (fault kill -9)",
        "not in the times: how partitions came through 2 faults, for reports do not tell it",
        "left out: runs/x: it goes on",
    ]
