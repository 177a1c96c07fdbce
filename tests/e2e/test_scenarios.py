"""Scenarios of the library by `kubectl apply`: some here, all that Kubernetes supports with `--scenarios all`.

    make e2e ARGS='-k test_scenarios --scenarios all'      # half an hour
    make e2e ARGS='-k test_scenarios --scenarios kip-279,isr-of-one'

Each with every setting that it expects something of; what it says beforehand has to be what is found. The demo and the stories of
KIP-101 have tests of their own.
"""

from __future__ import annotations

import pytest
from minikafka_chaos.scenario import library
from minikafka_chaos.scenario.page import SIMULATION_ONLY, annotation, missing
from minikafka_chaos.scenario.scenario import Scenario
from minikafka_chaos.scenario.variants import NAMES

from tests.e2e.chaos_lab import Lab
from tests.e2e.machine import say

pytestmark = pytest.mark.full

CHOSEN = ("caveat-unclean-election", "rolling-restart")
"""Short, and with one setting each."""
ELSEWHERE = ("demo", "kip-101-data-loss", "kip-101-divergence", "soak")
"""In `test_chaos_controller.py` and `test_stories.py`; a soak is as long as one likes."""
RUN_SECONDS_MAX = 900
SHORTER = {"kill-leader": "rounds=3"}
"""The kubelet waits 0, 10, 20, 40 ... 300 s before it starts the same container again: twenty kills take more than an hour."""


def able() -> list[str]:
    """The scenarios that Kubernetes supports."""
    made = {name for names in NAMES.values() for name in names}
    scenarios = [library.find(name) for name in library.names() if name not in made]
    return [
        each.name for each in scenarios if not missing(each, "kubernetes") and not annotation(each, SIMULATION_ONLY)
    ]


def variants(name: str) -> list[Scenario]:
    """A scenario, once for each of its settings of which it expects something."""
    settings = [[f"{entry.name}={entry.value}" for entry in each.when] for each in library.find(name).spec.expect]
    shorter = [SHORTER[name]] if name in SHORTER else []
    return [library.find(name, [*each, *shorter]) for each in settings or [[]]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "name" not in metafunc.fixturenames:
        return
    asked = metafunc.config.getoption("--scenarios", default=None)
    names = (
        CHOSEN
        if asked is None
        else [name for name in able() if name in asked.split(",") or (asked == "all" and name != "soak")]
    )
    metafunc.parametrize("name", names)


def test_those_that_are_chosen_are_there() -> None:
    assert set(CHOSEN) | set(ELSEWHERE) <= set(able())


def test_what_a_scenario_expects_is_found(lab: Lab, name: str) -> None:
    scenarios = {f"{name}-{number}": scenario for number, scenario in enumerate(variants(name))}
    specs = {made: scenario.as_json()["spec"] for made, scenario in scenarios.items()}
    statuses = lab.run(specs, at_once=1, seconds=RUN_SECONDS_MAX)  # each brings a cluster along
    for made, found in statuses.items():
        expected = scenarios[made].spec.expected
        say(f"{made} on Kubernetes: {found.get('verdict')}: {found.get('summary')}: {found.get('asExpected')}")
        assert found["phase"] == "Completed", found
        assert found["verdict"] == (expected.verdict.value if expected is not None else "Passed"), found
        assert expected is None or found["asExpected"] == "as expected", found
        lab.kubectl.delete("mkx", made, wait=False)
