"""CreateTopics, 2 to 7: by the controller only; answers once the topic is in the store and visible on this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.controller.topics import NewTopic
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.api.spec import ANSWERED_WHEN_DONE, ApiSpec

if TYPE_CHECKING:
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

SPEC = ApiSpec(
    ApiKey.CREATE_TOPICS,
    2,
    7,
    controller_only=True,
    unread={"timeout": ANSWERED_WHEN_DONE},
    unset={
        "topics.topic_config_error_code": "settings are kept from nobody: there are no ACLs",
        "topics.configs.name": "not told yet",
        "topics.configs.value": "not told yet",
        "topics.configs.read_only": "not told yet",
        "topics.configs.config_source": "not told yet",
        "topics.configs.is_sensitive": "not told yet",
    },
)


async def handle(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    names = [topic.name for topic in request.topics]
    results = []
    for desired in request.topics:
        result: dict[str, Any] = {"name": desired.name, "error_code": ErrorCode.NONE, "error_message": None}
        try:
            if names.count(desired.name) > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {desired.name!r} is named twice")
            created = await broker.topics.create(_desired(desired), request.validate_only)
            result["topic_id"] = None if request.validate_only else created.topic_id
            result["num_partitions"] = len(created.partitions)
            result["replication_factor"] = len(created.partitions[0].replicas)
            result["configs"] = []
        except KafkaError as error:
            result["error_code"], result["error_message"] = error.code, str(error)
        results.append(result)
    return {"topics": results}


def _desired(desired: Any) -> NewTopic:
    indexes = [a.partition_index for a in desired.assignments]
    if len(set(indexes)) != len(indexes):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"a partition of {desired.name!r} is assigned twice")
    return NewTopic(
        desired.name,
        desired.num_partitions,
        desired.replication_factor,
        {a.partition_index: tuple(a.broker_ids) for a in desired.assignments},
        {c.name: c.value for c in desired.configs if c.value is not None},
    )


SPECS = ((SPEC, handle),)
