"""ListOffsets, 1 to 11: latest (-1), earliest (-2), largest timestamp (-3), or the first record at or after a time.

What is answered is decided by :mod:`minikafka.replication.offsets`. Replicas are told the log end offset on the inter-broker
listener; elsewhere whoever calls itself one is a client, and told what clients are. Tiered storage's timestamps have no
meaning here and answer with no offset; earliest local (-4) is the earliest.

A search by time is the only request that looks into batches of clients: one whose records cannot be read is answered with
CORRUPT_MESSAGE, and UNSUPPORTED_COMPRESSION_TYPE where the package for its codec is missing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from minikafka.log.errors import LogError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.offsets import (
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    list_offset,
)
from minikafka.server.api.spec import NO_TRANSACTIONS, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(
    ApiKey.LIST_OFFSETS,
    1,
    11,
    unread={"isolation_level": NO_TRANSACTIONS, "timeout": "only looking into tiered storage could take long"},
)

ASKED_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The first version in which each may be asked for; before that UNSUPPORTED_VERSION."""


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    replica = request.replica_id >= 0 and ctx.inter_broker
    named = Counter((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions)
    topics: dict[str, dict[int, dict[str, Any]]] = {}  # one answer for each partition, as in Kafka
    each = ((topic.name, part) for topic in request.topics for part in topic.partitions)
    async for name, part in services.yielding(each):  # a search may have to decompress a batch of each
        index = part.partition_index
        row: dict[str, Any] = {"partition_index": index}
        timestamp = _timestamp(part.timestamp)
        hosted = services.replicas.get(name, index)
        if named[name, index] > 1:
            row["error_code"] = ErrorCode.INVALID_REQUEST
        elif ctx.api_version < ASKED_SINCE.get(timestamp, 0):
            row["error_code"] = ErrorCode.UNSUPPORTED_VERSION
        elif hosted is None:
            row["error_code"] = services.metadata.absent(name, index)
        else:
            _answer(services, hosted, getattr(part, "current_leader_epoch", -1), timestamp, replica, row)
        topics.setdefault(name, {})[index] = row
    return {"topics": [{"name": name, "partitions": list(rows.values())} for name, rows in topics.items()]}


def _timestamp(value: Any) -> int:
    return value if isinstance(value, int) else round(value.timestamp() * 1000)


def _answer(
    services: Services,
    partition: HostedPartition,
    leader_epoch: int,
    timestamp: int,
    replica: bool,
    row: dict[str, Any],
) -> None:
    try:
        found = list_offset(partition, leader_epoch, timestamp, replica=replica)
    except LogError as problem:
        services.reporter.log_failed(partition, problem)
        row["error_code"] = problem.code
        return
    row["error_code"] = found.error
    if found.offset >= 0:
        row["offset"], row["leader_epoch"] = found.offset, found.leader_epoch
    if found.timestamp >= 0:
        row["timestamp"] = found.timestamp


SPECS = ((SPEC, handle),)
