"""Scenarios of the library on real brokers: some here, all of them with MINIKAFKA_TEST_SCENARIOS=all (`make scenarios`)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from minikafka_chaos.grounds.processes import ProcessesGround
from minikafka_chaos.run.runner import run_scenario
from minikafka_chaos.scenario import library
from minikafka_chaos.scenario.page import SIMULATION_ONLY, annotation, missing
from minikafka_chaos.scenario.scenario import ExpectSpec
from minikafka_chaos.scenario.variants import NAMES
from minikafka_chaos.verdict.expectation import difference

CHOSEN = ("commit-before-processing", "disk-full", "kip-279", "poison-record")
"""Those with processes of their own, what no other ground can do, and one under two settings; the stories have others."""


def wanted() -> list[tuple[str, ExpectSpec]]:
    """(scenario, what it expects) for those that are to be tried."""
    names = CHOSEN
    if os.environ.get("MINIKAFKA_TEST_SCENARIOS") == "all":
        made = {name for names in NAMES.values() for name in names}
        names = tuple(name for name in library.names() if name not in made)
    scenarios = [library.find(name) for name in names]
    able = [each for each in scenarios if not missing(each, "processes") and not annotation(each, SIMULATION_ONLY)]
    return [(each.name, expected) for each in able for expected in each.spec.expect]


@pytest.mark.full
@pytest.mark.parametrize(("name", "expected"), wanted(), ids=lambda value: str(getattr(value, "verdict", value)))
def test_what_a_scenario_expects_is_found_on_real_brokers(name: str, expected: ExpectSpec, tmp_path: Path) -> None:
    scenario = library.find(name, [f"{entry.name}={entry.value}" for entry in expected.when])
    verdict = run_scenario(scenario, ProcessesGround(tmp_path / "cluster"), tmp_path).verdict
    assert difference(expected, verdict) is None, verdict.summary
