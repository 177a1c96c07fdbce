"""InitProducerId, 0 to 5, for idempotent producers. Transactional ids are refused: transactions are not there yet.

Producer ids come from the cluster store in blocks, so that no two brokers ever hand out the same one.
"""

from __future__ import annotations

from typing import Any

from minikafka.metadata.store import StoreError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api.spec import NO_TRANSACTIONS, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

SPEC = ApiSpec(ApiKey.INIT_PRODUCER_ID, 0, 5, unread={"transaction_timeout": NO_TRANSACTIONS})

MAX_PRODUCER_EPOCH = 32766
"""One below the largest short, as in Kafka: after it a new producer id is due."""


async def handle(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    if request.transactional_id is not None:
        return {
            "error_code": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "producer_id": -1,
            "producer_epoch": -1,
        }
    producer_id, epoch = getattr(request, "producer_id", -1), getattr(request, "producer_epoch", -1)
    if producer_id >= 0 and 0 <= epoch < MAX_PRODUCER_EPOCH:  # KIP-360: the same producer in its next epoch
        return {"error_code": ErrorCode.NONE, "producer_id": producer_id, "producer_epoch": epoch + 1}
    try:
        return {"error_code": ErrorCode.NONE, "producer_id": await services.producer_ids.next(), "producer_epoch": 0}
    except StoreError:
        return {"error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE, "producer_id": -1, "producer_epoch": -1}


SPECS = ((SPEC, handle),)
