"""ListOffsets, 1 to 10: latest (-1), earliest (-2), largest timestamp (-3), or the first record at or after a time.

What is answered is decided by :mod:`minikafka.replication.offsets`. Replicas are told the log end offset on the inter-broker
listener; elsewhere whoever calls itself one is a client, and told what clients are. Tiered storage's timestamps have no
meaning here and answer with no offset; earliest local (-4) is the earliest.

A search by time is the only request that looks into batches of clients: one whose records cannot be read is answered with
CORRUPT_MESSAGE, and UNSUPPORTED_COMPRESSION_TYPE where the package for its codec is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.log.errors import LogError
from minikafka.replication.offsets import list_offset
from minikafka.server.api.spec import ApiSpec

if TYPE_CHECKING:
    from minikafka.replication.hosted import HostedPartition
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

SPEC = ApiSpec(2, "ListOffsets", 1, 10)


async def handle(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    replica = request.replica_id >= 0 and ctx.inter_broker
    topics = []
    for topic in request.topics:
        rows = []
        for part in topic.partitions:
            hosted = broker.replicas.get(topic.name, part.partition_index)
            row: dict[str, Any] = {"partition_index": part.partition_index}
            if hosted is None:
                row["error_code"] = broker.metadata.absent(topic.name, part.partition_index)
            else:
                epoch = getattr(part, "current_leader_epoch", -1)
                _answer(broker, hosted, epoch, _timestamp(part.timestamp), replica, row)
            rows.append(row)
        topics.append({"name": topic.name, "partitions": rows})
    return {"topics": topics}


def _timestamp(value: Any) -> int:
    return value if isinstance(value, int) else round(value.timestamp() * 1000)


def _answer(
    broker: Broker, partition: HostedPartition, leader_epoch: int, timestamp: int, replica: bool, row: dict[str, Any]
) -> None:
    try:
        found = list_offset(partition, leader_epoch, timestamp, replica=replica)
    except LogError as problem:
        broker.reporter.log_failed(partition, problem)
        row["error_code"] = problem.code
        return
    row["error_code"] = found.error
    if found.offset >= 0:
        row["offset"], row["leader_epoch"] = found.offset, found.leader_epoch
    if found.timestamp >= 0:
        row["timestamp"] = found.timestamp


SPECS = ((SPEC, handle),)
