"""A cluster of processes under load, with a Prometheus, and an operator and a chaos controller that tell of themselves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from minikafka.local.cluster import LocalCluster
from minikafka.local.ports import HOST
from minikafka_chaos.controller.telemetry import ControllerTelemetry
from minikafka_chaos.experiment.status import ExperimentStatus
from minikafka_kube.telemetry import Looking
from minikafka_operator.telemetry import OperatorTelemetry

from tests.integration.monitoring.prometheus import CLUSTER, NAMESPACE, LocalPrometheus

TOPIC, GROUP = "orders", "readers"


class Load:
    """A producer with acks=all and a consumer in a group, until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=work, args=(bootstrap,)) for work in (self._produce, self._consume)]
        for thread in self._threads:
            thread.start()

    def _produce(self, bootstrap: str) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        number = 0
        while not self._stopped.wait(0.02):
            producer.produce(TOPIC, f"order {number}".encode())
            producer.poll(0)
            number += 1
        producer.flush(5)

    def _consume(self, bootstrap: str) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": "500",
                "log_level": 0,
            }
        )
        consumer.subscribe([TOPIC])
        while not self._stopped.is_set():
            consumer.poll(0.2)
        consumer.close()

    def stop(self) -> None:
        """End both."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(30)


def serve(telemetry: Looking) -> ThreadingHTTPServer:
    """Its page, on a free port."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = telemetry.page()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer((HOST, 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def operator_at_work() -> OperatorTelemetry:
    """What an operator tells that has looked at one cluster; its own methods tell it."""
    told = OperatorTelemetry()
    told.lead(True)
    told.looked_after.set(1)
    told.reconciliations.labels("steady").inc(3)
    told.reconciliations.labels("refused").inc()
    told.duration.observe(0.2)
    told.last_success.labels(NAMESPACE, CLUSTER).set_to_current_time()
    told.requests.labels("GET", "200").inc(9)
    told.writes.labels("patch", "Pod").inc()
    told.export_conditions(NAMESPACE, CLUSTER, {"Ready": "True"})
    return told


def experiment_at_work() -> ControllerTelemetry:
    """What a chaos controller tells of an experiment with a fault that is there."""
    told = ControllerTelemetry()
    told.lead(True)
    fault = {
        "verb": "kill",
        "target": f"{CLUSTER}-broker-1",
        "broker": 1,
        "state": "Injected",
        "id": "1",
        "step": "kill",
    }
    status = {"phase": "Running", "faultsMade": 1, "lost": 0, "faults": [fault]}
    told.export_experiment(NAMESPACE, "leader-killed", ExperimentStatus.of({"status": status}))
    return told


@pytest.fixture(scope="module")
def prometheus(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPrometheus]:
    """A Prometheus that scrapes a cluster under load, an operator and a chaos controller every second."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for done in admin.create_topics([NewTopic(TOPIC, 3, 3, config={"min.insync.replicas": "2"})]).values():
        done.result(120)
    servers = {"minikafka-operator": serve(operator_at_work()), "minikafka-chaos": serve(experiment_at_work())}
    ports = {job: int(server.server_address[1]) for job, server in servers.items()}
    load = Load(cluster.bootstrap)
    found = LocalPrometheus(Path(tmp_path_factory.mktemp("prometheus")), cluster, ports)
    try:
        yield found
    finally:
        load.stop()
        found.stop()
        for server in servers.values():
            server.shutdown()
            server.server_close()
