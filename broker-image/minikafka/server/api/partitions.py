"""Leadership and placement on request: ElectLeaders 0 to 2, Alter- and ListPartitionReassignments 0 (to 1).

A reassignment of version 1 may forbid that the replication factor changes (KIP-860).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.controller.change import Election
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.api.spec import ANSWERED_WHEN_DONE, ApiSpec

if TYPE_CHECKING:
    from minikafka.server.broker import Broker
    from minikafka.server.connection import RequestContext

PREFERRED, UNCLEAN = 0, 1


async def elect(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    kind = getattr(request, "election_type", PREFERRED)
    if kind not in (PREFERRED, UNCLEAN):
        return {"error_code": ErrorCode.INVALID_REQUEST, "replica_election_results": []}
    election = Election.PREFERRED if kind == PREFERRED else Election.UNCLEAN
    everything = request.topic_partitions is None
    if everything:
        wanted = [(t.name, i) for t in broker.metadata.image.topics.values() for i in range(len(t.partitions))]
    else:
        wanted = [(t.topic, i) for t in request.topic_partitions for i in t.partitions]
    try:
        role = broker.topics.require_controller()
        codes = await role.submit(lambda c: [c.partitions.elect(topic, index, election) for topic, index in wanted])
    except KafkaError as error:
        return {"error_code": error.code, "replica_election_results": []}
    await broker.metadata.caught_up()
    results: dict[str, list[dict[str, Any]]] = {}
    for (topic, index), code in zip(wanted, codes, strict=True):
        if everything and code is ErrorCode.ELECTION_NOT_NEEDED:
            continue
        row = {"partition_id": index, "error_code": code, "error_message": None if not code else code.name}
        results.setdefault(topic, []).append(row)
    return {
        "error_code": ErrorCode.NONE,
        "replica_election_results": [{"topic": t, "partition_result": rows} for t, rows in results.items()],
    }


async def alter_reassignments(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    allow_factor_change = getattr(request, "allow_replication_factor_change", True)
    wanted = [
        (t.name, p.partition_index, None if p.replicas is None else tuple(p.replicas), allow_factor_change)
        for t in request.topics
        for p in t.partitions
    ]
    try:
        role = broker.topics.require_controller()
        codes = await role.submit(lambda c: [c.partitions.reassign(*w) for w in wanted])
    except KafkaError as error:
        return {
            "error_code": error.code,
            "error_message": str(error),
            "allow_replication_factor_change": allow_factor_change,
            "responses": [],
        }
    await broker.metadata.caught_up()
    responses: dict[str, list[dict[str, Any]]] = {}
    for (topic, index, *_), code in zip(wanted, codes, strict=True):
        row = {"partition_index": index, "error_code": code, "error_message": None if not code else code.name}
        responses.setdefault(topic, []).append(row)
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "allow_replication_factor_change": allow_factor_change,
        "responses": [{"name": t, "partitions": rows} for t, rows in responses.items()],
    }


async def list_reassignments(broker: Broker, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    only = None if request.topics is None else {t.name: set(t.partition_indexes) for t in request.topics}
    topics = []
    for topic in broker.metadata.image.topics.values():
        rows = [
            {
                "partition_index": index,
                "replicas": state.replicas,
                "adding_replicas": state.adding,
                "removing_replicas": state.removing,
            }
            for index, state in enumerate(topic.partitions)
            if (state.adding or state.removing) and (only is None or index in only.get(topic.name, ()))
        ]
        if rows:
            topics.append({"name": topic.name, "partitions": rows})
    return {"error_code": ErrorCode.NONE, "error_message": None, "topics": topics}


SPECS = (
    (ApiSpec(ApiKey.ELECT_LEADERS, 0, 2, controller_only=True, unread={"timeout": ANSWERED_WHEN_DONE}), elect),
    (
        ApiSpec(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, controller_only=True, unread={"timeout": ANSWERED_WHEN_DONE}
        ),
        alter_reassignments,
    ),
    (
        ApiSpec(
            ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, controller_only=True, unread={"timeout": ANSWERED_WHEN_DONE}
        ),
        list_reassignments,
    ),
)
