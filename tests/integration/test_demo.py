"""`minikafka demo`: the main job, as a user runs it, is judged twice and leaves nothing running, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.demo import DEMO_DEADLINE_S, Demo, demo, demo_run, demonstrated
from tests.spark import java
from tests.waiting import until_now

__all__ = ["demo_run", "java"]

pytestmark = pytest.mark.timeout(1800)

TEARDOWN_DEADLINE_S = 180.0
SPARK_DEADLINE_S = 400.0  # on a machine that is busy with other tests


def brokers_below(folder: Path) -> list[int]:
    """Processes whose command line names a file below this folder: the brokers of a demo that writes there."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(str(folder) in part and part.endswith("broker.properties") for part in command):
                found.append(int(entry.name))
    return found


def journals(runs: Path) -> list[str]:
    return [path.read_text() for path in runs.glob("*/journal.jsonl")]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "runs"
    left = brokers_below(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def check_verdict(told: Demo) -> None:
    """Nothing is lost, and everything is on record."""
    verdict, directory = told.verdict, told.folder
    assert verdict["verdict"] == "Passed"
    assert verdict["counts"]["lost"] == verdict["counts"]["divergent"] == 0
    assert verdict["counts"]["replicas_compared"] == 9
    assert verdict["counts"]["acknowledged"] > 1000
    journal = [json.loads(line) for line in (directory / "journal.jsonl").read_text().splitlines()]
    faults = [line["fault"] for line in journal if line["kind"] == "action" and line["phase"] == "begin"]
    assert faults == ["Kill", "Start", "PowerLoss", "Start", "Heal"]
    assert {f"broker-{broker}.jsonl" for broker in (0, 1, 2)} == {p.name for p in (directory / "events").iterdir()}
    samples = [json.loads(line) for line in (directory / "metrics" / "samples.jsonl").read_text().splitlines()]
    assert {sample["broker"] for sample in samples} == {0, 1, 2}
    assert any("error" in sample for sample in samples)  # a dead broker answers no scrape, and that is on record
    assert not (directory / "cluster").exists()


@pytest.mark.full
def test_the_demo_passes_twice(runs: Path) -> None:
    for number in (1, 2):
        check_verdict(demonstrated(runs, "--no-report", "--seed", str(number)))
    assert len(list(runs.iterdir())) == 2


def test_a_demo_is_judged(demo_run: Demo) -> None:
    """What Spark finds in its run: tests/unit/analytics/test_analysis.py."""
    check_verdict(demo_run)
    assert started_for(demo_run.runs) == [], "of whom the demo started, and who has its environment"


@pytest.mark.full
def test_a_demo_is_judged_twice_and_leaves_no_jvm(runs: Path, java: None) -> None:
    told = demonstrated(runs, seconds=DEMO_DEADLINE_S + SPARK_DEADLINE_S)
    assert told.verdict["judges_differ"] is None
    check_verdict(told)
    assert "brokers are down" in told.stderr and "analysed with Spark in" in told.stderr, "all that was told is told"
    report = json.loads((told.folder / "report.json").read_text())
    assert report["runs"][0]["verdict"]["agree"] is True
    assert report["runs"][0]["counts"]["acknowledged"] == told.verdict["counts"]["acknowledged"]
    assert started_for(runs) == []


@pytest.mark.full
def test_signals_during_the_analysis_cost_the_report_only(runs: Path, tmp_path: Path, java: None) -> None:
    """Spark may be starting, warming up or at work by then. A second signal costs nothing more."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    process = subprocess.Popen(
        demo("--seconds", "1", "--out", str(runs)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MINIKAFKA_TEST_OF": str(runs), "TMPDIR": str(scratch)},
    )
    try:
        until_now(lambda: any('"kind": "verdict"' in text for text in journals(runs)), seconds=DEMO_DEADLINE_S)
        for number in (signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
        output, errors = process.communicate(timeout=TEARDOWN_DEADLINE_S)
    finally:
        process.kill()
    assert process.returncode == 0, output + errors
    assert "Passed: no acknowledged record lost" in output and "none: interrupted" in output
    assert errors == ""
    until_now(lambda: started_for(runs) == [], seconds=TEARDOWN_DEADLINE_S)
    assert [path.name for path in scratch.iterdir() if not path.name.startswith("minikafka-ports-")] == []


def started_for(runs: Path) -> list[Path]:
    return [each for each in Path("/proc").glob("[0-9]*/environ") if f"MINIKAFKA_TEST_OF={runs}" in readable(each)]


def readable(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended, or is somebody else's
        return ""


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_running(runs: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        demo("--no-report", "--out", str(runs)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        # Interrupt in the middle of a fault, when one broker is dead and two are loaded.
        until_now(lambda: any('"fault": "Kill"' in text for text in journals(runs)), seconds=DEMO_DEADLINE_S)
        assert brokers_below(runs)
        process.send_signal(number)
        output, _ = process.communicate(timeout=TEARDOWN_DEADLINE_S)
    finally:
        process.kill()
    assert process.returncode == 3, output
    assert "Aborted" in output
    assert '"Aborted"' in journals(runs)[0].splitlines()[-1]
    assert brokers_below(runs) == []


@pytest.mark.parametrize(
    ("arguments", "names"), [(["--seconds", "0"], "--seconds"), (["--colour"], "--colour"), (["--seed", "x"], "--seed")]
)
def test_bad_input_is_one_line_and_starts_nothing(
    runs: Path, call_cli: Callable[..., subprocess.CompletedProcess[str]], arguments: list[str], names: str
) -> None:
    done = call_cli("demo", *arguments, "--out", runs)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert names in done.stderr
    assert not runs.exists()
