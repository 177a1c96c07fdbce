"""Conditions of clusters as metrics, for as long as there is the cluster."""

from __future__ import annotations

from minikafka_operator.telemetry import OperatorTelemetry


def value(telemetry: OperatorTelemetry, name: str, **labels: str) -> float | None:
    return telemetry.registry.get_sample_value(name, labels)


def test_conditions_as_metrics() -> None:
    telemetry = OperatorTelemetry()
    telemetry.export_conditions("ns", "demo", {"Ready": "False"})
    labels = {"namespace": "ns", "cluster": "demo", "type": "Ready"}
    assert value(telemetry, "minikafka_cluster_condition", **labels, status="False") == 1
    assert value(telemetry, "minikafka_cluster_condition", **labels, status="True") == 0
    assert b"minikafka_cluster_condition" in telemetry.page()


def test_they_go_with_their_cluster() -> None:
    telemetry = OperatorTelemetry()
    telemetry.export_conditions("ns", "demo", {"Ready": "True"})
    labels = {"namespace": "ns", "cluster": "demo", "type": "Ready", "status": "True"}
    assert value(telemetry, "minikafka_cluster_condition", **labels) == 1
    telemetry.forget("ns", "demo")
    assert value(telemetry, "minikafka_cluster_condition", **labels) is None
