"""DeleteRecords 0 to 2, DescribeLogDirs 1 to 5 and AlterReplicaLogDirs 1 to 2.

DeleteRecords moves the log start on the leader and answers at once with it; followers take it over with their next fetch
(Kafka waits for them: a known difference, docs/reference/limits.md).

AlterReplicaLogDirs moves nothing: a replica that is where it is wanted is NONE, as what kafka-reassign-partitions prints for
a rollback wants it, and INVALID_REQUEST elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from minikafka.log.errors import LogError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.replication import offsets as replication
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services


async def delete_records(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    # One answer for each partition, as in Kafka: of one that is named twice the last offset counts.
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for part in topic.partitions:
            wanted.setdefault(topic.name, {})[part.partition_index] = part.offset
    topics: dict[str, list[dict[str, Any]]] = {}
    each = ((name, index, offset) for name, offsets in wanted.items() for index, offset in offsets.items())
    async for name, index, offset in services.yielding(each):
        error, low = _delete(services, name, index, offset)
        row = {"partition_index": index, "low_watermark": low, "error_code": error}
        topics.setdefault(name, []).append(row)
    return {"topics": [{"name": name, "partitions": rows} for name, rows in topics.items()]}


def _delete(services: Services, topic: str, index: int, offset: int) -> tuple[ErrorCode, int]:
    hosted = services.replicas.get(topic, index)
    if hosted is None:
        return services.metadata.absent(topic, index), -1
    before = hosted.log.log_start_offset
    try:
        error, start = replication.delete_records(hosted, offset)
    except LogError as refused:
        services.reporter.log_failed(hosted, refused)
        return refused.code, -1
    services.reporter.log_start_moved(hosted, before, "DeleteRecords")
    return error, start


async def describe_log_dirs(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    only = None if request.topics is None else {(t.topic, p) for t in request.topics for p in t.partitions}
    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        path.rstrip("/"): {} for path in services.context.config.log_dirs
    }
    for partition in services.replicas.all():
        topic, index = partition.topic_partition
        if only is not None and (topic, index) not in only:
            continue
        lag = 0 if partition.leader else max(0, partition.high_watermark - partition.log.log_end_offset)
        found[os.path.dirname(partition.log.directory)].setdefault(topic, []).append(
            {
                "partition_index": index,
                "partition_size": partition.log.size_bytes,
                "offset_lag": lag,
                "is_future_key": False,
            }
        )
    return {"error_code": ErrorCode.NONE, "results": [_log_dir(path, topics) for path, topics in found.items()]}


def _log_dir(path: str, topics: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    try:
        disk = os.statvfs(path)
    except OSError:  # it is gone, or cannot be looked at: Kafka's answer for such a directory
        error, topics, total, usable = ErrorCode.KAFKA_STORAGE_ERROR, {}, -1, -1
    else:
        error, total, usable = ErrorCode.NONE, disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
    return {
        "error_code": error,
        "log_dir": os.path.abspath(path),
        "is_cordoned": False,
        "topics": [{"name": topic, "partitions": rows} for topic, rows in topics.items()],
        "total_bytes": total,
        "usable_bytes": usable,
    }


async def alter_replica_log_dirs(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    found: dict[str, dict[int, ErrorCode]] = {}  # one answer for each partition, as in Kafka
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                found.setdefault(topic.name, {})[index] = _placed(services, directory.path, topic.name, index)
    return {
        "results": [
            {"topic_name": topic, "partitions": [{"partition_index": i, "error_code": c} for i, c in codes.items()]}
            for topic, codes in found.items()
        ]
    }


def _placed(services: Services, path: str, topic: str, index: int) -> ErrorCode:
    """Whether a replica is where it is wanted: nothing moves between directories."""
    if os.path.abspath(path) not in map(os.path.abspath, services.context.config.log_dirs):
        return ErrorCode.LOG_DIR_NOT_FOUND
    hosted = services.replicas.get(topic, index)
    if hosted is None:  # who moves a partition tells its directory first, and asks again until the replica is there
        known = services.metadata.partition_exists(topic, index)
        return ErrorCode.REPLICA_NOT_AVAILABLE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    here = os.path.abspath(os.path.dirname(hosted.log.directory))
    return ErrorCode.NONE if here == os.path.abspath(path) else ErrorCode.INVALID_REQUEST


SPECS = (
    (ApiSpec(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2), alter_replica_log_dirs),
    (
        ApiSpec(
            ApiKey.DELETE_RECORDS, 0, 2, unread={"timeout": "the answer comes when the leader has moved its log start"}
        ),
        delete_records,
    ),
    (ApiSpec(ApiKey.DESCRIBE_LOG_DIRS, 1, 5), describe_log_dirs),
)
