"""The properties file of each broker, and what is wrong with the settings in a spec before any broker gets them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from minikafka.config import BrokerConfig, ConfigError
from minikafka.log.unflushed_volume import usable_bytes
from minikafka_kube.names import (
    CLIENT_PORT,
    EVENTS_PATH,
    EXTERNAL_PORT,
    LOG_PATH,
    METRICS_PORT,
    REPLICATION_PORT,
    UNFLUSHED_PATH,
    Names,
)

from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.manifests.difference import quantity
from minikafka_operator.security.broker_security import reserved_problems, security_properties

OFFSETS_FACTOR_MAX = 3
"""Kafka's default for ``offsets.topic.replication.factor``; fewer where topics have fewer by default."""

IN_SYNC_SECONDS_MAX = 600
"""How long a broker that has started may catch up before it counts as ready all the same, and the next may be taken."""

_MADE_OF = {
    "minikafka.unflushed.max.bytes": "spec.unflushedVolume.sizeLimit",
    "minikafka.events.max.bytes": "spec.flightRecorder.size",
}

AUTO_CREATION = "auto.create.topics.enable"

_ENVIRONMENT = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_STAND_INS = {"POD_IP": "10.0.0.1", "HOST_IP": "10.0.0.2"}


@dataclass(frozen=True, slots=True)
class Address:
    """Where clients outside reach a broker. ``host`` may be a variable that is known in the pod only."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and not self.host.startswith("${") else self.host
        return f"{host}:{self.port}"


def broker_properties(
    spec: ClusterSpec, names: Names, broker_id: int, external: Address | None, *, auto_creation: bool = False
) -> dict[str, str]:
    """All settings of one broker. ``auto_creation``: topics are made for who asks for them, unless the spec says otherwise."""
    listeners = {"CLIENT": f":{CLIENT_PORT}", "REPLICATION": f":{REPLICATION_PORT}"}
    advertised = {
        "CLIENT": f"{names.pod_host(broker_id)}:{CLIENT_PORT}",
        # By address, not by name: after a restart the name leads to the old address for as long as DNS caches it.
        "REPLICATION": f"${{env:POD_IP}}:{REPLICATION_PORT}",
    }
    if external is not None:
        listeners["EXTERNAL"] = f":{EXTERNAL_PORT}"
        advertised["EXTERNAL"] = str(external)
    made = {
        "node.id": str(broker_id),
        "minikafka.metadata.store": "kubernetes",
        "minikafka.kubernetes.namespace": names.namespace,
        "minikafka.kubernetes.cluster": names.cluster,
        "listeners": ",".join(f"{name}://{where}" for name, where in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{where}" for name, where in advertised.items()),
        **security_properties(spec, names, broker_id, listeners),
        "inter.broker.listener.name": "REPLICATION",
        "log.dirs": LOG_PATH,
        "minikafka.metrics.host": "0.0.0.0",
        "minikafka.metrics.port": str(METRICS_PORT),
        "minikafka.ready.in.sync.timeout.ms": str(IN_SYNC_SECONDS_MAX * 1000),
        "minikafka.events.path": f"{EVENTS_PATH}/broker-{broker_id}.jsonl",
        "minikafka.events.max.bytes": str(_usable(spec.flight_recorder.size)),
        "default.replication.factor": str(spec.replication.default_factor),
        "min.insync.replicas": str(spec.replication.min_insync_replicas),
        "offsets.topic.replication.factor": str(min(OFFSETS_FACTOR_MAX, spec.replication.default_factor)),
    }
    if not auto_creation:
        made[AUTO_CREATION] = "false"
    if spec.unflushed_volume is not None:
        made["minikafka.unflushed.dir"] = UNFLUSHED_PATH
        made["minikafka.unflushed.max.bytes"] = str(_usable(spec.unflushed_volume.size_limit))
    if spec.rack is not None:
        made["broker.rack"] = "${env:BROKER_RACK}"
    return {**made, **(spec.config or {})}


def had_auto_creation(files: Collection[str]) -> bool:
    """Return whether brokers have these files from an operator that left it to Kafka's default, by which topics are made."""
    return bool(files) and not any(f"\n{AUTO_CREATION}=" in text for text in files)


def _usable(size: str) -> int:
    """Return how much a broker may write to a volume of this size."""
    return usable_bytes(int(quantity(size) or 0))


def properties_text(properties: Mapping[str, str]) -> str:
    """A properties file, in Java's format."""
    lines = ["# Made by minikafka-operator from the MiniKafkaCluster; changes here are undone."]
    lines += [f"{_escaped(key, key=True)}={_escaped(value)}" for key, value in properties.items()]
    return "\n".join(lines) + "\n"


def _escaped(text: str, *, key: bool = False) -> str:
    made = (
        text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")
    )
    if key:
        made = re.sub(r"([=:\s#!])", r"\\\1", made)
    return f"\\{made}" if made.startswith(" ") else made


def settings_problems(spec: ClusterSpec, names: Names) -> tuple[str, ...]:
    """Return what a broker would refuse: one line for each setting, naming its field and what is allowed; none when all is well.

    A broker with such a setting would not start, so it must not get it. The API server cannot know Kafka's settings.
    """
    if reserved := reserved_problems(spec):
        return reserved
    external = Address("${env:HOST_IP}", EXTERNAL_PORT) if spec.listeners.external else None
    properties = broker_properties(spec, names, 0, external)
    filled = {
        key: _ENVIRONMENT.sub(lambda match: _STAND_INS.get(match[1], "stand-in"), value)
        for key, value in properties.items()
    }
    problems = _refused(tuple(filled.items()))
    return tuple(f"{_field(problem.partition('=')[0], spec)}: {problem}" for problem in problems)


@lru_cache(maxsize=256)
def _refused(properties: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """What a broker would refuse. Remembered, for each look at a cluster asks it of the same settings."""
    try:
        BrokerConfig.from_properties(dict(properties))
    except ConfigError as error:
        return tuple(error.problems)
    return ()


def _field(setting: str, spec: ClusterSpec) -> str:
    """Name the field of the spec that a setting is made of."""
    return "spec.config" if setting in (spec.config or {}) else _MADE_OF.get(setting, "spec.config")
