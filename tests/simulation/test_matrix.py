"""Durability matrices in simulation: what is counted is what the judge found, and a matrix that was ended goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from minikafka.cli.main import main
from minikafka_chaos.matrix.document import Matrix, load_matrix
from minikafka_chaos.matrix.trials import Trial, TrialTask, counted, run_trial
from minikafka_chaos.scenario import library

from tests.forms import in_full
from tests.processes import children, has_ended

FAULTS = ("leader-killed", "leader-loses-power", "leader-cut-off", "next-leader-dies-too", "leader-left-alone")
OPEN = "truncation=leader epoch,flush=never,unclean election=off"


@pytest.fixture(scope="module")
def durability() -> Matrix:
    return load_matrix(library.matrix_path("durability"))


def trials(matrix: Matrix, cell: str, faults: str, folder: Path, number: int = 1) -> list[Trial]:
    """The first trials of a cell whose seeds draw these faults."""
    found = matrix.cell(cell)
    names = [mix.name for mix in matrix.spec.faults]
    seeds = [seed for seed in range(1, 500) if names[matrix.drawn(seed)] == faults][:number]
    jobs = [TrialTask(found.number, seed) for seed in seeds]
    return [
        counted(matrix, job, run_trial(matrix, job, "simulation", folder / f"{job.cell}-{job.seed}").verdict)
        for job in jobs
    ]


@pytest.mark.parametrize("faults", in_full(FAULTS))
def test_all_of_two_of_three_loses_nothing_while_one_has_power(durability: Matrix, tmp_path: Path, faults: str) -> None:
    for trial in trials(durability, f"acks=all,RF=3,min ISR=2,{OPEN}", faults, tmp_path):
        assert trial.told
        assert (trial.lost, trial.divergent) == (0, 0)
        assert trial.acknowledged > 300


@pytest.mark.full
@pytest.mark.parametrize(
    ("cell", "faults"),
    [
        ("acks=1,RF=3,min ISR=1", "leader-cut-off"),
        pytest.param("acks=1,RF=3,min ISR=1", "leader-left-alone", marks=pytest.mark.full),
        pytest.param("acks=1,RF=1,min ISR=1", "leader-loses-power", marks=pytest.mark.full),
    ],
)
def test_what_one_replica_acknowledged_goes_with_it(durability: Matrix, tmp_path: Path, cell: str, faults: str) -> None:
    (trial,) = trials(durability, f"{cell},{OPEN}", faults, tmp_path)
    assert trial.lost > 0
    assert trial.verdict == "Failed"


def test_all_brokers_without_power_lose_what_none_had_flushed(durability: Matrix, tmp_path: Path) -> None:
    """Replication is no flush: a flush of each record comes before its acknowledgement (flush.messages), and keeps it."""
    cell = "acks=all,RF=3,min ISR=2,unclean election=off,truncation=leader epoch,flush={}"
    (never,) = trials(durability, cell.format("never"), "blackout", tmp_path)
    (each,) = trials(durability, cell.format("each"), "blackout", tmp_path)
    assert each.lost == 0 < never.lost


@pytest.mark.full
def test_truncation_by_high_watermark_loses_what_two_of_three_had(durability: Matrix, tmp_path: Path) -> None:
    cell = "acks=all,RF=3,min ISR=2,flush=never,unclean election=off,truncation={}"
    by_watermark = trials(durability, cell.format("high watermark"), "next-leader-dies-too", tmp_path, 3)
    by_epoch = trials(durability, cell.format("leader epoch"), "next-leader-dies-too", tmp_path, 3)
    assert sum(trial.lost for trial in by_watermark) > 0
    assert sum(trial.lost for trial in by_epoch) == 0


@pytest.mark.full
def test_without_acknowledgements_nothing_is_lost_but_much_is_gone(durability: Matrix, tmp_path: Path) -> None:
    (trial,) = trials(durability, f"acks=0,RF=1,min ISR=1,{OPEN}", "leader-loses-power", tmp_path)
    assert trial.told
    assert (trial.acknowledged, trial.lost) == (0, 0)
    assert trial.unknown > trial.unknown_but_there


# -- the command ---------------------------------------------------------------------------------------------------------

SMALL = """
apiVersion: minikafka.dev/v1alpha1
kind: DurabilityMatrix
metadata: {name: small}
spec:
  axes:
    - name: acks
      values:
        - {name: all, set: [{name: workload.acks, value: All}]}
        - {name: "1", set: [{name: workload.acks, value: Leader}]}
    - name: min ISR
      values:
        - {name: "2", set: [{name: min.insync.replicas, value: "2"}]}
        - {name: "3", set: [{name: min.insync.replicas, value: "3"}]}
  faults:
    - name: calm
      steps: [{name: calm, wait: {conditions: [{type: Elapsed, seconds: 1}]}}]
    - name: cut-off
      weight: 2
      steps:
        - {name: calm, wait: {conditions: [{type: Elapsed, seconds: 1}]}}
        - {name: strike, fault: {verb: Cut, target: {type: Leader, topic: t, partition: 1}, withinMillis: 500}}
        - {name: away, wait: {conditions: [{type: Elapsed, seconds: 5}]}}
  experiment:
    cluster: {config: [{name: broker.session.timeout.ms, value: "3000"}]}
    topics: [{name: t, partitions: 2, replicationFactor: 2}]
    workload: {topic: t, ratePerSecond: 50}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["chaos", "matrix", *arguments, "--json"]) in (0, 1)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.full
def test_a_matrix_is_its_document_seeds_and_code_whoever_does_the_work(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = told(capsys, str(small), "--seeds", "4", "--workers", "1", "--out", str(tmp_path / "one"))
    two = told(capsys, str(small), "--seeds", "4", "--workers", "2", "--out", str(tmp_path / "two"))
    assert one == two
    lines = [sorted((tmp_path / name / "trials.jsonl").read_text().splitlines()) for name in ("one", "two")]
    assert lines[0] == lines[1]
    assert (tmp_path / "one" / "matrix.html").read_text() == (tmp_path / "two" / "matrix.html").read_text()
    assert {path.name for path in (tmp_path / "one").iterdir()} == {"trials.jsonl", "matrix.json", "matrix.html"}
    cells = {tuple(cell["values"]): cell for cell in one["cells"]}
    assert cells["all", "3"]["impossible"] is not None
    assert cells["all", "2"]["measures"]["loss"]["number"] == 0
    loss = cells["1", "2"]["measures"]["loss"]
    assert loss["number"] > 0
    assert loss["by_faults"] == {"cut-off": loss["number"]}

    # The trial that shows it is a run like any other, and can be had again.
    seed = loss["first_seed"]
    single = told(
        capsys, str(small), "--cell", "acks=1,min ISR=2", "--seed", str(seed), "--out", str(tmp_path / "single")
    )
    assert (single["verdict"], single["faults"]) == ("Failed", "cut-off")
    line = next(trial for trial in map(json.loads, lines[0][:-1]) if trial["seed"] == seed and trial["cell"] == 2)
    assert line["lost"] == single["counts"]["lost"]
    assert (Path(single["run"]) / "history.jsonl").exists()


@pytest.mark.full
def test_a_matrix_that_was_killed_goes_on_and_ends_the_same(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-m", "minikafka.cli", "chaos", "matrix", str(small), "--workers", "1", "--out"]
    started = subprocess.Popen(
        [*command, str(out), "--seeds", "40"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    results = out / "trials.jsonl"
    deadline = time.monotonic() + 120
    while not results.exists() or results.read_text().count("\n") < 4:
        assert started.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    workers = children(started.pid)
    started.send_signal(signal.SIGKILL)
    started.wait()
    before = results.read_text().splitlines()
    while not all(map(has_ended, workers)):
        assert time.monotonic() < deadline, "workers are left"
        time.sleep(0.05)
    assert main(["chaos", "matrix", str(small), "--seeds", "4", "--workers", "1", "--out", str(out), "--json"]) == 0
    resumed = json.loads(capsys.readouterr().out)
    assert results.read_text().splitlines()[: len(before) - 1] == before[:-1]
    assert resumed == told(capsys, str(small), "--seeds", "4", "--workers", "1", "--out", str(whole))
    assert not (out / "running").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--seeds", "0"], "--seeds 0: must be at least 1"),
        (["--workers", "-1"], "--workers -1: allowed: 1..256"),
        (["--cell", "acks=1,min ISR=2"], "--cell and --seed: one trial needs both"),
        (["--cell", "acks=2,min ISR=2", "--seed", "1"], "no such cell; allowed: one value of each axis"),
    ],
)
def test_bad_options_are_told_in_a_line(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    assert main(["chaos", "matrix", str(small), "--out", str(tmp_path / "out"), *arguments]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_setting_that_means_nothing_on_the_ground_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(SMALL.replace("broker.session.timeout.ms", "broker.rack"))
    assert main(["chaos", "matrix", str(path), "--out", str(tmp_path / "out")]) == 2
    assert "cell acks=all, min ISR=2: cluster.config broker.rack: not simulated" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
