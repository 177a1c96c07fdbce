"""Go's part of `make suites`: a module fetched from the proxy, its tests compiled and run, and what each came to."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.suites.catalogue import Suite
from tests.suites.declared import known

ENDINGS = {"pass": "passed", "fail": "failed", "skip": "skipped"}
FLAGS = {"GOFLAGS": "-p=1 -mod=mod", "GOTOOLCHAIN": "auto"}
Outcomes = dict[str, str]
"""``passed``, ``failed`` or ``skipped`` by the name of a test, the package's folder before it."""


class Fetched(NamedTuple):
    """A suite on this machine, ready to be run without a network."""

    source: Path
    binaries: Path
    """A folder with one file for each package that has tests, in folders like those of the packages."""


def fetch(suite: Suite, folder: Path) -> Fetched:
    """Download a module and compile its tests; raises CalledProcessError where a tool of Go ends with an error.

    The copy in Go's cache is read-only, and go refuses to add to its go.sum what only tests need.
    """
    source = folder / f"{suite.module.replace('/', '_')}@{suite.version}"
    binaries = folder / "bin" / source.name
    if not source.is_dir():
        told = _go("mod", "download", "-json", f"{suite.module}@{suite.version}", cwd=folder)
        partial = source.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(json.loads(told)["Dir"], partial)
        for path in (partial, *partial.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)
        partial.rename(source)
    listed = _go("list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}", *suite.packages, cwd=source)
    for package in filter(None, listed.splitlines()):
        name = Path(package).relative_to(source)
        binary = binaries / name / "tests"
        if not binary.is_file():
            binary.parent.mkdir(parents=True, exist_ok=True)
            _go("test", "-c", "-o", str(binary), *suite.build, f"./{name}", cwd=source)
    return Fetched(source, binaries)


def install(package: str, folder: Path) -> Path:
    """Compile a command; its path."""
    binary = folder / package.rpartition("/")[2].partition("@")[0]
    if not binary.is_file():
        _go("install", package, cwd=folder, GOBIN=str(folder))
    return binary


def _go(*arguments: str, cwd: Path, **more: str) -> str:
    return subprocess.run(
        ["go", *arguments], cwd=cwd, env=os.environ | FLAGS | more, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def run(suite: Suite, fetched: Fetched, environment: Mapping[str, str], log: Path) -> Outcomes:
    """Run the tests of all packages, and once more those that failed and are not declared: only what fails twice has failed."""
    deadline = time.monotonic() + 60 * suite.minutes
    found: Outcomes = {}
    for binary in sorted(fetched.binaries.rglob("tests")):
        package = binary.parent.relative_to(fetched.binaries)
        runner = _Package(fetched.source / package, binary, environment, log, deadline, skipping(suite.left_out))
        names = [name for name in runner.names() if re.search(suite.only, name)]
        outcomes = runner.run_all([name for name in names if name not in suite.left_out])
        prefix = "" if str(package) == "." else f"{package}."
        failed = {top(name) for name, outcome in outcomes.items() if outcome == "failed"}
        again = sorted(name for name in failed if prefix + name not in known(suite.name))
        for name in again:
            outcomes = {each: outcome for each, outcome in outcomes.items() if top(each) != name}
            outcomes |= runner.run_all([name])
        found |= {prefix + name: outcome for name, outcome in outcomes.items()}
    return found


def skipping(names: Sequence[str]) -> Sequence[str]:
    """Make the argument that has Go leave out these tests and subtests."""
    patterns = ["/".join(f"^{re.escape(part)}$" for part in name.split("/")) for name in names]
    return ("-test.skip", "|".join(patterns)) if patterns else ()


def top(name: str) -> str:
    """Return the name of the test that a subtest belongs to."""
    return name.partition("/")[0]


class _Package(NamedTuple):
    folder: Path
    binary: Path
    environment: Mapping[str, str]
    log: Path
    deadline: float
    skip: Sequence[str] = ()

    def names(self) -> list[str]:
        """List the tests; examples have no broker that they could speak to, and benchmarks are none."""
        done = subprocess.run(
            [self.binary, "-test.list", "^Test"],
            cwd=self.folder,
            env=os.environ | self.environment,  # a suite's own set-up comes before it lists anything
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return [line for line in done.stdout.splitlines() if line.startswith("Test")]

    def run_all(self, names: Sequence[str]) -> Outcomes:
        """Run these tests in one process, and in another what is left when that ends before its time.

        The tests that were running when the process ended have failed; those after them are run. So each process takes at
        least one test from what is left.
        """
        found: Outcomes = {}
        left = list(names)
        while left:
            outcomes = self._run(left)
            ended = {top(name) for name in outcomes}
            found |= outcomes or dict.fromkeys(left, "failed")
            left = [name for name in left if name not in ended] if outcomes else []
        return found

    def _run(self, names: Iterable[str]) -> Outcomes:
        seconds = max(1, round(self.deadline - time.monotonic()))
        pattern = "^(" + "|".join(names) + ")$"
        command = ["go", "tool", "test2json", str(self.binary), "-test.v=test2json", "-test.run", pattern]
        command += [f"-test.timeout={seconds}s", *self.skip]
        with self.log.open("a+", encoding="utf-8", errors="replace") as log:
            begin = log.seek(0, os.SEEK_END)
            subprocess.run(
                command,
                cwd=self.folder,
                env=os.environ | self.environment | {"GOTOOLCHAIN": "local"},
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
            log.seek(begin)
            return outcomes_of(log)


def outcomes_of(lines: Iterable[str]) -> Outcomes:
    """Read what test2json tells of each test; who has begun and never ended has failed."""
    found: Outcomes = {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:  # what the binary itself has said
            continue
        if "Test" in event and event["Action"] == "run":
            found[event["Test"]] = "failed"
        elif "Test" in event and event["Action"] in ENDINGS:
            found[event["Test"]] = ENDINGS[event["Action"]]
    return found
