"""DeleteTopics, 1 to 6: by the controller only, by name or (from version 6) by id. Files go with ``file.delete.delay.ms``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.api.spec import ANSWERED_WHEN_DONE, ApiSpec

if TYPE_CHECKING:
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

SPEC = ApiSpec(ApiKey.DELETE_TOPICS, 1, 6, controller_only=True, unread={"timeout": ANSWERED_WHEN_DONE})


async def handle(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    wanted = [(t.name, t.topic_id) for t in getattr(request, "topics", ())]
    wanted += [(name, None) for name in getattr(request, "topic_names", ())]
    responses = []
    for name, topic_id in wanted:
        response: dict[str, Any] = {"name": name, "topic_id": topic_id, "error_message": None}
        if topic_id is not None:
            topic = broker.metadata.image.topics_by_id.get(topic_id.bytes)
            if topic is None:
                responses.append({**response, "name": None, "error_code": ErrorCode.UNKNOWN_TOPIC_ID})
                continue
            name = response["name"] = topic.name
        try:
            response["error_code"] = await broker.topics.delete(name)
        except KafkaError as error:
            response["error_code"], response["error_message"] = error.code, str(error)
        responses.append(response)
    return {"responses": responses}


SPECS = ((SPEC, handle),)
