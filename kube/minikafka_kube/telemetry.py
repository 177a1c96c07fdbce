"""Metrics of programs that look after objects, declared once. Labels have few values; only what is told of an object names it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Looking:
    """What every program that looks after objects counts. ``prefix`` is that of its metrics, ``thing`` what it looks after."""

    def __init__(self, prefix: str, thing: str) -> None:
        self.registry = CollectorRegistry()
        self.reconciliations = Counter(
            f"{prefix}_reconciliations_total",
            f"Looks at a {thing}, by outcome: steady (nothing to do), changed, refused (by the API server), failed.",
            ["outcome"],
            registry=self.registry,
        )
        self.duration = Histogram(
            f"{prefix}_reconciliation_duration_seconds",
            f"Time from the look at a {thing} until everything was done about it.",
            buckets=(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
            registry=self.registry,
        )
        self.in_progress = Gauge(
            f"{prefix}_reconciliation_start_timestamp_seconds",
            "When the reconciliation that is in progress began; there only while it is. Alert when it is long ago.",
            ["namespace", thing],
            registry=self.registry,
        )
        self.last_success = Gauge(
            f"{prefix}_last_success_timestamp_seconds",
            f"When a {thing} was last looked at without an error.",
            ["namespace", thing],
            registry=self.registry,
        )
        self.writes = Counter(
            f"{prefix}_writes_total",
            "Requests that change something, by verb and kind. None at steady state.",
            ["verb", "kind"],
            registry=self.registry,
        )
        self.requests = Counter(
            f"{prefix}_api_requests_total",
            "Requests to the API server, by verb and HTTP status (0: no answer).",
            ["verb", "code"],
            registry=self.registry,
        )
        self.looked_after = Gauge(
            f"{prefix}_{thing}s", f"{thing.capitalize()}s that are looked after.", registry=self.registry
        )
        self.leader = Gauge(
            f"{prefix}_leader",
            f"1 while this {prefix.rpartition('_')[2]} acts; 0 while it stands by. The sum over all of them is 1, or 0 for some "
            "seconds.",
            registry=self.registry,
        )

    def lead(self, leading: bool) -> None:
        """Export who leads. One that stands by exports nothing of objects: what it said before gets old."""
        self.leader.set(1 if leading else 0)
        if not leading:
            self.last_success.clear()

    def forget(self, namespace: str, name: str) -> None:
        """Drop what was told of an object that is gone."""
        self._drop(self.in_progress, namespace, name)
        self._drop(self.last_success, namespace, name)

    def done(self, namespace: str, name: str) -> None:
        """No reconciliation of this object is in progress any more."""
        self._drop(self.in_progress, namespace, name)

    @staticmethod
    def _drop(gauge: Gauge, *labels: str) -> None:
        try:
            gauge.remove(*labels)
        except KeyError:
            pass

    def page(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)
