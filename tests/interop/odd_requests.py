"""Requests of every API that MiniKafka serves to clients: one in order for each, and what can be odd about it.

:func:`requests` has, for an API and a version, the request in order and its variants: each list empty, null and with all
of its elements twice, each text empty, null and naming nothing that exists, each number -1 and 99, each switch the other
way round. One that could do something names a thing of its own (:data:`FRESH`). For Produce there are the batches of
``odd_batches.py``, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from types import NoneType
from typing import Any, get_args, get_origin
from uuid import UUID

from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey

from tests.interop.odd_batches import GOOD, PLAIN, cases

TOPIC, ONE, GROUP, FRESH = "TOPIC", "TOPIC-one", "TOPIC-group", "FRESH"
"""What values name: a topic with a replica on each of the brokers 1, 2 and 3, led by 1; a topic with one, on broker 1; a
group with a committed offset and no members; and something made for this request alone."""
NOBODY = "nobody-made-this"
TOPIC_ID = UUID(int=1)
"""Stands for the id of :data:`TOPIC`."""
STRANGE_ID = UUID(int=0x1234)
COORDINATOR = 0
"""Instead of a broker's id: whoever coordinates the group."""
TIMEOUTS = {"timeout", "max_wait", "transaction_timeout", "session_timeout", "rebalance_timeout"}
"""Not varied: brokers wait for as long as they are told to."""

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Request:
    """A request in order, with the values for all versions of its API.

    ``at``: the broker that is asked. ``made``: what :data:`FRESH` is before: ``topic``, ``group``, or nothing. ``since``: the
    first version that can say this. ``alone``: nothing of it is varied.
    """

    api_key: ApiKey
    title: str
    values: Values
    at: int = 1
    made: str = ""
    since: int = 0
    alone: bool = False


def _one(topic: str, **partition: Any) -> dict[str, Any]:
    return {"name": topic, "partitions": [partition]}


def _resource(kind: int, name: str, **more: Any) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, **more}


def _setting(name: str, value: str | None) -> dict[str, Any]:
    return {"name": name, "value": value}


def _change(name: str, value: str | None, operation: int = 0) -> dict[str, Any]:
    return {"name": name, "value": value, "config_operation": operation}


def _new(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": [], **more}


def _creation(*topics: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"topics": topics, "timeout": 10_000, "validate_only": False, **more}


_CONSUMER = {"replica_id": -1, "replica_state": {"replica_id": -1, "replica_epoch": -1}}
_LATEST = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
_OFFSET = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}
_COMMIT = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
_FETCH = {**_CONSUMER, "max_wait": 10, "min_bytes": 1, "max_bytes": 100_000, "isolation_level": 0, "session_id": 0,
          "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}  # fmt: skip
_FETCHED = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1,
            "log_start_offset": -1, "partition_max_bytes": 100_000}  # fmt: skip


_USER = {"name": FRESH, "mechanism": 1, "iterations": 4096, "salt": b"0123456789abcdef", "salted_password": b"x" * 32}

_ACL = {"resource_type": 2, "resource_name": NOBODY, "resource_pattern_type": 3, "principal": "User:u", "host": "*",
        "operation": 3, "permission_type": 3}  # fmt: skip
_ACLS = {"resource_type_filter": 2, "resource_name_filter": NOBODY, "pattern_type_filter": 3, "principal_filter": "User:u",
         "host_filter": "*", "operation": 3, "permission_type": 3}  # fmt: skip


def _fetch(offset: int) -> dict[str, Any]:
    topic = {"topic": TOPIC, "topic_id": TOPIC_ID, "partitions": [_FETCHED | {"fetch_offset": offset}]}
    return _FETCH | {"topics": [topic]}


def _metadata(*names: str, create: bool = False) -> dict[str, Any]:
    return {"topics": [{"topic_id": None, "name": n} for n in names], "allow_auto_topic_creation": create}


def _group_offsets(group: str) -> dict[str, Any]:
    topic = {"name": TOPIC, "partition_indexes": [0]}
    one = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": [topic | {"topic_id": TOPIC_ID}]}
    return {"group_id": group, "topics": [topic], "require_stable": False, "groups": [one]}


def _produce(topic: str, *rows: tuple[int, bytes | None], **more: Any) -> dict[str, Any]:
    partitions = [{"index": index, "records": records} for index, records in rows]
    data = [{"name": topic, "partition_data": partitions}]
    return {"transactional_id": None, "acks": -1, "timeout": 10_000, "topic_data": data, **more}


IN_ORDER = (
    Request(ApiKey.PRODUCE, "Produce", _produce(PLAIN, (0, GOOD))),
    *(
        Request(ApiKey.PRODUCE, f"Produce{what}", _produce(topic, *rows, **more), at=at, alone=True)
        for what, at, topic, rows, more in (
            (", timeout 0", 1, PLAIN, [(0, GOOD)], {"timeout": 0}),
            (", timeout -1", 1, PLAIN, [(0, GOOD)], {"timeout": -1}),
            (", largest timeout", 1, PLAIN, [(0, GOOD)], {"timeout": 2**31 - 1}),
            (", transactional id", 1, PLAIN, [(0, GOOD)], {"transactional_id": "t"}),
            (", empty transactional id", 1, PLAIN, [(0, GOOD)], {"transactional_id": ""}),
            (" at a follower", 2, TOPIC, [(0, GOOD)], {}),
            (" at a follower without an answer", 2, TOPIC, [(0, GOOD)], {"acks": 0}),
            (" without a replica", 2, PLAIN, [(0, GOOD)], {}),
            (" with too few replicas", 1, ONE, [(0, GOOD)], {}),
            (", partly good", 1, PLAIN, [(0, GOOD), (99, GOOD), (0, b""), (0, GOOD)], {}),
        )
    ),
    Request(ApiKey.FETCH, "Fetch", _fetch(0)),
    *(Request(ApiKey.FETCH, f"Fetch from {offset}", _fetch(offset)) for offset in (2, 3, 99)),
    Request(ApiKey.FETCH, "Fetch at a follower", _fetch(0), at=2),
    Request(
        ApiKey.LIST_OFFSETS, "ListOffsets", {"replica_id": -1, "isolation_level": 0, "topics": [_one(TOPIC, **_LATEST)]}
    ),
    *(
        Request(
            ApiKey.LIST_OFFSETS,
            f"ListOffsets {what}",
            {"replica_id": -1, "topics": [_one(TOPIC, **_LATEST | {"timestamp": when})]},
        )
        for what, when in (("earliest", -2), ("max", -3), ("then", 1_700_000_000_400), ("never", 2**50))
    ),
    Request(
        ApiKey.LIST_OFFSETS, "ListOffsets at a follower", {"replica_id": -1, "topics": [_one(TOPIC, **_LATEST)]}, at=2
    ),
    Request(
        ApiKey.LIST_OFFSETS, "ListOffsets without a replica", {"replica_id": -1, "topics": [_one(ONE, **_LATEST)]}, at=2
    ),
    Request(ApiKey.LIST_OFFSETS, "ListOffsets of a replica", {"replica_id": 2, "topics": [_one(TOPIC, **_LATEST)]}),
    Request(ApiKey.METADATA, "Metadata", _metadata(TOPIC)),
    Request(ApiKey.METADATA, "Metadata of two", _metadata(TOPIC, ONE)),
    Request(ApiKey.METADATA, "Metadata by id", {"topics": [{"topic_id": TOPIC_ID, "name": None}]}, since=10),
    Request(
        ApiKey.METADATA,
        "Metadata by a strange id",
        {"topics": [{"topic_id": STRANGE_ID, "name": None}], "allow_auto_topic_creation": False},
        since=10,
    ),
    Request(
        ApiKey.METADATA,
        "Metadata by id and name",
        {"topics": [{"topic_id": TOPIC_ID, "name": NOBODY}], "allow_auto_topic_creation": False},
        since=10,
    ),
    Request(ApiKey.METADATA, "Metadata with creation", _metadata(FRESH, "bad name!", create=True)),
    *(
        Request(
            ApiKey.OFFSET_COMMIT,
            f"OffsetCommit{what}",
            {"group_id": GROUP, **_COMMIT, "topics": [_one(TOPIC, **_OFFSET) | {"topic_id": topic_id}]},
            at=COORDINATOR,
        )
        for what, topic_id in (("", TOPIC_ID), (" by a strange id", STRANGE_ID))
    ),
    Request(ApiKey.OFFSET_FETCH, "OffsetFetch", _group_offsets(GROUP), at=COORDINATOR),
    Request(ApiKey.OFFSET_FETCH, "OffsetFetch of nobody", _group_offsets(NOBODY), at=COORDINATOR),
    Request(
        ApiKey.OFFSET_FETCH,
        "OffsetFetch by a strange id",
        {"groups": [{"group_id": GROUP, "topics": [{"topic_id": STRANGE_ID, "partition_indexes": [0]}]}]},
        at=COORDINATOR,
        since=10,
    ),
    Request(ApiKey.FIND_COORDINATOR, "FindCoordinator", {"key": GROUP, "key_type": 0, "coordinator_keys": [GROUP]}),
    *(
        Request(
            ApiKey.FIND_COORDINATOR,
            f"FindCoordinator of kind {kind}",
            {"key": GROUP, "key_type": kind, "coordinator_keys": [GROUP]},
        )
        for kind in (1, 2, 3)
    ),
    Request(
        ApiKey.JOIN_GROUP,
        "JoinGroup",
        {
            "group_id": FRESH,
            "session_timeout": 10_000,
            "rebalance_timeout": 10_000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}],
            "reason": None,
        },
        at=COORDINATOR,
    ),
    Request(
        ApiKey.HEARTBEAT, "Heartbeat", {"group_id": GROUP, "generation_id": 1, "member_id": NOBODY}, at=COORDINATOR
    ),
    Request(
        ApiKey.LEAVE_GROUP,
        "LeaveGroup",
        {"group_id": GROUP, "member_id": NOBODY, "members": [{"member_id": NOBODY, "group_instance_id": None}]},
        at=COORDINATOR,
    ),
    Request(
        ApiKey.SYNC_GROUP,
        "SyncGroup",
        {
            "group_id": GROUP,
            "generation_id": 1,
            "member_id": NOBODY,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": NOBODY, "assignment": b""}],
        },
        at=COORDINATOR,
    ),
    Request(
        ApiKey.DESCRIBE_GROUPS,
        "DescribeGroups",
        {"groups": [GROUP, NOBODY], "include_authorized_operations": False},
        at=COORDINATOR,
    ),
    Request(ApiKey.LIST_GROUPS, "ListGroups", {"states_filter": ["Dead"], "types_filter": ["classic"]}, at=COORDINATOR),
    Request(ApiKey.API_VERSIONS, "ApiVersions", {"client_software_name": "compare", "client_software_version": "1"}),
    Request(
        ApiKey.CREATE_TOPICS, "CreateTopics", _creation(_new(FRESH, configs=[_setting("retention.ms", "3600000")]))
    ),
    Request(ApiKey.CREATE_TOPICS, "CreateTopics, only asked", _creation(_new(FRESH), validate_only=True)),
    Request(ApiKey.CREATE_TOPICS, "CreateTopics, there", _creation(_new(TOPIC))),
    Request(ApiKey.CREATE_TOPICS, "CreateTopics, bad name", _creation(_new("bad name!"))),
    Request(
        ApiKey.CREATE_TOPICS,
        "CreateTopics, assigned",
        _creation(
            _new(
                FRESH,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[{"partition_index": 0, "broker_ids": [1, 2]}],
            )
        ),
    ),
    Request(
        ApiKey.CREATE_TOPICS, "CreateTopics, bad setting", _creation(_new(FRESH, configs=[_setting("no.such", "1")]))
    ),
    Request(
        ApiKey.DELETE_TOPICS,
        "DeleteTopics",
        {"topics": [{"name": FRESH, "topic_id": None}], "topic_names": [FRESH], "timeout": 10_000},
        made="topic",
    ),
    Request(
        ApiKey.DELETE_TOPICS,
        "DeleteTopics by a strange id",
        {"topics": [{"name": None, "topic_id": STRANGE_ID}], "timeout": 1000},
    ),
    Request(
        ApiKey.DELETE_TOPICS,
        "DeleteTopics by id and name",
        {"topics": [{"name": NOBODY, "topic_id": STRANGE_ID}], "topic_names": [NOBODY], "timeout": 1000},
    ),
    Request(
        ApiKey.DELETE_RECORDS,
        "DeleteRecords",
        {"topics": [_one(TOPIC, partition_index=0, offset=0)], "timeout": 10_000},
    ),
    Request(
        ApiKey.DELETE_RECORDS,
        "DeleteRecords beyond",
        {"topics": [_one(TOPIC, partition_index=0, offset=50)], "timeout": 10_000},
    ),
    Request(
        ApiKey.DELETE_RECORDS,
        "DeleteRecords without a replica",
        {"topics": [_one(ONE, partition_index=0, offset=0)], "timeout": 9},
        at=2,
    ),
    Request(
        ApiKey.DELETE_RECORDS,
        "DeleteRecords at a follower",
        {"topics": [_one(TOPIC, partition_index=0, offset=0)], "timeout": 9},
        at=2,
    ),
    Request(ApiKey.INIT_PRODUCER_ID, "InitProducerId", {"transactional_id": None, "transaction_timeout": 1000}),
    Request(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        "OffsetForLeaderEpoch",
        {
            "replica_id": -1,
            "topics": [
                {"topic": TOPIC, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
            ],
        },
    ),
    *(
        Request(
            ApiKey.DESCRIBE_CONFIGS,
            f"DescribeConfigs of {kind} {name!r}",
            {
                "resources": [_resource(kind, name, configuration_keys=keys)],
                "include_synonyms": False,
                "include_documentation": False,
            },
        )
        for kind, name, keys in (
            (2, TOPIC, ["retention.ms", "no.such"]),
            (2, NOBODY, ["retention.ms"]),
            (4, "1", ["log.retention.ms"]),
            (4, "", ["log.retention.ms"]),
            (4, "2", ["log.retention.ms"]),
            (4, NOBODY, ["log.retention.ms"]),
            (8, "1", ["root"]),
            (8, "2", ["root"]),
            (16, NOBODY, ["interval.ms"]),
            (32, NOBODY, ["consumer.session.timeout.ms"]),
            (0, NOBODY, []),
            (77, NOBODY, []),
        )
    ),
    *(
        Request(
            ApiKey.ALTER_CONFIGS,
            f"AlterConfigs of {kind}",
            {"resources": [_resource(kind, name, configs=configs)], "validate_only": validate},
            made=made,
        )
        for kind, name, configs, validate, made in (
            (2, FRESH, [_setting("retention.ms", "3600000")], False, "topic"),
            (4, "1", [], True, ""),
            (4, "", [], True, ""),
            (16, FRESH, [], True, ""),
            (32, FRESH, [], True, ""),
            (8, "1", [], True, ""),
            (77, FRESH, [], True, ""),
        )
    ),
    *(
        Request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            f"IncrementalAlterConfigs of {kind}{what}",
            {"resources": [_resource(kind, name, configs=configs)], "validate_only": False},
            made=made,
        )
        for what, kind, name, configs, made in (
            ("", 2, FRESH, [_change("retention.ms", "3600000")], "topic"),
            (", deletion of what is not set", 2, FRESH, [_change("retention.ms", None, 1)], "topic"),
            (", deletion of what is not known", 2, FRESH, [_change("no.such", None, 1)], "topic"),
            (", deletion of a throttle", 2, FRESH, [_change("leader.replication.throttled.replicas", "", 1)], "topic"),
            (", no value", 2, FRESH, [_change("retention.ms", None)], "topic"),
            (", deletion of a throttle", 4, "1", [_change("leader.replication.throttled.rate", None, 1)], ""),
            (", deletion of what is not set", 4, "1", [_change("log.cleaner.threads", "1", 1)], ""),
            (", deletion of what is not known", 4, "1", [_change("no.such", None, 1)], ""),
            (", deletion of what cannot be changed", 4, "1", [_change("broker.session.timeout.ms", None, 1)], ""),
            (" default, deletion of a throttle", 4, "", [_change("leader.replication.throttled.rate", None, 1)], ""),
            (", nothing", 4, "1", [], ""),
            (", nothing", 4, "2", [], ""),
            (", nothing", 4, NOBODY, [], ""),
            (", nothing", 8, "1", [], ""),
            (", nothing", 16, FRESH, [], ""),
            (", nothing", 32, FRESH, [], ""),
            (", nothing", 77, FRESH, [], ""),
        )
    ),
    Request(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        "AlterReplicaLogDirs",
        {"dirs": [{"path": NOBODY, "topics": [{"name": TOPIC, "partitions": [0]}]}]},
    ),
    Request(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", {"topics": [{"topic": TOPIC, "partitions": [0]}]}),
    Request(
        ApiKey.CREATE_PARTITIONS,
        "CreatePartitions",
        _creation({"name": FRESH, "count": 2, "assignments": None}),
        made="topic",
    ),
    Request(
        ApiKey.CREATE_PARTITIONS,
        "CreatePartitions, fewer",
        _creation({"name": TOPIC, "count": 1, "assignments": None}, validate_only=True),
    ),
    Request(
        ApiKey.CREATE_PARTITIONS,
        "CreatePartitions, assigned",
        _creation({"name": FRESH, "count": 2, "assignments": [{"broker_ids": [1]}]}),
        made="topic",
    ),
    Request(ApiKey.DELETE_GROUPS, "DeleteGroups", {"groups_names": [FRESH]}, at=COORDINATOR, made="group"),
    Request(
        ApiKey.ELECT_LEADERS,
        "ElectLeaders",
        {"election_type": 0, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}]},
    ),
    Request(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        "AlterPartitionReassignments",
        {
            "timeout": 1000,
            "allow_replication_factor_change": True,
            "topics": [{"name": FRESH, "partitions": [{"partition_index": 0, "replicas": [1]}]}],
        },
        made="topic",
    ),
    Request(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        "ListPartitionReassignments",
        {"timeout": 1000, "topics": [{"name": TOPIC, "partition_indexes": [0]}]},
    ),
    Request(
        ApiKey.OFFSET_DELETE,
        "OffsetDelete",
        {"group_id": GROUP, "topics": [_one(TOPIC, partition_index=1)]},
        at=COORDINATOR,
    ),
    Request(
        ApiKey.DESCRIBE_QUORUM,
        "DescribeQuorum",
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
    ),
    *(
        Request(
            ApiKey.UPDATE_FEATURES,
            f"UpdateFeatures to {level} of {feature}",
            {
                "timeout": 1000,
                "feature_updates": [
                    {"feature": feature, "max_version_level": level, "allow_downgrade": False, "upgrade_type": 1}
                ],
                "validate_only": True,
            },
        )
        for level, feature in ((1, NOBODY), (0, NOBODY))
    ),
    Request(
        ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", {"include_cluster_authorized_operations": False, "endpoint_type": 1}
    ),
    *(
        Request(
            ApiKey.DESCRIBE_PRODUCERS,
            f"DescribeProducers{what}",
            {"topics": [{"name": topic, "partition_indexes": [0]}]},
            at=at,
        )
        for what, topic, at in (("", TOPIC, 1), (" at a follower", TOPIC, 2), (" without a replica", ONE, 2))
    ),
    Request(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", {"broker_id": 98}),
    Request(
        ApiKey.LIST_TRANSACTIONS,
        "ListTransactions",
        {
            "state_filters": ["Ongoing"],
            "producer_id_filters": [5],
            "duration_filter": -1,
            "transactional_id_pattern": "t",
        },
    ),
    Request(
        ApiKey.LIST_TRANSACTIONS,
        "ListTransactions, bad pattern",
        {"state_filters": [], "producer_id_filters": [], "duration_filter": -1, "transactional_id_pattern": "("},
        since=2,
    ),
    *(
        Request(ApiKey.LIST_CONFIG_RESOURCES, f"ListConfigResources of {kind}", {"resource_types": [kind]})
        for kind in (4, 8, 16, 32)
    ),
    Request(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        "DescribeTopicPartitions",
        {"topics": [{"name": TOPIC}], "response_partition_limit": 10, "cursor": None},
    ),
    Request(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        "DescribeTopicPartitions from a cursor",
        {
            "topics": [{"name": TOPIC}],
            "response_partition_limit": 10,
            "cursor": {"topic_name": TOPIC, "partition_index": 0},
        },
    ),
    Request(ApiKey.SASL_HANDSHAKE, "SaslHandshake without SASL", {"mechanism": "PLAIN"}),
    Request(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate without SASL", {"auth_bytes": b"\0somebody\0secret"}),
    *(
        Request(
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            f"DescribeClientQuotas{what}",
            {"components": [{"entity_type": "user", "match_type": kind, "match": match}], "strict": False},
        )
        for what, kind, match in (("", 2, None), (" of one", 0, NOBODY), (" of the default", 1, None))
    ),
    *(
        Request(
            ApiKey.ALTER_CLIENT_QUOTAS,
            f"AlterClientQuotas{what}",
            {
                "entries": [
                    {
                        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
                        "ops": [{"key": key, "value": value, "remove": remove}],
                    }
                ],
                "validate_only": True,
            },
            alone=bool(what),
        )
        for what, entity, key, value, remove in (
            ("", (("user", NOBODY),), "producer_byte_rate", 1e6, False),
            (" of a client id of a user", (("user", NOBODY), ("client-id", None)), "request_percentage", 12.5, False),
            (" that is not there, removed", (("user", NOBODY),), "consumer_byte_rate", 0.0, True),
            (" of an address", (("ip", "10.0.0.1"),), "connection_creation_rate", 5.0, False),
            (
                " of an address and a user",
                (("ip", "10.0.0.1"), ("user", NOBODY)),
                "connection_creation_rate",
                5.0,
                False,
            ),
            (" of no address", (("ip", "10.0.0"),), "producer_byte_rate", 5.0, False),
            (" with a fraction", (("user", NOBODY),), "producer_byte_rate", 5.5, False),
            (" below 0", (("user", NOBODY),), "producer_byte_rate", -5.0, False),
            (" too large", (("ip", None),), "connection_creation_rate", 1e10, False),
            (" of a key that is none", (("client-id", NOBODY),), NOBODY, 5.0, False),
            (" of a key for addresses", (("client-id", NOBODY),), "connection_creation_rate", 5.0, False),
        )
    ),
    Request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", {"users": [{"name": NOBODY}]}),
    Request(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        "AlterUserScramCredentials, deleted",
        {"deletions": [{"name": NOBODY, "mechanism": 1}], "upsertions": []},
    ),
    Request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", {"deletions": [], "upsertions": [_USER]}),
    Request(ApiKey.DESCRIBE_ACLS, "DescribeAcls without an authorizer", _ACLS),
    Request(ApiKey.CREATE_ACLS, "CreateAcls without an authorizer", {"creations": [_ACL]}),
    Request(ApiKey.DELETE_ACLS, "DeleteAcls without an authorizer", {"filters": [_ACLS]}),
)


def requests(api_key: int, version: int) -> Iterator[Request]:
    """All requests of one API, with values for one version; their titles tell them apart."""
    entity_type = messages.request_type(api_key, version)
    for request in IN_ORDER:
        if request.api_key == api_key and version >= request.since:
            yield request
            for what, values in () if request.alone else _variants(entity_type, request.values):
                if not _makes_somebody(api_key, version, values):
                    yield replace(request, title=f"{request.title}: {what}", values=values)
    for case in cases(version) if api_key == ApiKey.PRODUCE else ():
        values = _produce(FRESH if case.fresh else case.topic, (0, case.records), acks=case.acks)
        yield Request(ApiKey.PRODUCE, f"Produce of {case.title}", values, made="topic" if case.fresh else "")


def _makes_somebody(api_key: int, version: int, values: Values) -> bool:
    """Whether what is called :data:`NOBODY` would be there afterwards."""
    if api_key == ApiKey.METADATA:
        return NOBODY in str(values) and (version < 4 or values.get("allow_auto_topic_creation", True))
    return api_key in (ApiKey.OFFSET_COMMIT, ApiKey.JOIN_GROUP) and bool(values["group_id"] == NOBODY)


def _variants(entity_type: Any, values: Values, path: str = "") -> Iterator[tuple[str, Values]]:
    """(what is odd, the values) of everything that can be odd in one place."""
    for field in fields(entity_type):
        if field.name not in values or field.name in TIMEOUTS:
            continue
        at, now = f"{path}{field.name}", values[field.name]
        for what, odd in _odd(field.type, now, at):
            yield what, {**values, field.name: odd}


def _odd(declared: Any, now: Any, at: str) -> Iterator[tuple[str, Any]]:
    nullable = NoneType in get_args(declared)
    inner = next((each for each in get_args(declared) if each is not NoneType), None) if nullable else declared
    if nullable and now is not None:
        yield f"{at} null", None
    if get_origin(inner) is tuple:
        if now:
            yield f"{at} empty", ()
            yield f"{at} twice", (*now, *now)
            for what, odd in _odd(get_args(inner)[0], now[0], f"{at}[0]"):
                yield what, (odd, *now[1:])
    elif is_dataclass(inner) and now is not None:
        yield from _variants(inner, now, f"{at}.")
    elif isinstance(now, bool):
        yield f"{at} {not now}", not now
    elif isinstance(now, str):
        yield from ((f"{at} {odd!r}", odd) for odd in ("", NOBODY) if odd != now)
    elif isinstance(now, int):
        yield from ((f"{at} {odd}", odd) for odd in (-1, 99) if odd != now)
