"""DescribeProducers 0, for idempotent producers, and ListTransactions 0 to 2, of which there are none yet."""

from __future__ import annotations

import re
from typing import Any

from minikafka.controller.topics import check_topic_name
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.api.spec import NO_TRANSACTIONS, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

TRANSACTION_STATES = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "PrepareEpochFence",
        "Dead",
    }
)


PATTERN_MAX = 1000
"""Characters: a pattern is compiled where other clients wait, and nested deeply it cannot be."""


async def describe_producers(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    """What the partitions remember of their producers; any replica answers, as in Kafka."""
    del ctx
    wanted: dict[str, dict[int, None]] = {}  # each once: a partition may have very many producers
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics: dict[str, list[dict[str, Any]]] = {}
    each = ((name, index) for name, indexes in wanted.items() for index in indexes)
    async for name, index in services.yielding(each):
        topics.setdefault(name, []).append({"partition_index": index, **_producers(services, name, index)})
    return {"topics": [{"name": name, "partitions": topics.get(name, ())} for name in wanted]}


def _producers(services: Services, topic: str, index: int) -> dict[str, Any]:
    try:
        check_topic_name(topic)
    except KafkaError as error:
        return {"error_code": error.code, "error_message": str(error), "active_producers": []}
    hosted = services.replicas.get(topic, index)
    if hosted is None:
        code = services.metadata.absent(topic, index)
        return {"error_code": code, "error_message": f"{topic}-{index} is not on this broker", "active_producers": []}
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "active_producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": state.epoch,
                "last_sequence": state.last_sequence,
                "last_timestamp": state.last_timestamp,
                "coordinator_epoch": state.coordinator_epoch,
                "current_txn_start_offset": state.transaction_first_offset,
            }
            for producer_id, state in hosted.log.producers
        ],
    }


async def list_transactions(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del services, ctx
    answer = {
        "error_code": ErrorCode.NONE,
        "unknown_state_filters": [name for name in request.state_filters if name not in TRANSACTION_STATES],
        "transaction_states": [],
    }
    pattern = getattr(request, "transactional_id_pattern", None) or ""
    try:
        if len(pattern) > PATTERN_MAX:
            raise ValueError
        re.compile(pattern)
    except (ValueError, re.error, OverflowError, RecursionError):
        answer["error_code"] = ErrorCode.INVALID_REGULAR_EXPRESSION
    return answer


SPECS = (
    (ApiSpec(ApiKey.DESCRIBE_PRODUCERS, 0, 0), describe_producers),
    (
        ApiSpec(
            ApiKey.LIST_TRANSACTIONS,
            0,
            2,
            unread={"producer_id_filters": NO_TRANSACTIONS, "duration_filter": NO_TRANSACTIONS},
            unset={
                f"transaction_states.{field}": NO_TRANSACTIONS
                for field in ("transactional_id", "producer_id", "transaction_state")
            },
        ),
        list_transactions,
    ),
)
