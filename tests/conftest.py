"""Side by side: which tests stay together in one worker of pytest-xdist (`--dist loadgroup`), and which begin first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import PurePath

import pytest

COSTLY = frozenset({"analysed", "base", "bootstrap", "cluster", "partition_dir", "spark", "witness"})
"""Fixtures that tests of a file share because they are slow to make: a cluster, an environment, a Spark session."""

FIRST = (
    "test_kill_leader.py",
    "test_demo.py",
    "unit/analytics",
    "test_install.py",
    "test_telemetry.py",
    "test_java_tools.py",
    "test_stories.py",
    "integration",
    "interop",
    "simulation",
)
"""The longest first, then what mostly waits; unit tests fill in wherever a worker has nothing else to do."""

TOGETHER = ("unit/analytics",)
"""Folders that share what is costly over all of their files."""


def _shares(item: pytest.Item) -> bool:
    definitions: dict[str, Sequence[pytest.FixtureDef[object]]] = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009
    return any(name in COSTLY and definitions[name][-1].scope != "function" for name in definitions)


def _group(item: pytest.Item) -> str:
    path = item.nodeid.partition("::")[0]
    return next((folder for folder in TOGETHER if folder in path), path)


def _rank(path: PurePath) -> int:
    return next((n for n, part in enumerate(FIRST) if part in path.as_posix()), len(FIRST))


def _summed(results: Iterable[pytest.TestReport]) -> list[str]:
    return [str(value) for report in results for name, value in report.user_properties if name == "told"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test without anything costly runs wherever there is room; the others with all of their file.

    Tests marked ``long`` are left to `make long`.
    """
    if not os.environ.get("MINIKAFKA_TEST_LONG"):
        longer = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=longer)
        items[:] = [item for item in items if item not in longer]
    sharing = {_group(item) for item in items if _shares(item)}
    for item in items:
        if (group := _group(item)) in sharing:
            item.add_marker(pytest.mark.xdist_group(group))
    if getattr(config, "workerinput", None) is not None:
        items.sort(key=lambda item: _rank(item.path))  # stable: the order within a file stays


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have to tell beside passing (``record_property("told", ...)``), which workers cannot print."""
    for line in _summed(terminalreporter.getreports("passed")):
        terminalreporter.write_line(line)
