"""``docs/guide/chaos-on-kubernetes.md`` tells of every phase, condition, reason, event and metric there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from minikafka_chaos.controller.telemetry import ControllerTelemetry
from minikafka_chaos.experiment.reasons import MEANINGS, ChaosCondition, ChaosReason, Happening
from minikafka_chaos.experiment.status import Phase

from tests.forms import for_each

PAGE = (Path(__file__).parents[4] / "docs/guide/chaos-on-kubernetes.md").read_text()


@pytest.mark.parametrize("phase", Phase)
def test_phases(phase: Phase) -> None:
    assert f"\n| {phase.value} | " in PAGE


@pytest.mark.parametrize("kind", ChaosCondition)
def test_conditions(kind: ChaosCondition) -> None:
    assert f"| {kind.value} | {MEANINGS[kind]} |" in PAGE


@for_each(ChaosReason)
def test_reasons(reason: ChaosReason) -> None:
    assert re.search(rf"^\| (\w+, )*{reason.value}(, \w+)* \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("happening", Happening)
def test_events(happening: Happening) -> None:
    assert re.search(rf"\b{happening.value}\b", PAGE)


def test_metrics() -> None:
    declared = {
        metric.name + ("_total" if metric.type == "counter" else "")
        for metric in ControllerTelemetry().registry.collect()
    }
    assert set(re.findall(r"^\| `(minikafka_\w+)", PAGE, re.MULTILINE)) == declared
