"""The operator's own metrics, declared once. Labels have few values; only what is told of each cluster names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from minikafka_operator.conditions import Type

_STATUSES: Final = ("True", "False", "Unknown")


class Telemetry:
    """Counts what the operator does. One for each process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciliations = Counter(
            "minikafka_operator_reconciliations_total",
            "Looks at a cluster, by outcome: steady (nothing to do), changed, refused (by the API server), failed.",
            ["outcome"],
            registry=self.registry,
        )
        self.duration = Histogram(
            "minikafka_operator_reconciliation_duration_seconds",
            "Time from the look at a cluster until everything was done about it.",
            buckets=(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
            registry=self.registry,
        )
        self.in_progress = Gauge(
            "minikafka_operator_reconciliation_start_timestamp_seconds",
            "When the reconciliation that is in progress began; there only while it is. Alert when it is long ago.",
            ["namespace", "cluster"],
            registry=self.registry,
        )
        self.last_success = Gauge(
            "minikafka_operator_last_success_timestamp_seconds",
            "When a cluster was last looked at without an error.",
            ["namespace", "cluster"],
            registry=self.registry,
        )
        self.writes = Counter(
            "minikafka_operator_writes_total",
            "Requests that change something, by verb and kind. None at steady state.",
            ["verb", "kind"],
            registry=self.registry,
        )
        self.requests = Counter(
            "minikafka_operator_api_requests_total",
            "Requests to the API server, by verb and HTTP status (0: no answer).",
            ["verb", "code"],
            registry=self.registry,
        )
        self.replaced = Counter(
            "minikafka_operator_pods_replaced_total",
            "Pods of brokers deleted to be made again.",
            registry=self.registry,
        )
        self.clusters = Gauge("minikafka_operator_clusters", "Clusters that are looked after.", registry=self.registry)
        self.leader = Gauge(
            "minikafka_operator_leader",
            "1 while this operator acts; 0 while it stands by. The sum over all operators is 1, or 0 for some seconds.",
            registry=self.registry,
        )
        self.condition = Gauge(
            "minikafka_cluster_condition",
            "Conditions of each cluster: 1 for the status it has, 0 for the others.",
            ["namespace", "cluster", "type", "status"],
            registry=self.registry,
        )

    def lead(self, leading: bool) -> None:
        """Who stands by tells nothing of clusters: the leader does, and what was told before gets old."""
        self.leader.set(1 if leading else 0)
        if not leading:
            for gauge in (self.condition, self.last_success):
                gauge.clear()

    def tell_conditions(self, namespace: str, cluster: str, conditions: Mapping[str, str]) -> None:
        """Export the conditions (type to status) of one cluster."""
        for kind in Type:
            if kind.value in conditions:
                for status in _STATUSES:
                    value = 1 if conditions[kind.value] == status else 0
                    self.condition.labels(namespace, cluster, kind.value, status).set(value)

    def forget(self, namespace: str, cluster: str) -> None:
        """Drop what was told of a cluster that is gone."""
        for kind in Type:
            for status in _STATUSES:
                self._drop(self.condition, namespace, cluster, kind.value, status)
        self._drop(self.in_progress, namespace, cluster)
        self._drop(self.last_success, namespace, cluster)

    def done(self, namespace: str, cluster: str) -> None:
        """No reconciliation of this cluster is in progress any more."""
        self._drop(self.in_progress, namespace, cluster)

    @staticmethod
    def _drop(gauge: Gauge, *labels: str) -> None:
        try:
            gauge.remove(*labels)
        except KeyError:
            pass

    def page(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)
