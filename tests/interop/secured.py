"""Brokers whose listeners are secured in every way there is, in a thread of the test's own process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.certificates import PemFiles, authority
from tests.tokens import AUDIENCE, ISSUER, Issuer
from tests.unit.server.in_process import DEADLINE, Cluster, running

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer"
ISSUED = Issuer()
"""Whose tokens are believed."""
ADMIN, PASSWORD = "admin", "of,the=admin"

PROTOCOLS = {
    "CLIENT": "PLAINTEXT",
    "REPLICATION": "SASL_SSL",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "PLAINSASL": "SASL_PLAINTEXT",
    "SECURE": "SASL_SSL",
    "TOKENS": "SASL_SSL",
    "EXPIRED": "SSL",
    "SELFSIGNED": "SSL",
    "MISNAMED": "SSL",
}


@dataclass
class Secured:
    """Where its listeners are, and the files that clients need."""

    cluster: Cluster
    files: PemFiles
    folder: Path

    def at(self, listener: str) -> str:
        """Bootstrap servers: those that are there."""
        advertised = [each for broker in self.cluster.brokers.values() for each in broker.listeners.advertised()]
        return ",".join(f"{host}:{port}" for name, host, port in advertised if name == listener)

    def refusals(self, listener: str) -> list[tuple[str | None, str]]:
        """(principal, reason) of the events so far."""
        events = [json.loads(line) for line in (self.folder / "events-1.jsonl").read_text().splitlines()]
        return [
            (event["fields"]["principal"], event["fields"]["reason"])
            for event in events
            if event["event"] == "authentication_failed" and event["fields"]["listener"] == listener
        ]

    def properties(self, name: str, **settings: str) -> str:
        """A file in Kafka's syntax; names of settings have ``_`` for ``.``."""
        path = self.folder / f"{name}.properties"
        lines = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
        path.write_text("\n".join(lines) + "\n")
        return str(path)


def _settings(files: PemFiles, folder: Path) -> dict[str, str]:
    wrong = {
        "expired": authority().issue("127.0.0.1", expired=True),
        "selfsigned": authority("stranger").issue("127.0.0.1"),
        "misnamed": authority().issue("elsewhere.example"),
    }
    settings = {
        **files.settings,
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in PROTOCOLS),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^.*CN=([a-z]+).*$/$1/",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.replication.ssl.client.auth": "required",
        "listener.name.replication.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.replication.scram-sha-512.sasl.jaas.config": f'{SCRAM} required username="b" password="secret";',
        "connection.failed.authentication.delay.ms": "0",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "true",
    }
    (folder / "keys.json").write_text(ISSUED.key_set())
    settings |= {
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tokens.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER}.OAuthBearerLoginModule required;",
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    for listener in ("plainsasl", "secure"):
        jaas = f'{PLAIN} required user_{ADMIN}="{PASSWORD}";'
        settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = jaas
    for listener, keystore in wrong.items():
        path = folder / f"{listener}.pem"
        path.write_text(keystore)
        settings[f"listener.name.{listener}.ssl.keystore.location"] = str(path)
    return settings


class SecuredThread:
    """Runs so many brokers until `stop`; ``more`` are settings."""

    def __init__(self, folder: Path, brokers: int = 1, more: Mapping[str, str] = MappingProxyType({})) -> None:
        self._folder = folder
        self._brokers = brokers
        self._more = more
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._secured: Secured | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), daemon=True)

    def start(self) -> Secured:
        self._thread.start()
        assert self._ready.wait(DEADLINE)
        assert self._secured is not None
        return self._secured

    async def _live(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        files = PemFiles.write(self._folder)
        try:
            settings = {**_settings(files, self._folder), **self._more}
            async with running(self._folder, self._brokers, **settings) as cluster:
                await cluster.has_controller()
                self._secured = Secured(cluster, files, self._folder)
                self._ready.set()
                await self._stop.wait()
        finally:
            self._ready.set()

    def kill(self, broker_id: int) -> None:
        """End a broker without a word to the others."""
        assert self._loop is not None
        assert self._secured is not None
        broker = self._secured.cluster.brokers.pop(broker_id)
        asyncio.run_coroutine_threadsafe(broker.abort(), self._loop).result(DEADLINE)
        self._loop.call_soon_threadsafe(broker.events.close)

    def stop(self) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(DEADLINE)
