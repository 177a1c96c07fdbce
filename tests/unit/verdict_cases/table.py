"""The table of cases, by what they are about."""

from __future__ import annotations

from tests.unit.verdict_cases import excused, forged, groups, honest, lost, replicas, told, torn
from tests.unit.verdict_cases.builder import Case

CASES: tuple[Case, ...] = (
    *honest.CASES,
    *lost.CASES,
    *told.CASES,
    *groups.CASES,
    *replicas.CASES,
    *excused.CASES,
    *torn.CASES,
    *forged.CASES,
)
