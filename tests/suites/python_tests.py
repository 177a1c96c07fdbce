"""Python's part of `make suites`: an sdist fetched from PyPI, its tests run by pytest, and what each came to."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.suites.catalogue import Suite
from tests.suites.declared import known
from tests.suites.go_tests import Fetched, Outcomes, top

REPOSITORY = Path(__file__).parents[2]


def fetch(suite: Suite, folder: Path) -> Fetched:
    """Download and unpack an sdist; raises CalledProcessError where pip ends with an error."""
    source = folder / f"{suite.module.replace('-', '_')}-{suite.version}"
    if not source.is_dir():
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", suite.module]
            subprocess.run([*command, "--dest", fresh, f"{suite.module}=={suite.version}"], check=True)
            with tarfile.open(Path(fresh, f"{source.name}.tar.gz")) as archive:
                archive.extractall(fresh, filter="data")
            Path(fresh, source.name).rename(source)
    return Fetched(source, source)


def run(suite: Suite, fetched: Fetched, environment: Mapping[str, str], log: Path) -> Outcomes:
    """Run the tests, and once more those that failed and are not declared: only what fails twice has failed."""
    deadline = time.monotonic() + 60 * suite.minutes
    outcomes = _run(suite.packages, suite.plugin, fetched.source, environment, log, deadline)
    expected = known(suite.name)
    again = [test for test, outcome in outcomes.items() if outcome == "failed" and top(readable(test)) not in expected]
    if again:
        outcomes |= _run(again, suite.plugin, fetched.source, environment, log, deadline)
    return {readable(test): outcome for test, outcome in outcomes.items()}


def _run(
    tests: Sequence[str], plugin: str, source: Path, environment: Mapping[str, str], log: Path, deadline: float
) -> Outcomes:
    kept = log.with_name("kept.json")
    command = [sys.executable, "-m", "pytest", "-p", plugin, *tests]
    with log.open("a") as output, contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command,
            cwd=source,  # the first place that a module is imported from
            env=os.environ | environment | {"PYTHONPATH": str(REPOSITORY), "SUITE_OUTCOMES": str(kept)},
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=max(1.0, deadline - time.monotonic()),
            check=False,
        )
    return json.loads(kept.read_text())


def readable(test: str) -> str:
    """Name a test as those of Go are named: ``folder/test_file.py::test_it[gzip]`` is ``test_file.test_it/gzip``."""
    path, *names = test.removesuffix("]").split("::")
    name, _, parameters = ".".join((Path(path).stem, *names)).partition("[")
    return f"{name}/{parameters}" if parameters else name
