"""Answers that are an injected error, for the APIs beside Produce and Fetch: a row for each, in every version of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode


class ColdApi(NamedTuple):
    """An API whose answer can be an injected error: which topics it is about, and how its answer says so."""

    topics: Callable[[Any], Iterable[Any]]
    answer: Callable[[Any, int, ErrorCode], dict[str, Any]]


def _whole(request: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    del request, version
    return {"error_code": code}


def _coordinators(request: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    nowhere = {"error_code": code, "error_message": code.name, "node_id": -1, "host": "", "port": -1}
    if version < 4:
        return nowhere
    return {"coordinators": [{"key": key, **nowhere} for key in request.coordinator_keys]}


def _joined(request: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    del version
    empty: dict[str, Any] = {
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": "",
        "leader": "",
        "members": [],
    }
    return {"error_code": code, "member_id": request.member_id, **empty}


def _identified(topic: Any) -> dict[str, Any]:
    """The topic of an answer, as its request names it."""
    names = ("name", "topic_id")
    return {name: value for name in names if (value := getattr(topic, name, None)) is not None}


def _by_partition(request: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    del version
    return {
        "topics": [
            {
                **_identified(topic),
                "partitions": [
                    {"partition_index": each.partition_index, "error_code": code} for each in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _by_topic(request: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    del version
    topics = [{**_identified(topic), "error_code": code, "partitions": []} for topic in request.topics or ()]
    return {"topics": topics, "brokers": []}


def _offsets(request: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    if version >= 8:
        groups = [{"group_id": each.group_id, "error_code": code, "topics": []} for each in request.groups]
        return {"groups": groups}
    nothing = {"committed_offset": -1, "metadata": "", "error_code": code}
    rows = [
        {"name": topic.name, "partitions": [{"partition_index": n, **nothing} for n in topic.partition_indexes]}
        for topic in request.topics or ()
    ]
    return {"error_code": code, "topics": rows}


def _named(request: Any) -> Iterable[Any]:
    return request.topics or ()


def _of_groups(request: Any) -> Iterable[Any]:
    groups = getattr(request, "groups", None) or (request,)
    return [topic for group in groups for topic in group.topics or ()]


def no_topics(request: Any) -> Iterable[Any]:
    del request
    return ()


COLD: Mapping[ApiKey, ColdApi] = {
    ApiKey.LIST_OFFSETS: ColdApi(_named, _by_partition),
    ApiKey.METADATA: ColdApi(_named, _by_topic),
    ApiKey.OFFSET_COMMIT: ColdApi(_named, _by_partition),
    ApiKey.OFFSET_FETCH: ColdApi(_of_groups, _offsets),
    ApiKey.FIND_COORDINATOR: ColdApi(no_topics, _coordinators),
    ApiKey.JOIN_GROUP: ColdApi(no_topics, _joined),
    ApiKey.HEARTBEAT: ColdApi(no_topics, _whole),
    ApiKey.LEAVE_GROUP: ColdApi(no_topics, _whole),
    ApiKey.SYNC_GROUP: ColdApi(no_topics, _whole),
    ApiKey.INIT_PRODUCER_ID: ColdApi(no_topics, _whole),
}
"""Beside Produce and Fetch, the APIs whose answer can be an injected error."""
