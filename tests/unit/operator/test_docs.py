"""``docs/guide/kubernetes.md`` tells of every condition, reason and metric there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from minikafka_kube.freshness import GapReason
from minikafka_operator.conditions import MEANINGS, ClusterCondition, ClusterReason, TopicReason, UserReason
from minikafka_operator.telemetry import OperatorTelemetry

from tests.forms import for_each

PAGE = (Path(__file__).parents[3] / "docs/guide/kubernetes.md").read_text()


@pytest.mark.parametrize("kind", ClusterCondition)
def test_conditions(kind: ClusterCondition) -> None:
    assert f"| {kind.value} | {MEANINGS[kind]} |" in PAGE


@for_each([*ClusterReason, *GapReason])
def test_reasons(reason: ClusterReason | GapReason) -> None:
    assert re.search(rf"^\| (\w+, )*{reason.value}(, \w+)* \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("reason", TopicReason)
def test_reasons_of_topics(reason: TopicReason) -> None:
    assert re.search(rf"^\| {reason.value} \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("reason", UserReason)
def test_reasons_of_users(reason: UserReason) -> None:
    page = (Path(__file__).parents[3] / "docs/guide/security-on-kubernetes.md").read_text()
    assert re.search(rf"^\| {reason.value} \|", page, re.MULTILINE)


def test_metrics() -> None:
    declared = {
        metric.name + ("_total" if metric.type == "counter" else "")
        for metric in OperatorTelemetry().registry.collect()
    }
    assert set(re.findall(r"^\| `(minikafka_\w+)", PAGE, re.MULTILINE)) == declared
