"""CreatePartitions, 0 to 3: by the controller only; partitions can only be added."""

from __future__ import annotations

from collections import Counter
from typing import Any

from minikafka.controller.controller import Controller
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError, error_fields
from minikafka.server.api.spec import ANSWERED_WHEN_DONE, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.CREATE_PARTITIONS, 0, 3, controller_only=True, unread={"timeout": ANSWERED_WHEN_DONE})


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    quota = ctx.mutations(services.quotas)
    named = Counter(topic.name for topic in request.topics)

    def grow(controller: Controller, topic: Any) -> None:
        if named[topic.name] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice")
        rows = None if topic.assignments is None else [tuple(a.broker_ids) for a in topic.assignments]
        controller.topics.grow(topic.name, topic.count, rows, request.validate_only, quota.record)

    topics = {topic.name: topic for topic in request.topics}  # one answer for each name, as in Kafka
    refused = await services.topics.decide_each(list(topics.values()), grow)
    return {
        "results": [
            {
                "name": name,
                **error_fields(error),
            }
            for name, error in zip(topics, refused, strict=True)
        ]
    }


SPECS = ((SPEC, handle),)
