"""AlterConfigs 0 to 2 and IncrementalAlterConfigs 0 to 1.

Topic settings are written by the controller: this broker judges what it can judge alone, and passes on the rest. Settings of
running brokers cannot be changed, and groups, client metrics and broker loggers have none: what would set one is refused
with INVALID_CONFIG, and what removes one that is not set, as Kafka's tools do to be sure, has nothing to do. Of list settings
APPEND and SUBTRACT are supported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from minikafka.config import TOPIC_KEYS, Alteration, AlterOperation, ConfigError, altered
from minikafka.controller.controller import Controller
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.types import ConfigResourceType
from minikafka.server.api.configs import check_resource
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

ALTER = ApiSpec(ApiKey.ALTER_CONFIGS, 0, 2)
ALTER_INCREMENTALLY = ApiSpec(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)

Verdict = tuple[ErrorCode, str | None]
DONE: Verdict = (ErrorCode.NONE, None)
Wanted = Callable[[Any, dict[str, str]], dict[str, str]]
"""The overrides of a topic after what a resource says, by those before. Raises ConfigError."""


async def alter(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    """AlterConfigs replaces everything."""

    def wanted(resource: Any, _old: dict[str, str]) -> dict[str, str]:
        return {c.name: c.value for c in resource.configs}

    return await _alter_all(services, ctx, request, ALTER, wanted)


async def alter_incrementally(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    """IncrementalAlterConfigs changes what it names (KIP-339)."""

    def wanted(resource: Any, old: dict[str, str]) -> dict[str, str]:
        in_force = {e.name: e.value for e in services.context.config.describe_topic(old) if e.value is not None}
        changes = [Alteration(c.name, _operation(c), c.value) for c in resource.configs]
        return altered(old, changes, TOPIC_KEYS, in_force)

    return await _alter_all(services, ctx, request, ALTER_INCREMENTALLY, wanted)


async def _alter_all(
    services: Services, ctx: RequestContext, request: Any, api: ApiSpec, wanted: Wanted
) -> dict[str, Any]:
    named = Counter((r.resource_type, r.resource_name) for r in request.resources)
    verdicts: dict[int, Verdict] = {}
    for index, resource in enumerate(request.resources):
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{_name(resource)} is named twice")
            _check(services, resource, replaces=api is ALTER)
            if resource.resource_type != ConfigResourceType.TOPIC:
                verdicts[index] = DONE
        except KafkaError as refused:
            verdicts[index] = (refused.code, str(refused))
    topics = {i: resource for i, resource in enumerate(request.resources) if i not in verdicts}
    if topics and not services.membership.leads:
        verdicts |= zip(topics, await _passed_on(services, ctx, request, api, list(topics.values())), strict=True)
    else:
        verdicts |= zip(
            topics, await _alter_topics(services, list(topics.values()), wanted, request.validate_only), strict=True
        )
    return {
        "responses": [
            {
                "error_code": verdicts[index][0],
                "error_message": verdicts[index][1],
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
            }
            for index, resource in enumerate(request.resources)
        ]
    }


def _name(resource: Any) -> str:
    return f"resource {resource.resource_name!r} of type {resource.resource_type}"


def _check(services: Services, resource: Any, *, replaces: bool) -> None:
    """What can be said without the controller: form, and whether there is anything to change. Raises KafkaError."""
    twice = [name for name, times in Counter(c.name for c in resource.configs).items() if times > 1]
    if twice:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{', '.join(twice)}: changed twice in one request")
    setting = [c for c in resource.configs if _operation(c) is not AlterOperation.DELETE]
    for change in setting:
        if change.value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{change.name}: no value; allowed: a value, or DELETE")
    if resource.resource_type == ConfigResourceType.TOPIC and not resource.resource_name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the name of the topic is empty")
    if resource.resource_type != ConfigResourceType.TOPIC:
        check_resource(resource.resource_type, resource.resource_name, services.context.broker_id)
        if replaces and resource.resource_type == ConfigResourceType.BROKER_LOGGER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "levels of loggers are changed by IncrementalAlterConfigs only")
        # What the controller has made the default of all brokers (min.insync.replicas) is set, and cannot be removed.
        default = services.context.config.dynamic_cluster.keys() if not resource.resource_name else set()
        removed = default & {c.name for c in resource.configs} if not replaces else default
        for name in (*(c.name for c in setting), *removed):
            what = (
                "of a running broker"
                if resource.resource_type == ConfigResourceType.BROKER
                else f"of {_name(resource)}"
            )
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name}: settings {what} cannot be changed")


def _operation(change: Any) -> AlterOperation:
    operation = getattr(change, "config_operation", AlterOperation.SET)  # AlterConfigs has no other
    try:
        return AlterOperation(operation)
    except ValueError:
        allowed = ", ".join(f"{each.value} {each.name}" for each in AlterOperation)
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{change.name}: operation {operation} is unknown; allowed: {allowed}"
        ) from None


async def _passed_on(
    services: Services, ctx: RequestContext, request: Any, api: ApiSpec, topics: list[Any]
) -> list[Verdict]:
    """What the controller says of these topics (KIP-590)."""
    resources = [
        {
            "resource_type": topic.resource_type,
            "resource_name": topic.resource_name,
            "configs": [
                {"name": c.name, "value": c.value} | ({} if api is ALTER else {"config_operation": _operation(c)})
                for c in topic.configs
            ],
        }
        for topic in topics
    ]
    try:
        answer = await services.membership.call(
            api.key,
            ctx.api_version,
            {"resources": resources, "validate_only": request.validate_only},
            ctx.principal,
        )
    except KafkaError as unreachable:
        return [(unreachable.code, str(unreachable))] * len(topics)
    await services.metadata.caught_up()
    return [(ErrorCode(int(row.error_code)), row.error_message) for row in answer.responses]


async def _alter_topics(services: Services, topics: list[Any], wanted: Wanted, validate_only: bool) -> list[Verdict]:
    def alter_one(controller: Controller, resource: Any) -> None:
        name = resource.resource_name
        topic = controller.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        try:
            configs = wanted(resource, dict(topic.configs))
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        controller.topics.set_configs(name, configs, validate_only)

    refused = await services.topics.decide_each(topics, alter_one)
    return [DONE if error is None else (error.code, str(error)) for error in refused]


SPECS = ((ALTER, alter), (ALTER_INCREMENTALLY, alter_incrementally))
