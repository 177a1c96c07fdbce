"""The table of cases, by what they are about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.adversary import results
from tests.unit.verdict_cases import excused, forged, groups, honest, lost, replicas, reported, torn
from tests.unit.verdict_cases.builder import Case

CASES: tuple[Case, ...] = (
    *honest.CASES,
    *lost.CASES,
    *reported.CASES,
    *groups.CASES,
    *replicas.CASES,
    *excused.CASES,
    *torn.CASES,
    *forged.CASES,
)


def _one_of_each(cases: Iterable[Case]) -> Iterator[str]:
    """Names of a case of each kind with each verdict; of those that a run has proven, or that notice a planted bug, too."""
    on_record = "".join(test or "" for found in results.load().values() for test in found.values())
    seen: set[tuple[str, str]] = set()
    for case in sorted(cases, key=lambda case: len(case.anomalies)):  # first those that show one kind alone
        keys = {(case.verdict, kind) for kind in case.anomalies or ("none",)}
        if case.proven or not keys <= seen or f"[{case.name}]" in on_record:
            yield case.name
        seen |= keys


ONE_OF_EACH = frozenset(_one_of_each(CASES))
"""What `make test` gives to both judges; `make full` gives them all cases."""
