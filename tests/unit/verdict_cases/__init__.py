"""Runs written by hand with the verdict that each must get; both judges are held to them (docs/reference/verdicts.md).

`CASES` is the table. `case.make().write(folder)` writes the run folder of one.
"""

from tests.unit.verdict_cases.builder import Case, Run
from tests.unit.verdict_cases.table import CASES, ONE_OF_EACH

__all__ = ["CASES", "ONE_OF_EACH", "Case", "Run"]
