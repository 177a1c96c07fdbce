"""ListOffsets, 1 to 10: latest (-1), earliest (-2), largest timestamp (-3), or the first record at or after a time.

Clients see the high watermark as the end, replicas (on the inter-broker listener; elsewhere they are refused with
TOPIC_AUTHORIZATION_FAILED) the log end offset. While a new leader's high watermark lags behind the
start of its own term the end is OFFSET_NOT_AVAILABLE: otherwise consumers would see it go backwards. The tiered-storage
timestamps (-4 and below) have no meaning here and answer with no offset; earliest local (-4) is the earliest.

A search by time is the only request that looks into batches of clients: one whose records cannot be read is answered with
CORRUPT_MESSAGE, and UNSUPPORTED_COMPRESSION_TYPE where the package for its codec is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.log.errors import LogError
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api.spec import ApiSpec

if TYPE_CHECKING:
    from minikafka.replication.hosted import HostedPartition
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

SPEC = ApiSpec(2, "ListOffsets", 1, 10)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4


async def handle(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    replica = request.replica_id >= 0
    if replica and not ctx.inter_broker:
        return _refused(request)
    topics = []
    for topic in request.topics:
        rows = []
        for part in topic.partitions:
            hosted = broker.replicas.get(topic.name, part.partition_index)
            row: dict[str, Any] = {"partition_index": part.partition_index}
            if hosted is None:
                known = broker.metadata.image.partition(topic.name, part.partition_index) is not None
                row["error_code"] = ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                epoch = getattr(part, "current_leader_epoch", -1)
                _answer(broker, hosted, epoch, _timestamp(part.timestamp), replica, row)
            rows.append(row)
        topics.append({"name": topic.name, "partitions": rows})
    return {"topics": topics}


def _refused(request: Any) -> dict[str, Any]:
    """A client that calls itself a replica would be told of records above the high watermark."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return {
        "topics": [
            {
                "name": t.name,
                "partitions": [{"partition_index": p.partition_index, "error_code": code} for p in t.partitions],
            }
            for t in request.topics
        ]
    }


def _timestamp(value: Any) -> int:
    return value if isinstance(value, int) else round(value.timestamp() * 1000)


def _answer(
    broker: Broker, partition: HostedPartition, leader_epoch: int, timestamp: int, replica: bool, row: dict[str, Any]
) -> None:
    error = partition.check_leader(leader_epoch)
    leader = partition.leader
    if error or leader is None:
        row["error_code"] = error
        return
    log = partition.log
    end = log.log_end_offset
    if not replica and timestamp != EARLIEST:
        shown = leader.end_offset_for_clients()
        if shown is None:
            row["error_code"] = ErrorCode.OFFSET_NOT_AVAILABLE
            return
        end = shown
    row["error_code"] = ErrorCode.NONE
    try:
        if timestamp == LATEST:
            row["offset"], row["leader_epoch"] = end, partition.leader_epoch
        elif timestamp in (EARLIEST, EARLIEST_LOCAL):
            row["offset"] = log.log_start_offset
            row["leader_epoch"] = log.epochs.epoch_for_offset(log.log_start_offset)
        elif timestamp == MAX_TIMESTAMP:
            _found(row, log.max_timestamp(), end)
        elif timestamp >= 0:
            _found(row, log.offset_for_timestamp(timestamp, end), end)
    except LogError as problem:
        broker.reporter.log_failed(partition, problem)
        row["error_code"] = problem.code


def _found(row: dict[str, Any], found: Any, end: int) -> None:
    if found is not None and found.offset < end:
        row["offset"], row["timestamp"], row["leader_epoch"] = found.offset, found.timestamp, found.leader_epoch


SPECS = ((SPEC, handle),)
