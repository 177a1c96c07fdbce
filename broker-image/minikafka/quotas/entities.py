"""Whose quotas there are, which of them counts for a client, and which cannot be (Kafka's ``ClientQuotaControlManager``)."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.security.acls import address

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

NAME_BYTES_MAX = 1024
"""Of a user or a client id that has quotas: all are kept in every broker's memory."""

_DEFAULT = "<default>"

Entity = tuple[tuple[str, str | None], ...]
"""Types with names, by type. The name None stands for all that have no quota of their own."""


class _Limits(NamedTuple):
    """What values a quota may have."""

    max: float
    integral: bool


_OF_CLIENTS: Mapping[str, _Limits] = {
    PRODUCER_BYTE_RATE: _Limits(2.0**63 - 1, True),
    CONSUMER_BYTE_RATE: _Limits(2.0**63 - 1, True),
    REQUEST_PERCENTAGE: _Limits(sys.float_info.max, False),
    CONTROLLER_MUTATION_RATE: _Limits(sys.float_info.max, False),
}
_OF_ADDRESSES: Mapping[str, _Limits] = {CONNECTION_CREATION_RATE: _Limits(2.0**31 - 1, True)}

_FRACTION_MAX = 1e-6
"""Values come as floating point numbers; Kafka lets this much pass as a whole one."""


@dataclass(frozen=True, slots=True)
class EntityQuotas:
    """The quotas of one entity, by name."""

    entity: Entity
    values: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        return {"entity": dict(self.entity), "values": dict(self.values)}


def from_json(value: Mapping[str, Any]) -> EntityQuotas:
    """What a record of the store says."""
    return EntityQuotas(entity_of(value["entity"].items()), dict(value["values"]))


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """An entity of its parts in any order. An address has many forms, of which one is kept."""
    found = {kind: address(name) if kind == IP and name is not None else name for kind, name in parts}
    return tuple(sorted(found.items()))


def record_name(entity: Entity) -> str:
    """The name of an entity, for records and people. A name that is like the word for the default is written differently."""
    return ",".join(f"{kind}={_DEFAULT if name is None else quote(name, safe='')}" for kind, name in entity)


def check_entity(entity: Entity) -> None:
    """Raise KafkaError INVALID_REQUEST for what can have no quotas."""
    kinds = {kind for kind, _ in entity}
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}; allowed: {', '.join(ENTITY_TYPES)}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        if name is not None and len(name.encode()) > NAME_BYTES_MAX:
            raise _invalid(f"Invalid {kind}; allowed: at most {NAME_BYTES_MAX} bytes")
    if IP in kinds and len(kinds) > 1:
        raise _invalid("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    host = dict(entity).get(IP)
    if host is not None and not _is_address(host):
        raise _invalid(f"{host} is not a valid IP; allowed: an address, not the name of a host")


def check_value(entity: Entity, key: str, value: float) -> None:
    """Raise KafkaError INVALID_REQUEST for a quota that such an entity cannot have."""
    allowed = _OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS
    limits = allowed.get(key)
    if limits is None:
        raise _invalid(f"Invalid configuration key {key}; allowed: {', '.join(allowed)}")
    if not value > 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if value > limits.max:
        most = f"{limits.max:.0f}" if limits.integral else f"{limits.max:g}"
        raise _invalid(f"Proposed value for {key} is too large; allowed: at most {most}")
    if limits.integral and value % 1 > _FRACTION_MAX:
        raise _invalid(f"{key} cannot be a fractional value")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


class Limit(NamedTuple):
    """A quota that counts for a client, and whom it shares it with: user and client id, each empty where all share it."""

    value: float
    user: str
    client_id: str


class QuotaSet:
    """All quotas of a cluster."""

    def __init__(self) -> None:
        self._values: dict[Entity, Mapping[str, float]] = {}
        self.is_set = False
        """Whether there is any: what is asked of each request."""
        self.version = 0
        """Another after each change."""

    def put(self, entity: Entity, values: Mapping[str, float] | None) -> None:
        """Set all quotas of an entity; none: it has no more."""
        self._values.pop(entity, None)
        if values:
            self._values[entity] = MappingProxyType(dict(values))
        self.is_set = bool(self._values)
        self.version += 1

    def of(self, entity: Entity) -> Mapping[str, float]:
        """The quotas of an entity."""
        return self._values.get(entity, {})

    def all(self) -> Mapping[Entity, Mapping[str, float]]:
        """Every entity with quotas."""
        return MappingProxyType(self._values)

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """The quota that counts for a client, by Kafka's order: a user's before a client id's, a name before the default."""
        levels: tuple[tuple[tuple[tuple[str, str | None], ...], str, str], ...] = (
            (((CLIENT_ID, client_id), (USER, user)), user, client_id),
            (((CLIENT_ID, None), (USER, user)), user, client_id),
            (((USER, user),), user, ""),
            (((CLIENT_ID, client_id), (USER, None)), user, client_id),
            (((CLIENT_ID, None), (USER, None)), user, client_id),
            (((USER, None),), user, ""),
            (((CLIENT_ID, client_id),), "", client_id),
            (((CLIENT_ID, None),), "", client_id),
        )
        for entity, by_user, by_client_id in levels:
            if entity[0][0] == CLIENT_ID and not client_id:
                continue
            value = self._values.get(entity, {}).get(key)
            if value is not None:
                return Limit(value, by_user, by_client_id)
        return None

    def connection_rate(self, host: str) -> float | None:
        """How many connections an address may make a second."""
        for name in (address(host), None):
            value = self._values.get(((IP, name),), {}).get(CONNECTION_CREATION_RATE)
            if value is not None:
                return value
        return None
