"""ACLs: which may be made, and which a filter removes (Kafka's ``AclApis`` and ``AclControlManager``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from minikafka.controller.workspace import Workspace
from minikafka.metadata.image import ACL
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    record_name,
    to_json,
)

BYTES_MAX = 1024
"""Of a principal, a host or a resource's name: all are kept in every broker's memory."""

_OF_SEVERAL = (PatternType.ANY, PatternType.MATCH)

Code = TypeVar("Code", ResourceType, PatternType, Operation, Permission)


def known(kind: type[Code], code: int) -> Code:
    """What a number of the protocol stands for. Raises KafkaError INVALID_REQUEST."""
    try:
        return kind(code)
    except ValueError:
        allowed = ", ".join(f"{each.value} {each.name}" for each in kind)
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{kind.__name__} {code} is unknown; allowed: {allowed}") from None


class AclRegistry:
    """Makes and removes ACLs."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def create(self, acls: Sequence[Acl]) -> list[KafkaError | None]:
        """For each: why it was not made, or None. One that is there already is as good as made."""
        problems = {acl: problem(acl) for acl in acls}
        there = {acl.pattern: dict.fromkeys(self._workspace.image.acls.entries(acl.pattern)) for acl in acls}
        new = [acl for acl in problems if problems[acl] is None and acl.entry not in there[acl.pattern]]
        try:
            self._workspace.check_room(*new)
        except KafkaError as no_room:
            problems |= dict.fromkeys(new, no_room)
            new = []
        for acl in new:
            there[acl.pattern][acl.entry] = None
        for pattern in {acl.pattern for acl in new}:
            self._put(pattern, there[pattern])
        for acl in new:
            self._note("acl_created", acl)
        return [problems[acl] for acl in acls]

    def delete(self, acls: Iterable[Acl]) -> None:
        """Remove those of these that are there."""
        gone: dict[Pattern, dict[Entry, None]] = {}
        for acl in dict.fromkeys(acls):
            gone.setdefault(acl.pattern, {})[acl.entry] = None
        for pattern, entries in gone.items():
            before = self._workspace.image.acls.entries(pattern)
            left = [entry for entry in before if entry not in entries]
            if len(left) < len(before):
                self._put(pattern, left)
            for entry in before:
                if entry in entries:
                    self._note("acl_deleted", Acl(pattern, entry))

    def _put(self, pattern: Pattern, entries: Iterable[Entry]) -> None:
        self._workspace.put_record(ACL + record_name(pattern), to_json(entries) or None)

    def _note(self, event: str, acl: Acl) -> None:
        entry = acl.entry
        self._workspace.note(
            event,
            principal=entry.principal,
            address=entry.host,
            operation=entry.operation.name,
            permission=entry.permission.name,
            resource=str(acl.pattern),
        )


def chosen(wish: AclFilter, there: Mapping[Pattern, Sequence[Entry]]) -> list[Acl]:
    """The ACLs that a filter chooses; one that says all of a pattern is looked up."""
    patterns: Iterable[Pattern] = there
    is_one_type = wish.resource_type is not ResourceType.ANY and wish.pattern_type not in _OF_SEVERAL
    if wish.name is not None and is_one_type:
        patterns = [Pattern(wish.resource_type, wish.pattern_type, wish.name)]
    return [
        Acl(pattern, entry)
        for pattern in patterns
        if wish.matches_pattern(pattern)
        for entry in there.get(pattern, ())
        if wish.matches_entry(entry)
    ]


def problem(acl: Acl) -> KafkaError | None:
    """Why something cannot be an ACL: INVALID_REQUEST. None: it can."""
    pattern, entry = acl
    sizes = {"resource name": pattern.name, "principal": entry.principal, "host": entry.host}
    too_long = [what for what, text in sizes.items() if len(text.encode()) > BYTES_MAX]
    found = None
    if pattern.resource_type is ResourceType.ANY:
        found = "Invalid resourceType ANY"
    elif pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        found = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not pattern.name:
        found = "Invalid empty resource name"
    elif pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        found = f"Invalid patternType {pattern.pattern_type.name}"
    elif entry.operation is Operation.ANY:
        found = "Invalid operation ANY"
    elif entry.permission is Permission.ANY:
        found = "Invalid permissionType ANY"
    elif ":" not in entry.principal:
        found = (
            f"Could not parse principal from `{entry.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    elif too_long:
        found = f"Invalid {too_long[0]}; allowed: at most {BYTES_MAX} bytes"
    return None if found is None else KafkaError(ErrorCode.INVALID_REQUEST, found)
