"""Every scenario of the library in simulation, under every setting that it expects something of.

`MINIKAFKA_TEST_SEEDS=50` (`make scenarios`) is the long form. What a scenario expects it says itself; here it is only held to it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from minikafka_chaos.run.runner import run_scenario
from minikafka_chaos.scenario import library
from minikafka_chaos.scenario.page import SHOWS, SOURCE, TITLE, TITLE_CHARACTERS_MAX, annotation, missing
from minikafka_chaos.scenario.scenario import ExpectSpec
from minikafka_chaos.scenario.variants import NAMES
from minikafka_chaos.verdict.expectation import difference
from minikafka_chaos.verdict.verdict import Outcome
from minikafka_simulator.ground.ground import SimulationGround

SEEDS = range(1, 1 + int(os.environ.get("MINIKAFKA_TEST_SEEDS", "1")))
LOADS = ("demo", "kill-leader", "soak")
"""These expect nothing beyond Passed; tests/simulation/test_ground.py tries them."""
LONG = (
    *("controller-dies-electing", "coordinator-dies-rebalancing", "disk-full", "minority-partition", "poison-record"),
    *("rack-loss", "rolling-restart", "stuck-follower"),
)
"""One to three seconds of processor each; random schedules have such faults, and unit tests dead letters: for `make full`."""
MADE = {name for names in NAMES.values() for name in names}
NAMES = [name for name in library.names() if name not in (*LOADS, *MADE)]


def expectations() -> list[Any]:
    """(scenario, what it expects) for all that the simulation can do; `make test` tries the first of each."""
    found: list[Any] = []
    for name in NAMES:
        scenario = library.find(name)
        if not missing(scenario, "simulation"):
            first, *others = [(name, each) for each in scenario.spec.expect]
            first = pytest.param(*first, marks=pytest.mark.full) if name in LONG else first
            found += [first, *(pytest.param(*other, marks=pytest.mark.full) for other in others)]
    return found


def settings(expected: ExpectSpec) -> list[str]:
    return [f"{entry.name}={entry.value}" for entry in expected.when]


@pytest.mark.parametrize("name", [*NAMES, *LOADS])
def test_a_scenario_says_where_it_is_from_and_what_it_shows(name: str) -> None:
    scenario = library.find(name)
    assert annotation(scenario, SOURCE)
    assert annotation(scenario, SHOWS)
    assert 0 < len(annotation(scenario, TITLE)) <= TITLE_CHARACTERS_MAX
    assert scenario.spec.expect or name in LOADS


def test_all_run_in_simulation() -> None:
    found = {name: missing(library.find(name), "simulation") for name in NAMES}
    assert not {name: why for name, why in found.items() if why}


@pytest.mark.parametrize(("name", "expected"), expectations(), ids=lambda value: str(getattr(value, "verdict", value)))
def test_what_a_scenario_expects_is_found(name: str, expected: ExpectSpec, tmp_path: Path) -> None:
    scenario = library.find(name, settings(expected))
    assert scenario.spec.expected == expected
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        verdict = run_scenario(scenario, SimulationGround(folder / "cluster"), folder, seed=seed).verdict
        assert difference(expected, verdict) is None, f"seed {seed}: {verdict.summary}"
        assert verdict.outcome is not Outcome.ERROR
