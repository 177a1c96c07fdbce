"""`minikafka demo`: the main job, as a user runs it, is judged twice and leaves nothing running, whatever happens."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from minikafka_analytics.commands import prewarm_worker

from tests.spark import java, spark
from tests.waiting import until_now

__all__ = ["java", "spark"]

pytestmark = pytest.mark.timeout(1800)

DEMO_DEADLINE_S = 600.0
TEARDOWN_DEADLINE_S = 180.0
SPARK_DEADLINE_S = 400.0  # on a machine that is busy with other tests


def demo(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "minikafka.cli", "demo", *arguments]


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


def check_verdict(verdict: dict[str, Any]) -> Path:
    """Nothing is lost, and everything is on record; the run's folder."""
    assert verdict["verdict"] == "Passed"
    assert verdict["counts"]["lost"] == verdict["counts"]["divergent"] == 0
    assert verdict["counts"]["replicas_compared"] == 9
    assert verdict["counts"]["acknowledged"] > 1000
    directory = Path(verdict["run"])
    journal = [json.loads(line) for line in (directory / "journal.jsonl").read_text().splitlines()]
    faults = [line["fault"] for line in journal if line["kind"] == "action" and line["phase"] == "begin"]
    assert faults == ["Kill", "Start", "PowerLoss", "Start", "Heal"]
    assert {f"broker-{broker}.jsonl" for broker in (0, 1, 2)} == {p.name for p in (directory / "events").iterdir()}
    samples = [json.loads(line) for line in (directory / "metrics" / "samples.jsonl").read_text().splitlines()]
    assert {sample["broker"] for sample in samples} == {0, 1, 2}
    assert any("error" in sample for sample in samples)  # a dead broker answers no scrape, and that is on record
    assert not (directory / "cluster").exists()
    return directory


@pytest.mark.full
def test_the_demo_passes_twice(runs: Path) -> None:
    for number in (1, 2):
        done = subprocess.run(
            demo("--json", "--no-report", "--seconds", "8", "--seed", str(number), "--out", str(runs)),
            capture_output=True,
            text=True,
            timeout=DEMO_DEADLINE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        check_verdict(json.loads(done.stdout))
    assert len(list(runs.iterdir())) == 2


RELAY = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as peer:
    peer.sendall(f"{sys.argv[2]}\\n{sys.stdin.readline()}".encode())
    print(peer.makefile().readline(), end="", flush=True)
"""
RELAYED = """
import sys
from minikafka.cli.main import main
from minikafka_analytics.commands.prewarm import PrewarmedAnalysis
PrewarmedAnalysis.__init__.__defaults__ = ((sys.executable, "-c", *sys.argv[1:3]),)
del sys.argv[1:3]
sys.exit(main())
"""


def test_a_demo_is_judged_twice(runs: Path, spark: object) -> None:
    """The process of its analysis hands its order on to this one, whose JVM is warm; with a JVM of its own: below."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as beside:
        relayed = [RELAYED, RELAY, str(server.getsockname()[1])]
        told = beside.submit(judged_twice, [sys.executable, "-P", "-c", *relayed, *demo()[4:]], runs)
        told.add_done_callback(
            lambda _: server.shutdown(socket.SHUT_RDWR)
        )  # a demo that asks nothing is not waited for
        with suppress(OSError), server.accept()[0] as peer:
            size, asked = islice(peer.makefile("rb"), 2)
            order = prewarm_worker.Order(io.BytesIO(asked), lambda: None, lambda: None)
            assert order.wait(SPARK_DEADLINE_S)
            peer.sendall(json.dumps(prewarm_worker.answer_to(order, int(size))).encode() + b"\n")
        told.result()


@pytest.mark.full
def test_a_demo_leaves_no_jvm(runs: Path, java: None) -> None:
    judged_twice(demo(), runs)


def judged_twice(command: list[str], runs: Path) -> None:
    """Runs a demo that has its report made: both judges agree, and whatever it started is gone."""
    done = subprocess.run(
        [*command, "--json", "--seconds", "8", "--out", str(runs)],
        capture_output=True,
        text=True,
        timeout=DEMO_DEADLINE_S + SPARK_DEADLINE_S,
        env={**os.environ, "MINIKAFKA_TEST_OF": str(runs)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["judges_differ"] is None
    directory = check_verdict(verdict)
    assert "brokers are down" in done.stderr and "analysed with Spark in" in done.stderr, "all that was told is told"
    report = json.loads((directory / "report.json").read_text())
    assert report["runs"][0]["verdict"]["agree"] is True
    assert report["runs"][0]["counts"]["acknowledged"] == verdict["counts"]["acknowledged"]
    assert started_for(runs) == [], "of whom the demo started, and who has its environment"


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
