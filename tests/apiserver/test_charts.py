"""What holds for every chart there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.charts import rendered

CHARTS = sorted(file.parent for file in (Path(__file__).parents[2] / "charts").glob("*/Chart.yaml"))
WIDEST = {
    "minikafka-operator": ["--set=watch.allNamespaces=true", "--set=crds.install=false"],
    "minikafka-chaos": [
        "--set=crds.install=false"
    ],  # CRDs are the cluster's: a second release leaves them to the first
    "minikafka-chaos-network": ["--set=namespaces={lab}"],
    "minikafka-monitoring": ["--set=prometheus.discovery=kubernetes"],
}
"""The values with which a chart makes the most that belongs to no namespace."""
CLUSTER_WIDE = {"minikafka-operator", "minikafka-chaos", "minikafka-chaos-network"}
"""Those that make anything of that kind."""


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_two_namespaces_may_have_a_release_of_one_name(chart: Path) -> None:
    """What belongs to no namespace has a name of its own in each: helm refuses what another release owns."""

    def names(namespace: str, release: str) -> set[tuple[str, str]]:
        made = rendered(release, chart, namespace, *WIDEST.get(chart.name, []))
        return {(one["kind"], one["metadata"]["name"]) for one in made if "namespace" not in one["metadata"]}

    assert not names("a", "same") & names("b", "same")
    assert not names("a", "b-c") & names("a-b", "c")
    assert not names("a", "one") & names("a", "two")
    assert bool(names("a", "same")) == (chart.name in CLUSTER_WIDE)


def probes(node: Any) -> Iterator[dict[str, Any]]:
    """All of them, wherever they are in an object."""
    if isinstance(node, dict):
        yield from (probe for name, probe in node.items() if name.endswith("Probe"))
        for each in node.values():
            yield from probes(each)
    elif isinstance(node, list):
        for each in node:
            yield from probes(each)


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_a_probe_has_time_on_a_busy_node(chart: Path) -> None:
    """By default it has a second; an answer, or a process in a container all the more, takes longer on a busy node, and would
    count as failed.
    """
    for document in rendered("release", chart, "there", *WIDEST.get(chart.name, [])):
        for probe in probes(document):
            assert probe.get("timeoutSeconds", 1) >= (10 if "exec" in probe else 5), probe
