"""What each broker says of its own replicas (LEO, HW, flushed offset), from the /metrics page whose port it tells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from typing import NamedTuple

from minikafka.cli.metadata import BrokerMetadata
from minikafka.client.connection import BrokerConnection, NoAnswer
from minikafka.client.metrics_access import KEYSTORE_KEY, MetricsAccess, is_loopback
from minikafka.client.security import PLAINTEXT, ClientSecurity
from minikafka.protocol.api_keys import ApiKey
from minikafka.security.bearer import TOKENS_KEY
from minikafka.security.tls import TlsSettings

_DESCRIBE_CONFIGS_NEWEST = 4
_BROKER_RESOURCE = 4
_METRICS_PORT_KEY = "minikafka.metrics.port"
NO_METRICS = f"has no {_METRICS_PORT_KEY}"
"""Why a broker that is not a MiniKafka, or not told a port, has no page; every other reason is trouble."""

_PARALLEL_MAX = 16

_SAMPLE = re.compile(
    r'^minikafka_(?P<name>\w+)\{(?:topic="(?P<topic>[^"]*)",partition="(?P<p1>\d+)"|partition="(?P<p2>\d+)",'
    r'topic="(?P<topic2>[^"]*)")\} (?P<value>\S+)',
    re.MULTILINE,
)
"""Samples with exactly these two labels; a topic's name has no character that would need escaping."""

_FIELDS = {
    "log_start_offset": "start",
    "log_end_offset": "leo",
    "high_watermark": "hw",
    "log_flushed_offset": "flushed",
    "leader_epoch": "leader_epoch",
    "partition_epoch": "partition_epoch",
    "replica_role": "role",
}


class Replica(NamedTuple):
    """One broker's own view of its replica; None where the page does not say."""

    start: int | None = None
    leo: int | None = None
    hw: int | None = None
    flushed: int | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    role: int | None = None


class Page(NamedTuple):
    """A broker's metrics page, or why there is none (``error``)."""

    port: int | None
    replicas: dict[tuple[str, int], Replica]
    error: str | None
    refused: bool = False
    """Whether nothing listens at the broker's own address."""


def scrape_all(
    brokers: Iterable[BrokerMetadata], timeout: float, security: ClientSecurity = PLAINTEXT
) -> dict[int, Page]:
    """The pages of all these brokers, asked at the same time; one that does not answer costs ``timeout`` seconds."""
    listed = list(brokers)
    if not listed:
        return {}
    with ThreadPoolExecutor(min(len(listed), _PARALLEL_MAX)) as pool:
        return dict(
            zip((broker.id for broker in listed), pool.map(lambda b: scrape(b, timeout, security), listed), strict=True)
        )


def scrape(broker: BrokerMetadata, timeout: float, security: ClientSecurity = PLAINTEXT) -> Page:
    """One broker's page. Never raises for a broker that is silent, is not a MiniKafka or answers what cannot be read."""
    port = None
    try:
        port, access = _metrics_port(broker, timeout, security)
        if port is None:
            return Page(None, {}, NO_METRICS)
        withheld = access.tokens_path != security.metrics.tokens_path
        return Page(port, parse(_get(access, access.url(broker.host, port), timeout, withheld=withheld)), None)
    except NoAnswer as refusal:
        return Page(port, {}, str(refusal), isinstance(refusal.__cause__, ConnectionRefusedError))
    except (OSError, ValueError, OverflowError) as error:  # the last two: of hosts, ports and samples that are none
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Page(port, {}, f"metrics port {port}: {reason}")


def _metrics_port(broker: BrokerMetadata, timeout: float, security: ClientSecurity) -> tuple[int | None, MetricsAccess]:
    """Return the port, and how it is read: by TLS when the broker says so.

    The token goes only to whom TLS has shown to be a broker, here or by a truststore of ours there: without either anybody may
    have named host and port, and have said that there is no TLS. On this machine nobody reads along.
    """
    values = {
        "resources": [
            {
                "resource_type": _BROKER_RESOURCE,
                "resource_name": str(broker.id),
                "configuration_keys": [_METRICS_PORT_KEY, KEYSTORE_KEY],
            }
        ]
    }
    with BrokerConnection(broker.host, broker.port, timeout, security) as connection:
        answer = connection.request(ApiKey.DESCRIBE_CONFIGS, _DESCRIBE_CONFIGS_NEWEST, values)
    found = {config.name: config.value or "" for result in answer.results for config in result.configs}
    port = found.get(_METRICS_PORT_KEY, "")
    access = replace(security.metrics, tls=(security.metrics.tls or TlsSettings()) if found.get(KEYSTORE_KEY) else None)
    verified = security.tls is not None or (access.tls is not None and access.tls.has_truststore)
    if not (verified or is_loopback(broker.host)):
        access = replace(access, tokens_path="")
    return (int(port) or None if port.isdigit() else None), access


def _get(access: MetricsAccess, url: str, timeout: float, *, withheld: bool) -> str:
    status, page = access.ask(url, timeout)
    if status == HTTPStatus.UNAUTHORIZED and withheld:
        raise OSError(
            "asks for a token, which goes only to a broker known by TLS: security.protocol or ssl.truststore.*"
        )
    if status == HTTPStatus.UNAUTHORIZED:
        raise OSError(f"asks for a token: name {TOKENS_KEY} in the file of --command-config")
    if status != HTTPStatus.OK:
        raise OSError(f"HTTP status {status}")
    return page.decode()


def parse(page: str) -> dict[tuple[str, int], Replica]:
    """The replicas on a page in Prometheus's text format."""
    found: dict[tuple[str, int], dict[str, int]] = {}
    for sample in _SAMPLE.finditer(page):
        name = _FIELDS.get(sample["name"])
        if name is not None:
            place = (sample["topic"] or sample["topic2"], int(sample["p1"] or sample["p2"]))
            found.setdefault(place, {})[name] = int(float(sample["value"]))
    return {place: Replica(**values) for place, values in found.items()}


def best(values: Mapping[int, Page], place: tuple[str, int], leader: int) -> Replica:
    """The leader's view of a partition, else an empty one."""
    page = values.get(leader)
    return page.replicas.get(place, Replica()) if page else Replica()
