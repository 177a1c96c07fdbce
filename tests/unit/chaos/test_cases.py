"""The verifier on the table of cases: the verdict, the kinds and the counts that docs/reference/verdicts.md gives them."""

from __future__ import annotations

from pathlib import Path

import pytest
from minikafka_chaos.record.history import HistoryError
from minikafka_chaos.verdict.verdict import Outcome, Verdict, judge_run

from tests.unit.verdict_cases import CASES, ONE_OF_EACH, Case


def judged(folder: Path) -> Verdict:
    try:
        return judge_run(folder)
    except HistoryError as error:
        return Verdict.without_judgement(Outcome.ERROR, str(error))


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case.name in ONE_OF_EACH], ids=lambda case: case.name)
def test_the_verifier_says_what_the_case_expects(case: Case, tmp_path: Path) -> None:
    verdict = judged(case.make().write(tmp_path / case.name))
    told = {name: verdict.counts.get(name) for name in case.counts}
    assert (verdict.outcome.value, verdict.kinds, told) == (case.verdict, dict(case.anomalies), dict(case.counts))


@pytest.mark.full
@pytest.mark.parametrize("case", [case for case in CASES if case.name not in ONE_OF_EACH], ids=lambda case: case.name)
def test_a_case_like_another(case: Case, tmp_path: Path) -> None:
    test_the_verifier_says_what_the_case_expects(case, tmp_path)


def test_names_are_used_once_and_every_proven_run_is_there() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    assert {case.proven for case in CASES} >= {1, 2, 3, 4, 5}
