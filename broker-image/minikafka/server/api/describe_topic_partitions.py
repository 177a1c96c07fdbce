"""DescribeTopicPartitions, 0 (KIP-966): like Metadata, with the eligible leader replicas and a cursor."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.security.acls import Operation, ResourceType
from minikafka.server.api import metadata
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0)


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    names = sorted({t.name for t in request.topics}) or [
        name
        for name in sorted(services.metadata.image.topics)
        if services.authorization.allows(ctx, Operation.DESCRIBE, ResourceType.TOPIC, name)
    ]
    cursor = request.cursor
    if cursor is not None and (
        not cursor.topic_name or cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names)
    ):
        refused = [{"error_code": ErrorCode.INVALID_REQUEST, "name": name, "partitions": []} for name in names]
        return {"topics": refused, "next_cursor": None}
    left = max(1, request.response_partition_limit)
    topics: list[dict[str, Any]] = []
    async for name in services.yielding(names):
        first = 0
        if cursor is not None and name < cursor.topic_name:
            continue
        if cursor is not None and name == cursor.topic_name:
            first = cursor.partition_index
        topic = services.metadata.image.topics.get(name)
        operations = services.authorization.operations(ctx, ResourceType.TOPIC, name)
        if topic is None:
            unknown = {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "name": name, "partitions": []}
            topics.append({**unknown, "topic_authorized_operations": operations})
            continue
        if left == 0:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": first}}
        only = slice(first, first + left)
        described = metadata.describe(services, ctx.listener, topic, only)
        described["topic_authorized_operations"] = operations
        for row, state in zip(described["partitions"], topic.partitions[only], strict=True):
            row |= {"eligible_leader_replicas": state.elr, "last_known_elr": state.last_known_elr}
        left -= len(described["partitions"])
        topics.append(described)
        if first + len(described["partitions"]) < len(topic.partitions):
            after = first + len(described["partitions"])
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": after}}
    return {"topics": topics, "next_cursor": None}


SPECS = ((SPEC, handle),)
