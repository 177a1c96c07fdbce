"""The operator's metrics, declared once; docs/guide/kubernetes.md has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from minikafka_kube.telemetry import Looking
from prometheus_client import Counter, Gauge

from minikafka_operator.conditions import ClusterCondition

_STATUSES: Final = ("True", "False", "Unknown")


class OperatorTelemetry(Looking):
    """Counts what the operator does. One for each process."""

    def __init__(self) -> None:
        super().__init__("minikafka_operator", "cluster")
        self.replaced = Counter(
            "minikafka_operator_pods_replaced_total",
            "Pods of brokers deleted to be made again.",
            registry=self.registry,
        )
        self.condition = Gauge(
            "minikafka_cluster_condition",
            "Conditions of each cluster: 1 for the status it has, 0 for the others.",
            ["namespace", "cluster", "type", "status"],
            registry=self.registry,
        )

    def lead(self, leading: bool) -> None:
        super().lead(leading)
        if not leading:
            self.condition.clear()

    def export_conditions(self, namespace: str, cluster: str, conditions: Mapping[str, str]) -> None:
        """Export the conditions (type to status) of one cluster."""
        for kind in ClusterCondition:
            if kind.value in conditions:
                for status in _STATUSES:
                    value = 1 if conditions[kind.value] == status else 0
                    self.condition.labels(namespace, cluster, kind.value, status).set(value)

    def forget(self, namespace: str, name: str) -> None:
        super().forget(namespace, name)
        for kind in ClusterCondition:
            for status in _STATUSES:
                self._drop(self.condition, namespace, name, kind.value, status)
