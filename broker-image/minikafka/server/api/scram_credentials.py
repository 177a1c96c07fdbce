"""AlterUserScramCredentials 0 and DescribeUserScramCredentials 0: users, as ``kafka-configs --entity-type users`` makes them."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from minikafka.controller.users import Deletion, Upsertion
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError, error_fields
from minikafka.security.scram import NUMBERS
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

ALTER = ApiSpec(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, controller_only=True)
DESCRIBE = ApiSpec(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0)


SECRET_BYTES = 32

AT_ONCE = 50
"""Changes that the controller makes without a pause: of each it makes keys."""

NUMBER_OF = {mechanism: number for number, mechanism in NUMBERS.items()}

Change = Deletion | Upsertion


async def alter(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    of_users: dict[str, list[Change]] = {}
    async for each in services.yielding(request.deletions):
        of_users.setdefault(each.name, []).append(Deletion(each.name, int(each.mechanism)))
    async for each in services.yielding(request.upsertions):
        of_users.setdefault(each.name, []).append(
            Upsertion(each.name, int(each.mechanism), each.iterations, each.salt, each.salted_password)
        )
    results: dict[str, KafkaError | None] = {}
    secret = secrets.token_bytes(SECRET_BYTES)
    for part in _parts(list(of_users.values())):
        try:
            role = services.topics.require_controller()
            results |= await role.submit(lambda c, part=part: c.users.alter(part, secret))  # type: ignore[misc]
        except KafkaError as refused:
            results |= dict.fromkeys((change.user for change in part), refused)
    await services.metadata.caught_up()
    return {
        "results": [
            {
                "user": name,
                **error_fields(refused),
            }
            for name, refused in results.items()
        ]
    }


def _parts(of_users: Sequence[Sequence[Change]]) -> Iterator[list[Change]]:
    """Some changes at a time, those of one user together: either all of these are made or none."""
    part: list[Change] = []
    for changes in of_users:
        part += changes
        if len(part) >= AT_ONCE:
            yield part
            part = []
    if part:
        yield part


async def describe(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    """Mechanisms and iterations; never what could be guessed at."""
    del ctx
    known: dict[str, list[dict[str, int]]] = {}
    async for (name, mechanism), found in services.yielding(sorted(services.metadata.image.scram.items())):
        known.setdefault(name, []).append({"mechanism": NUMBER_OF[mechanism], "iterations": found.iterations})
    asked = Counter(each.name for each in request.users or ())
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "results": [_described(name, asked[name], known.get(name)) async for name in services.yielding(asked or known)],
    }


def _described(name: str, times: int, credentials: list[dict[str, int]] | None) -> dict[str, Any]:
    code, message = ErrorCode.NONE, None
    if times > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    elif credentials is None:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {name}"
    return {
        "user": name,
        "error_code": code,
        "error_message": message,
        "credential_infos": credentials if credentials and not code else [],
    }


SPECS = ((ALTER, alter), (DESCRIBE, describe))
