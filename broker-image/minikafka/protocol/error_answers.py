"""Answers that are one error, in the words of each API and in every version of it."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.errors import ErrorCode

MESSAGES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.SECURITY_DISABLED: "No Authorizer is configured.",
}
"""Kafka's own words."""


def error_row(code: ErrorCode) -> dict[str, Any]:
    """An error with its message."""
    return {"error_code": code, "error_message": MESSAGES.get(code, code.name)}


def whole(request: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    del request, version
    return {"error_code": code}


def coordinators(request: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    nowhere = {"error_code": code, "error_message": code.name, "node_id": -1, "host": "", "port": -1}
    if version < 4:
        return nowhere
    return {"coordinators": [{"key": key, **nowhere} for key in request.coordinator_keys]}


def joined(request: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    del version
    empty: dict[str, Any] = {
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": "",
        "leader": "",
        "members": [],
    }
    return {"error_code": code, "member_id": request.member_id, **empty}


def identified(topic: Any) -> dict[str, Any]:
    """The topic of an answer, as its request names it."""
    names = ("name", "topic_id")
    return {name: value for name in names if (value := getattr(topic, name, None)) is not None}


def by_partition(request: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    del version
    return {
        "topics": [
            {
                **identified(topic),
                "partitions": [
                    {"partition_index": each.partition_index, "error_code": code} for each in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def by_topic(request: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    del version
    topics = [{**identified(topic), "error_code": code, "partitions": []} for topic in request.topics or ()]
    return {"topics": topics, "brokers": []}


def offsets(request: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    if version >= 8:
        groups = [{"group_id": each.group_id, "error_code": code, "topics": []} for each in request.groups]
        return {"groups": groups}
    if version >= 2:
        return {"error_code": code, "topics": []}
    rows = [  # where there is no place for an error of the group
        {"name": topic.name, "partitions": [committed_nothing(n, code) for n in topic.partition_indexes]}
        for topic in request.topics or ()
    ]
    return {"topics": rows}


def committed_nothing(index: int, code: ErrorCode) -> dict[str, Any]:
    """A partition in an answer to OffsetFetch."""
    return {"partition_index": index, "committed_offset": -1, "metadata": "", "error_code": code}
