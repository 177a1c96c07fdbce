"""A Prometheus beside broker processes, with the rules of the chart and the labels that the chart's discovery gives."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from minikafka.local.cluster import LocalCluster
from minikafka.local.ports import HOST, free_base_port

ROOT = Path(__file__).parents[3]
RULES = ROOT / "charts/minikafka-monitoring/files/rules"
NAMESPACE, CLUSTER = "lab", "shop"
READY_SECONDS_MAX = 180


def programs() -> Path:
    """The folder with prometheus and promtool."""
    made = subprocess.run([ROOT / "tests/e2e/cluster/prometheus"], stdout=subprocess.PIPE, text=True, check=True)
    return Path(made.stdout.strip())


def target_labels(broker: int) -> dict[str, str]:
    """What the chart's discovery says of a broker: see templates/_scraping.tpl of minikafka-monitoring."""
    return {
        "namespace": NAMESPACE,
        "pod": f"{CLUSTER}-broker-{broker}",
        "cluster": CLUSTER,
        "broker": str(broker),
        "container": "kafka",
        "kubernetes_pod_name": f"{CLUSTER}-kafka-{broker}",
        "strimzi_io_cluster": CLUSTER,
        "strimzi_io_name": f"{CLUSTER}-kafka",
        "strimzi_io_kind": "Kafka",
    }


class LocalPrometheus:
    """One process; its data lives in ``folder``. ``others``: metrics ports of operator and chaos controller by job."""

    def __init__(self, folder: Path, cluster: LocalCluster, others: Mapping[str, int] | None = None) -> None:
        self.port = free_base_port(1)
        brokers = [
            {"targets": [f"{HOST}:{each.metrics_port}"], "labels": target_labels(each.id)}
            for each in cluster.info().brokers
        ]
        jobs: list[dict[str, Any]] = [{"job_name": "minikafka-brokers", "static_configs": brokers}]
        for job, port in (others or {}).items():
            jobs.append({"job_name": job, "honor_labels": True, "static_configs": [{"targets": [f"{HOST}:{port}"]}]})
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "900ms", "evaluation_interval": "1s"},
            "rule_files": [str(RULES / "*.yaml")],
            "scrape_configs": jobs,
        }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(config))
        self._log = (folder / "prometheus.log").open("w")
        self._process = subprocess.Popen(
            [
                programs() / "prometheus",
                f"--config.file={path}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={HOST}:{self.port}",
                "--log.level=warn",
            ],
            stdout=self._log,
            stderr=self._log,
        )
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not self._is_ready():
            assert self._process.poll() is None and time.monotonic() < deadline, (folder / "prometheus.log").read_text()
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.port}/-/ready", timeout=5) as answer:
                return int(answer.status) == 200
        except OSError:
            return False

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(120)
        self._log.close()

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now."""
        return list(self._get("query", query=expression)["result"])

    def ask_range(self, expression: str, seconds: float, step: float = 1) -> list[dict[str, Any]]:
        """The series that it had in the last seconds."""
        now = time.time()
        return list(
            self._get("query_range", query=expression, start=str(now - seconds), end=str(now), step=str(step))["result"]
        )

    def firing(self) -> set[str]:
        """The alerts that fire."""
        return {each["labels"]["alertname"] for each in self._get("alerts")["alerts"] if each["state"] == "firing"}

    def _get(self, what: str, **query: str) -> dict[str, Any]:
        url = f"http://{HOST}:{self.port}/api/v1/{what}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return dict(json.load(answer)["data"])


def expressions(page: Mapping[str, Any]) -> list[str]:
    """Every expression of a Grafana dashboard, of panels (also in folded rows) and of annotations, in their order."""
    found: list[str] = []

    def walk(value: object) -> None:
        if isinstance(value, Mapping):
            if isinstance(value.get("expr"), str):
                found.append(value["expr"])
            for each in value.values():
                walk(each)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for each in value:
                walk(each)

    walk(page.get("panels", []))
    walk(page.get("annotations", {}))
    return found


def filled_in(expression: str, **variables: str) -> str:
    """An expression as Grafana sends it, with these values of its variables."""
    for name, value in {"__rate_interval": "1m", "__range": "5m", **variables}.items():
        expression = expression.replace(f"${name}", value)
    return expression
