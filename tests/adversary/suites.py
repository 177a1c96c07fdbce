"""The suites that are tried on a copy with a bug in it, and how each tells that it noticed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from minikafka_simulator.bugs.bug import Bug

from tests.adversary.planting import is_of_the_broker, is_simulated

UNIT, WIRE, SIMULATION, JUDGES = "unit", "wire", "simulation", "judges"
SUITES = (UNIT, WIRE, SIMULATION, JUDGES)
WIRE_TESTS = "tests/unit/wire"
FOLDERS = {
    UNIT: tuple(
        f"tests/unit/{name}"
        for name in ("log", "replication", "controller", "membership", "metadata", "server", "groups")
    ),
    WIRE: (WIRE_TESTS,),
    JUDGES: ("tests/unit/chaos", "tests/unit/analytics"),
}
PACKAGES = ("broker-image", "kube", "operator", "chaos", "simulator", "analytics")
OTHERS = ("COVERAGE_", "COV_", "PYTEST_")
"""Variables of a test run that this one is part of: the copy's lines are not to be counted there."""
FIRST_SEED = 900_000
"""Far from the seeds that the simulation's own tests run."""
TEST_TIMEOUT_S, SUITE_TIMEOUT_S = 120, 1800
PASSED, FAILED, INTERRUPTED = 0, 1, 2
_FIRST_FAILURE = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_running: set[subprocess.Popen[str]] = set()


class Broken(Exception):
    """A suite could not be run at all, or fails without any bug."""


class Verdict(NamedTuple):
    """What a suite said of a copy; ``by`` is the test or invariant that noticed, None when nothing did."""

    by: str | None


def environment(copy: Path) -> dict[str, str]:
    """The copy's packages come before the installed ones, in child processes too."""
    paths = os.pathsep.join(str(copy / package) for package in PACKAGES)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
    return {**kept, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"}


def check_imports(copy: Path) -> None:
    """That Python takes the packages from the copy. Raises Broken."""
    names = "minikafka", "minikafka_chaos", "minikafka_simulator"
    code = f"import {', '.join(names)}; print({', '.join(f'{name}.__file__' for name in names)})"
    _, output = run(copy, [sys.executable, "-c", code])
    if not all(Path(path).is_relative_to(copy) for path in output.split()):
        raise Broken(f"the packages are not taken from the copy {copy}: {output.strip()}")


def run(copy: Path, command: Sequence[str]) -> tuple[int, str]:
    """(exit code, output) of a command in the copy; it and its children are killed after :data:`SUITE_TIMEOUT_S`."""
    process = subprocess.Popen(
        command, cwd=copy, env=environment(copy), text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    _running.add(process)
    try:
        output, _ = process.communicate(timeout=SUITE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        _kill(process)
        process.communicate()
        return FAILED, f"ERROR no end after {SUITE_TIMEOUT_S} s"
    finally:
        _running.discard(process)
    return process.returncode, output


def kill_all() -> None:
    """End every command that runs now, and what it has started: the run was interrupted, or is of no use any more."""
    for process in list(_running):
        _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_tests(copy: Path, paths: Sequence[str]) -> Verdict:
    """Run tests until one fails that fails again when it is alone: what fails by chance has noticed nothing.

    Raises Broken when pytest could not run them.
    """
    chance: list[str] = []
    while True:
        failed = _first_failure(copy, [*paths, *(f"--deselect={test}" for test in chance)])
        if failed is None or _first_failure(copy, [failed]) is not None:
            return Verdict(failed)
        chance.append(failed)


def _first_failure(copy: Path, arguments: Sequence[str]) -> str | None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    code, output = run(copy, [*command, "--timeout", str(TEST_TIMEOUT_S), *arguments])
    if code == PASSED:
        return None
    found = _FIRST_FAILURE.search(output)
    if code not in (FAILED, INTERRUPTED) or found is None:
        raise Broken(f"pytest ended with {code}: {output[-2000:]}")
    return found.group(1)


def simulate(copy: Path, schedules: int) -> Verdict:
    """Run schedules until one violates an invariant, or breaks down. Raises Broken for bad input."""
    seeds = f"{FIRST_SEED}..{FIRST_SEED + schedules - 1}"
    command = [sys.executable, "-m", "minikafka.cli", "simulate", "--seeds", seeds, "--workers", "1", "--json"]
    code, output = run(copy, command)
    if code == PASSED:
        return Verdict(None)
    if code != FAILED:
        raise Broken(f"simulate ended with {code}: {output[-2000:]}")
    try:
        first = json.loads(output)["violations"][0]
    except (ValueError, LookupError):
        return Verdict("a schedule that breaks down: " + output.strip().rpartition("\n")[2])
    return Verdict(f"{first['invariant']}, seed {first['seed']}")


def run_suite(copy: Path, suite: str, schedules: int) -> Verdict:
    """One whole suite, until it notices something. Raises Broken."""
    if suite == SIMULATION:
        return simulate(copy, schedules)
    return run_tests(copy, FOLDERS[suite])


def suite_of(test: str) -> str:
    """Which suite a test file belongs to."""
    if test.startswith(FOLDERS[JUDGES]):
        return JUDGES
    return WIRE if test.startswith(WIRE_TESTS) else UNIT


def tries(suite: str, bug: Bug) -> bool:
    """Whether a suite runs what the bug is in at all."""
    if suite == SIMULATION:
        return is_simulated(bug)
    return is_of_the_broker(bug) == (suite != JUDGES)
