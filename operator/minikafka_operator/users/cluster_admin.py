"""Asks brokers for their users' passwords, ACLs and quotas, and changes them, over Kafka's protocol. Blocking: for a thread."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from minikafka.client.connection import BrokerConnection, NoAnswer
from minikafka.client.security import ClientSecurity
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.quotas.entities import USER
from minikafka.security.acls import Acl, Entry, Operation, Pattern, PatternType, Permission, ResourceType
from minikafka.security.scram import NUMBERS, SALT_BYTES, salted_password
from minikafka_kube.names import REPLICATION_PORT

from minikafka_operator.users.access import MECHANISM, AccessChange, KnownAccess, QuotaChange

TIMEOUT_SECONDS: Final = 5.0
ITERATIONS: Final = 4096
"""As Kafka's own tool has it; passwords that are made here are too long to be guessed."""

_ACLS_NEWEST: Final = 3
_OF_ANY_NAME: Final = 2
"""Kafka's MATCH_TYPE_SPECIFIED."""
_MECHANISM_NUMBER: Final = next(number for number, name in NUMBERS.items() if name == MECHANISM)


class AdminError(Exception):
    """Brokers refused something; ``str()`` is their error and message, which hold no secret."""


class UserAdmin(Protocol):
    """Who asks brokers."""

    def access(self, *, authorized: bool) -> KnownAccess:
        """What brokers know of users. ``authorized``: whether they should have ACLs."""

    def change(self, change: AccessChange) -> None:
        """Make a change, as far as it goes. Raises AdminError, NoAnswer."""


OpenAdmin = Callable[[str, ClientSecurity], AbstractContextManager[UserAdmin]]
"""Connects to the broker at an address. Raises NoAnswer."""


class ClusterAdmin:
    """One connection to a broker, as somebody who may do everything. Raises NoAnswer, also when it is refused."""

    def __init__(self, host: str, security: ClientSecurity, port: int = REPLICATION_PORT) -> None:
        self._connection = BrokerConnection(host, port, TIMEOUT_SECONDS, security)

    def __enter__(self) -> ClusterAdmin:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.__exit__(*exception)

    def access(self, *, authorized: bool) -> KnownAccess:
        """What brokers know of users. Raises AdminError, NoAnswer."""
        answer = self._connection.request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None})
        _check([answer])
        passwords = frozenset(
            one.user
            for one in answer.results
            if any(info.mechanism == _MECHANISM_NUMBER for info in one.credential_infos)
        )
        return KnownAccess(passwords, self._acls() if authorized else None, self._quotas())

    def _quotas(self) -> dict[str, dict[str, float]]:
        """Of users alone: those of all of whom nothing is said, and of single clients, are nobody's here."""
        named = {"entity_type": USER, "match_type": _OF_ANY_NAME, "match": None}
        answer = self._connection.request(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [named], "strict": True})
        _check([answer])
        return {
            part.entity_name: {one.key: one.value for one in entry.values}
            for entry in answer.entries or ()
            for part in entry.entity
            if part.entity_name is not None
        }

    def _acls(self) -> frozenset[Acl]:
        every = _filter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)
        answer = self._connection.request(ApiKey.DESCRIBE_ACLS, _ACLS_NEWEST, every)
        _check([answer])
        return frozenset(
            Acl(
                Pattern(ResourceType(one.resource_type), PatternType(one.pattern_type), one.resource_name),
                Entry(acl.principal, acl.host, Operation(acl.operation), Permission(acl.permission_type)),
            )
            for one in answer.resources
            for acl in one.acls
        )

    def change(self, change: AccessChange) -> None:
        """Make a change, in its order, what denies before what allows. Raises AdminError, NoAnswer.

        An ACL or a quota that is refused (there is no room for it, say) holds up neither a new password nor that what is not
        allowed any more is forgotten; but where it should deny something, nothing more is allowed.
        """
        unthrottled = self._limit(change.quotas, removes=False)
        denied = self._create(_of(change.created, Permission.DENY))
        refused = denied or self._create(_of(change.created, Permission.ALLOW)) or unthrottled
        if change.upserted is not None:
            self._alter(upsertions=[_upsertion(*change.upserted)])
        if change.removed:
            self._alter(deletions=[{"name": change.removed, "mechanism": _MECHANISM_NUMBER}])
        self._delete(_of(change.deleted, Permission.ALLOW))
        if denied is None:
            self._delete(_of(change.deleted, Permission.DENY))
        refused = refused or self._limit(change.quotas, removes=True)
        if refused is not None:
            raise refused

    def _limit(self, change: QuotaChange | None, *, removes: bool) -> AdminError | None:
        values = {} if change is None else {k: v for k, v in change.values.items() if (v is None) is removes}
        if change is None or not values:
            return None
        ops = [{"key": key, "value": value or 0.0, "remove": removes} for key, value in values.items()]
        entry = {"entity": [{"entity_type": USER, "entity_name": change.user}], "ops": ops}
        wish = {"entries": [entry], "validate_only": False}
        try:
            _check(self._connection.request(ApiKey.ALTER_CLIENT_QUOTAS, 1, wish).entries)
        except AdminError as refused:
            return refused
        return None

    def _create(self, acls: list[Acl]) -> AdminError | None:
        if not acls:
            return None
        rows = [_creation(acl) for acl in acls]
        try:
            _check(self._connection.request(ApiKey.CREATE_ACLS, _ACLS_NEWEST, {"creations": rows}).results)
        except AdminError as refused:
            return refused
        return None

    def _delete(self, acls: list[Acl]) -> None:
        if acls:
            rows = [_exactly(acl) for acl in acls]
            _check(self._connection.request(ApiKey.DELETE_ACLS, _ACLS_NEWEST, {"filters": rows}).filter_results)

    def _alter(self, upsertions: Iterable[dict[str, Any]] = (), deletions: Iterable[dict[str, Any]] = ()) -> None:
        wish = {"deletions": list(deletions), "upsertions": list(upsertions)}
        _check(self._connection.request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, wish).results)


def in_turn(
    hosts: Iterable[str], open_admin: Callable[[str], AbstractContextManager[UserAdmin]]
) -> AbstractContextManager[UserAdmin]:
    """Connect to the first broker that answers. Raises NoAnswer."""
    problem = NoAnswer("no broker is ready")
    for host in hosts:
        try:
            return open_admin(host)
        except NoAnswer as error:
            problem = NoAnswer(f"{host}: {error}")
    raise problem


def _check(rows: Iterable[Any]) -> None:
    for row in rows:
        if row.error_code:
            code = ErrorCode(int(row.error_code)).name
            raise AdminError(f"{code}: {row.error_message}" if row.error_message else code)


def _of(acls: Iterable[Acl], permission: Permission) -> list[Acl]:
    return sorted(acl for acl in acls if acl.entry.permission is permission)


def _upsertion(name: str, password: str) -> dict[str, Any]:
    salt = secrets.token_bytes(SALT_BYTES)
    return {
        "name": name,
        "mechanism": _MECHANISM_NUMBER,
        "iterations": ITERATIONS,
        "salt": salt,
        "salted_password": salted_password(MECHANISM, password, salt, ITERATIONS),
    }


def _creation(acl: Acl) -> dict[str, Any]:
    pattern, entry = acl
    return {
        "resource_type": pattern.resource_type,
        "resource_name": pattern.name,
        "resource_pattern_type": pattern.pattern_type,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation,
        "permission_type": entry.permission,
    }


def _exactly(acl: Acl) -> dict[str, Any]:
    pattern, entry = acl
    return _filter(pattern.resource_type, pattern.name, pattern.pattern_type, *entry)


def _filter(
    resource_type: ResourceType,
    name: str | None,
    pattern_type: PatternType,
    principal: str | None,
    host: str | None,
    operation: Operation,
    permission: Permission,
) -> dict[str, Any]:
    return {
        "resource_type_filter": resource_type,
        "resource_name_filter": name,
        "pattern_type_filter": pattern_type,
        "principal_filter": principal,
        "host_filter": host,
        "operation": operation,
        "permission_type": permission,
    }
