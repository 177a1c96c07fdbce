"""Executors that are killed cost time only: the report is the same as without."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from children import analyse, java_of
from synthetic_run import write_run

from tests.processes import command_line

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

CLUSTER = "local-cluster[2,1,1024]"
STAGES = (
    "parquet/history",
    "parquet/steps-*/sends",
    "parquet/steps-*/wide",
    "parquet/steps-*/places",
    "parquet/steps-*/fates",
)
"""What is there once the landing, the evidence, the samples, the reads and the judgement with its answers have begun."""


def executors(pid: int) -> list[int]:
    return [java for java in java_of(pid) if b"CoarseGrainedExecutorBackend" in command_line(java)]


def report(run: Path, out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    found.pop("generated_at")
    return found


def test_an_executor_killed_in_each_stage_changes_nothing(java: None, tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_run(run, lose=True, duplicate=True)
    whole = analyse(run, "--out", str(tmp_path / "whole"))
    waiting = list(STAGES)
    killed: set[int] = set()

    def kill_one_for_each_stage(pid: int) -> bool:
        alive = [executor for executor in executors(pid) if executor not in killed]
        if alive and any((tmp_path / "struck").glob(waiting[0])):
            os.kill(alive[0], signal.SIGKILL)
            killed.add(alive[0])
            waiting.pop(0)
        return not waiting

    struck = analyse(run, "--out", str(tmp_path / "struck"), "--master", CLUSTER, meanwhile=kill_one_for_each_stage)
    assert len(killed) == len(STAGES)
    assert (struck.code, struck.err) == (whole.code, whole.err), struck.err
    assert report(run, tmp_path / "struck") == report(run, tmp_path / "whole")
