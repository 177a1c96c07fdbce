"""kill -9 of a leader under load, again and again: nothing acknowledged is lost; how long clients wait is told."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from minikafka_chaos.grounds.processes import ProcessesGround
from minikafka_chaos.record.history import read_history
from minikafka_chaos.run.runner import run_scenario
from minikafka_chaos.scenario import library
from minikafka_chaos.verdict.gaps import gaps_around
from minikafka_chaos.verdict.verdict import Outcome

KILLS = int(os.environ.get("MINIKAFKA_TEST_KILLS", "6"))
"""`make full` kills twenty times, which is what the scenario asks for."""

GAP_WITHIN_S = 0.5
"""The gap that belongs to a kill begins at most this long after it."""


@pytest.mark.full
def test_nothing_is_lost_when_the_leader_is_killed_again_and_again(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    scenario = library.find("kill-leader")
    assert scenario.spec.rounds == 20
    scenario = scenario.model_copy(update={"spec": scenario.spec.model_copy(update={"rounds": KILLS})})
    result = run_scenario(scenario, ProcessesGround(tmp_path / "cluster"), tmp_path)
    kills = [moment for step, moment in result.fault_times if step == "kill"]
    found = gaps_around(read_history(tmp_path / "history.jsonl"), kills, GAP_WITHIN_S)
    gaps = sorted(gap.seconds for gap in found if gap is not None)
    record_property(
        "told",
        f"{len(kills)} kills of a leader, {result.verdict.counts.get('acknowledged', 0):,} records acknowledged: "
        f"longest gap between acknowledgements median {statistics.median(gaps):.2f} s, worst {gaps[-1]:.2f} s",
    )
    assert result.verdict.outcome is Outcome.PASSED, result.verdict.summary
    assert len(kills) == len(gaps) == KILLS
    assert result.verdict.counts["lost"] == result.verdict.counts["divergent"] == 0
