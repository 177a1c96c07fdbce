"""Broker processes on the Kubernetes store: what the pods of a MiniKafkaCluster run, without pods."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.apiserver.control_plane import die_with_parent, free_port

STOP_SECONDS_MAX = 60.0
_LOG_LINES_SHOWN = 25


class BrokerProcess:
    """One broker with three listeners, configured as the operator does it: by a file with ``${env:...}`` in it."""

    def __init__(
        self, node: int, folder: Path, kubeconfig: Path, namespace: str, cluster: str, more: dict[str, str]
    ) -> None:
        self.node = node
        self.folder = folder
        self.client, self.external, self.replication, self.metrics = (free_port() for _ in range(4))
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "broker.log"
        self.events_file = folder / "events.jsonl"
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "POD_IP": "127.0.0.1"}
        settings = {
            "node.id": str(node),
            "log.dirs": str(folder / "data"),
            "listeners": f"CLIENT://:{self.client},REPLICATION://:{self.replication},EXTERNAL://:{self.external}",
            "advertised.listeners": f"CLIENT://localhost:{self.client},REPLICATION://${{env:POD_IP}}:{self.replication},"
            f"EXTERNAL://127.0.0.1:{self.external}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,REPLICATION:PLAINTEXT,EXTERNAL:PLAINTEXT",
            "inter.broker.listener.name": "REPLICATION",
            "minikafka.metadata.store": "kubernetes",
            "minikafka.kubernetes.namespace": namespace,
            "minikafka.kubernetes.cluster": cluster,
            "minikafka.metrics.port": str(self.metrics),
            "minikafka.events.path": str(self.events_file),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
            **more,
        }
        self.file = folder / "broker.properties"
        self.file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "minikafka.cli", "broker", "--config", str(self.file)],
                stdout=log,
                stderr=log,
                env=self._environment,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, no Python lock in it
            )

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code; 0 when it was not running."""
        if self.process is None:
            return 0
        self.process.send_signal(how)
        try:
            return self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self.process = None

    @property
    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/readyz", timeout=10) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def wait_until_ready(self, seconds: float = 180.0) -> None:
        deadline = time.monotonic() + seconds
        while not self.ready:
            assert self.process is not None
            assert self.process.poll() is None, f"broker {self.node} ended: {self.log_end()}"
            assert time.monotonic() < deadline, f"broker {self.node} is not ready after {seconds} s: {self.log_end()}"
            time.sleep(0.05)

    def rss_mib(self) -> float:
        assert self.process is not None
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) / 1024

    def log_end(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:])

    def events(self, name: str) -> list[dict[str, object]]:
        """Its events of a name so far."""
        if not self.events_file.exists():
            return []
        found = [json.loads(line) for line in self.events_file.read_text().splitlines() if line.endswith("}")]
        return [event for event in found if event["event"] == name]


class Brokers:
    """The brokers of one cluster."""

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path,
        namespace: str,
        cluster: str,
        count: int = 3,
        more: dict[str, str] | None = None,
    ) -> None:
        self.all = [
            BrokerProcess(n, folder / f"broker-{n}", kubeconfig, namespace, cluster, more or {}) for n in range(count)
        ]

    def start(self) -> None:
        for broker in self.all:
            broker.start()
        for broker in self.all:
            broker.wait_until_ready()

    def stop(self) -> None:
        """End them all, the gentle way first."""
        for broker in self.all:
            if broker.process is not None:
                broker.process.send_signal(signal.SIGTERM)
        for broker in self.all:
            broker.stop()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"localhost:{broker.client}" for broker in self.all)

    @property
    def external(self) -> str:
        return ",".join(f"127.0.0.1:{broker.external}" for broker in self.all)

    def logs(self) -> str:
        return "\n".join(f"--- broker {b.node}\n{b.log_end()}" for b in self.all if b.log.exists())
