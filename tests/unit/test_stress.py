"""`tools/stress` with a pytest that fails as it is told: what it prints, what it ends with, and that its load ends with it."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import children, has_ended
from tests.waiting import until_now

TOOL = Path(__file__).parents[2] / "tools/stress"
PYTHON = f"""#!/bin/bash
[[ $1 == -m ]] || exec {sys.executable} "$@"
round=$(wc -l <rounds); echo >>rounds
source ./pytest
"""
FAILS_ONCE = """
((round == 1)) || { echo "3 passed"; exit 0; }
echo "ERROR    asyncio:base_events.py:1 of a log that was captured"
echo "FAILED tests/a.py::test_b[two words] - assert 1 - 1 == 1"
echo "FAILED tests/a.py::test_b[two more]"
echo "2 failed, 1 passed"; exit 1
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A tree of its own, whose tests and whose Python are the test's."""
    for folder in ("tools", "tests", ".venv/bin", "tmp"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(TOOL, tmp_path / "tools")
    for empty in ("tests/a.py", "rounds"):
        (tmp_path / empty).touch()
    python = tmp_path / ".venv/bin/python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path


def start(place: Path, pytest_does: str) -> subprocess.Popen[str]:
    (place / "pytest").write_text(pytest_does)
    command = [place / "tools/stress", "tests/a.py", "--times=3"]
    environment = {**os.environ, "TMPDIR": str(place / "tmp")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def load_of(tool: int) -> list[int]:
    """The processes below the tool that take processors and disk; in sessions of their own."""
    return [child for child in children(tool) if os.getsid(child) == child]


@pytest.mark.slow
def test_what_fails_once_is_named_whole(place: Path) -> None:
    told, _ = (tool := start(place, FAILS_ONCE)).communicate()
    assert tool.returncode == 1
    assert [line.split(": ")[-1] for line in told.splitlines()[:3]] == ["3 passed", "2 failed, 1 passed", "3 passed"]
    named = {" ".join(line.split()) for line in told.splitlines()[4:]}
    assert named == {"1 tests/a.py::test_b[two words]", "1 tests/a.py::test_b[two more]"}


@pytest.mark.slow
def test_its_load_does_not_outlive_it(place: Path) -> None:
    with start(place, "touch begun; until [[ -e over ]]; do sleep 0.1; done") as tool:
        until_now((place / "begun").exists)
        load = load_of(tool.pid)
        assert len(load) == 2 * (os.cpu_count() or 1) + 1
        tool.kill()
    (place / "over").touch()
    try:
        until_now(lambda: all(map(has_ended, load)))
    finally:
        for process in itertools.filterfalse(has_ended, load):
            os.kill(process, signal.SIGKILL)
