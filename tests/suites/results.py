"""What a run of each suite came to, on record, held against what is declared; and ``docs/reference/suites.md`` made from it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.suites.catalogue import SUITES, Suite
from tests.suites.declared import DECLARED, Declared, known
from tests.suites.go_tests import Outcomes, top

RECORD = Path(__file__).with_name("results.json")
Result = Mapping[str, Any]
"""Of one suite: ``passed`` and ``skipped`` are numbers of tests, ``failed`` is the number of those by test without subtests."""
INTRODUCTION = """\
# Other people's test suites

For anyone who asks whether a client of theirs works: the tests of well-known clients, run against
brokers of MiniKafka, and why those fail that do.

Measured by `make suites`, made from its record by `make docs`; do not edit.
Each suite is fetched in the version of the table from where its project publishes it, and its tests
are run as they are; where they have docker stop a broker, a broker's process is stopped, and where
they start Apache Kafka from a folder (kafka-python), they are given brokers that run. A test that
fails and is not declared is run once more, and counts as passed when it then passes. A subtest, or
a test with other parameters, counts as a test. The sdists of aiokafka and confluent-kafka have no
tests. A suite itself skips what brokers do not offer (share groups, the group protocol of KIP-848),
and what needs containers or tokens that nobody has signed. What fails and is not declared
(`tests/suites/declared.py`), or is declared and passes, ends the command with 1.

| suite | version | brokers | listeners | tests | passed | failed | skipped | not run |
|---|---|---|---|---|---|---|---|---|"""


def summed(outcomes: Outcomes) -> Result:
    """Put together the outcomes of one suite."""
    count = Counter(outcomes.values())
    failed = Counter(top(name) for name, outcome in outcomes.items() if outcome == "failed")
    return {"passed": count["passed"], "skipped": count["skipped"], "failed": dict(sorted(failed.items()))}


def load(path: Path = RECORD) -> dict[str, Result]:
    """Read what is on record, by the name of a suite."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def save(results: Mapping[str, Result], path: Path = RECORD) -> None:
    """Write the record."""
    path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def surprises(suite: Suite, result: Result, declared: Iterable[Declared] = DECLARED) -> list[str]:
    """Tell what failed and is not declared, and what is declared and did not fail."""
    expected = known(suite.name, declared)
    failed = set(result["failed"])
    return [
        *(f"{suite.name}: {test} fails, and is not declared" for test in sorted(failed - expected)),
        *(
            f"{suite.name}: {test} is declared to fail, and does not"
            for test in sorted(expected - failed - set(suite.left_out))
        ),
    ]


def page(
    results: Mapping[str, Result], suites: Sequence[Suite] = SUITES, declared: Iterable[Declared] = DECLARED
) -> str:
    """Make the text of ``docs/reference/suites.md``."""
    lines = [INTRODUCTION]
    for suite in suites:
        if suite.name in results:
            result = results[suite.name]
            failed = sum(result["failed"].values())
            numbers = (
                result["passed"] + failed + result["skipped"],
                result["passed"],
                failed,
                result["skipped"],
                len(suite.left_out),
            )
            cells = (suite.name, f"{suite.module} {suite.version}", suite.brokers, suite.listener, *numbers)
            lines.append("| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in cells) + " |")
    lines += ["", "## Why tests fail", "", "Tests by name, without their subtests.", ""]
    for reason in declared:
        lines.append(f"- {reason.why}:")
        for name, tests in reason.tests.items():
            lines.append(f"  - {name}: {', '.join(f'`{test}`' for test in tests)}")
    return "\n".join(lines) + "\n"


def current_page() -> str:
    """Make the page of what is on record."""
    return page(load())
