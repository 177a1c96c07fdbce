"""Every expression of the dashboards has data on a live cluster under load, and the alerts fire and clear.

A local Prometheus with the chart's own rules; tests/e2e has the same with the chart installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from minikafka.local.cluster import LocalCluster

from tests.integration.monitoring.conftest import TOPIC
from tests.integration.monitoring.prometheus import (
    CLUSTER,
    NAMESPACE,
    ROOT,
    LocalPrometheus,
    expressions,
    filled_in,
)
from tools.strimzi_dashboards import HAS_DATA, PAGE, read_page, variables
from tools.strimzi_dashboards import filled_in as strimzi_filled_in

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

Until = Callable[..., Any]
DEADLINE = 240
DASHBOARDS = sorted((ROOT / "charts/minikafka-monitoring/files/dashboards").glob("*.json"))
CHOSEN = {"namespace": NAMESPACE, "cluster": CLUSTER, "topic": TOPIC, "partition": "0", "experiment": ".*"}
CLUSTER_CONFIG = {"group.initial.rebalance.delay.ms": "0", "log.flush.interval.ms": "500"}


def all_have_data(prometheus: LocalPrometheus, asked: list[str], until: Until) -> None:
    """One after the other: what had data a moment ago has it still."""
    for expression in asked:
        until(lambda: (expression, prometheus.ask(expression)), lambda seen: bool(seen[1]), seconds=DEADLINE)  # noqa: B023


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_expression_of_our_dashboards_has_data(prometheus: LocalPrometheus, path: Any, until: Until) -> None:
    asked = [filled_in(each, **CHOSEN) for each in expressions(json.loads(path.read_text()))]
    assert len(asked) > 10
    assert not [each for each in asked if "$" in each], "a variable that nobody fills in"
    all_have_data(prometheus, asked, until)


def test_strimzis_expressions_have_data_as_the_table_says(prometheus: LocalPrometheus, until: Until) -> None:
    chosen = variables(NAMESPACE, CLUSTER)
    table = read_page(PAGE.read_text())
    assert len(table) == 89
    assert not [row for row in table if row.outcome.startswith("GAP")]
    found = [row for row in table if row.outcome == HAS_DATA]
    assert sum(row.dashboard == "strimzi-kafka" for row in found) >= 26
    assert sum(row.dashboard == "strimzi-kafka-exporter" for row in found) == 16
    asked = [strimzi_filled_in(row.expression, chosen) for row in found]
    all_have_data(prometheus, asked, until)


def test_alerts_fire_when_a_broker_dies_and_clear_when_it_is_back(
    cluster: LocalCluster, prometheus: LocalPrometheus, until: Until
) -> None:
    """Ours, and with Strimzi's name of the metric what Strimzi's own alert asks for."""
    until(lambda: prometheus.ask("sum(minikafka_under_replicated_partitions) == 0"), seconds=DEADLINE)
    cluster.kill(1)
    try:
        until(prometheus.firing, lambda found: "MinikafkaUnderReplicatedPartitions" in found, seconds=DEADLINE)
        until(lambda: prometheus.ask("kafka_server_replicamanager_underreplicatedpartitions > 0"), seconds=DEADLINE)
        until(prometheus.firing, lambda found: "MinikafkaBrokerDown" in found, seconds=DEADLINE)
    finally:
        cluster.start(1)
    until(
        prometheus.firing,
        lambda found: not {"MinikafkaUnderReplicatedPartitions", "MinikafkaBrokerDown"} & found,
        seconds=DEADLINE,
    )
