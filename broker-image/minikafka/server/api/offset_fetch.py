"""OffsetFetch, 1 to 10: committed offsets, all when no topics are named; many groups from version 8 on (KIP-709).

Version 10 names topics by their ids. ``require_stable`` (KIP-447) makes no difference: there are no transactional commits. The
member epoch of version 9 belongs to the KIP-848 protocol and is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minikafka.groups.records import NO_EPOCH, CommittedOffset
from minikafka.groups.requests import FetchResult
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.server.api.spec import NO_NEW_GROUPS, NO_TRANSACTIONS, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(
    ApiKey.OFFSET_FETCH,
    1,
    10,
    unread={
        "require_stable": NO_TRANSACTIONS,
        "groups.member_id": NO_NEW_GROUPS,
        "groups.member_epoch": NO_NEW_GROUPS,
    },
)

GROUP_ERROR, MANY_GROUPS, TOPIC_IDS = 2, 8, 10

NOTHING = CommittedOffset(-1, NO_EPOCH, "")


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    if ctx.api_version >= TOPIC_IDS:
        return {"groups": [_by_id(services, group.group_id, group.topics) for group in request.groups]}
    if ctx.api_version >= MANY_GROUPS:
        return {
            "groups": [{"group_id": g.group_id, **_by_name(services, g.group_id, g.topics)} for g in request.groups]
        }
    answer = _by_name(services, request.group_id, request.topics)
    if ctx.api_version < GROUP_ERROR and answer["error_code"] is not ErrorCode.NONE:
        # there is no place for an error of the group in version 1
        topics = request.topics or ()
        error = answer["error_code"]
        answer["topics"] = [
            {"name": t.name, "partitions": [_row(index, NOTHING, error) for index in t.partition_indexes]}
            for t in topics
        ]
    return answer


def _by_name(services: Services, group_id: str, topics: Sequence[Any] | None) -> dict[str, Any]:
    wanted = None
    if topics is not None:
        wanted = [TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes]
    result = services.groups.fetch(group_id, wanted)
    if result.error is not ErrorCode.NONE:
        rows = []
    elif topics is None:
        rows = _all(result)
    else:  # row for row as it was asked, as in Kafka
        rows = [_topic(topic.name, topic.partition_indexes, result) for topic in topics]
    return {"error_code": result.error, "topics": rows}


def _by_id(services: Services, group_id: str, topics: Sequence[Any] | None) -> dict[str, Any]:
    """Of all topics, those that are there; of the wanted ones, an error for each that is not."""
    if topics is None:
        result = services.groups.fetch(group_id, None)
        ids = {name: services.metadata.id_of(name) for name, _ in result.offsets}
        found = [(ids[name], rows) for name, rows in _rows(result.offsets).items() if ids[name] is not None]
    else:
        names = [services.metadata.name_of(topic.topic_id) for topic in topics]
        wanted = [
            TopicPartition(name, index)
            for topic, name in zip(topics, names, strict=True)
            if name is not None
            for index in topic.partition_indexes
        ]
        result = services.groups.fetch(group_id, wanted)
        found = [
            (
                topic.topic_id,
                [_row(index, NOTHING, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
                if name is None
                else _topic(name, topic.partition_indexes, result)["partitions"],
            )
            for topic, name in zip(topics, names, strict=True)
            if result.error is ErrorCode.NONE
        ]
    if result.error:
        found = []
    return {
        "group_id": group_id,
        "error_code": result.error,
        "topics": [{"topic_id": topic_id, "partitions": rows} for topic_id, rows in found],
    }


def _rows(offsets: Any) -> dict[str, list[dict[str, Any]]]:
    """By topic."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for (topic, index), committed in offsets.items():
        rows.setdefault(topic, []).append(_row(index, committed or NOTHING, ErrorCode.NONE))
    return rows


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
