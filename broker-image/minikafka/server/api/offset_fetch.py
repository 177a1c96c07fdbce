"""OffsetFetch, 1 to 9: committed offsets, all when no topics are named; many groups from version 8 on (KIP-709).

``require_stable`` (KIP-447) makes no difference: there are no transactional commits. The member epoch of version 9
belongs to the KIP-848 protocol and is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from minikafka.groups.records import NO_EPOCH, CommittedOffset
from minikafka.groups.requests import FetchResult
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.server.api.spec import ApiSpec

if TYPE_CHECKING:
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

SPEC = ApiSpec(9, "OffsetFetch", 1, 9)

GROUP_ERROR, MANY_GROUPS = 2, 8

NOTHING = CommittedOffset(-1, NO_EPOCH, "")


async def handle(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    if ctx.api_version >= MANY_GROUPS:
        return {"groups": [_group(broker, group.group_id, group.topics) for group in request.groups]}
    answer = _group(broker, request.group_id, request.topics)
    if ctx.api_version < GROUP_ERROR and answer["error_code"] is not ErrorCode.NONE:
        # there is no place for an error of the group in version 1
        topics = request.topics or ()
        error = answer["error_code"]
        answer["topics"] = [
            {"name": t.name, "partitions": [_row(index, NOTHING, error) for index in t.partition_indexes]}
            for t in topics
        ]
    return answer


def _group(broker: Broker, group_id: str, topics: Sequence[Any] | None) -> dict[str, Any]:
    wanted = None
    if topics is not None:
        wanted = [TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes]
    result = broker.groups.fetch(group_id, wanted)
    if result.error is not ErrorCode.NONE:
        rows = []
    elif topics is None:
        rows = _all(result)
    else:  # row for row as it was asked, as in Kafka
        rows = [_topic(topic.name, topic.partition_indexes, result) for topic in topics]
    return {"group_id": group_id, "error_code": result.error, "topics": rows}


def _all(result: FetchResult) -> list[dict[str, Any]]:
    indexes: dict[str, list[int]] = {}
    for topic, index in result.offsets:
        indexes.setdefault(topic, []).append(index)
    return [_topic(topic, partitions, result) for topic, partitions in indexes.items()]


def _topic(name: str, indexes: Sequence[int], result: FetchResult) -> dict[str, Any]:
    found = [(index, result.offsets[TopicPartition(name, index)]) for index in indexes]
    return {"name": name, "partitions": [_row(index, row or NOTHING, ErrorCode.NONE) for index, row in found]}


def _row(index: int, committed: CommittedOffset, error: ErrorCode) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": error,
    }
