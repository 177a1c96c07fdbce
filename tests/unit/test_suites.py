"""`make suites`: what is read of Go's and Python's tests, and what is held against what is declared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.suites import go_tests, python_tests, results
from tests.suites.catalogue import SUITES
from tests.suites.declared import DECLARED, Declared

SUITE = SUITES[0]


def event(action: str, test: str | None = None, output: str = "") -> str:
    told: dict[str, Any] = {"Action": action, "Output": output} | ({"Test": test} if test else {})
    return json.dumps(told)


def test_a_test_that_never_ended_has_failed() -> None:
    lines = [event("start"), event("run", "TestA"), event("run", "TestA/b"), event("pass", "TestA/b")]
    lines += [
        event("output", "TestA", "panic"),
        event("run", "TestC"),
        event("skip", "TestC"),
        "not JSON",
        event("fail"),
    ]
    assert go_tests.outcomes_of(lines) == {"TestA": "failed", "TestA/b": "passed", "TestC": "skipped"}


class Ending(go_tests._Package):
    """Tests of which the second ends the process."""

    def _run(self, names: Iterable[str]) -> go_tests.Outcomes:
        found = {}
        for name in names:
            found[name] = "failed" if name == "TestB" else "passed"
            if name == "TestB":
                break
        return found


def test_what_is_after_a_test_that_ends_the_process_is_run() -> None:
    package = Ending(Path(), Path(), {}, Path(), 0)
    outcomes = package.run_all(["TestA", "TestB", "TestC"])
    assert outcomes == {"TestA": "passed", "TestB": "failed", "TestC": "passed"}


def test_tests_that_never_begin_have_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go_tests._Package, "_run", lambda *_: {})
    package = go_tests._Package(Path(), Path(), {}, Path(), 0)
    assert package.run_all(["TestA", "TestB"]) == {"TestA": "failed", "TestB": "failed"}


def test_a_subtest_alone_can_be_left_out() -> None:
    assert go_tests.skipping(["TestA", "TestB/some_words"]) == ("-test.skip", "^TestA$|^TestB$/^some_words$")
    assert go_tests.skipping([]) == ()


def test_a_test_of_python_that_fails_is_run_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter(
        [
            {"a/test_a.py::test_it[gzip]": "failed", "a/test_a.py::test_b": "passed"},
            {"a/test_a.py::test_it[gzip]": "passed"},
        ]
    )
    asked = []
    monkeypatch.setattr(python_tests, "_run", lambda tests, *_: asked.append(tests) or next(ends))
    fetched = go_tests.Fetched(Path(), Path())
    assert python_tests.run(SUITE, fetched, {}, Path()) == {"test_a.test_it/gzip": "passed", "test_a.test_b": "passed"}
    assert asked == [SUITE.packages, ["a/test_a.py::test_it[gzip]"]]


def test_a_new_failure_and_a_declared_one_that_passes_are_told() -> None:
    declared = [Declared("no transactions", {SUITE.name: ("TestOld", "TestKnown")})]
    result = results.summed({"TestNew": "failed", "TestNew/a": "failed", "TestKnown": "failed", "TestOld": "passed"})
    assert result == {"passed": 1, "skipped": 0, "failed": {"TestNew": 2, "TestKnown": 1}}
    new, old = results.surprises(SUITE, result, declared)
    assert "TestNew fails" in new
    assert "TestOld is declared" in old


def test_the_page_has_a_row_for_each_suite_that_was_run_and_each_reason() -> None:
    declared = [Declared("no transactions", {SUITE.name: ("TestKnown",)})]
    page = results.page({SUITE.name: {"passed": 2000, "skipped": 3, "failed": {"TestKnown": 4}}}, SUITES, declared)
    assert "| 2,007 | 2,000 | 4 | 3 |" in page
    assert page.endswith(f"- no transactions:\n  - {SUITE.name}: `TestKnown`\n")


def test_the_record_holds_what_is_declared_and_nothing_else() -> None:
    recorded = results.load()
    assert recorded
    told = [
        line for suite in SUITES if suite.name in recorded for line in results.surprises(suite, recorded[suite.name])
    ]
    assert told == []
    left_out = {test for suite in SUITES for test in suite.left_out}
    assert left_out <= {test for each in DECLARED for tests in each.tests.values() for test in tests}
