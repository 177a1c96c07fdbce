"""Leadership and placement on request: ElectLeaders 0 to 2, Alter- and ListPartitionReassignments 0 (to 1).

A reassignment of version 1 may forbid that the replication factor changes (KIP-860).
"""

from __future__ import annotations

from typing import Any

from minikafka.controller.change import Election
from minikafka.controller.controller import Controller
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.api.spec import ANSWERED_WHEN_DONE, ApiSpec
from minikafka.server.request_context import RequestContext
from minikafka.server.services import Services

PREFERRED, UNCLEAN = 0, 1


async def elect(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    everything = request.topic_partitions is None
    if everything:
        wanted = [(t.name, range(len(t.partitions))) for t in services.metadata.image.topics.values()]
    else:
        wanted = [(t.topic, t.partitions) for t in request.topic_partitions]
    kind = getattr(request, "election_type", PREFERRED)
    if kind not in (PREFERRED, UNCLEAN):
        return _elected(
            ErrorCode.INVALID_REQUEST, [(t, [(i, ErrorCode.INVALID_REQUEST) for i in p]) for t, p in wanted]
        )
    election = Election.PREFERRED if kind == PREFERRED else Election.UNCLEAN

    def decide(controller: Controller) -> list[tuple[str, list[tuple[int, ErrorCode]]]]:
        return [(t, [(i, controller.partitions.elect(t, i, election)) for i in p]) for t, p in wanted]

    try:
        results = await services.topics.require_controller().submit(decide)
    except KafkaError as error:
        return _elected(error.code, [])
    await services.metadata.caught_up()
    if everything:
        results = [(t, [row for row in rows if row[1] is not ErrorCode.ELECTION_NOT_NEEDED]) for t, rows in results]
    return _elected(ErrorCode.NONE, results)


def _elected(error: ErrorCode, results: list[tuple[str, list[tuple[int, ErrorCode]]]]) -> dict[str, Any]:
    return {
        "error_code": error,
        "replica_election_results": [
            {
                "topic": topic,
                "partition_result": [
                    {"partition_id": index, "error_code": code, "error_message": None if not code else code.name}
                    for index, code in rows
                ],
            }
            for topic, rows in results
        ],
    }


async def alter_reassignments(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    allow_factor_change = getattr(request, "allow_replication_factor_change", True)
    wanted = [
        (t.name, p.partition_index, None if p.replicas is None else tuple(p.replicas), allow_factor_change)
        for t in request.topics
        for p in t.partitions
    ]
    try:
        role = services.topics.require_controller()
        codes = await role.submit(lambda c: [c.partitions.reassign(*w) for w in wanted])
    except KafkaError as error:
        return {
            "error_code": error.code,
            "error_message": str(error),
            "allow_replication_factor_change": allow_factor_change,
            "responses": [],
        }
    await services.metadata.caught_up()
    answered = (
        {"partition_index": index, "error_code": code, "error_message": None if not code else code.name}
        for (_, index, *_), code in zip(wanted, codes, strict=True)
    )
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "allow_replication_factor_change": allow_factor_change,
        "responses": [{"name": t.name, "partitions": [next(answered) for _ in t.partitions]} for t in request.topics],
    }


async def list_reassignments(services: Services, ctx: RequestContext, request: Any) -> dict[str, Any]:
    del ctx
    only = None if request.topics is None else {t.name: set(t.partition_indexes) for t in request.topics}
    topics = []
    for topic in services.metadata.image.topics.values():
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
