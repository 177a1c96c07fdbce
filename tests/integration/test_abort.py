"""`minikafka chaos abort`: whatever a run was doing, and also when its runner was killed, no process is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from minikafka.local.cluster import LocalCluster
from minikafka_chaos.journal import read_journal

pytestmark = pytest.mark.slow

MINIKAFKA = (sys.executable, "-m", "minikafka.cli")
SECONDS_MAX = 90.0


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, f"not in {SECONDS_MAX:g} s: {what}"
        time.sleep(0.05)


def command_lines_with(text: str) -> list[int]:
    """Processes that name this folder in their command line: brokers do, in the path of their properties."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if text.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                    found.append(int(name))
            except OSError:
                continue
    return found


class Running:
    """A long run in a process of its own."""

    def __init__(self, out: Path) -> None:
        self.out = out
        words = ("chaos", "run", "demo", "--seconds", "600", "--out", str(out))
        self.runner = subprocess.Popen((*MINIKAFKA, *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self.acknowledges, "records are acknowledged")

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
        for pid in command_lines_with(str(out)):
            os.kill(pid, signal.SIGKILL)


def test_after_kill_9_of_the_runner_no_process_is_left(running: Running) -> None:
    paused = running.brokers()[0]
    os.kill(paused, signal.SIGSTOP)  # as a fault would leave it
    running.runner.kill()
    running.runner.wait()
    assert running.brokers(), "nothing to abort"
    (told,) = running.abort("--out", str(running.out))
    assert (told["runner"], told["left"]) == (None, 0)
    assert running.brokers() == []
    assert command_lines_with(str(running.out)) == []
    assert running.verdicts() == ["Aborted"]
    assert running.abort("--out", str(running.out)) == []


def test_a_run_that_goes_on_is_ended_by_its_own_runner(running: Running) -> None:
    (told,) = running.abort(str(running.directory))
    running.runner.wait(SECONDS_MAX)
    assert (told["runner"], told["left"]) == (running.runner.pid, 0)
    assert command_lines_with(str(running.out)) == []
    assert running.verdicts() == ["Aborted"]


def test_a_directory_that_is_no_run_is_bad_input(tmp_path: Path) -> None:
    done = subprocess.run((*MINIKAFKA, "chaos", "abort", str(tmp_path / "nowhere")), capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
