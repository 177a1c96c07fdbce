"""Which tests run, which stay together in one worker of pytest-xdist (`--dist loadgroup`), and which begin first.

A test of `make full` alone says so by the marker ``full``, where it stands. What starts a JVM is marked ``jvm`` here.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath

import pytest
from hypothesis import settings

SHARED_BY_ALL = {"spark": "spark", "demo_run": "spark", "bootstrap": "bootstrap", "shared_cluster": "shared_cluster"}
"""Fixtures that all tests of a run share, of whatever file, and the group of those tests: one Spark session and the run of a
demo that it analyses, a cluster for other people's clients and one for ours."""

SHARED_BY_FILE = frozenset({"base", "cluster", "partition_dirs", "secured", "store", "used", "witness"})
"""Fixtures that tests of a file share because they are slow to make."""

JVM = frozenset({"java", "kafka_tools"})
"""Fixtures of tests that start a JVM; `make quick` leaves those out."""

FIRST = (
    "unit/analytics",
    "test_demo.py",
    "test_java_tools.py",
    "test_telemetry.py",
    "integration",
    "interop",
    "simulation",
)
"""The longest first, then what mostly waits; unit tests fill in wherever a worker has nothing else to do."""


UNIT = PurePath("tests/unit")
"""Tests of milliseconds: each file of them goes to one worker, for handing out thousands of tests one by one costs more."""


def pytest_configure() -> None:
    """No example of Hypothesis has a deadline: a machine that is busy with something else takes its 0.2 s for any."""
    settings.register_profile("no deadline", deadline=None)
    settings.load_profile("no deadline")
    gc.disable()  # while only what stays is made, until the tests begin


def pytest_collection_finish() -> None:
    """Let the collector pass over the thousands of tests and all modules: walking them costs a tenth of the tests' time."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Give them back, so that C extensions find nothing left over at the end."""
    gc.unfreeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full",
        action="store_true",
        default=bool(os.environ.get("MINIKAFKA_TEST_FULL")),
        help="run also what is marked full: rare, slow or repeated (MINIKAFKA_TEST_FULL=1 says the same)",
    )


def _shared(item: pytest.Item) -> str | None:
    """The group of an item: the fixture that all share; its file, if it needs something costly or costs little."""
    names = getattr(item, "fixturenames", ())
    for name, group in SHARED_BY_ALL.items():
        if name in names:
            return group
    definitions: dict[str, Sequence[pytest.FixtureDef[object]]] = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009
    shared = any(name in SHARED_BY_FILE and definitions[name][-1].scope != "function" for name in definitions)
    file = item.nodeid.partition("::")[0]
    return file if shared or (PurePath(file).is_relative_to(UNIT) and not item.get_closest_marker("slow")) else None


def _rank(path: PurePath) -> int:
    return next((n for n, part in enumerate(FIRST) if part in path.as_posix()), len(FIRST))


def _said(results: Iterable[pytest.TestReport]) -> list[str]:
    return [str(value) for report in results for name, value in report.user_properties if name == "told"]


def _left_out(results: Iterable[pytest.TestReport]) -> Counter[str]:
    """How many tests each reason has left out."""
    return Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in results if isinstance(report.longrepr, tuple)
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test of some length that shares nothing runs wherever there is room."""
    if not config.getoption("--full"):
        left_out = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        if not JVM.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("jvm")
        if not item.get_closest_marker("xdist_group") and (group := _shared(item)):
            item.add_marker(pytest.mark.xdist_group(group))
    if getattr(config, "workerinput", None) is not None:
        items.sort(key=lambda item: _rank(item.path))  # stable: the order within a file stays


@pytest.fixture(scope="session", autouse=True)
def _commands_can_be_interrupted() -> None:
    """Started in the background of a script, the tests would hand the shell's ignoring of SIGINT on to what they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class FailuresAtOnce:
    """Print each failure in a line while the other tests go on: `make full` takes two hours, and pytest names them at its end."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)  # of text that a plugin gives there is none
            said = str(crash.message if crash else report.longrepr).splitlines() or [""]
            self._terminal.ensure_newline()
            self._terminal.write_line(f"failed: {report.nodeid} ({report.when}): {said[0]}", red=True)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Also without `-v`; a process of pytest-xdist has no terminal."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(terminal, pytest.TerminalReporter):
        session.config.pluginmanager.register(FailuresAtOnce(terminal))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests have to tell beside passing (``record_property("told", ...)``), and what was left out, and why."""
    for line in _said(terminalreporter.getreports("passed")):
        terminalreporter.write_line(line)
    for reason, number in _left_out(terminalreporter.getreports("skipped")).items():
        terminalreporter.write_line(f"left out: {number} tests: {reason}")
