"""DescribeClientQuotas and AlterClientQuotas, 0 to 1 (KIP-546): what ``kafka-configs`` shows and sets of users, clients and ips.

Filters and alterations are checked as Kafka does (``ClientQuotasImage.describe``, ``ClientQuotaControlManager``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minikafka.controller.quotas import QuotaAlteration
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError, error_fields
from minikafka.quotas.entities import ENTITY_TYPES, IP, Entity, entity_of
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

DESCRIBE = ApiSpec(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1)
ALTER = ApiSpec(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, controller_only=True)
MATCH_TYPES = {0: "MATCH_TYPE_EXACT", 1: "MATCH_TYPE_DEFAULT", 2: "MATCH_TYPE_SPECIFIED"}


async def describe(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    try:
        _check(request.components)
    except KafkaError as refused:
        return {"error_code": refused.code, "error_message": str(refused), "entries": None}
    named = entity_of(
        (c.entity_type, c.match) for c in request.components if MATCH_TYPES[c.match_type] != MATCH_TYPES[2]
    )
    kinds = {component.entity_type for component in request.components}
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "entries": [
            {"entity": _parts(entity), "values": [{"key": k, "value": v} for k, v in sorted(values.items())]}
            for entity, values in sorted(services.metadata.image.quotas.all().items(), key=str)
            if _matches(dict(entity), dict(named), kinds, request.strict)
        ],
    }


def _matches(entity: Mapping[str, str | None], named: Mapping[str, str | None], kinds: set[str], strict: bool) -> bool:
    if strict and len(entity) != len(kinds):
        return False
    return kinds <= entity.keys() and all(entity[kind] == name for kind, name in named.items())


def _parts(entity: Entity) -> list[dict[str, str | None]]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity]


def _check(components: Any) -> None:
    """Raise KafkaError when a filter is none."""
    seen: set[str] = set()
    for each in components:
        entity_type, match, name = each.entity_type, each.match, MATCH_TYPES.get(each.match_type)
        if not entity_type:
            raise _invalid("Invalid empty entity type.")
        if entity_type in seen:
            raise _invalid(f"Entity type {entity_type} cannot appear more than once in the filter.")
        if entity_type not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {entity_type}")
        if name is None:
            raise _invalid(f"Unknown match type {each.match_type}")
        if (match is None) is (name == "MATCH_TYPE_EXACT"):
            problem = "set match string to null" if match is None else "also specified a match string"
            raise _invalid(f"Request specified {name}, but {problem}.")
        seen.add(entity_type)
    if IP in seen and len(seen) > 1:
        raise _invalid("An IP filter component must not be used with user or client-id filter components.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


async def alter(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    alterations = [
        QuotaAlteration(
            entity_of((part.entity_type, part.entity_name) for part in entry.entity),
            [(op.key, None if op.remove else float(op.value)) for op in entry.ops],
        )
        for entry in request.entries
    ]
    try:
        role = services.topics.require_controller()
        results = await role.submit(lambda c: c.quotas.alter(alterations, request.validate_only))
    except KafkaError as refused:
        results = dict.fromkeys((alteration.entity for alteration in alterations), refused)
    await services.metadata.caught_up()
    return {
        "entries": [
            {
                **error_fields(refused),
                "entity": _parts(entity),
            }
            for entity, refused in results.items()
        ]
    }


SPECS = ((DESCRIBE, describe), (ALTER, alter))
