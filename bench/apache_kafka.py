"""Apache Kafka as a peer on this machine: a KRaft cluster whose nodes are broker and controller in one JVM each.

As a command, for the interop tests and for trying things by hand:

    python -m bench.apache_kafka up --data DIR [--base-port 19091] [KEY=VALUE ...]      prints the bootstrap servers
    python -m bench.apache_kafka down --data DIR

The heap is fixed at 512 MB and the collector is G1 with the options of Kafka's own kafka-run-class.sh (on two cores
the JVM would choose the serial collector). Settings are Kafka's defaults but for those in ``SETTINGS``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from minikafka.local.ports import HOST, is_free
from minikafka.local.process import ProcessHandle, ProcessIdentity, open_verified, reap, spawn

from bench.readiness import wait_for_metadata
from tests.interop.kafka_jars import tool_command

JVM_OPTIONS = (
    *("-Xms512m", "-Xmx512m", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
)
NODES = 3
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
SETTINGS = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "1000",  # see bench/topics.py
}
READY_SECONDS_MAX = 300.0
STOP_SECONDS_MAX = 30.0
CONTROLLER_PORT_OFFSET = 1000
TLS_PORT_OFFSET = 2000


class ApacheKafka:
    """A cluster in a data directory; the processes outlive the program that started them.

    Args:
        data: the directory; made when it is not there.
        base_port: where the first node listens; the others follow.
        settings: more lines for server.properties.
        log_dirs: names of the directories for partitions, within the node's.
        nodes: how many.
        keystore: a PEM file with key (PKCS #8) and certificate; clients are served over TLS, too, at `tls_bootstrap`.
    """

    name = "Apache Kafka"

    def __init__(
        self,
        data: Path,
        base_port: int = 19091,
        settings: Mapping[str, str] | None = None,
        log_dirs: Sequence[str] = ("data",),
        nodes: int = NODES,
        keystore: Path | None = None,
    ) -> None:
        self.data = data.absolute()
        self.base_port = base_port
        self.settings = SETTINGS | dict(settings or {})
        self.log_dirs = log_dirs
        self.keystore = keystore
        self.ids = tuple(range(1, nodes + 1))

    @property
    def bootstrap(self) -> str:
        """All listeners, for a client's ``bootstrap.servers``."""
        return ",".join(f"{HOST}:{self.base_port + node - 1}" for node in self.ids)

    @property
    def tls_bootstrap(self) -> str:
        """The listeners with TLS, which there are with a ``keystore``."""
        return ",".join(f"{HOST}:{self.base_port + TLS_PORT_OFFSET + node - 1}" for node in self.ids)

    def up(self) -> float:
        """Format what is not formatted and start what does not run; seconds from the first exec until all are ready."""
        self.prepare()
        started = time.monotonic()
        for node in self.ids:
            self.start(node)
        wait_for_metadata(self.bootstrap, len(self.ids), READY_SECONDS_MAX)
        return time.monotonic() - started

    def prepare(self) -> None:
        """Write the configuration and format the storage, once; about a second a node, never part of a measurement."""
        for node in self.ids:
            folder = self.data / str(node)
            if (folder / "server.properties").exists():
                continue
            for port in (self.base_port + node - 1, self.base_port + CONTROLLER_PORT_OFFSET + node - 1):
                if not is_free(port):
                    raise OSError(f"port {port} is in use")
            folder.mkdir(parents=True)
            properties = folder / "server.properties"
            properties.write_text("".join(f"{key}={value}\n" for key, value in self._properties(node).items()))
            arguments = ("format", "-t", CLUSTER_ID, "-c", str(properties))
            subprocess.run(tool_command("kafka.tools.StorageTool", *arguments), check=True, capture_output=True)

    def _properties(self, node: int) -> dict[str, str]:
        port, controller_port = self.base_port, self.base_port + CONTROLLER_PORT_OFFSET
        listener, controller = (
            f"PLAINTEXT://{HOST}:{port + node - 1}",
            f"CONTROLLER://{HOST}:{controller_port + node - 1}",
        )
        secured = {}
        if self.keystore is not None:
            listener += f",TLS://{HOST}:{port + TLS_PORT_OFFSET + node - 1}"
            secured = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore)}
        return (
            self.settings
            | secured
            | {
                "process.roles": "broker,controller",
                "node.id": str(node),
                "controller.quorum.voters": ",".join(f"{id_}@{HOST}:{controller_port + id_ - 1}" for id_ in self.ids),
                "listeners": f"{listener},{controller}",
                "advertised.listeners": listener,
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL",
                "controller.listener.names": "CONTROLLER",
                "inter.broker.listener.name": "PLAINTEXT",
                "log.dirs": ",".join(str(self.data / str(node) / name) for name in self.log_dirs),
            }
        )

    def start(self, node: int) -> None:
        """Start one node; returns at once. One that runs is left alone."""
        if self._process(node) is not None:
            return
        folder = self.data / str(node)
        command = tool_command("kafka.Kafka", str(folder / "server.properties"), jvm=JVM_OPTIONS, heap_mb=512)
        identity = spawn(command, folder / "out.log")
        (folder / "process.json").write_text(json.dumps(identity._asdict()))

    def kill(self, node: int) -> None:
        """SIGKILL; returns when the process is gone."""
        self._end(node, signal.SIGKILL)

    def pause(self, node: int) -> None:
        """SIGSTOP: it keeps its connections, and answers nothing."""
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """SIGCONT."""
        self._signal(node, signal.SIGCONT)

    def _signal(self, node: int, number: signal.Signals) -> None:
        if handle := self._process(node):
            with handle:
                handle.signal(number)

    def down(self) -> None:
        """SIGTERM to all, SIGKILL to those that are left after a while. Data stay."""
        for node in self.ids:
            if handle := self._process(node):
                with handle:
                    handle.signal(signal.SIGTERM)
        for node in self.ids:
            self._end(node, signal.SIGKILL, patience_s=STOP_SECONDS_MAX)

    def destroy(self) -> None:
        """:meth:`down`, and the data removed."""
        self.down()
        shutil.rmtree(self.data, ignore_errors=True)

    def pids(self) -> list[int]:
        """The processes that run now."""
        found = []
        for node in self.ids:
            if handle := self._process(node):
                with handle:
                    found.append(handle.identity.pid)
        return found

    def _process(self, node: int) -> ProcessHandle | None:
        folder = self.data / str(node)
        try:
            identity = ProcessIdentity(**json.loads((folder / "process.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return open_verified(identity, str(folder / "server.properties"))

    def _end(self, node: int, number: signal.Signals, patience_s: float = 0.0) -> None:
        if handle := self._process(node):
            with handle:
                if not handle.wait(patience_s):
                    handle.signal(number)
                    handle.wait(STOP_SECONDS_MAX)
                reap(handle.identity.pid)


def main() -> None:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="Apache Kafka 4.3.1, three nodes, on this machine")
    parser.add_argument("verb", choices=["up", "down"])
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="more lines for server.properties")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--base-port", type=int, default=19091)
    arguments = parser.parse_intermixed_args()
    extra = dict(setting.split("=", maxsplit=1) for setting in arguments.settings)
    kafka = ApacheKafka(arguments.data, arguments.base_port, extra)
    if arguments.verb == "up":
        kafka.up()
        print(kafka.bootstrap)
    else:
        kafka.destroy()


if __name__ == "__main__":
    main()
