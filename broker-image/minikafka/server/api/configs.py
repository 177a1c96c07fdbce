"""DescribeConfigs 1 to 4, AlterConfigs 0 to 2, IncrementalAlterConfigs 0 to 1, for topics and brokers.

Topic settings are written by the controller. Dynamic broker settings are not taken yet: they are refused with INVALID_CONFIG.
Of list settings APPEND and SUBTRACT are supported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.config import TOPIC_KEYS, Alteration, ConfigError, altered
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.api.spec import ApiSpec

if TYPE_CHECKING:
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

TOPIC, BROKER = 2, 4


async def describe(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    synonyms = getattr(request, "include_synonyms", False)
    documentation = getattr(request, "include_documentation", False)
    results = []
    for resource in request.resources:
        keys = resource.configuration_keys
        result: dict[str, Any] = {
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
            "configs": [],
        }
        try:
            entries = _entries(broker, resource.resource_type, resource.resource_name, keys)
            result["configs"] = [_entry(entry, synonyms, documentation) for entry in entries]
        except KafkaError as error:
            result["error_code"], result["error_message"] = error.code, str(error)
        results.append(result)
    return {"results": results}


def _entries(broker: Broker, kind: int, name: str, keys: Any) -> Any:
    if kind == TOPIC:
        topic = broker.metadata.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        return broker.config.describe_topic(topic.configs, keys)
    if kind == BROKER:
        if name and name != str(broker.broker_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"this is broker {broker.broker_id}; ask broker {name!r} for its settings"
            )
        return broker.config.describe(keys, cluster_default=not name)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {kind} has no settings here (2 topic, 4 broker)")


def _entry(entry: Any, synonyms: bool, documentation: bool) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": int(entry.source),
        "is_sensitive": entry.is_sensitive,
        "synonyms": [{"name": s.name, "value": s.value, "source": int(s.source)} for s in entry.synonyms]
        if synonyms
        else [],
        "config_type": int(entry.config_type),
        "documentation": entry.documentation if documentation else None,
    }


async def alter(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    """AlterConfigs replaces everything."""
    del ctx

    def wanted(resource: Any, _old: dict[str, str]) -> dict[str, str]:
        return {c.name: c.value for c in resource.configs if c.value is not None}

    return await _alter_all(broker, request, wanted)


async def alter_incrementally(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    """IncrementalAlterConfigs changes what it names (KIP-339)."""
    del ctx

    def wanted(resource: Any, old: dict[str, str]) -> dict[str, str]:
        in_force = {e.name: e.value for e in broker.config.describe_topic(old) if e.value is not None}
        changes = [Alteration(c.name, c.config_operation, c.value) for c in resource.configs]
        return altered(old, changes, TOPIC_KEYS, in_force)

    return await _alter_all(broker, request, wanted)


async def _alter_all(broker: Broker, request: Any, wanted: Any) -> dict[str, Any]:
    responses = []
    for resource in request.resources:
        response: dict[str, Any] = {
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        try:
            await _alter_one(broker, resource, wanted, request.validate_only)
        except KafkaError as error:
            response["error_code"], response["error_message"] = error.code, str(error)
        responses.append(response)
    return {"responses": responses}


async def _alter_one(broker: Broker, resource: Any, wanted: Any, validate_only: bool) -> None:
    name = resource.resource_name
    if resource.resource_type == BROKER:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "settings of a running broker cannot be changed yet; set them in its file"
        )
    if resource.resource_type != TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} has no settings here")
    role = broker.topics.require_controller()

    def decide(controller: Any) -> None:
        topic = controller.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        try:
            configs = wanted(resource, dict(topic.configs))
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        controller.topics.set_configs(name, configs, validate_only)

    await role.submit(decide)
    await broker.metadata.caught_up()


SPECS = (
    (ApiSpec(ApiKey.DESCRIBE_CONFIGS, 1, 4), describe),
    (ApiSpec(ApiKey.ALTER_CONFIGS, 0, 2, controller_only=True), alter),
    (ApiSpec(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, controller_only=True), alter_incrementally),
)
