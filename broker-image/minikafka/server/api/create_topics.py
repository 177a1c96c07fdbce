"""CreateTopics, 2 to 7: by the controller only; answers once the topic is in the store and visible on this broker.

From version 5 on with the settings of the topic (KIP-525): of the first thousand of a request.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from minikafka.controller.topics import NewTopic
from minikafka.metadata.image import TopicState
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError, error_fields
from minikafka.server.api.configs import topic_settings
from minikafka.server.api.spec import ANSWERED_WHEN_DONE, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(
    ApiKey.CREATE_TOPICS,
    2,
    7,
    controller_only=True,
    unread={"timeout": ANSWERED_WHEN_DONE},
    unset={
        "topics.topic_config_error_code": "of many topics only; what may not be told is taken out where ACLs are looked at",
    },
)

WITH_SETTINGS = 5
"""The first version whose answer has a topic's settings."""

SETTINGS_ANSWERED_MAX = 1_000
"""So many topics of a request: of 49,000 they took 29 MB, and the event loop for 9 seconds. DescribeConfigs tells the others."""


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    quota = ctx.mutations(services.quotas)
    named = Counter(topic.name for topic in request.topics)
    wishes: list[NewTopic] = []
    found: dict[str, TopicState | KafkaError] = {}
    async for topic in services.yielding({topic.name: topic for topic in request.topics}.values()):
        try:
            wishes.append(_desired(topic, named[topic.name]))
        except KafkaError as refused:
            found[topic.name] = refused
    created = await services.topics.decide_each(
        wishes, lambda controller, wish: controller.topics.create(wish, request.validate_only, quota.record)
    )
    found |= zip((wish.name for wish in wishes), created, strict=True)
    results: list[dict[str, Any]] = []
    async for name in services.yielding(named):  # one answer for each, as in Kafka
        topic = found[name]
        result: dict[str, Any] = {"name": name}
        if isinstance(topic, KafkaError):
            result |= error_fields(topic)
        else:
            result |= error_fields(None)
            result["topic_id"] = topic.topic_id
            result["num_partitions"] = len(topic.partitions)
            result["replication_factor"] = len(topic.partitions[0].replicas)
            if ctx.api_version >= WITH_SETTINGS:
                if len(results) < SETTINGS_ANSWERED_MAX:
                    result["configs"] = topic_settings(services, topic.configs)
                else:
                    result["topic_config_error_code"] = ErrorCode.POLICY_VIOLATION
        results.append(result)
    return {"topics": results}


def _desired(desired: Any, named: int) -> NewTopic:
    """What is asked for, by a request that names it so often. Raises KafkaError."""
    if named > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {desired.name!r} is named twice")
    indexes = [a.partition_index for a in desired.assignments]
    if len(set(indexes)) != len(indexes):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"a partition of {desired.name!r} is assigned twice")
    configs = {
        c.name: c.value for c in desired.configs
    }  # of a setting that is named twice the last counts, as in Kafka
    for name, value in configs.items():
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name}: no value; allowed: a value, or leave it out")
    return NewTopic(
        desired.name,
        desired.num_partitions,
        desired.replication_factor,
        {a.partition_index: tuple(a.broker_ids) for a in desired.assignments},
        configs,
    )


SPECS = ((SPEC, handle),)
