"""Spark on the table of cases that both judges are held to: the verdict, the kinds and the counts of docs/reference/verdicts.md.

The cases of a run of tests are judged at once, for starting Spark takes longer than judging them.
"""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_analytics.analyze import judge

from tests.unit.verdict_cases import CASES, ONE_OF_EACH, Case

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def judged(spark: object, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Spark says of each case, by its name."""
    root = tmp_path_factory.mktemp("cases")
    cases = CASES if request.config.getoption("--full") else [case for case in CASES if case.name in ONE_OF_EACH]
    return {run["id"]: run for run in judge([case.make().write(root / case.name) for case in cases], root / "scratch")}


@pytest.mark.parametrize("case", [case for case in CASES if case.name in ONE_OF_EACH], ids=lambda case: case.name)
def test_spark_says_what_the_case_expects(judged: dict[str, Any], case: Case) -> None:
    run = judged[case.name]
    if case.verdict == "Error":  # counts of evidence that contradicts itself mean nothing
        assert run["verdict"]["verdict"] == "Error"
        return
    told = {name: run["counts"].get(name) for name in case.counts}
    assert (run["verdict"]["verdict"], run["kinds"], told) == (case.verdict, dict(case.anomalies), dict(case.counts))


@pytest.mark.full
@pytest.mark.parametrize("case", [case for case in CASES if case.name not in ONE_OF_EACH], ids=lambda case: case.name)
def test_a_case_like_another(judged: dict[str, Any], case: Case) -> None:
    test_spark_says_what_the_case_expects(judged, case)
