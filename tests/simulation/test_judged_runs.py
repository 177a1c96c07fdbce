"""A few of the simulated runs whose verdicts are held against the disks; `make judged-runs` does a thousand."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.judged_runs import bug_of, run_one, scenario_of
from tests.forms import in_full

ACKNOWLEDGED_BEFORE_IT_WAS_COMMITTED = 372
"""acks=1: the last record was acknowledged a millisecond before the final reader asked for the end, and it was called lost."""


@pytest.mark.parametrize("seed", [1, *in_full([*range(2, 7), ACKNOWLEDGED_BEFORE_IT_WAS_COMMITTED])])
def test_the_verdict_is_what_the_disks_say(seed: int, tmp_path: Path) -> None:
    run = run_one(seed, tmp_path)
    assert run.wrong is None, run


def test_a_seed_is_a_scenario_and_every_second_one_has_a_bug() -> None:
    assert scenario_of(5) == scenario_of(5) != scenario_of(6)
    assert [bug_of(seed) is None for seed in (1, 2, 3, 4)] == [False, True, False, True]
