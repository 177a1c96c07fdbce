"""Brokers for other people's tests: real processes, each with a listener for every way in, on fixed ports.

The ports are free because all of it runs in a network of its own (``__main__.py``).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from minikafka.local.cluster import BROKER_COMMAND
from minikafka.local.layout import lab_defaults, new_cluster_id, render

from tests.certificates import PemFiles

DOCKER = Path(__file__).with_name("docker")
"""Stands for docker, of which tests ask that brokers be stopped and started."""
HOST = "localhost"
PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "SASL": "SASL_PLAINTEXT", "TLS": "SSL", "MUTUAL": "SSL", "SECURE": "SASL_SSL"}
"""Listeners for clients, from the first port of a broker on."""
BEHIND_A_PROXY = "PROXIED"
PROXIES = 29090
"""Port at which a suite's own proxy for a broker listens, less the broker's id."""
PORTS_OF_A_BROKER = 100
"""From the first port of one broker to that of the next."""
PROXIED, REPLICATION, METRICS = 40, 50, 60
"""Ports beyond those for clients, from the first port of a broker."""
READY_SECONDS = 120
ALICE = "alice"
ACCOUNTS = {
    "PLAIN": ("adminplain", "admin-secret"),
    "SCRAM-SHA-256": (ALICE, f"{ALICE}-256"),
    "SCRAM-SHA-512": (ALICE, f"{ALICE}-512"),
}
"""A user and password for each mechanism."""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
MECHANISMS = {"256": ScramMechanism.SCRAM_SHA_256, "512": ScramMechanism.SCRAM_SHA_512}


class Brokers:
    """Some brokers, as the suites see them."""

    def __init__(self, folder: Path, count: int, first_port: int, settings: Mapping[str, str]) -> None:
        self.folder, self.ids, self._first = folder, range(1, count + 1), first_port
        self._settings = settings
        self._cluster_id = new_cluster_id()
        self.files = PemFiles.write(folder)

    def _port(self, broker: int) -> int:
        return self._first + (broker - 1) * PORTS_OF_A_BROKER

    def at(self, listener: str) -> str:
        """Return the bootstrap servers of one listener."""
        offset = list(PROTOCOLS).index(listener)
        return ",".join(f"{HOST}:{self._port(broker) + offset}" for broker in self.ids)

    def behind_proxy(self, broker: int) -> int:
        """Return the port that a suite's own proxy before this broker forwards to."""
        return self._port(broker) + PROXIED

    def properties(self, broker: int) -> dict[str, str]:
        """Make the settings of one broker."""
        ports = {name: self._port(broker) + offset for offset, name in enumerate(PROTOCOLS)}
        ports |= {BEHIND_A_PROXY: self.behind_proxy(broker), "REPLICATION": self._port(broker) + REPLICATION}
        advertised = ports | {BEHIND_A_PROXY: PROXIES + broker}
        protocols = PROTOCOLS | {BEHIND_A_PROXY: "PLAINTEXT", "REPLICATION": "PLAINTEXT"}
        return {
            "node.id": str(broker),
            "cluster.id": self._cluster_id,
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            "advertised.listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in advertised.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "inter.broker.listener.name": "REPLICATION",
            "log.dirs": str(self.folder / f"broker-{broker}"),
            "minikafka.metadata.store": f"sqlite:{self.folder / 'metadata.sqlite'}",
            "minikafka.metrics.port": str(self._port(broker) + METRICS),
            "minikafka.events.path": str(self.folder / f"events-{broker}.jsonl"),
            **lab_defaults(len(self.ids)),
            "min.insync.replicas": "1",
            "broker.session.timeout.ms": "9000",
            "broker.heartbeat.interval.ms": "2000",
            **self.files.settings,
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN} required user_adminplain="admin-secret";',
            "listener.name.secure.plain.sasl.jaas.config": f'{PLAIN} required user_adminplain="admin-secret";',
            "authorizer.class.name": "StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
            "default.replication.factor": "1",
            **{key: value.format(broker=broker) for key, value in self._settings.items()},
        }

    def start(self) -> None:
        """Start them, with the users and topics that suites take for granted; they end with the last process of their network."""
        for broker in self.ids:
            (self.folder / f"broker-{broker}.properties").write_text(render(self.properties(broker)))
            subprocess.run(
                [DOCKER, "compose", "start", f"kafka-{broker}"], env=os.environ | self.environment, check=True
            )
        for broker in self.ids:
            self._await_ready(broker)
        self._make_users_and_topics()

    @property
    def environment(self) -> dict[str, str]:
        """Return what tests see, so that to stop a container is to stop a broker."""
        return {
            "PATH": f"{DOCKER.parent}{os.pathsep}{os.environ['PATH']}",
            "BROKERS": str(self.folder),
            "BROKER_COMMAND": shlex.join(BROKER_COMMAND),
        }

    def _await_ready(self, broker: int) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with contextlib.suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self._port(broker) + METRICS}/readyz", timeout=5)
                return
            if time.monotonic() > deadline:
                log = (self.folder / f"broker-{broker}.log").read_text(errors="replace")
                raise TimeoutError(f"broker {broker} was not ready after {READY_SECONDS} s: {log[-2000:]}")
            time.sleep(0.2)

    def _make_users_and_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.at("PLAINTEXT")})
        for user, password in ((ALICE, ALICE), ("adminscram", "admin-secret")):
            for size, mechanism in MECHANISMS.items():
                wish = UserScramCredentialUpsertion(
                    user, ScramCredentialInfo(mechanism, 4096), f"{password}-{size}".encode()
                )
                admin.alter_user_scram_credentials([wish])[user].result(READY_SECONDS)
        for done in admin.create_topics([NewTopic("test-writer-0", 1, 1)]).values():
            done.result(READY_SECONDS)
