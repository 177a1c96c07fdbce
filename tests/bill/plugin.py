"""Measures what each test costs: ``pytest -p tests.bill.plugin --bill FILE`` adds a line for each to FILE.

Processor time is that of the test and of all that it started, also of daemons (brokers, JVMs) that outlive who started
them: each process of pytest moves into a control group of its own. Where that is not allowed only children that were
waited for count, and the file says so. Fixtures count for the test that needed them first, and their end for the last.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

GROUPS, CHILDREN = "control groups", "waited-for children only"
QUICK, TEST, FULL = FORMS = "quick", "test", "full"


class Meter:
    """Reads the processor seconds of this process and of what it started."""

    def __init__(self) -> None:
        self._stat = _own_group()
        self.kind = GROUPS if self._stat else CHILDREN
        self._before = _of_children()  # what this process used before it had a group
        self._marked = 0.0

    def total(self) -> float:
        if self._stat is None:
            return _of_children()
        return self._before + int(self._stat.read_text().split()[1]) / 1e6  # usage_usec is the first line

    def since_mark(self) -> float:
        """Tell what was used since this was asked last."""
        before, self._marked = self._marked, self.total()
        return self._marked - before

    def close(self) -> None:
        """Leave the group and remove it, unless something still runs in it."""
        if self._stat is not None:
            try:
                (self._stat.parent.parent / "cgroup.procs").write_text("0")
                self._stat.parent.rmdir()
            except OSError:
                pass


def _of_children() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _own_group() -> Path | None:
    """Move this process into a new control group (version 2); the file that counts there."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        own = next(line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
        root = next(mount[1] for mount in mounts if mount[2] == "cgroup2")
        group = Path(root + own) / f"minikafka-tests-{os.getpid()}"
        group.mkdir()
        (group / "cgroup.procs").write_text("0")
    except (OSError, StopIteration):
        return None
    return group / "cpu.stat"


class Bill:
    """Attached to every process of pytest; the one that the user started writes the file."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self._config, self._path = config, path
        self._meter = Meter()
        self._is_worker = hasattr(config, "workerinput")
        self._began = time.monotonic()
        self._costs: dict[str, list[float]] = {}
        self._collection = 0.0

    def pytest_collection_finish(self) -> None:
        self._collection += self._meter.since_mark()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        report.cpu_seconds = self._meter.since_mark()  # xdist carries a report's attributes along
        report.form = _form(item)
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        if self._is_worker or not hasattr(report, "cpu_seconds"):  # xdist reports a worker that crashed
            return
        cost = self._costs.setdefault(report.nodeid.partition("@")[0], [0.0, 0.0])
        cost[0] += report.cpu_seconds
        cost[1] += report.duration
        if report.when == "teardown":
            test = report.nodeid.partition("@")[0]
            self._write({"test": test, "cpu": cost[0], "wall": cost[1], "form": report.form})

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._collection += getattr(node, "workeroutput", {}).get("bill", 0.0)

    def pytest_sessionfinish(self) -> None:
        total = self._meter.total()
        self._meter.close()
        if self._is_worker:
            self._config.workeroutput["bill"] = self._collection
            return
        # What workers used is in the total, because they are children of this process, in groups below its own.
        run = {"cpu": total, "collection": self._collection, "wall": time.monotonic() - self._began}
        self._write({"run": self._config.invocation_params.args, "counted": self._meter.kind, **run})

    def _write(self, line: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _form(item: pytest.Item) -> str:
    """Tell the shortest form of the tests that has it."""
    if item.get_closest_marker("full"):
        return FULL
    slow = any(item.get_closest_marker(name) for name in ("jvm", "slow"))
    return QUICK if item.nodeid.startswith("tests/unit/") and not slow else TEST


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bill", metavar="FILE", help="add a line of JSON to FILE for what each test costs, in seconds")


def pytest_configure(config: pytest.Config) -> None:
    if path := config.getoption("--bill"):
        config.pluginmanager.register(Bill(config, Path(path).absolute()), "bill-of-tests")
