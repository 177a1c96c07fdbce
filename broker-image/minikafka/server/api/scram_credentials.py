"""AlterUserScramCredentials 0 and DescribeUserScramCredentials 0: users, as ``kafka-configs --entity-type users`` makes them."""

from __future__ import annotations

import secrets
from collections import Counter
from typing import Any

from minikafka.controller.users import Deletion, Upsertion
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.security.scram import NUMBERS
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

ALTER = ApiSpec(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, controller_only=True)
DESCRIBE = ApiSpec(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0)


SECRET_BYTES = 32


async def alter(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    deletions = [Deletion(each.name, int(each.mechanism)) for each in request.deletions]
    upsertions = [
        Upsertion(each.name, int(each.mechanism), each.iterations, each.salt, each.salted_password)
        for each in request.upsertions
    ]
    try:
        role = services.topics.require_controller()
        secret = secrets.token_bytes(SECRET_BYTES)
        results = await role.submit(lambda c: c.users.alter(deletions, upsertions, secret))
    except KafkaError as refused:
        results = dict.fromkeys([*(each.user for each in deletions), *(each.user for each in upsertions)], refused)
    await services.metadata.caught_up()
    return {
        "results": [
            {
                "user": name,
                "error_code": ErrorCode.NONE if refused is None else refused.code,
                "error_message": None if refused is None else str(refused),
            }
            for name, refused in results.items()
        ]
    }


async def describe(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    """Mechanisms and iterations; never what could be guessed at."""
    del ctx
    known: dict[str, list[dict[str, int]]] = {}
    for (name, mechanism), found in sorted(services.metadata.image.scram.items()):
        number = next(number for number, each in NUMBERS.items() if each == mechanism)
        known.setdefault(name, []).append({"mechanism": number, "iterations": found.iterations})
    asked = Counter(each.name for each in request.users or ())
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "results": [_described(name, asked[name], known.get(name)) for name in (asked or known)],
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
