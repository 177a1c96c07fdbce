"""DeleteTopics, 1 to 6: by the controller only, by name or (from version 6) by id. Files go with ``file.delete.delay.ms``."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
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
    responses = []
    async for wish, topic in services.yielding(topics.items()):  # one answer for each, as in Kafka
        response: dict[str, Any] = {"name": wish[0], "topic_id": wish[1], "error_message": None}
        try:
            if again[wish] > 1 or (topic is not None and named[topic] > 1):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the topic is named twice in one request")
            _check(*wish, topic)
            assert topic is not None
            response |= {"name": topic[0], "topic_id": topic[1]}
            response["error_code"] = await services.topics.delete(topic[0], quota.record, wish[1])
            if response["error_code"]:
                response["error_message"] = f"topic {topic[0]!r} was not deleted: {response['error_code'].name}"
        except KafkaError as error:
            response["error_code"], response["error_message"] = error.code, str(error)
        responses.append(response)
    return {"responses": responses}


def _topic(services: Services, name: str | None, topic_id: UUID | None) -> tuple[str, UUID] | None:
    """Name and id of the topic that is meant; None when there is none."""
    image = services.metadata.image
    topic = image.topics_by_id.get(topic_id.bytes) if topic_id is not None else image.topics.get(name or "")
    return None if topic is None else (topic.name, topic.topic_id)


def _check(name: str | None, topic_id: UUID | None, topic: tuple[str, UUID] | None) -> None:
    """Raises KafkaError for what names no topic."""
    if (name is None) == (topic_id is None):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "give either the name or the id of a topic")
    if topic is None and topic_id is not None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {topic_id}")
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")


SPECS = ((SPEC, handle),)
