"""A real Prometheus on the cluster, of the chart minikafka-monitoring."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from tests.e2e import charts
from tests.e2e.kubectl import Kubectl, eventually
from tests.e2e.machine import image
from tests.e2e.objects import Object

RELEASE = "prometheus"
BROKERS_UP = 'up{job="minikafka-brokers"} == 1'
SEEN_SECONDS_MAX = 360


@contextmanager
def scraping(programs: Path, kubectl: Kubectl, cluster: str, *, secured: bool = False) -> Iterator[None]:
    """Install the chart beside a cluster of three brokers, and wait until all are scraped; it goes in the end."""
    values = {
        "mode": "plain",
        "clusters": [{"name": cluster, "namespace": kubectl.namespace, "securedMetrics": secured}],
        "scrapeInterval": "1s",
        "prometheus": {"image": charts.image(image("prometheus"))},
    }
    charts.install(programs, kubectl, RELEASE, "minikafka-monitoring", values)
    try:
        waited = f"--timeout={SEEN_SECONDS_MAX}s"
        kubectl("rollout", "status", f"deployment/{RELEASE}", waited, timeout=SEEN_SECONDS_MAX + 10)
        eventually(
            lambda: ask(kubectl, BROKERS_UP),
            lambda series: len(series) == 3,
            seconds=SEEN_SECONDS_MAX,  # a name that was asked for too early is unknown for as long as DNS remembers that
            what="Prometheus scrapes three brokers",
        )
        yield
    finally:
        charts.uninstall(programs, kubectl, RELEASE)


def ask(kubectl: Kubectl, query: str) -> list[Object]:
    """Return the series that a query has now."""
    return list(_api(kubectl, f"query?query={quote(query)}")["result"])


def _api(kubectl: Kubectl, path: str) -> Object:
    """What Prometheus answers, through the API server: nothing else of the pods' network is reached from here."""
    service = f"/api/v1/namespaces/{kubectl.namespace}/services/{RELEASE}:http/proxy"
    data: Object = json.loads(kubectl.objects.raw(f"{service}/api/v1/{path}"))["data"]
    return data


def firing_alerts(kubectl: Kubectl) -> set[str]:
    """Return the names of the alerts that fire."""
    return {each["labels"]["alertname"] for each in _api(kubectl, "alerts")["alerts"] if each["state"] == "firing"}
