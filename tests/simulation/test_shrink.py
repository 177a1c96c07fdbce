"""A failing seed becomes a smaller one that breaks the same invariant, and can be replayed."""

from __future__ import annotations

import pytest
from minikafka_simulator.bugs.catalogue import with_bug_seed
from minikafka_simulator.faults.plan import Plan
from minikafka_simulator.schedules.runs import run_seeds
from minikafka_simulator.schedules.shrink import shrink
from minikafka_simulator.schedules.world import simulate

BUG = "truncate-to-hw"


@pytest.mark.full
def test_a_failing_seed_shrinks_to_few_strikes() -> None:
    caught = next(result for result in run_seeds(range(1, 100), BUG) if result.violation and result.faults > 3)
    tries: list[int] = []
    with with_bug_seed(BUG):
        small = shrink(caught.seed, tried=tries.append)
    assert small is not None
    assert small.result.invariant == caught.invariant
    assert small.strikes < caught.faults
    assert small.strikes <= 6, "one restart or election at the right moment is enough for this mistake"
    assert tries == list(range(1, small.tries + 1))
    with with_bug_seed(BUG):
        again = simulate(caught.seed, small.plan)
    assert again.digest == small.result.digest


def test_a_green_seed_has_nothing_to_shrink() -> None:
    assert shrink(1, plan=Plan(seconds=2)) is None
