"""The rules of one pod as `nft` has them, as values: what it is told to install, and what is read from its listing. No I/O.

All that this agent makes in a network namespace is one table. Each fault has in it, under names that follow from its id, three
sets and a base chain for each way. A chain drops what matches its sets, and the elements of the sets carry timeouts: the kernel
ends the fault, and what is left then matches nothing. Base chains drop each for itself, so faults that overlap do not know of
each other.

Everything is JSON (libnftables-json(5)): no text is put together from what somebody asked for.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from minikafka_chaos.network.errors import BadRequest

TABLE = "minikafka-chaos"
FAMILY = "inet"
PRIORITY = -300
"""Before connection tracking and everybody else's filters: connections that are there already are cut, too."""

CLIENTS = "clients"
"""The peer that is everybody who talks to the ports for clients. No pod is called so: brokers' pods are NAME-broker-N."""

ID_MAX = 80
"""Verb, digest and id are the comment of a rule, which has room for 128 characters."""

Command = dict[str, Any]


class LinkVerb(StrEnum):
    """A fault of the network."""

    CUT = "cut"
    LOSS = "loss"


class LinkDirection(StrEnum):
    """Which way, as the pod sees it."""

    BOTH = "both"
    OUTBOUND = "outbound"
    INBOUND = "inbound"


@dataclass(frozen=True)
class Peer:
    """The other end of a link: a broker's pod, or all clients (`CLIENTS`)."""

    name: str
    addresses: tuple[str, ...] = ()
    """None for clients."""
    ports: tuple[int, ...] = ()
    """TCP: of either end for a pod, of this pod for clients."""


@dataclass(frozen=True)
class LinkFault:
    """One fault of one pod, as it is asked for."""

    id: str
    verb: LinkVerb
    seconds: float
    """After so long the kernel ends it."""
    peers: tuple[Peer, ...]
    direction: LinkDirection = LinkDirection.BOTH
    percent: int = 100

    @property
    def key(self) -> str:
        """Return what the names of its sets and chains begin with: a letter, and nothing that `nft` minds."""
        return key_of(self.id)

    @property
    def digest(self) -> str:
        """Digest what it does; not the addresses, which may have changed when it is asked for again."""
        parts = [self.verb, self.direction, str(self.percent), *sorted(peer.name for peer in self.peers)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Element:
    """An element of a set, as it is in force."""

    set: str
    value: Any
    peer: str
    expires: int
    """Seconds from now on, rounded down."""


@dataclass(frozen=True)
class InstalledFault:
    """A fault as it was found in a pod. It is over when it has no elements."""

    key: str
    id: str
    verb: str
    digest: str
    chains: tuple[str, ...]
    sets: tuple[str, ...]
    elements: tuple[Element, ...]

    @property
    def is_over(self) -> bool:
        """Return whether the kernel, or a `heal`, has ended all of it."""
        return not self.elements

    def answer(self) -> dict[str, Any]:
        """Return what a verb answers."""
        expires = max((element.expires for element in self.elements), default=None)
        peers = sorted({element.peer for element in self.elements})
        return {"id": self.id, "verb": self.verb, "over": self.is_over, "expires_s": expires, "peers": peers}


def key_of(fault_id: str) -> str:
    """Return the key of a fault, as `LinkFault.key` does."""
    return "f" + hashlib.sha256(fault_id.encode()).hexdigest()[:20]


# -- to nft -------------------------------------------------------------------------------------------------------------


def installing(fault: LinkFault) -> list[Command]:
    """One transaction: all of it, or nothing when a fault of this id is there already. Raises BadRequest."""
    own = {"family": FAMILY, "table": TABLE}
    commands: list[Command] = [{"add": {"table": {"family": FAMILY, "name": TABLE}}}]
    kinds: Mapping[str, Any] = {
        "4": ["ipv4_addr", "inet_service"],
        "6": ["ipv6_addr", "inet_service"],
        "c": "inet_service",
    }
    for suffix, kind in kinds.items():
        made = {**own, "name": f"{fault.key}-{suffix}", "type": kind, "flags": ["timeout"]}
        commands.append({"create": {"set": made}})
    for suffix, values in _elements(fault).items():
        if values:
            commands.append({"add": {"element": {**own, "name": f"{fault.key}-{suffix}", "elem": values}}})
    for way in _ways(fault.direction):
        chain = f"{fault.key}-{way}"
        hook = {"type": "filter", "hook": _HOOKS[way], "prio": PRIORITY, "policy": "accept"}
        commands.append({"create": {"chain": {**own, "name": chain, **hook}}})
        for match in _matches(fault.key, way):
            expression = [match, *_by_chance(fault.percent), {"drop": None}]
            comment = f"{fault.verb.value}:{fault.digest}:{fault.id}"
            commands.append({"add": {"rule": {**own, "chain": chain, "comment": comment, "expr": expression}}})
    return commands


_HOOKS = {"in": "input", "out": "output"}


def _ways(direction: LinkDirection) -> Sequence[str]:
    return {LinkDirection.BOTH: ("in", "out"), LinkDirection.INBOUND: ("in",), LinkDirection.OUTBOUND: ("out",)}[
        direction
    ]


def _elements(fault: LinkFault) -> dict[str, list[Any]]:
    timeout = math.ceil(fault.seconds)
    found: dict[str, list[Any]] = {"4": [], "6": [], "c": []}

    def add(suffix: str, value: Any, peer: Peer) -> None:
        found[suffix].append({"elem": {"val": value, "timeout": timeout, "comment": peer.name}})

    for peer in fault.peers:
        if peer.name == CLIENTS:
            for port in peer.ports:
                add("c", port, peer)
            continue
        for address in peer.addresses:
            known = ipaddress.ip_address(address)
            for port in peer.ports:
                add(str(known.version), {"concat": [str(known), port]}, peer)
    if not any(found.values()):
        raise BadRequest("--peer, --clients: no address and no port is among them")
    return found


def _field(protocol: str, name: str) -> Command:
    return {"payload": {"protocol": protocol, "field": name}}


def _matches(key: str, way: str) -> Iterable[Command]:
    """Every way in which a packet is of one of the links: the other end listens, or this one does."""
    address = "saddr" if way == "in" else "daddr"
    for suffix, protocol in (("4", "ip"), ("6", "ip6")):
        for port in ("dport", "sport"):
            left = {"concat": [_field(protocol, address), _field("tcp", port)]}
            yield {"match": {"op": "==", "left": left, "right": f"@{key}-{suffix}"}}
    # Clients come from any address, and this end listens.
    own_port = _field("tcp", "dport" if way == "in" else "sport")
    yield {"match": {"op": "==", "left": own_port, "right": f"@{key}-c"}}


def _by_chance(percent: int) -> list[Command]:
    if percent >= 100:
        return []
    chance = {"numgen": {"mode": "random", "mod": 100, "offset": 0}}
    return [{"match": {"op": "<", "left": chance, "right": percent}}]


def removing(found: Iterable[InstalledFault]) -> list[Command]:
    """One transaction: nothing of these faults is left."""
    own = {"family": FAMILY, "table": TABLE}
    commands: list[Command] = []
    for fault in found:
        for chain in fault.chains:
            commands.append({"flush": {"chain": {**own, "name": chain}}})
            commands.append({"delete": {"chain": {**own, "name": chain}}})
        commands += [{"delete": {"set": {**own, "name": name}}} for name in fault.sets]
    return commands


def releasing(elements: Iterable[Element]) -> list[Command]:
    """One transaction: these elements are gone. It fails as a whole when one of them has ended meanwhile."""
    own = {"family": FAMILY, "table": TABLE}
    return [{"delete": {"element": {**own, "name": each.set, "elem": [each.value]}}} for each in elements]


def dropping_table() -> list[Command]:
    """Nothing of this agent is left in the namespace."""
    return [{"delete": {"table": {"family": FAMILY, "name": TABLE}}}]


# -- from nft -----------------------------------------------------------------------------------------------------------


def read(listing: Mapping[str, Any]) -> list[InstalledFault]:
    """The faults in `nft -j list table`."""
    chains: dict[str, list[str]] = {}
    sets: dict[str, list[str]] = {}
    elements: dict[str, list[Element]] = {}
    comments: dict[str, str] = {}
    for entry in listing.get("nftables") or ():
        for kind, body in entry.items():
            if kind == "chain":
                chains.setdefault(_key(body["name"]), []).append(body["name"])
            elif kind == "set":
                key = _key(body["name"])
                sets.setdefault(key, []).append(body["name"])
                elements.setdefault(key, []).extend(_element(body["name"], each) for each in body.get("elem") or ())
            elif kind == "rule":
                comments[_key(body["chain"])] = str(body.get("comment") or "")
    return [
        InstalledFault(
            key, *_said(comments.get(key, "")), tuple(chains.get(key, ())), tuple(names), tuple(elements[key])
        )
        for key, names in sets.items()
    ]


def _key(name: str) -> str:
    return name.rpartition("-")[0]


def _said(comment: str) -> tuple[str, str, str]:
    verb, _, rest = comment.partition(":")
    digest, _, fault_id = rest.partition(":")
    return fault_id, verb, digest


def _element(name: str, given: Any) -> Element:
    made = given["elem"] if isinstance(given, dict) and "elem" in given else {"val": given}
    return Element(name, made["val"], str(made.get("comment") or ""), int(made.get("expires") or 0))
