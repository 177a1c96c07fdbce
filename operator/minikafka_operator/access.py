"""What a cluster knows of its users, what it should know, and the difference. No I/O.

All ACLs of a MiniKafkaUser's principal are its own: what its spec does not say goes. Those of other principals stay.
"""

from __future__ import annotations

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


@dataclass(frozen=True)
class WantedAccess:
    """What brokers should know of one user. ``name`` is its name for a login, where it logs in with a password."""

    principal: str
    name: str = ""
    password: str = field(default="", repr=False)
    is_new: bool = False
    """Whether brokers may have another password, or none."""
    acls: frozenset[Acl] = frozenset()


@dataclass(frozen=True)
class AccessChange:
    """What has to be done to have it so, in this order."""

    created: frozenset[Acl] = frozenset()
    upserted: tuple[str, str] | None = field(default=None, repr=False)
    """User and password."""
    removed: str = ""
    """A user whose password goes."""
    deleted: frozenset[Acl] = frozenset()

    @property
    def needed(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self.created or self.upserted or self.removed or self.deleted)


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
    )


def removal(wanted: WantedAccess, found: KnownAccess) -> AccessChange:
    """What is there of a user that goes: it cannot log in any more before anything of what it may not do is forgotten."""
    return AccessChange(
        removed=wanted.name if wanted.name in found.passwords else "",
        deleted=_own(wanted, found),
    )


def _own(wanted: WantedAccess, found: KnownAccess) -> frozenset[Acl]:
    return frozenset(acl for acl in found.acls or () if acl.entry.principal == wanted.principal)
