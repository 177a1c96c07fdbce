"""The table of cases, by what they are about."""

from __future__ import annotations

from tests.unit.verdict_cases import honest, lost, replicas, told
from tests.unit.verdict_cases.builder import Case

CASES: tuple[Case, ...] = (*honest.CASES, *lost.CASES, *told.CASES, *replicas.CASES)
