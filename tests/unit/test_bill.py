"""The bill of the tests: files are summed up by form, and no planted bug is left to `make full`."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.adversary import results
from tests.bill import page
from tests.bill.page import Cost

ROOT = Path(__file__).parents[2]


def test_tests_are_summed_up_by_file_and_form() -> None:
    measured = [
        {"test": "tests/a.py::one", "cpu": 1.0, "wall": 2.0, "form": "test"},
        {"test": "tests/a.py::two[x]", "cpu": 0.5, "wall": 0.5, "form": "test"},
        {"test": "tests/a.py::rare", "cpu": 9.0, "wall": 9.0, "form": "full"},
        {"run": ["tests"], "cpu": 20.0},
    ]
    assert page.by_file(measured) == {"tests/a.py": {"test": Cost(2, 1.5, 2.5), "full": Cost(1, 9.0, 9.0)}}


def test_the_parts_of_make_full_are_told_with_their_commit() -> None:
    lines = page.gate(["make e2e-full\tc374cfa2+\tFAILED\t3600\t1201\t30\t1"])
    assert lines[-2] == "| `make e2e-full` | c374cfa2+ | FAILED | 3,600 | 1,201 | 30 | 1 |"
    assert page.gate([]) == []


@cache
def marked_full(test: str) -> bool:
    """Whether a test, its class or its file says that `make full` alone runs it, or one of its parameters."""
    file, *names = test.partition("[")[0].split("::")
    found: list[ast.stmt] = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    said = [ast.unparse(each) for each in found if isinstance(each, ast.Assign) and "pytestmark" in ast.unparse(each)]
    for name in names:
        node = next((each for each in found if getattr(each, "name", None) == name), None)
        if node is None:  # a class that is imported
            break
        assert isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        said += map(ast.unparse, node.decorator_list)
        found = node.body
    return any("mark.full" in each or "in_full" in each for each in said)


def test_make_test_notices_every_planted_bug() -> None:
    """By a test that is on record for it; schedules of the simulator are no test of this run."""
    noticed = {bug: [by for by in found.values() if by and "::" in by] for bug, found in results.load().items()}
    assert [bug for bug, tests in noticed.items() if all(map(marked_full, tests))] == []


def test_what_is_marked_full_is_seen() -> None:
    assert marked_full("tests/unit/analytics/test_failures.py::test_a_jvm_that_is_killed")
    assert marked_full("tests/interop/test_java_tools.py::test_acks[0]")
    assert marked_full(
        "tests/integration/monitoring/test_live.py::test_alerts_fire_when_a_broker_dies_and_clear_when_it_is_back"
    )
    assert not marked_full("tests/unit/analytics/test_failures.py::test_each_failure_has_its_line")
