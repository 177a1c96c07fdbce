"""`minikafka analyze` as a process of its own, with something done to it meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.processes import children, has_ended, thread_names
from tests.unit.verdict_cases import CASES
from tests.waiting import until_now

DEADLINE_S = 800
"""Generous: machines that run tests are busy. Nothing waits longer than it has to."""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def write_small_run(folder: Path) -> Path:
    """A run folder with a history and replicas' logs, of a few dozen lines."""
    return next(case for case in CASES if case.name == "healthy-with-replicas").make().write(folder)


def analyse(
    run: Path | str, *arguments: str, meanwhile: Callable[[int], bool] | None = None, env: dict[str, str] | None = None
) -> Ended:
    """Run `minikafka analyze`; `meanwhile` is called with its pid until it says True, and has to before the end."""
    command = [str(Path(sys.executable).with_name("minikafka")), "analyze", str(run), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as child:
        deadline = time.monotonic() + DEADLINE_S
        done = meanwhile is None
        while not done and child.poll() is None and time.monotonic() < deadline:
            done = meanwhile is not None and meanwhile(child.pid)
            time.sleep(0.05)
        out, err = child.communicate(timeout=DEADLINE_S)
    assert done, f"it ended before anything was done to it: {err}"
    return Ended(child.returncode, out, err)


def java_of(pid: int) -> list[int]:
    """The JVMs below a process, children before grandchildren."""
    found, level = [], [pid]
    while level:
        below = [child for parent in level for child in children(parent)]
        found += [child for child in below if "java" in thread_names(child)]
        level = below
    return found


def until_ended(process: int | str) -> None:
    until_now(lambda: has_ended(process), seconds=DEADLINE_S)
