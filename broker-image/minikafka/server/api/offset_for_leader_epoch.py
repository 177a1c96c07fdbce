"""OffsetForLeaderEpoch, 2 to 4: where a leader epoch ends in this leader's log (R13, KIP-101; for consumers KIP-320)."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api.spec import ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, unread={"replica_id": "replicas and consumers are told the same"})


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    topics = []
    for topic in request.topics:
        rows = []
        async for part in services.yielding(topic.partitions):
            hosted = services.replicas.get(topic.topic, part.partition)
            row: dict[str, Any] = {"partition": part.partition}
            if hosted is None:
                row["error_code"] = services.metadata.absent(topic.topic, part.partition)
            else:
                row["error_code"] = hosted.check_leader(getattr(part, "current_leader_epoch", -1))
                if row["error_code"] is ErrorCode.NONE:
                    row["leader_epoch"], row["end_offset"] = hosted.end_offset_for_epoch(part.leader_epoch)
            rows.append(row)
        topics.append({"topic": topic.topic, "partitions": rows})
    return {"topics": topics}


SPECS = ((SPEC, handle),)
