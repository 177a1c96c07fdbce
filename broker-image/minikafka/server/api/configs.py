"""DescribeConfigs 1 to 4; AlterConfigs and IncrementalAlterConfigs are in :mod:`minikafka.server.api.alter_configs`.

Topics and brokers have settings. Groups, client metrics and broker loggers have none here: Kafka answers with theirs, and
here the list is empty. An empty list of keys asks for all of them, as null does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from minikafka.controller.topics import check_topic_name
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.types import ConfigResourceType
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services


async def describe(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    synonyms = getattr(request, "include_synonyms", False)
    documentation = getattr(request, "include_documentation", False)
    asked: dict[tuple[int, str], dict[str, None] | None] = {}
    """The keys that are asked for of each resource; None: all. Each is described once, however often it is named."""
    for resource in request.resources:
        whose = resource.resource_type, resource.resource_name
        keys = asked.setdefault(whose, {})
        if not resource.configuration_keys:
            asked[whose] = None
        elif keys is not None:
            keys.update(dict.fromkeys(resource.configuration_keys))
    results = []
    async for (kind, name), keys in services.yielding(asked.items()):
        result: dict[str, Any] = {
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "resource_type": kind,
            "resource_name": name,
            "configs": [],
        }
        try:
            entries = _entries(services, kind, name, keys)
            result["configs"] = [described(entry, synonyms, documentation) for entry in entries]
        except KafkaError as error:
            result["error_code"], result["error_message"] = error.code, str(error)
        results.append(result)
    return {"results": results}


def _entries(services: Services, kind: int, name: str, keys: Collection[str] | None) -> Any:
    check_resource(kind, name, services.context.broker_id)
    if kind == ConfigResourceType.TOPIC:
        topic = services.metadata.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        return services.context.config.describe_topic(topic.configs, keys)
    if kind == ConfigResourceType.BROKER:
        return services.context.config.describe(keys, cluster_default=not name)
    return ()


def check_resource(kind: int, name: str, broker_id: int) -> None:
    """Whether such a resource can be asked of this broker.

    Raises:
        KafkaError: there is no such kind, or the name cannot be one of its names.
    """
    if kind not in set(ConfigResourceType):
        allowed = ", ".join(f"{each.value} {each.name}" for each in ConfigResourceType)
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {kind} is unknown; allowed: {allowed}")
    if kind == ConfigResourceType.TOPIC:
        check_topic_name(name)
    elif kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        if name != str(broker_id) and (name or kind == ConfigResourceType.BROKER_LOGGER):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is broker {broker_id}; ask broker {name!r} itself")
    elif not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the name of a {ConfigResourceType(kind).name} is empty")


def topic_settings(services: Services, overrides: Mapping[str, str]) -> list[dict[str, Any]]:
    """All settings of a topic with these overrides, as CreateTopics tells them (KIP-525)."""
    return [_setting(entry) for entry in services.context.config.describe_topic(overrides)]


def _setting(entry: Any) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": int(entry.source),
        "is_sensitive": entry.is_sensitive,
    }


def described(entry: Any, synonyms: bool, documentation: bool) -> dict[str, Any]:
    """One setting, as DescribeConfigs tells it."""
    return _setting(entry) | {
        "synonyms": [{"name": s.name, "value": s.value, "source": int(s.source)} for s in entry.synonyms]
        if synonyms
        else [],
        "config_type": int(entry.config_type),
        "documentation": entry.documentation if documentation else None,
    }


SPECS = ((ApiSpec(ApiKey.DESCRIBE_CONFIGS, 1, 4), describe),)
