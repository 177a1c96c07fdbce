"""Listeners: ``NAME://HOST:PORT`` lists, and the checks between the keys that speak of them (KIP-103)."""

import ipaddress
import re
import socket
from typing import Any, NamedTuple

from minikafka.config.keys import ConfigError, ConfigType, InvalidValue, Key

_ENDPOINT = re.compile(r"([A-Za-z0-9_.-]+)://(?:\[([0-9A-Fa-f:.%]*)\]|([A-Za-z0-9._%-]*)):([0-9]{1,5})", re.ASCII)
_KAFKA_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_WILDCARDS = ("0.0.0.0", "::")
_SHAPE = "comma-separated list of NAME://HOST:PORT with distinct names and ports"


class Endpoint(NamedTuple):
    """One listener. An empty host means every interface; port 0 means that the system chooses one."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_endpoints(text: str) -> tuple[Endpoint, ...]:
    """Parse a ``listeners`` value; raises :class:`InvalidValue` with what is wrong with which entry."""
    endpoints: list[Endpoint] = []
    for item in text.split(","):
        match = _ENDPOINT.fullmatch(item.strip())
        if match is None:
            raise InvalidValue(f"{item.strip() or 'an empty entry'!r} is no listener")
        endpoint = Endpoint(match[1].upper(), match[2] or match[3] or "", int(match[4]))
        if endpoint.port > 65535:
            raise InvalidValue(f"port {endpoint.port} is above 65535")
        for other in endpoints:
            if other.name == endpoint.name:
                raise InvalidValue(f"two listeners are named {endpoint.name}")
            # Kafka allows the same port once on IPv4 and once on IPv6 (KIP-797).
            if endpoint.port and other.port == endpoint.port and (":" in other.host) == (":" in endpoint.host):
                raise InvalidValue(f"two listeners use port {endpoint.port}")
        endpoints.append(endpoint)
    return tuple(endpoints)


def listener_list(default: tuple[Endpoint, ...] | None, /, *, doc: str) -> Key[tuple[Endpoint, ...]]:
    """A key that holds listeners; a default of None is replaced when the whole configuration is resolved."""
    return Key(ConfigType.LIST, default, _SHAPE, parse_endpoints, doc)


def parse_protocol_map(text: str) -> dict[str, str]:
    """``NAME:PROTOCOL,...`` into a mapping; raises :class:`InvalidValue`."""
    protocols: dict[str, str] = {}
    for item in text.split(","):
        name, colon, protocol = (part.strip().upper() for part in item.partition(":"))
        if not colon or not name or protocol not in _KAFKA_PROTOCOLS:
            raise InvalidValue(f"{item.strip()!r} is no NAME:PROTOCOL pair")
        if protocols.setdefault(name, protocol) != protocol:
            raise InvalidValue(f"listener {name} has two protocols")
    return protocols


def protocol_map(*, doc: str) -> Key[dict[str, str]]:
    """The key ``listener.security.protocol.map``."""
    key: Key[dict[str, str]] = Key(
        ConfigType.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "comma-separated NAME:PROTOCOL pairs with PROTOCOL one of " + ", ".join(_KAFKA_PROTOCOLS),
        parse_protocol_map,
        doc,
    )
    return key


def _parse_per_address(value: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in filter(None, (item.strip() for item in value.split(","))):
        host, _, count = (part.strip() for part in entry.rpartition(":"))
        try:
            known = str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]")))
        except ValueError:
            raise InvalidValue(f"{host or entry!r} is not an address") from None
        if not (count.isascii() and count.isdigit()):
            raise InvalidValue(f"{count!r} of {host} is not a whole number")
        if known in counts:
            raise InvalidValue(f"{host} is named twice")
        counts[known] = int(count)
    return counts


def per_address(*, doc: str, **rest: Any) -> Key[dict[str, int]]:
    """Whole numbers by address, which may be none."""
    allowed = "comma-separated ADDRESS:NUMBER pairs, as 10.0.0.1:100,[::1]:200"
    return Key(ConfigType.STRING, "", allowed, _parse_per_address, doc, **rest)


def advertised_default(listeners: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """Return what is advertised when nothing is said: the listeners themselves, an empty host being this machine's name."""
    return tuple(e if e.host else e._replace(host=socket.gethostname()) for e in listeners)


def check_listeners(
    listeners: tuple[Endpoint, ...],
    advertised: tuple[Endpoint, ...],
    protocols: dict[str, str],
    inter_broker: str | None,
    inter_broker_protocol: str | None = None,
) -> str:
    """Cross-check the listener keys; returns the inter-broker listener's name. Raises :class:`ConfigError`.

    ``inter_broker`` and ``inter_broker_protocol`` are what is set of inter.broker.listener.name and
    security.inter.broker.protocol.
    """
    names = [e.name for e in listeners]
    shown = ", ".join(names)
    problems: list[str] = []
    for name in names:
        if name not in protocols:
            problems.append(
                f"listener.security.protocol.map: no protocol for listener {name}; allowed: an entry {name}:PLAINTEXT"
            )
    for endpoint in advertised:
        if endpoint.name not in names:
            problems.append(f"advertised.listeners={endpoint}: no such listener; allowed names: {shown}")
        elif endpoint.host in _WILDCARDS or not endpoint.host:
            problems.append(
                f"advertised.listeners={endpoint}: clients cannot connect to this host; "
                "allowed: a host name or address that clients can reach"
            )
    reachable = [e.name for e in advertised]
    if inter_broker is not None and inter_broker_protocol is not None:
        problems.append(
            f"security.inter.broker.protocol={inter_broker_protocol}: inter.broker.listener.name={inter_broker} is set as well; "
            "allowed: one of both"
        )
    elif inter_broker is None:
        inter_broker = inter_broker_protocol
    if inter_broker is None:
        inter_broker = "PLAINTEXT" if "PLAINTEXT" in reachable or len(reachable) != 1 else reachable[0]
    inter_broker = inter_broker.upper()
    if inter_broker not in reachable:
        problems.append(
            f"inter.broker.listener.name={inter_broker}: not among the advertised listeners; "
            f"allowed: {', '.join(reachable)}"
        )
    if problems:
        raise ConfigError(*problems)
    return inter_broker
