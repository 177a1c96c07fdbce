"""What a cluster knows of its users, what it should know, and the difference. No I/O.

All ACLs of a MiniKafkaUser's principal, and all quotas of the user alone, are its own: what its spec does not say goes. Those of
other principals, and of the user's single clients, stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from minikafka.security.acls import CLUSTER_NAME, Acl, Entry, Operation, Pattern, PatternType, Permission, ResourceType

from minikafka_operator.api.user import (
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    AclRule,
)

MECHANISM = "SCRAM-SHA-512"

_TYPES = {
    AclResourceType.TOPIC: ResourceType.TOPIC,
    AclResourceType.GROUP: ResourceType.GROUP,
    AclResourceType.CLUSTER: ResourceType.CLUSTER,
    AclResourceType.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}
_PATTERNS = {AclPatternType.LITERAL: PatternType.LITERAL, AclPatternType.PREFIX: PatternType.PREFIXED}
_PERMISSIONS = {AclPermission.ALLOW: Permission.ALLOW, AclPermission.DENY: Permission.DENY}
_OPERATIONS = {each: Operation[each.name] for each in AclOperation}


@dataclass(frozen=True)
class KnownAccess:
    """What brokers say. ``acls`` is None where they have no authorizer."""

    passwords: frozenset[str] = frozenset()
    """Users that have one."""
    acls: frozenset[Acl] | None = None
    quotas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Of users alone, by user and Kafka's name of the quota."""


@dataclass(frozen=True)
class WantedAccess:
    """What brokers should know of one user. ``name`` is its name for a login, where it logs in with a password."""

    principal: str
    name: str = ""
    password: str = field(default="", repr=False)
    is_new: bool = False
    """Whether brokers may have another password, or none."""
    acls: frozenset[Acl] = frozenset()
    quotas: Mapping[str, float] = field(default_factory=dict)

    @property
    def quota_user(self) -> str:
        """As whom the user has quotas: as the principal, without what it is."""
        return self.principal.removeprefix("User:")


@dataclass(frozen=True)
class QuotaChange:
    """What becomes of the quotas of a user, by Kafka's names of them; None: it goes."""

    user: str
    values: Mapping[str, float | None]


@dataclass(frozen=True)
class AccessChange:
    """What has to be done to have it so, in this order; quotas that are set before all of it, and those that go after it."""

    created: frozenset[Acl] = frozenset()
    upserted: tuple[str, str] | None = field(default=None, repr=False)
    """User and password."""
    removed: str = ""
    """A user whose password goes."""
    deleted: frozenset[Acl] = frozenset()
    quotas: QuotaChange | None = None

    @property
    def needed(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self.created or self.upserted or self.removed or self.deleted or self.quotas)


def acls_of(principal: str, rules: list[AclRule]) -> frozenset[Acl]:
    """The ACLs that a spec says."""
    return frozenset(
        Acl(_pattern(rule), Entry(principal, rule.host, _OPERATIONS[operation], _PERMISSIONS[rule.type]))
        for rule in rules
        for operation in rule.operations
    )


def _pattern(rule: AclRule) -> Pattern:
    resource = rule.resource
    return Pattern(_TYPES[resource.type], _PATTERNS[resource.pattern_type], resource.name or CLUSTER_NAME)


def change_to(wanted: WantedAccess, found: KnownAccess) -> AccessChange:
    """What a user lacks, and has too much: what is new comes first, so nothing that stays allowed is refused for a moment."""
    there = _own(wanted, found)
    lacks_password = bool(wanted.name) and (wanted.is_new or wanted.name not in found.passwords)
    return AccessChange(
        created=wanted.acls - there,
        upserted=(wanted.name, wanted.password) if lacks_password else None,
        deleted=there - wanted.acls,
        quotas=_quotas(wanted, found, wanted.quotas),
    )


def removal(wanted: WantedAccess, found: KnownAccess) -> AccessChange:
    """What is there of a user that goes: it cannot log in any more before anything of what it may not do is forgotten."""
    return AccessChange(
        removed=wanted.name if wanted.name in found.passwords else "",
        deleted=_own(wanted, found),
        quotas=_quotas(wanted, found, {}),
    )


def _quotas(wanted: WantedAccess, found: KnownAccess, values: Mapping[str, float]) -> QuotaChange | None:
    there = found.quotas.get(wanted.quota_user, {})
    change: dict[str, float | None] = {name: None for name in there if name not in values}
    change |= {name: value for name, value in values.items() if there.get(name) != value}
    return QuotaChange(wanted.quota_user, change) if change else None


def _own(wanted: WantedAccess, found: KnownAccess) -> frozenset[Acl]:
    return frozenset(acl for acl in found.acls or () if acl.entry.principal == wanted.principal)
