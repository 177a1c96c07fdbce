"""CreatePartitions, 0 to 3: by the controller only; partitions can only be added."""

from __future__ import annotations

from collections import Counter
from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.api.spec import ANSWERED_WHEN_DONE, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.CREATE_PARTITIONS, 0, 3, controller_only=True, unread={"timeout": ANSWERED_WHEN_DONE})


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    quota = ctx.mutations(services.quotas)
    named = Counter(topic.name for topic in request.topics)
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():  # one answer for each name, as in Kafka
        result: dict[str, Any] = {"name": topic.name, "error_code": ErrorCode.NONE, "error_message": None}
        rows = None if topic.assignments is None else [tuple(a.broker_ids) for a in topic.assignments]
        try:
            if named[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice")
            role = services.topics.require_controller()
            name, count, validate = topic.name, topic.count, request.validate_only
            await role.submit(lambda c: c.topics.grow(name, count, rows, validate, quota.record))  # noqa: B023
            await services.metadata.caught_up()
        except KafkaError as error:
            result["error_code"], result["error_message"] = error.code, str(error)
        results.append(result)
    return {"results": results}


SPECS = ((SPEC, handle),)
