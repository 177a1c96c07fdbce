"""Access control lists as Apache Kafka has them (KIP-11, KIP-290): what an ACL says, and which of them decide about an action.

An ACL belongs to a pattern of resources and says that a principal may, or may not, do an operation from a host. The rules are
those of Kafka's ``StandardAuthorizer``; codes and names are those of its protocol.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from enum import IntEnum
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple


class ResourceType(IntEnum):
    """What an ACL is about. ANY is for filters only."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a pattern's name is read. ANY and MATCH are for filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What is done with a resource. ANY is for filters only."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether it may be done. ANY is for filters only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
"""The only name that a resource of the type CLUSTER has."""
WILDCARD = "*"
"""As the name of a literal pattern: every resource; as a host: every host."""
EVERYBODY = "User:*"
"""The principal of ACLs that count for all users."""

_IMPLIED = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""Operations that are allowed along with others. Of what is denied nothing follows."""
ALLOWING = {each: frozenset({each, Operation.ALL, *_IMPLIED.get(each, ())}) for each in Operation}
"""By operation: those of ACLs that allow it."""
DENYING = {each: frozenset({each, Operation.ALL}) for each in Operation}
"""By operation: those of ACLs that deny it."""


class Pattern(NamedTuple):
    """Which resources an ACL is about."""

    resource_type: ResourceType
    pattern_type: PatternType
    name: str

    def __str__(self) -> str:
        return f"{self.resource_type.name}:{self.pattern_type.name}:{self.name}"


class Entry(NamedTuple):
    """Who may, or may not, do what from where. As Kafka's ``AccessControlEntry``."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


class Acl(NamedTuple):
    """One ACL. As Kafka's ``AclBinding``."""

    pattern: Pattern
    entry: Entry


class AclFilter(NamedTuple):
    """Chooses ACLs, as Kafka's ``AclBindingFilter`` does; None chooses any."""

    resource_type: ResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission: Permission

    def matches_pattern(self, pattern: Pattern) -> bool:
        """Whether it chooses ACLs of this pattern. MATCH chooses all that count for a resource of the filter's name."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, WILDCARD)

    def matches_entry(self, entry: Entry) -> bool:
        """Whether it chooses this one of the ACLs of a pattern."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


@lru_cache(maxsize=10_000)
def address(host: str) -> str:
    """A host in the one form in which two that are the same are equal: IPv6 has many, and one for IPv4."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


Entries = tuple[Entry, ...]

ALLOWED_BITS = {each: sum(1 << other for other in Operation if each in ALLOWING[other]) for each in Operation}
DENIED_BITS = {each: sum(1 << other for other in Operation if each in DENYING[other]) for each in Operation}
"""By operation of an ACL: the operations that it is about, one bit for each. A set of them is found in too slowly for Produce."""

Verdict = tuple[str, int, int]
"""Of one ACL: the host in its one form, the operations that it denies, and those that it allows."""
ByPrincipal = Mapping[str, Sequence[Verdict]]
"""What the ACLs of a pattern say, for each principal."""


def _verdict(entry: Entry) -> Verdict:
    if entry.permission is Permission.DENY:
        return address(entry.host), DENIED_BITS[entry.operation], 0
    return address(entry.host), 0, ALLOWED_BITS[entry.operation]


class _PrefixesOf:
    """What the ACLs of prefixed patterns say for one principal."""

    def __init__(self) -> None:
        self._verdicts: dict[str, Sequence[Verdict]] = {}
        self._lengths: Counter[int] = Counter()
        self.lengths: tuple[int, ...] = ()
        """Of prefixes, ascending."""

    def put(self, prefix: str, verdicts: Sequence[Verdict]) -> None:
        was_there = self._verdicts.pop(prefix, None) is not None
        if verdicts:
            self._verdicts[prefix] = verdicts
        self._lengths[len(prefix)] += bool(verdicts) - was_there
        if not self._lengths[len(prefix)]:
            del self._lengths[len(prefix)]
        if len(self._lengths) != len(self.lengths):
            self.lengths = tuple(sorted(self._lengths))

    def of(self, name: str) -> Iterator[Sequence[Verdict]]:
        """Those of each prefix of a name."""
        for length in self.lengths:
            if length > len(name):
                return
            if (found := self._verdicts.get(name[:length])) is not None:
                yield found


class _Prefixes:
    """Prefixes, so that it is known at once whether a name has one of them, however many there are, and of whatever lengths."""

    def __init__(self) -> None:
        self._all: list[str] = []
        self._shortest: list[str] = []
        """Those of which no other is a prefix: of them only the last that is not above a name can be one of it."""

    def add(self, prefix: str) -> None:
        insort(self._all, prefix)
        if not self.has_one_of(prefix):
            start = end = bisect_left(self._shortest, prefix)
            while end < len(self._shortest) and self._shortest[end].startswith(prefix):
                end += 1
            self._shortest[start:end] = [prefix]

    def remove(self, prefix: str) -> None:
        at = bisect_left(self._all, prefix)
        del self._all[at]
        place = bisect_left(self._shortest, prefix)
        if self._shortest[place : place + 1] != [prefix]:
            return
        freed: list[str] = []
        for name in islice(self._all, at, None):
            if not name.startswith(prefix):
                break
            if not freed or not name.startswith(freed[-1]):
                freed.append(name)
        self._shortest[place : place + 1] = freed

    def has_one_of(self, name: str) -> bool:
        """Whether one of them is a prefix of a name."""
        place = bisect_right(self._shortest, name)
        return place > 0 and name.startswith(self._shortest[place - 1])


class _OfType:
    """The patterns of one type of resource, so that those of a name are found without looking at the others."""

    def __init__(self) -> None:
        self._literal: dict[str, ByPrincipal] = {}
        self._prefixed: dict[str, _PrefixesOf] = {}
        """By principal: others' prefixes, of which there may be thousands, are not looked at one by one."""
        self._prefixes = _Prefixes()

    def put(self, pattern: Pattern, before: Set[str], verdicts: ByPrincipal) -> None:
        """Set what the ACLs of a pattern say; those ``before`` were for these principals."""
        name = pattern.name
        if pattern.pattern_type is not PatternType.PREFIXED:
            self._literal.pop(name, None)
            if verdicts:
                self._literal[name] = verdicts
            return
        for who in before | verdicts.keys():
            self._prefixed.setdefault(who, _PrefixesOf()).put(name, verdicts.get(who, ()))
            if not self._prefixed[who].lengths:
                del self._prefixed[who]
        if before and not verdicts:
            self._prefixes.remove(name)
        elif verdicts and not before:
            self._prefixes.add(name)

    def of(self, principal: str, name: str) -> Iterator[Sequence[Verdict]]:
        """What the ACLs of each pattern that a name fits say for somebody."""
        for literal in (name, WILDCARD):
            if (found := self._literal.get(literal)) is not None:
                for who in (principal, EVERYBODY):
                    yield found.get(who, ())
        for who in (principal, EVERYBODY):
            if (prefixes := self._prefixed.get(who)) is not None:
                yield from prefixes.of(name)

    def are_about(self, name: str) -> bool:
        """Whether there is a pattern that a name fits, for whomever."""
        return name in self._literal or WILDCARD in self._literal or self._prefixes.has_one_of(name)


ANY_KEPT_MAX = 10_000
"""Answers of :meth:`AclSet.allow_any` that are remembered."""


class AclSet:
    """All ACLs of a cluster."""

    def __init__(self) -> None:
        self._entries: dict[Pattern, Entries] = {}
        self._by_type = [_OfType() for _ in range(max(ResourceType) + 1)]
        self._patterns: dict[tuple[ResourceType, str], set[Pattern]] = {}
        """By type and principal: where there is an entry of theirs."""
        self._any: dict[tuple[str, str, Operation, ResourceType], bool] = {}

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def __iter__(self) -> Iterator[Acl]:
        return (Acl(pattern, entry) for pattern, entries in self._entries.items() for entry in entries)

    def entries(self, pattern: Pattern) -> Entries:
        """The ACLs of a pattern."""
        return self._entries.get(pattern, ())

    def patterns(self) -> Mapping[Pattern, Entries]:
        """All of them, by pattern."""
        return self._entries

    def put(self, pattern: Pattern, entries: Iterable[Entry]) -> None:
        """Set the ACLs of a pattern; none removes it."""
        self._any.clear()
        kind = pattern.resource_type
        old_entries = self._entries.pop(pattern, ())
        for old in old_entries:
            if (known := self._patterns.get((kind, old.principal))) is not None:
                known.discard(pattern)
        verdicts: dict[str, list[Verdict]] = {}
        if entries := tuple(entries):
            self._entries[pattern] = entries
        for entry in entries:
            verdicts.setdefault(entry.principal, []).append(_verdict(entry))
            self._patterns.setdefault((kind, entry.principal), set()).add(pattern)
        self._by_type[kind].put(pattern, {old.principal for old in old_entries}, verdicts)

    def decide(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool | None:
        """Whether somebody may do something with a resource; None: no ACL is about that resource, whoever they are for.

        One that denies beats all that allow.
        """
        of_type, is_allowed = self._by_type[kind], False
        for verdicts in of_type.of(principal, name):
            for where, denied, allowed in verdicts:
                if where in (WILDCARD, host):
                    if denied >> operation & 1:
                        return False
                    if allowed >> operation & 1:
                        is_allowed = True
        return is_allowed or (False if of_type.are_about(name) else None)

    def allow_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Whether there may be a resource of a type with which somebody may do an operation (KIP-679).

        A pattern that allows counts unless one that denies covers all of it. As in Kafka, an operation follows from no other.
        Remembered until an ACL changes, for all patterns of a user may have to be looked at.
        """
        who = (principal, host, operation, kind)
        if who not in self._any:
            if len(self._any) >= ANY_KEPT_MAX:
                self._any.clear()
            self._any[who] = self._find_any(*who)
        return self._any[who]

    def _find_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        allowed: list[Pattern] = []
        denied: set[Pattern] = set()
        for pattern in {p for who in (principal, EVERYBODY) for p in self._patterns.get((kind, who), ())}:
            for entry in self._entries[pattern]:
                if entry.principal not in (principal, EVERYBODY) or address(entry.host) not in (WILDCARD, host):
                    continue
                if entry.operation not in DENYING[operation]:
                    continue
                if entry.permission is Permission.DENY:
                    denied.add(pattern)
                else:
                    allowed.append(pattern)
        everything = Pattern(kind, PatternType.LITERAL, WILDCARD)
        if everything in denied:
            return False
        return any(pattern == everything or not _is_covered(pattern, denied) for pattern in allowed)


def _is_covered(pattern: Pattern, denied: set[Pattern]) -> bool:
    """Whether some of the patterns have every resource that this one has."""
    if pattern.pattern_type is PatternType.LITERAL and pattern in denied:
        return True
    prefixes = (pattern.name[:length] for length in range(1, len(pattern.name) + 1))
    return any(Pattern(pattern.resource_type, PatternType.PREFIXED, prefix) in denied for prefix in prefixes)


# -- as a record of the cluster store ---------------------------------------------------------------------------------------


def record_name(pattern: Pattern) -> str:
    """Names the record of a pattern. The pattern's name comes last, for it may have slashes."""
    return f"{pattern.resource_type.name}/{pattern.pattern_type.name}/{pattern.name}"


def pattern_of(record: str) -> Pattern:
    """Of a record's name."""
    kind, how, name = record.split("/", 2)
    return Pattern(ResourceType[kind], PatternType[how], name)


def to_json(entries: Iterable[Entry]) -> list[list[str]]:
    """The ACLs of a pattern as a record's value."""
    return [[e.principal, e.host, e.operation.name, e.permission.name] for e in entries]


def from_json(value: Iterable[Any]) -> Entries:
    """The ACLs of a pattern out of a record's value."""
    return tuple(
        Entry(principal, host, Operation[operation], Permission[permission])
        for principal, host, operation, permission in value
    )
