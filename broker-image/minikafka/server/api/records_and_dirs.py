"""DeleteRecords 0 to 2 and DescribeLogDirs 1 to 5.

DeleteRecords moves the log start on the leader and answers at once with it; followers take it over with their next fetch
(Kafka waits for them: a known difference, docs/limits.md).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from minikafka.log.errors import LogError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.replication import offsets as replication
from minikafka.server.api.spec import ApiSpec

if TYPE_CHECKING:
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext


async def delete_records(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    topics = []
    for topic in request.topics:
        rows = []
        for part in topic.partitions:
            error, low = _delete(broker, topic.name, part.partition_index, part.offset)
            rows.append({"partition_index": part.partition_index, "low_watermark": low, "error_code": error})
        topics.append({"name": topic.name, "partitions": rows})
    return {"topics": topics}


def _delete(broker: Broker, topic: str, index: int, offset: int) -> tuple[ErrorCode, int]:
    hosted = broker.replicas.get(topic, index)
    if hosted is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1
    before = hosted.log.log_start_offset
    try:
        error, start = replication.delete_records(hosted, offset)
    except LogError as refused:
        broker.reporter.log_failed(hosted, refused)
        return refused.code, -1
    broker.reporter.log_start_moved(hosted, before, "DeleteRecords")
    return error, start


async def describe_log_dirs(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    only = None if request.topics is None else {(t.topic, p) for t in request.topics for p in t.partitions}
    topics: dict[str, list[dict[str, Any]]] = {}
    for partition in broker.replicas.all():
        topic, index = partition.topic_partition
        if only is not None and (topic, index) not in only:
            continue
        lag = 0 if partition.leader else max(0, partition.high_watermark - partition.log.log_end_offset)
        topics.setdefault(topic, []).append(
            {
                "partition_index": index,
                "partition_size": partition.log.size_bytes,
                "offset_lag": lag,
                "is_future_key": False,
            }
        )
    folder = str(broker.data_dirs[0])
    found: dict[str, Any] = {"log_dir": os.path.abspath(folder), "is_cordoned": False}
    try:
        disk = os.statvfs(folder)
    except OSError:  # it is gone, or cannot be looked at: Kafka's answer for such a directory
        found |= {"error_code": ErrorCode.KAFKA_STORAGE_ERROR, "topics": [], "total_bytes": -1, "usable_bytes": -1}
    else:
        found |= {
            "error_code": ErrorCode.NONE,
            "topics": [{"name": t, "partitions": rows} for t, rows in topics.items()],
            "total_bytes": disk.f_blocks * disk.f_frsize,
            "usable_bytes": disk.f_bavail * disk.f_frsize,
        }
    return {"error_code": ErrorCode.NONE, "results": [found]}


SPECS = (
    (
        ApiSpec(
            ApiKey.DELETE_RECORDS, 0, 2, unread={"timeout": "the answer comes when the leader has moved its log start"}
        ),
        delete_records,
    ),
    (ApiSpec(ApiKey.DESCRIBE_LOG_DIRS, 1, 5), describe_log_dirs),
)
