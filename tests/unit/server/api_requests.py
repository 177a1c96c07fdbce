"""A request for each API in each version, made from its schema, and what a handler does with the fields.

:class:`Recorder` stands in for a decoded request and remembers which fields are looked at; :func:`fields_set` tells which
fields an answer sets. Paths are kio's names joined by dots, without indexes: ``topics.partitions.error_code``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin
from uuid import UUID, uuid4

from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey

TOPIC, GROUP, COMMITTED, NOBODY = "t", "g", "committed", "nobody"
NO_BROKER = 99
INNER = object()
"""For a name that is a list of numbers in one API, and of structs in another: go on into the struct."""
Values = Mapping[str, Any]


class Recorder:
    """A decoded request, or a struct in it; ``seen`` gets the path of each field that is looked at."""

    def __init__(self, entity: Any, seen: set[str], path: str = "") -> None:
        self._entity, self._seen, self._path = entity, seen, path

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._entity, name)
        path = f"{self._path}{name}"
        self._seen.add(path)
        return self._wrapped(value, f"{path}.")

    def _wrapped(self, value: Any, path: str) -> Any:
        if is_dataclass(value):
            return Recorder(value, self._seen, path)
        if isinstance(value, tuple):
            return tuple(self._wrapped(element, path) for element in value)
        return value


def fields_set(answer: Any, path: str = "") -> Iterator[str]:
    """The path of each field that an answer's dictionaries hold."""
    if isinstance(answer, Mapping):
        for name, value in answer.items():
            yield f"{path}{name}"
            yield from fields_set(value, f"{path}{name}.")
    elif isinstance(answer, list | tuple):
        for element in answer:
            yield from fields_set(element, path)


def field_paths(entity_type: Any, path: str = "") -> Iterator[str]:
    """The path of each field of a schema."""
    for field in fields(entity_type):
        yield f"{path}{field.name}"
        for inner in structs(field.type):
            yield from field_paths(inner, f"{path}{field.name}.")


def structs(declared: Any) -> Iterator[Any]:
    """The struct that a field holds, once or many times."""
    if is_dataclass(declared):
        yield declared
    for argument in get_args(declared):
        yield from structs(argument)


def request_values(entity_type: Any, values: Values) -> dict[str, Any]:
    """Values for each field of a request: the one given for its name at any depth, one struct in each list, else the default."""
    chosen: dict[str, Any] = {}
    for field in fields(entity_type):
        if field.name in values and values[field.name] is not INNER:
            chosen[field.name] = values[field.name]
        elif inner := next(structs(field.type), None):
            struct = request_values(inner, values)
            chosen[field.name] = [struct] if is_list(field.type) else struct
    return chosen


def is_list(declared: Any) -> bool:
    """Whether a field has many values."""
    return tuple in {get_origin(part) for part in (declared, *get_args(declared))}


def requests(key: ApiKey, version: int, known: Values) -> Iterator[Any]:
    """Decoded requests that together let a handler get to each field."""
    entity_type = messages.request_type(key, version)
    for special in SPECIAL.get(key, ({},)):
        joins = {"group_id": f"joins-{version}"} if key is ApiKey.JOIN_GROUP else {}  # each alone: nobody is waited for
        values = request_values(entity_type, {**USUAL, **known, **special, **joins})
        yield messages.decode_request(key, version, messages.encode_request(key, version, values))


USUAL: Values = {
    "name": TOPIC,
    "topic": TOPIC,
    "topic_name": TOPIC,
    "partition_index": 0,
    "partition_indexes": [0],
    "partitions": [0],
    "group_id": GROUP,
    "groups_names": [NOBODY],
    "coordinator_keys": [GROUP],
    "key": GROUP,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "resource_type": 2,
    "resource_name": TOPIC,
    "session_timeout": 600_000,
    "rebalance_timeout": 600_000,
    "incarnation_id": uuid4(),
    "client_software_name": "test",
    "client_software_version": "1",
}
"""By field name, at any depth. What is not named here, in :data:`SPECIAL` or by the test has the schema's default."""

OTHER_BROKER = 9
RETENTION = {"name": "retention.ms", "value": "1000"}
ASSIGNED: Values = {
    "name": "so-assigned",
    "num_partitions": -1,
    "replication_factor": -1,
    "assignments": [{"partition_index": 0, "broker_ids": [1]}],
    "configs": [RETENTION],
}
READS: Values = {
    "resource_pattern_type": 3,
    "principal": "User:u",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
    "resource_type_filter": 2,
    "resource_name_filter": TOPIC,
    "pattern_type_filter": 3,
    "principal_filter": "User:u",
    "host_filter": "*",
}
"""An ACL, and what chooses it."""
COMMIT: Values = {
    "group_id": COMMITTED,
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "group_instance_id": None,
}

SPECIAL: Mapping[ApiKey, tuple[Values, ...]] = {
    ApiKey.ALTER_CLIENT_QUOTAS: (
        {
            "entity": [{"entity_type": "user", "entity_name": TOPIC}],
            "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
        },
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (
        {"components": [{"entity_type": "user", "match_type": 0, "match": TOPIC}], "strict": True},
    ),
    ApiKey.ALTER_CONFIGS: (RETENTION,),
    ApiKey.ALTER_PARTITION: ({"partitions": INNER},),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ({"partitions": INNER, "partition_index": 1, "replicas": [1, OTHER_BROKER]},),
    ApiKey.BROKER_REGISTRATION: ({"broker_id": OTHER_BROKER, "name": "REPLICATION", "host": "127.0.0.1", "port": 1},),
    ApiKey.CREATE_ACLS: (READS,),
    ApiKey.CREATE_PARTITIONS: ({"count": 3, "broker_ids": [1], "validate_only": True},),
    ApiKey.CREATE_TOPICS: (
        {"name": "of-this-count", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []},
        {"topics": [ASSIGNED], "validate_only": True},
    ),
    ApiKey.DELETE_ACLS: (READS,),
    ApiKey.DELETE_RECORDS: ({"partitions": INNER},),
    ApiKey.DELETE_TOPICS: (
        {"name": NOBODY, "topic_names": [NOBODY], "topic_id": None},
        {"name": None, "topic_names": [NOBODY], "topic_id": UUID(int=7)},
    ),
    ApiKey.DESCRIBE_ACLS: (READS,),
    ApiKey.DESCRIBE_CLUSTER: ({"include_cluster_authorized_operations": True},),
    ApiKey.DESCRIBE_CONFIGS: ({"configuration_keys": None, "include_synonyms": True},),
    ApiKey.DESCRIBE_GROUPS: ({"groups": [GROUP], "include_authorized_operations": True},),
    ApiKey.DESCRIBE_QUORUM: (
        {"partitions": INNER, "topic_name": "__cluster_metadata"},
        {"partitions": INNER, "topic_name": NOBODY},
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ({"response_partition_limit": 1},),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (RETENTION,),
    ApiKey.JOIN_GROUP: ({"group_instance_id": "static"},),
    ApiKey.LEAVE_GROUP: ({"member_id": NOBODY},),
    ApiKey.LIST_OFFSETS: (
        {"partitions": INNER, "timestamp": -3, "replica_id": -1, "current_leader_epoch": -1},
        {"partitions": INNER, "timestamp": -1, "replica_id": -1, "current_leader_epoch": -1},
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ({"partition_indexes": [1]},),
    ApiKey.METADATA: (
        {
            "topic_id": None,
            "include_topic_authorized_operations": True,
            "include_cluster_authorized_operations": True,
        },
        {},
    ),
    ApiKey.OFFSET_COMMIT: ({"partitions": INNER, **COMMIT},),
    ApiKey.OFFSET_DELETE: ({"partitions": INNER, "group_id": COMMITTED},),
    ApiKey.OFFSET_FETCH: ({"group_id": COMMITTED},),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ({"partitions": INNER, "current_leader_epoch": -1, "replica_id": -1},),
    ApiKey.UNREGISTER_BROKER: ({"broker_id": NO_BROKER},),
    ApiKey.UPDATE_FEATURES: ({"feature": "group.version"}, {"feature": NOBODY}),
}
"""What an API needs beyond :data:`USUAL`; several where one request does not get to all that its handler does."""
