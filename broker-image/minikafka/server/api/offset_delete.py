"""OffsetDelete, 0 (KIP-496): offsets of topics that no member is subscribed to."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.OFFSET_DELETE, 0, 0)


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    known = [
        TopicPartition(topic.name, row.partition_index)
        for topic in request.topics
        for row in topic.partitions
        if 0 <= row.partition_index < services.groups.partition_count(topic.name)
    ]
    error, results = await services.groups.delete_offsets(request.group_id, known)
    if error is not ErrorCode.NONE:
        return {"error_code": error, "topics": []}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    rows: dict[str, list[dict[str, Any]]] = {}  # one for each topic, as in Kafka
    for topic in request.topics:
        for row in topic.partitions:
            code = results.get(TopicPartition(topic.name, row.partition_index), unknown)
            rows.setdefault(topic.name, []).append({"partition_index": row.partition_index, "error_code": code})
    return {
        "error_code": error,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in rows.items()],
    }
