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
    topics: list[dict[str, Any]] = [{"topic": topic.topic, "partitions": []} for topic in request.topics]
    asked = zip(topics, request.topics, strict=True)
    async for answer, part in services.yielding((answer, part) for answer, topic in asked for part in topic.partitions):
        hosted = services.replicas.get(answer["topic"], part.partition)
        row: dict[str, Any] = {"partition": part.partition}
        if hosted is None:
            row["error_code"] = services.metadata.absent(answer["topic"], part.partition)
        else:
            row["error_code"] = hosted.check_leader(getattr(part, "current_leader_epoch", -1))
            if row["error_code"] is ErrorCode.NONE:
                row["leader_epoch"], row["end_offset"] = hosted.end_offset_for_epoch(part.leader_epoch)
        answer["partitions"].append(row)
    return {"topics": topics}


SPECS = ((SPEC, handle),)
