"""OffsetCommit, 2 to 10: answered once the record in ``__consumer_offsets`` is replicated.

Versions 2 to 4 may bring a retention of their own; 6 and up bring leader epochs (KIP-320), which are kept. Version 10
names topics by their ids.
"""

from __future__ import annotations

from typing import Any

from minikafka.groups.records import NO_EPOCH, NO_TIMESTAMP, CommittedOffset
from minikafka.groups.requests import CommitRequest
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import millis
from minikafka.protocol.types import TopicPartition
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.OFFSET_COMMIT, 2, 10)


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    now_ms = services.context.clock.unix_ms()
    retention_ms = millis(getattr(request, "retention_time", -1))
    expires = NO_TIMESTAMP if retention_ms < 0 else now_ms + retention_ms
    offsets: dict[TopicPartition, CommittedOffset] = {}
    names = [
        topic.name if hasattr(topic, "name") else services.metadata.name_of(topic.topic_id) for topic in request.topics
    ]
    for topic, name in zip(request.topics, names, strict=True):
        if name is None:
            continue
        count, topic_id = services.groups.partition_count(name), services.groups.topic_id(name)
        for row in topic.partitions:
            if 0 <= row.partition_index < count:
                offsets[TopicPartition(name, row.partition_index)] = CommittedOffset(
                    row.committed_offset,
                    getattr(row, "committed_leader_epoch", NO_EPOCH),
                    row.committed_metadata or "",
                    now_ms,
                    expires,
                    topic_id,
                )
    results = await services.groups.commit(_request(request, offsets)) if offsets else {}
    return {
        "topics": [
            {
                "name": name,
                "topic_id": getattr(topic, "topic_id", None),
                "partitions": [
                    {
                        "partition_index": row.partition_index,
                        "error_code": ErrorCode.UNKNOWN_TOPIC_ID
                        if name is None
                        else results.get(
                            TopicPartition(name, row.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        ),
                    }
                    for row in topic.partitions
                ],
            }
            for topic, name in zip(request.topics, names, strict=True)
            if topic.partitions
        ]
    }


def _request(request: Any, offsets: dict[TopicPartition, CommittedOffset]) -> CommitRequest:
    return CommitRequest(
        request.group_id,
        offsets,
        request.member_id,
        getattr(request, "group_instance_id", None),
        request.generation_id_or_member_epoch,
    )
