"""DeleteTopics, 1 to 6: by the controller only, by name or (from version 6) by id. Files go with ``file.delete.delay.ms``."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError, error_fields
from minikafka.server.api.spec import ANSWERED_WHEN_DONE, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.DELETE_TOPICS, 1, 6, controller_only=True, unread={"timeout": ANSWERED_WHEN_DONE})


Wish = tuple[str | None, UUID | None]
"""A topic by name, or by id."""


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    quota = ctx.mutations(services.quotas)
    wanted: list[Wish] = [(t.name, t.topic_id) for t in getattr(request, "topics", ())]
    wanted += [(name, None) for name in getattr(request, "topic_names", ())]
    topics = {wish: _topic(services, *wish) for wish in wanted}
    named = Counter(topic for wish in wanted if (topic := topics[wish]) is not None)
    again = Counter(wanted)
    found: dict[Wish, ErrorCode | KafkaError] = {}
    async for wish, topic in services.yielding(topics.items()):  # one answer for each, as in Kafka
        try:
            _check(services, *wish, topic, again[wish] > 1 or (topic is not None and named[topic] > 1))
        except KafkaError as refused:
            found[wish] = refused
    left = [(topic[0], wish[1]) for wish, topic in topics.items() if topic is not None and wish not in found]
    deleted = iter(
        await services.topics.decide_each(left, lambda controller, each: controller.topics.delete(*each, quota.record))
    )
    responses = []
    async for wish, topic in services.yielding(topics.items()):
        result = found[wish] if wish in found else next(deleted)
        response: dict[str, Any] = {"name": wish[0], "topic_id": wish[1], "error_code": result, "error_message": None}
        if isinstance(result, KafkaError):
            response |= error_fields(result)
        elif topic is not None:
            response |= {"name": topic[0], "topic_id": topic[1]}
            if result:
                response["error_message"] = f"topic {topic[0]!r} was not deleted: {result.name}"
        responses.append(response)
    return {"responses": responses}


def _topic(services: Services, name: str | None, topic_id: UUID | None) -> tuple[str, UUID] | None:
    """Name and id of the topic that is meant; None when there is none."""
    image = services.metadata.image
    topic = image.topics_by_id.get(topic_id.bytes) if topic_id is not None else image.topics.get(name or "")
    return None if topic is None else (topic.name, topic.topic_id)


def _check(
    services: Services, name: str | None, topic_id: UUID | None, topic: tuple[str, UUID] | None, is_named_twice: bool
) -> None:
    """Raises KafkaError for what names no topic, or may not be deleted."""
    if is_named_twice:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the topic is named twice in one request")
    if (name is None) == (topic_id is None):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "give either the name or the id of a topic")
    if topic is None and topic_id is not None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {topic_id}")
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
    if not services.context.config.delete_topic_enable:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "topics cannot be deleted: delete.topic.enable is false")


SPECS = ((SPEC, handle),)
