"""What a cluster's data directory holds, and the properties each of its brokers starts with.

```
DATA/cluster.json          what was asked of `up` (the record); everything below follows from it
DATA/ca.pem                the certificate that clients are to trust, where they need TLS
DATA/stopped               it is there from `down` until the next `up`
DATA/metadata.sqlite       the cluster store of all its brokers
DATA/broker-N/broker.properties  data/  unflushed/  events.jsonl  broker.log  pid  process.json  faults
```
"""

from __future__ import annotations

import json
import os
import re
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from minikafka.client.metrics_access import own_access
from minikafka.local.errors import BadRequest, ClusterError
from minikafka.local.ports import HOST, INTER_BROKER_PORT_OFFSET, METRICS_PORT_OFFSET, PROXY_PORT_OFFSET

BROKERS_MAX = 100
"""Each broker is a process of some 40 MB; more than this on one machine is a slip of the finger."""

CLIENTS, INTER_BROKER = "PLAINTEXT", "REPLICATION"
"""The listeners of each broker."""
EVERY_INTERFACE = "0.0.0.0"
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")

STORE = "metadata.sqlite"
RECORD = "cluster.json"
RECORD_VERSION = 1
STOPPED = "stopped"
CA = "ca.pem"

HOOKS = "minikafka.test.hooks"
"""The setting by which brokers tell what they acknowledge, which a verdict on a cluster that was broken by hand needs."""
UP_SETTINGS = {HOOKS: "true"}
"""Of each cluster that `minikafka up` makes, beside `lab_defaults`, unless somebody says otherwise."""

KEYS_SET_PER_BROKER = frozenset(
    {
        "node.id",
        "broker.id",
        "cluster.id",
        "broker.rack",
        "listeners",
        "advertised.listeners",
        "inter.broker.listener.name",
        "log.dirs",
        "log.dir",
        "minikafka.unflushed.dir",
        "minikafka.metrics.port",
        "minikafka.events.path",
        "minikafka.test.faults.path",
    }
)


MERGED = frozenset({"listener.security.protocol.map"})
"""What somebody has set of these is put together with what a local cluster sets."""


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """One broker of a local cluster; ``pid`` is None while it does not run."""

    id: int
    pid: int | None
    port: int
    replication_port: int
    metrics_port: int
    data_dir: str
    unflushed_dir: str | None
    events_path: str
    log_path: str
    metrics_url: str
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """A local cluster as it is now."""

    bootstrap: str
    cluster_id: str
    brokers: list[BrokerInfo]
    security_protocol: str
    """Of the listener for clients, by Kafka's name."""
    ca_path: str | None
    """The certificate, in PEM, that clients are to trust; None where `minikafka up --tls` has made none."""

    def as_json(self) -> dict[str, Any]:
        """Return what `minikafka up --json` prints."""
        names = ("id", "pid", "port", "replication_port", "metrics_port", "data_dir")
        return {
            "bootstrap": self.bootstrap,
            "cluster_id": self.cluster_id,
            "security_protocol": self.security_protocol,
            "ca_path": self.ca_path,
            "brokers": [{name: getattr(broker, name) for name in names} for broker in self.brokers],
        }


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """What was asked of `up`, as ``cluster.json`` keeps it."""

    cluster_id: str
    brokers: int
    base_port: int
    racks: list[str] | None = None
    unflushed: bool = True
    config: dict[str, str] = field(default_factory=dict)
    first_id: int = 1
    """People count from 1; scenarios, which run on Kubernetes as well, from 0."""
    proxied: list[str] = field(default_factory=list)
    """Listeners whose advertised port is that of a proxy before them, which is not the cluster's own concern."""
    replication_base_port: int | None = None
    metrics_base_port: int | None = None
    """Of the first broker, as `base_port` is; None: :data:`INTER_BROKER_PORT_OFFSET` and :data:`METRICS_PORT_OFFSET` above it."""
    faults: bool = False
    """Whether each broker looks into a file of injected faults (minikafka.test.faults.path)."""
    advertised_host: str | None = None
    """By which clients reach all brokers, which then listen for them on every interface; None: only clients here do."""

    @property
    def ids(self) -> range:
        """Broker ids, one after the other."""
        return range(self.first_id, self.first_id + self.brokers)

    def port(self, broker: int) -> int:
        """The listener's port of a broker."""
        return self.base_port + broker - self.first_id

    def replication_port(self, broker: int) -> int:
        """The port at which brokers reach a broker."""
        base = self.replication_base_port
        return broker - self.first_id + (self.base_port + INTER_BROKER_PORT_OFFSET if base is None else base)

    def metrics_port(self, broker: int) -> int:
        """The port of a broker's /metrics, /healthz and /readyz."""
        base = self.metrics_base_port
        return broker - self.first_id + (self.base_port + METRICS_PORT_OFFSET if base is None else base)

    def ports(self, broker: int) -> tuple[int, int, int]:
        """All that a broker listens on."""
        return self.port(broker), self.replication_port(broker), self.metrics_port(broker)

    @property
    def base_ports(self) -> dict[str, int]:
        """The ports of the first broker by the fields of this record, whether chosen or not."""
        first = self.first_id
        return {"replication_base_port": self.replication_port(first), "metrics_base_port": self.metrics_port(first)}

    def rack(self, broker: int) -> str | None:
        """The rack of a broker: the names are dealt round when there are fewer than brokers."""
        return self.racks[(broker - self.first_id) % len(self.racks)] if self.racks else None

    @property
    def bootstrap(self) -> str:
        """All listeners, for a client's ``bootstrap.servers``."""
        return ",".join(f"{self.client_host}:{self.port(broker)}" for broker in self.ids)

    @property
    def client_host(self) -> str:
        """The host that brokers tell clients."""
        return HOST if self.advertised_host is None else self.advertised_host


def new_cluster_id() -> str:
    """A random id in Kafka's form (``Uuid.randomUuid``): 22 characters of URL-safe base64, the first not a dash."""
    while True:
        text = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def check(record: ClusterRecord) -> None:
    """Raise :class:`BadRequest` unless such a cluster can be."""
    if not 1 <= record.brokers <= BROKERS_MAX:
        raise BadRequest(f"brokers: {record.brokers} is not between 1 and {BROKERS_MAX}")
    if record.first_id not in (0, 1):
        raise BadRequest(f"first broker id: {record.first_id} is neither 0 nor 1")
    _check_ports(record)
    for rack in record.racks or ():
        if not rack or rack != rack.strip():
            raise BadRequest(f"racks: {','.join(record.racks or ())!r} has an empty name or one with blanks around it")
    if strange := set(record.proxied) - {CLIENTS, INTER_BROKER}:
        raise BadRequest(f"proxied listeners: {', '.join(sorted(strange))}; allowed: {CLIENTS}, {INTER_BROKER}")
    host = record.advertised_host
    if host is not None and (not HOST_NAME.fullmatch(host) or host == EVERY_INTERFACE):
        raise BadRequest(f"advertised host: {host!r} is neither the name of a host nor its IPv4 address")
    for key, value in record.config.items():
        if key in KEYS_SET_PER_BROKER:
            raise BadRequest(
                f"config: {key} differs between the brokers of a local cluster and is set for each by itself"
            )
        if "\n" in value or "\r" in value:
            raise BadRequest(f"config: the value of {key} has a line break")


def _check_ports(record: ClusterRecord) -> None:
    """Every port exists, and none is two brokers', or has two uses."""
    first = record.ids[0]
    for words, chosen, port, offset in (
        ("base port", record.base_port, record.port(first), 0),
        (
            "replication base port",
            record.replication_base_port,
            record.replication_port(first),
            INTER_BROKER_PORT_OFFSET,
        ),
        ("metrics base port", record.metrics_base_port, record.metrics_port(first), METRICS_PORT_OFFSET),
    ):
        last = 65535 - record.brokers + 1
        if 1 <= port <= last:
            continue
        if chosen is None:
            raise BadRequest(
                f"base port: {record.base_port} is not between 1 and {last - offset} "
                f"(the {words.removesuffix(' base port')} ports are {offset} above)"
            )
        raise BadRequest(f"{words}: {port} is not between 1 and {last}")
    taken: dict[int, str] = {}
    for broker in record.ids:
        for words, port in zip(("client", "replication", "metrics"), record.ports(broker), strict=True):
            use = f"the {words} port of broker {broker}"
            if port in taken:
                raise BadRequest(f"ports: {port} would be {taken[port]} and {use}")
            taken[port] = use


def broker_dir(data: Path, broker: int) -> Path:
    """The folder of one broker."""
    return data / f"broker-{broker}"


def properties_path(data: Path, broker: int) -> Path:
    """The broker's configuration file; also the argument by which its process is known."""
    return broker_dir(data, broker) / "broker.properties"


def faults_path(data: Path, broker: int) -> Path:
    """The broker's file of injected faults, where it has one."""
    return broker_dir(data, broker) / "faults"


def broker_info(data: Path, record: ClusterRecord, broker: int, pid: int | None) -> BrokerInfo:
    """Ports and paths of one broker."""
    folder = broker_dir(data, broker)
    return BrokerInfo(
        id=broker,
        pid=pid,
        port=record.port(broker),
        replication_port=record.replication_port(broker),
        metrics_port=record.metrics_port(broker),
        data_dir=str(folder / "data"),
        unflushed_dir=str(folder / "unflushed") if record.unflushed else None,
        events_path=str(folder / "events.jsonl"),
        log_path=str(folder / "broker.log"),
        metrics_url=own_access(record.config).url(HOST, record.metrics_port(broker)),
        rack=record.rack(broker),
    )


def lab_defaults(brokers: int) -> dict[str, str]:
    """The settings of a small cluster whose brokers are killed on purpose, where they differ from Kafka's own.

    A silent death is noticed in two seconds instead of nine, and a consumer group does not wait for latecomers.
    """
    replicas = str(min(3, brokers))
    values = {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "group.initial.rebalance.delay.ms": "0",
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
    }
    return values | ({"min.insync.replicas": "2"} if brokers >= 3 else {})


def properties(data: Path, record: ClusterRecord, broker: int) -> dict[str, str]:
    """The configuration of one broker: a lab's defaults, then what `--config` says."""
    info = broker_info(data, record, broker, None)
    ports = {CLIENTS: info.port, INTER_BROKER: info.replication_port}
    advertised = {name: port + (PROXY_PORT_OFFSET if name in record.proxied else 0) for name, port in ports.items()}
    hosts = {CLIENTS: record.client_host, INTER_BROKER: HOST}
    listening = {CLIENTS: HOST if record.advertised_host is None else EVERY_INTERFACE, INTER_BROKER: HOST}
    values = {
        "node.id": str(broker),
        "cluster.id": record.cluster_id,
        "listeners": ",".join(f"{name}://{listening[name]}:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(f"{name}://{hosts[name]}:{port}" for name, port in advertised.items()),
        "listener.security.protocol.map": _protocols(record.config.get("listener.security.protocol.map", "")),
        "inter.broker.listener.name": INTER_BROKER,
        "log.dirs": info.data_dir,
        "minikafka.metadata.store": f"sqlite:{data / STORE}",
        "minikafka.metrics.port": str(info.metrics_port),
        "minikafka.events.path": info.events_path,
        **lab_defaults(record.brokers),
    }
    if info.unflushed_dir is not None:
        values["minikafka.unflushed.dir"] = info.unflushed_dir
    if info.rack is not None:
        values["broker.rack"] = info.rack
    if record.faults:
        values["minikafka.test.faults.path"] = str(faults_path(data, broker))
    return values | {key: value for key, value in record.config.items() if key not in MERGED}


def client_protocol(config: Mapping[str, str]) -> str:
    """Return the protocol of the listener for clients, by Kafka's name."""
    chosen = _protocols(config.get("listener.security.protocol.map", ""))
    return next(item.partition(":")[2] for item in chosen.split(",") if item.startswith(f"{CLIENTS}:"))


def _protocols(chosen: str) -> str:
    """Return the protocols of both listeners: those that somebody has chosen, else PLAINTEXT."""
    protocols = {CLIENTS: "PLAINTEXT", INTER_BROKER: "PLAINTEXT"}
    for item in filter(None, chosen.split(",")):
        name, _, protocol = item.partition(":")
        protocols[name.strip().upper()] = protocol.strip()
    return ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())


def render(values: Mapping[str, str]) -> str:
    """A Java properties file."""
    lines = [f"{key}={_escaped(value)}" for key, value in values.items()]
    return "\n".join(["# Written by `minikafka up`; change it with `minikafka up --config KEY=VALUE`.", *lines, ""])


def _escaped(value: str) -> str:
    value = value.replace("\\", "\\\\")
    return "\\" + value if value.startswith(" ") else value


def read_record(data: Path) -> ClusterRecord | None:
    """The record, or None where no cluster was ever made. Raises :class:`ClusterError` for a file that is not one."""
    path = data / RECORD
    try:
        raw = json.loads(path.read_text())
        version = raw.pop("version")
        if version != RECORD_VERSION:
            raise ClusterError(f"{path} has version {version!r}; this minikafka knows {RECORD_VERSION}")
        record = ClusterRecord(**raw)
        check(record)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise BadRequest(f"{data} is not a directory") from None
    except (ValueError, KeyError, TypeError, AttributeError, BadRequest) as error:
        raise ClusterError(f"{path} is not a cluster's record: {error}") from error
    return record


def write_record(data: Path, record: ClusterRecord) -> None:
    """Replace the record in one step."""
    write_atomic(data / RECORD, json.dumps({"version": RECORD_VERSION, **asdict(record)}, indent=2) + "\n", PRIVATE)


def write_properties(data: Path, record: ClusterRecord, broker: int) -> Path:
    """Write what a broker starts with; the path of the file."""
    path = properties_path(data, broker)
    write_atomic(path, render(properties(data, record, broker)), PRIVATE)
    return path


PRIVATE = 0o600
"""Of files with settings: there may be passwords in them."""


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a small file so that a reader sees the old text or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    temporary.touch(mode=mode)
    temporary.write_text(text)
    temporary.replace(path)
