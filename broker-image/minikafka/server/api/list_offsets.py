"""ListOffsets, 1 to 11: latest (-1), earliest (-2), largest timestamp (-3), or the first record at or after a time.

What is answered is decided by :mod:`minikafka.replication.offsets`. Replicas are told the log end offset on the inter-broker
listener; elsewhere whoever calls itself one is a client, and told what clients are. Tiered storage's timestamps have no
meaning here and answer with no offset; earliest local (-4) is the earliest.

A search by time is the only request that looks into batches of clients: one whose records cannot be read is answered with
CORRUPT_MESSAGE, and UNSUPPORTED_COMPRESSION_TYPE where the package for its codec is missing. A batch that holds much is looked
into by a thread, and then the log, which may have changed meanwhile, is asked anew. Of each principal one search goes on at a
time, for it may have a batch in memory.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import nullcontext
from typing import Any

from minikafka.log.errors import LogError
from minikafka.log.timestamps import LargeBatch, LongWalk, Search
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.replication.offsets import (
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    FoundOffset,
    list_offset,
)
from minikafka.server.api.spec import NO_TRANSACTIONS, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services
from minikafka.server.walkers import WALKED_BYTES_MAX, WALKERS

SPEC = ApiSpec(
    ApiKey.LIST_OFFSETS,
    1,
    11,
    unread={"isolation_level": NO_TRANSACTIONS, "timeout": "only looking into tiered storage could take long"},
)

ASKED_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The first version in which each may be asked for; before that UNSUPPORTED_VERSION."""
LOOKS_MAX = 10
"""At a log, of one search. As leaders write it, three batches at most have to be looked into."""


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    replica = request.replica_id >= 0 and ctx.inter_broker
    named = Counter((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions)
    topics: dict[str, dict[int, dict[str, Any]]] = {}  # one answer for each partition, as in Kafka
    each = ((topic.name, part) for topic in request.topics for part in topic.partitions)
    async for name, part in services.yielding(each):  # a search may have to decompress a batch of each
        index = part.partition_index
        row: dict[str, Any] = {"partition_index": index}
        timestamp = _timestamp(part.timestamp)
        if named[name, index] > 1:
            row["error_code"] = ErrorCode.INVALID_REQUEST
        elif ctx.api_version < ASKED_SINCE.get(timestamp, 0):
            row["error_code"] = ErrorCode.UNSUPPORTED_VERSION
        else:
            epoch = getattr(part, "current_leader_epoch", -1)
            searches = timestamp >= 0 or timestamp == MAX_TIMESTAMP
            async with services.one_at_a_time(ctx.connection.asked_by, SPEC.key) if searches else nullcontext():
                row |= await _answer(services, ctx, name, index, epoch, timestamp, replica)
        topics.setdefault(name, {})[index] = row
    return {"topics": [{"name": name, "partitions": list(rows.values())} for name, rows in topics.items()]}


def _timestamp(value: Any) -> int:
    return value if isinstance(value, int) else round(value.timestamp() * 1000)


async def _answer(
    services: Services, ctx: RequestContext, name: str, index: int, leader_epoch: int, timestamp: int, replica: bool
) -> dict[str, Any]:
    search, looks = Search(WALKED_BYTES_MAX), 0
    while looks < LOOKS_MAX:
        partition = services.replicas.get(name, index)
        if partition is None:
            return {"error_code": services.metadata.absent(name, index)}
        try:
            return _row(list_offset(partition, leader_epoch, timestamp, search, replica=replica))
        except LogError as problem:
            services.reporter.log_failed(partition, problem)
            return {"error_code": problem.code}
        except LargeBatch as found:
            looks += 1
            await _look_into(services, ctx, search, found)
        except LongWalk:
            await services.turn_queue.another()
            if ctx.connection.has_hung_up:
                break
    return {"error_code": ErrorCode.OFFSET_NOT_AVAILABLE}  # clients ask again


async def _look_into(services: Services, ctx: RequestContext, search: Search, found: LargeBatch) -> None:
    def look() -> float:
        began = time.thread_time()
        search.look_into(found)
        return time.thread_time() - began

    threads = WALKERS.of(ctx.connection.asked_by)
    seconds = await asyncio.get_running_loop().run_in_executor(threads, look)
    if ctx.connection.has_quotas and not ctx.connection.serves_brokers_only:
        services.quotas.spent(ctx, seconds)


def _row(found: FoundOffset) -> dict[str, Any]:
    row: dict[str, Any] = {"error_code": found.error}
    if found.offset >= 0:
        row["offset"], row["leader_epoch"] = found.offset, found.leader_epoch
    if found.timestamp >= 0:
        row["timestamp"] = found.timestamp
    return row


SPECS = ((SPEC, handle),)
