"""`minikafka chaos abort`: whatever a run was doing, and also when its runner was killed, no process is left."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from minikafka.local.cluster import LocalCluster
from minikafka_chaos.record.journal import read_journal

from tests.processes import command_line, processes_with
from tests.waiting import until_now

MINIKAFKA = (sys.executable, "-m", "minikafka.cli")
SECONDS_MAX = 90.0


class Running:
    """A long run in a process of its own."""

    def __init__(self, out: Path, scenario: str = "demo") -> None:
        self.out = out
        words = ("chaos", "run", scenario, "--seconds", "600", "--out", str(out))
        self.runner = subprocess.Popen((*MINIKAFKA, *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until_now(self.acknowledges, what="records are acknowledged")

    @property
    def directory(self) -> Path:
        (directory,) = self.out.iterdir()
        return directory

    def acknowledges(self) -> bool:
        assert self.runner.poll() is None, "the run ended"
        return any(b'"type":"ok"' in path.read_bytes() for path in self.out.glob("*/history.jsonl"))

    def brokers(self) -> list[int]:
        return [broker.pid for broker in LocalCluster(self.directory / "cluster").info().brokers if broker.pid]

    def abort(self, *words: str) -> list[dict[str, object]]:
        done = subprocess.run((*MINIKAFKA, "chaos", "abort", "--json", *words), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        told: list[dict[str, object]] = json.loads(done.stdout)
        return told

    def verdicts(self) -> list[object]:
        return [each["verdict"] for each in read_journal(self.directory / "journal.jsonl") if each["kind"] == "verdict"]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    out = tmp_path / "runs"
    try:
        yield Running(out)
    finally:
        for pid in processes_with(str(out)):
            os.kill(pid, signal.SIGKILL)


def test_after_kill_9_of_the_runner_no_process_is_left(running: Running) -> None:
    paused = running.brokers()[0]
    os.kill(paused, signal.SIGSTOP)  # as a fault would leave it
    running.runner.kill()
    running.runner.wait()
    assert running.brokers(), "nothing to abort"
    unrecorded = (
        running.directory / "cluster" / "broker-2"
    )  # killed between starting it and writing down which process it is
    for name in ("process.json", "pid"):
        (unrecorded / name).unlink()
    with (running.directory / "journal.jsonl").open("a") as journal:
        journal.write('{"time": 1.0, "kind": "no')  # and in the middle of a line
    (told,) = running.abort("--out", str(running.out))
    assert (told["runner"], told["left"]) == (None, 0)
    assert running.brokers() == []
    assert processes_with(str(running.out)) == []
    assert running.verdicts() == ["Aborted"]
    assert running.abort("--out", str(running.out)) == []


@pytest.mark.full
def test_a_run_that_goes_on_is_ended_by_its_own_runner(running: Running) -> None:
    (told,) = running.abort(str(running.directory))
    running.runner.wait(SECONDS_MAX)
    assert (told["runner"], told["left"]) == (running.runner.pid, 0)
    assert processes_with(str(running.out)) == []
    assert running.verdicts() == ["Aborted"]


CUT = """
apiVersion: minikafka.dev/v1alpha1
kind: ChaosExperiment
metadata: {name: parted}
spec:
  topics: [{name: t}]
  workload: {topic: t, ratePerSecond: 50}
  steps:
    - {name: outage, fault: {verb: StoreOutage}}
    - {name: full, fault: {verb: DiskFull, target: {type: Controller}}}
    - {name: parted, fault: {verb: Cut, target: {type: All}, durationSeconds: 3600}}
"""


@pytest.fixture
def parted(tmp_path: Path) -> Iterator[Running]:
    """A run that is in the middle of faults of network, disk and store."""
    (tmp_path / "parted.yaml").write_text(CUT)
    out = tmp_path / "runs"
    try:
        running = Running(out, str(tmp_path / "parted.yaml"))
        until_now(lambda: faults_made(running) == {"StoreOutage", "DiskFull", "Cut"}, what="all is broken")
        yield running
    finally:
        for pid in processes_with(str(out)):
            os.kill(pid, signal.SIGKILL)


def faults_made(running: Running) -> set[str]:
    lines = read_journal(running.directory / "journal.jsonl")
    return {line["fault"] for line in lines if line["kind"] == "action" and line["phase"] == "end"}


def proxies(running: Running) -> list[int]:
    folder = str(running.directory / "cluster")
    return [pid for pid in processes_with(folder) if b"links.proxy" in command_line(pid)]


@pytest.mark.full
def test_after_kill_9_of_the_runner_no_proxy_and_no_lock_is_left(parted: Running) -> None:
    assert len(proxies(parted)) == 1
    parted.runner.kill()
    parted.runner.wait()
    until_now(lambda: proxies(parted) == [], what="the proxy has ended with who started it")
    with sqlite3.connect(parted.directory / "cluster" / "metadata.sqlite", timeout=30) as store:
        store.execute("BEGIN IMMEDIATE")
        store.rollback()
    store.close()
    parted.abort("--out", str(parted.out))
    assert processes_with(str(parted.out)) == []
    assert parted.verdicts() == ["Aborted"]


@pytest.mark.full
def test_an_abort_in_the_middle_of_faults_leaves_nothing(parted: Running) -> None:
    (told,) = parted.abort(str(parted.directory))
    parted.runner.wait(SECONDS_MAX)
    assert told["left"] == 0
    assert processes_with(str(parted.out)) == []
    assert parted.verdicts() == ["Aborted"]


def test_a_directory_that_is_no_run_is_bad_input(tmp_path: Path, call_cli: Any) -> None:
    done = call_cli("chaos", "abort", tmp_path / "nowhere")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
