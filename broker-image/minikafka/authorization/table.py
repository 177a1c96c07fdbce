"""What each API needs, as in Apache Kafka (`KafkaApis`, `ControllerApis` and the protocol's documentation of authorization).

An API that has no row here is refused to everybody where there is an authorizer, and fails a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from minikafka.authorization import special
from minikafka.authorization.rules import (
    Answer,
    ApiRule,
    Both,
    Chosen,
    ClientAccess,
    Need,
    Rows,
    Rules,
    Special,
    Unscreened,
    Whole,
)
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.error_answers import by_partition, error_row, identified, joined, whole
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import ConfigResourceType
from minikafka.security.acls import CLUSTER_NAME, Operation, ResourceType

# -- what is needed ---------------------------------------------------------------------------------------------------------


def on_cluster(operation: Operation, refusal: Callable[[Any, int, ErrorCode], Answer] | None = None) -> Whole:
    """The whole request needs an operation on the cluster."""
    return Whole(Need(operation, ResourceType.CLUSTER), refusal or (lambda _request, _version, code: error_row(code)))


def on_group(operation: Operation, refusal: Callable[[Any, int, ErrorCode], Answer] = whole) -> Whole:
    """The whole request needs an operation on the group that it names."""
    return Whole(Need(operation, ResourceType.GROUP), refusal, attrgetter("group_id"))


def topic_of(row: Any, access: ClientAccess) -> str | None:
    """The name of the topic of a row; None: there is no topic with its id."""
    name = row if isinstance(row, str) else getattr(row, "name", None)
    return name if name is not None else access.metadata.name_of(getattr(row, "topic_id", None))


def on_topics(
    operation: Operation,
    refusal: Callable[[Any, ErrorCode], Answer],
    asked: str = "topics",
    answered: str = "topics",
    name: Callable[[Any, ClientAccess], str | None] = topic_of,
    instead: Need | None = None,
) -> Rows:
    """Each row needs an operation on its topic."""
    need = Need(operation, ResourceType.TOPIC)

    def choose(row: Any, access: ClientAccess) -> Chosen | None:
        topic = name(row, access)
        return None if topic is None else (need, topic)

    return Rows(choose, asked, answered, refusal, (need,) if instead is None else (instead, need), instead)


def on_groups(
    operation: Operation, refusal: Callable[[Any, ErrorCode], Answer], asked: str = "groups", answered: str = "groups"
) -> Rows:
    """Each row is a group, and needs an operation on it."""
    need = Need(operation, ResourceType.GROUP)
    return Rows(lambda row, _: (need, row), asked, answered, refusal, (need,))


def on_settings(operation: Operation, answered: str) -> Rows:
    """Each resource needs an operation on itself; brokers, their loggers and what is collected of clients, on the cluster."""
    needs = {
        kind: Need(operation, of, note)
        for kind, of, note in (
            (ConfigResourceType.TOPIC, ResourceType.TOPIC, "for a topic's"),
            (ConfigResourceType.GROUP, ResourceType.GROUP, "for a group's"),
            (ConfigResourceType.BROKER, ResourceType.CLUSTER, "for others"),
            (ConfigResourceType.BROKER_LOGGER, ResourceType.CLUSTER, "for others"),
            (ConfigResourceType.CLIENT_METRICS, ResourceType.CLUSTER, "for others"),
        )
    }

    def choose(row: Any, access: ClientAccess) -> Chosen | None:
        del access
        need = needs.get(row.resource_type)
        if need is None:
            return None
        return need, CLUSTER_NAME if need.kind is ResourceType.CLUSTER else row.resource_name

    def refusal(row: Any, code: ErrorCode) -> Answer:
        return {"resource_type": row.resource_type, "resource_name": row.resource_name, **error_row(code)}

    return Rows(choose, "resources", answered, refusal, tuple(dict.fromkeys(needs.values())))


# -- refusals ---------------------------------------------------------------------------------------------------------------


def _partitions(row: Any, code: ErrorCode) -> Answer:
    """A topic, all of whose partitions are refused."""
    rows = [{"partition_index": part.partition_index, "error_code": code} for part in row.partitions]
    return {**identified(row), "partitions": rows}


def _records(row: Any, code: ErrorCode) -> Answer:
    rows = [{"partition_index": p.partition_index, "low_watermark": -1, "error_code": code} for p in row.partitions]
    return {"name": row.name, "partitions": rows}


def _epochs(row: Any, code: ErrorCode) -> Answer:
    return {"topic": row.topic, "partitions": [{"partition": p.partition, "error_code": code} for p in row.partitions]}


def _producers(row: Any, code: ErrorCode) -> Answer:
    return {
        "name": row.name,
        "partitions": [{"partition_index": index, **error_row(code)} for index in row.partition_indexes],
    }


def _deleted(row: Any, code: ErrorCode) -> Answer:
    name, topic_id = (row, None) if isinstance(row, str) else (row.name, row.topic_id)
    return {"name": name, "topic_id": topic_id, **error_row(code)}


def _log_dirs(request: Any, version: int, code: ErrorCode) -> Answer:
    del version
    return {
        "results": [
            {"topic_name": t.name, "partitions": [{"partition_index": p, "error_code": code} for p in t.partitions]}
            for directory in request.dirs
            for t in directory.topics
        ]
    }


def _elections(request: Any, version: int, code: ErrorCode) -> Answer:
    del version
    rows = [
        {"topic": t.topic, "partition_result": [{"partition_id": p, **error_row(code)} for p in t.partitions]}
        for t in request.topic_partitions or ()
    ]
    return {"error_code": code, "replica_election_results": rows}


def _reassignments(request: Any, version: int, code: ErrorCode) -> Answer:
    del version
    rows = [
        {
            "name": t.name,
            "partitions": [{"partition_index": p.partition_index, **error_row(code)} for p in t.partitions],
        }
        for t in request.topics
    ]
    return {**error_row(code), "responses": rows}


def _users(request: Any, version: int, code: ErrorCode) -> Answer:
    del version
    names = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
    return {"results": [{"user": name, **error_row(code)} for name in names]}


def _quotas(request: Any, version: int, code: ErrorCode) -> Answer:
    del version
    parts = [
        [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]
        for entry in request.entries
    ]
    return {"entries": [{**error_row(code), "entity": entity} for entity in parts]}


def _all_rows(asked: str, answered: str) -> Callable[[Any, int, ErrorCode], Answer]:
    return lambda request, _version, code: {answered: [error_row(code) for _ in getattr(request, asked)]}


# -- the table --------------------------------------------------------------------------------------------------------------

_O = Operation
_CREATE_TOPICS = Need(_O.CREATE, ResourceType.CLUSTER, "or", refuses=False)
_DELETE_TOPICS = Need(_O.DELETE, ResourceType.CLUSTER, "or", refuses=False)
_REPLICAS = Need(_O.CLUSTER_ACTION, ResourceType.CLUSTER, "or", refuses=False)


_DELETE = Need(_O.DELETE, ResourceType.TOPIC)


def deleted(asked: str) -> Rows:
    """Who may describe a topic that is not there learns that it is not."""
    rule = on_topics(_O.DELETE, _deleted, asked, "responses", instead=_DELETE_TOPICS)
    known = Need(_O.DESCRIBE, ResourceType.TOPIC, "if there is none", refuses=False)
    return replace(rule, needs=(*rule.needs, known), absent=_not_there)


def _not_there(row: Any, access: ClientAccess) -> ErrorCode | None:
    """Why there is nothing to delete. The controller may know of a topic that this broker has not heard of yet.

    So what nobody could decide about here is not passed on.
    """
    name, topic_id = (row, None) if isinstance(row, str) else (row.name, row.topic_id)
    if name is None:
        is_unknown = topic_id is not None and access.metadata.name_of(topic_id) is None
        return ErrorCode.UNKNOWN_TOPIC_ID if is_unknown else None
    if access.metadata.id_of(name) is not None or access.could(_DELETE, name):
        return None
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if access.could(special.DESCRIBE, name) else None


_SERVED: dict[ApiKey, ApiRule] = {
    ApiKey.PRODUCE: Unscreened((special.WRITE,)),
    ApiKey.FETCH: Unscreened((_REPLICAS, special.READ)),
    ApiKey.LIST_OFFSETS: on_topics(_O.DESCRIBE, _partitions),
    ApiKey.METADATA: Special(special.METADATA_NEEDS, special.metadata),
    ApiKey.OFFSET_COMMIT: Both(on_group(_O.READ, by_partition), on_topics(_O.READ, _partitions)),
    ApiKey.OFFSET_FETCH: Special((special.DESCRIBE_GROUP, special.DESCRIBE), special.offset_fetch),
    ApiKey.FIND_COORDINATOR: Special(tuple(special.COORDINATOR_NEEDS.values()), special.find_coordinator),
    ApiKey.JOIN_GROUP: on_group(_O.READ, joined),
    ApiKey.HEARTBEAT: on_group(_O.READ),
    ApiKey.LEAVE_GROUP: on_group(_O.READ),
    ApiKey.SYNC_GROUP: on_group(_O.READ),
    ApiKey.DESCRIBE_GROUPS: on_groups(_O.DESCRIBE, lambda group, code: {"group_id": group, **error_row(code)}),
    ApiKey.LIST_GROUPS: Special(special.LIST_GROUPS_NEEDS, special.list_groups),
    ApiKey.SASL_HANDSHAKE: Unscreened(),
    ApiKey.API_VERSIONS: Unscreened(),
    ApiKey.CREATE_TOPICS: Both(
        on_topics(_O.CREATE, lambda row, code: {"name": row.name, **error_row(code)}, instead=_CREATE_TOPICS),
        Special((special.DESCRIBE_SETTINGS,), special.created_settings),
    ),
    ApiKey.DELETE_TOPICS: Both(deleted("topics"), deleted("topic_names")),  # the second: of earlier versions
    ApiKey.DELETE_RECORDS: on_topics(_O.DELETE, _records),
    ApiKey.INIT_PRODUCER_ID: Special(special.PRODUCER_NEEDS, special.init_producer_id),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: on_topics(
        _O.DESCRIBE, _epochs, name=lambda row, _: str(row.topic), instead=_REPLICAS
    ),
    ApiKey.DESCRIBE_ACLS: on_cluster(_O.DESCRIBE),
    ApiKey.CREATE_ACLS: on_cluster(_O.ALTER, _all_rows("creations", "results")),
    ApiKey.DELETE_ACLS: on_cluster(_O.ALTER, _all_rows("filters", "filter_results")),
    ApiKey.DESCRIBE_CONFIGS: on_settings(_O.DESCRIBE_CONFIGS, "results"),
    ApiKey.ALTER_CONFIGS: on_settings(_O.ALTER_CONFIGS, "responses"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: on_cluster(_O.ALTER, _log_dirs),
    ApiKey.DESCRIBE_LOG_DIRS: on_cluster(_O.DESCRIBE, whole),
    ApiKey.SASL_AUTHENTICATE: Unscreened(),
    ApiKey.CREATE_PARTITIONS: on_topics(
        _O.ALTER, lambda row, code: {"name": row.name, **error_row(code)}, answered="results"
    ),
    ApiKey.DELETE_GROUPS: on_groups(
        _O.DELETE, lambda group, code: {"group_id": group, "error_code": code}, "groups_names", "results"
    ),
    ApiKey.ELECT_LEADERS: on_cluster(_O.ALTER, _elections),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: on_settings(_O.ALTER_CONFIGS, "responses"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: on_cluster(_O.ALTER, _reassignments),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: on_cluster(_O.DESCRIBE),
    ApiKey.OFFSET_DELETE: Both(on_group(_O.DELETE), on_topics(_O.READ, _partitions)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: on_cluster(_O.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: on_cluster(_O.ALTER_CONFIGS, _quotas),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: on_cluster(_O.DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: on_cluster(_O.ALTER, _users),
    ApiKey.DESCRIBE_QUORUM: on_cluster(_O.DESCRIBE),
    ApiKey.ALTER_PARTITION: on_cluster(_O.CLUSTER_ACTION, whole),
    ApiKey.UPDATE_FEATURES: on_cluster(_O.ALTER),
    ApiKey.DESCRIBE_CLUSTER: Unscreened(),
    ApiKey.DESCRIBE_PRODUCERS: on_topics(_O.READ, _producers),
    ApiKey.BROKER_REGISTRATION: on_cluster(_O.CLUSTER_ACTION, whole),
    ApiKey.BROKER_HEARTBEAT: on_cluster(_O.CLUSTER_ACTION, whole),
    ApiKey.UNREGISTER_BROKER: on_cluster(_O.ALTER),
    ApiKey.LIST_TRANSACTIONS: Unscreened(),
    ApiKey.LIST_CONFIG_RESOURCES: on_cluster(_O.DESCRIBE_CONFIGS, whole),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: on_topics(
        _O.DESCRIBE, lambda row, code: {"name": row.name, "error_code": code, "partitions": []}
    ),
}
RULES: Rules = _SERVED

NOTES: Mapping[ApiKey, str] = {
    ApiKey.METADATA: "topics that may not be described are left out of a list of all",
    ApiKey.OFFSET_FETCH: "topics that may not be described are left out of a list of all",
    ApiKey.LIST_GROUPS: "other groups are left out",
    ApiKey.CREATE_TOPICS: "DESCRIBE_CONFIGS: to be told partitions, factor and settings",
    ApiKey.DELETE_TOPICS: "DESCRIBE: to be told that there is no such topic",
    ApiKey.INIT_PRODUCER_ID: "WRITE on any topic will do; on TRANSACTIONAL_ID with a transactional id",
    ApiKey.DESCRIBE_CLUSTER: "DESCRIBE on CLUSTER, to be told one's operations",
    ApiKey.LIST_TRANSACTIONS: "Kafka: DESCRIBE on TRANSACTIONAL_ID, of which there are none",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "topics that may not be described are left out of a list of all",
    ApiKey.FETCH: "CLUSTER_ACTION: who fetches as a replica, on the inter-broker listener only",
}
"""What a row of the documentation has to say beside."""
