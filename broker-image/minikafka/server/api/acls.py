"""DescribeAcls, CreateAcls and DeleteAcls, 1 to 3: what ``kafka-acls`` asks for. Without an authorizer: SECURITY_DISABLED."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from minikafka.controller.acls import chosen, known
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.error_answers import MESSAGES
from minikafka.protocol.errors import ErrorCode, KafkaError, error_fields
from minikafka.protocol.wire import ROWS_MAX
from minikafka.security.acls import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

Read = TypeVar("Read", Acl, AclFilter)

DESCRIBE = ApiSpec(ApiKey.DESCRIBE_ACLS, 1, 3)
CREATE = ApiSpec(ApiKey.CREATE_ACLS, 1, 3, controller_only=True)
DELETE = ApiSpec(ApiKey.DELETE_ACLS, 1, 3, controller_only=True)

AT_ONCE = 2_000
"""So many the controller makes or removes before it looks at what else there is to do: 49,000 took it 1.3 s."""


def _require_authorizer(services: Services) -> None:
    if not services.authorization.enabled:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, MESSAGES[ErrorCode.SECURITY_DISABLED])


def _filter(row: Any) -> AclFilter:
    return AclFilter(
        known(ResourceType, row.resource_type_filter),
        row.resource_name_filter,
        known(PatternType, row.pattern_type_filter),
        row.principal_filter,
        row.host_filter,
        known(Operation, row.operation),
        known(Permission, row.permission_type),
    )


def _acl(row: Any) -> Acl:
    return Acl(
        Pattern(
            known(ResourceType, row.resource_type), known(PatternType, row.resource_pattern_type), row.resource_name
        ),
        Entry(row.principal, row.host, known(Operation, row.operation), known(Permission, row.permission_type)),
    )


async def describe(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    try:
        _require_authorizer(services)
        wish = _filter(request)
    except KafkaError as refused:
        return {**error_fields(refused), "resources": []}
    resources = []
    for pattern, entries in services.metadata.image.acls.patterns().items():
        chosen = [entry for entry in entries if wish.matches_entry(entry)] if wish.matches_pattern(pattern) else []
        if chosen:
            resources.append({**_pattern(pattern), "acls": [_entry(entry) for entry in chosen]})
    return {**error_fields(None), "resources": resources}


def _pattern(pattern: Pattern) -> dict[str, Any]:
    return {
        "resource_type": pattern.resource_type,
        "resource_name": pattern.name,
        "pattern_type": pattern.pattern_type,
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation,
        "permission_type": entry.permission,
    }


async def create(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    read = [_read(_acl, row) async for row in services.yielding(request.creations)]
    acls = [each for each in read if isinstance(each, Acl)]
    found: list[KafkaError | None] = []
    try:
        _require_authorizer(services)
        controller = services.topics.require_controller()
        for start in range(0, len(acls), AT_ONCE):
            part = acls[start : start + AT_ONCE]
            found += await controller.submit(lambda c, part=part: c.acls.create(part))  # type: ignore[misc]
    except KafkaError as refused:
        if not found:
            return {"results": [error_fields(refused) for _ in read]}
        found += [refused] * (len(acls) - len(found))
    results = iter(found)
    await services.metadata.caught_up()
    return {"results": [error_fields(each if isinstance(each, KafkaError) else next(results)) for each in read]}


def _read(kind: Callable[[Any], Read], row: Any) -> Read | KafkaError:
    """What a row says, or why it says nothing: each is refused by itself."""
    try:
        return kind(row)
    except KafkaError as problem:
        return problem


async def delete(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    read = [_read(_filter, row) async for row in services.yielding(request.filters)]
    filters = [each for each in read if isinstance(each, AclFilter)]
    try:
        _require_authorizer(services)
        found = iter(await _delete(services, filters))
    except KafkaError as refused:
        return {"filter_results": [{**error_fields(refused), "matching_acls": []} for _ in read]}
    await services.metadata.caught_up()
    return {
        "filter_results": [
            {**error_fields(each), "matching_acls": []} if isinstance(each, KafkaError) else _deleted(next(found))
            for each in read
        ]
    }


async def _delete(services: Services, filters: Sequence[AclFilter]) -> list[list[Acl]]:
    """For each filter: the ACLs that it has chosen, of those that were there before the first.

    Raises KafkaError: NOT_CONTROLLER; INVALID_REQUEST: many filters choose the same.
    """
    controller = services.topics.require_controller()
    there = await controller.submit(lambda c: dict(c.image.acls.patterns()))
    most = max(ROWS_MAX, sum(map(len, there.values())))
    found: list[list[Acl]] = []
    rows = 0
    async for wish in services.yielding(filters):
        found.append(chosen(wish, there))
        rows += len(found[-1])
        if rows > most:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{len(filters)} filters choose more than {most} ACLs in all, the same again and again; none was deleted",
            )
    gone = list(dict.fromkeys(acl for acls in found for acl in acls))
    for start in range(0, len(gone), AT_ONCE):
        part = gone[start : start + AT_ONCE]
        await controller.submit(lambda c, part=part: c.acls.delete(part))  # type: ignore[misc]
    return found


def _deleted(acls: list[Acl]) -> dict[str, Any]:
    rows = [{**error_fields(None), **_pattern(acl.pattern), **_entry(acl.entry)} for acl in acls]
    return {**error_fields(None), "matching_acls": rows}


SPECS = ((DESCRIBE, describe), (CREATE, create), (DELETE, delete))
