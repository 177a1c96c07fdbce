"""OffsetFetch, 1 to 10: committed offsets, all when no topics are named; many groups from version 8 on (KIP-709).

Version 10 names topics by their ids. ``require_stable`` (KIP-447) makes no difference: there are no transactional commits. The
member epoch of version 9 belongs to the KIP-848 protocol and is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

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


Wanted = dict[Any, dict[int, None]]
"""Partitions by the name of their topic, or its id; each once, however often it is named: a row of the answer may be large."""


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    version = ctx.api_version
    groups = request.groups if version >= MANY_GROUPS else (request,)
    asked: dict[str, Wanted | None] = {}
    for group in groups:
        wanted = asked.setdefault(group.group_id, {})
        if group.topics is None:
            asked[group.group_id] = None
        elif wanted is not None:
            for topic in group.topics:
                key = topic.topic_id if version >= TOPIC_IDS else topic.name
                wanted.setdefault(key, {}).update(dict.fromkeys(topic.partition_indexes))
    if version >= TOPIC_IDS:
        by_group = services.yielding(asked.items())
        return {"groups": [_by_id(services, group_id, wanted) async for group_id, wanted in by_group]}
    if version >= MANY_GROUPS:
        return {
            "groups": [
                {"group_id": group_id, **_by_name(services, group_id, wanted)}
                async for group_id, wanted in services.yielding(asked.items())
            ]
        }
    wanted = asked[request.group_id]
    answer = _by_name(services, request.group_id, wanted)
    if version < GROUP_ERROR and answer["error_code"] is not ErrorCode.NONE:
        # there is no place for an error of the group in version 1
        answer["topics"] = [
            {"name": name, "partitions": [_row(index, NOTHING, answer["error_code"]) for index in indexes]}
            for name, indexes in (wanted or {}).items()
        ]
    return answer


def _by_name(services: Services, group_id: str, wanted: Wanted | None) -> dict[str, Any]:
    partitions = None if wanted is None else [TopicPartition(name, index) for name in wanted for index in wanted[name]]
    result = services.groups.fetch(group_id, partitions)
    named = _found(result) if wanted is None else wanted
    rows = [{"name": name, "partitions": _rows(name, named[name], result)} for name in named if not result.error]
    return {"error_code": result.error, "topics": rows}


def _by_id(services: Services, group_id: str, wanted: Wanted | None) -> dict[str, Any]:
    """Of all topics, those that are there; of the wanted ones, an error for each that is not."""
    named: list[tuple[UUID, str | None, Iterable[int]]]
    if wanted is None:
        result = services.groups.fetch(group_id, None)
        found = ((services.metadata.id_of(name), name, indexes) for name, indexes in _found(result).items())
        named = [(topic_id, name, indexes) for topic_id, name, indexes in found if topic_id is not None]
    else:
        named = [(topic_id, services.metadata.name_of(topic_id), indexes) for topic_id, indexes in wanted.items()]
        partitions = [
            TopicPartition(name, index) for _, name, indexes in named if name is not None for index in indexes
        ]
        result = services.groups.fetch(group_id, partitions)
    return {
        "group_id": group_id,
        "error_code": result.error,
        "topics": [
            {"topic_id": topic_id, "partitions": _rows(name, indexes, result)}
            for topic_id, name, indexes in named
            if not result.error
        ],
    }


def _found(result: FetchResult) -> Wanted:
    """All partitions that have an offset."""
    found: Wanted = {}
    for topic, index in result.offsets:
        found.setdefault(topic, {})[index] = None
    return found


def _rows(name: str | None, indexes: Iterable[int], result: FetchResult) -> list[dict[str, Any]]:
    """What is committed in a topic; no name: nobody knows its id."""
    if name is None:
        return [_row(index, NOTHING, ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes]
    found = [(index, result.offsets[TopicPartition(name, index)]) for index in indexes]
    return [_row(index, committed or NOTHING, ErrorCode.NONE) for index, committed in found]


def _row(index: int, committed: CommittedOffset, error: ErrorCode) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": error,
    }
