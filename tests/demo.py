"""One run of `minikafka demo` for all the tests of a process: a run is on record, and several tests look at it.

A fixture, for the modules and conftests that import it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

DEMO_DEADLINE_S = 600.0


def demo(*arguments: str) -> list[str]:
    """Return the command line of a demo."""
    return [sys.executable, "-P", "-m", "minikafka.cli", "demo", *arguments]


@dataclass(frozen=True)
class Demo:
    """What a demo told (``--json``), and what it wrote beside."""

    verdict: dict[str, Any]
    stderr: str
    runs: Path
    """The folder that its run is in."""

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.verdict["run"])


def demonstrated(runs: Path, *arguments: str, seconds: float = DEMO_DEADLINE_S) -> Demo:
    """Run a demo to its end and hold it to having passed. Whatever it starts has MINIKAFKA_TEST_OF in its environment."""
    done = subprocess.run(
        demo("--json", "--seconds", "8", "--out", str(runs), *arguments),
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "MINIKAFKA_TEST_OF": str(runs)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Demo(json.loads(done.stdout), done.stderr, runs)


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """A demo without a report: whoever needs one has its run analysed together with others."""
    return demonstrated(tmp_path_factory.mktemp("demo"), "--no-report")
