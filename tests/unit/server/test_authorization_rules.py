"""What each API needs: every request of every version is refused in the words of its API, or served as it is (31 item 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import pytest
from minikafka.authorization.rules import FAILED, ClientAccess, Screened, Unscreened
from minikafka.authorization.table import RULES
from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.security.acls import CLUSTER_NAME, Operation, ResourceType
from minikafka.server.answering import error_codes
from minikafka.server.api import load_handlers

from tests.unit.server.api_requests import GROUP, TOPIC, requests

HANDLERS = load_handlers()
SCREENED = [key for key in HANDLERS if not isinstance(RULES.get(key), Unscreened)]
TOPIC_ID, OTHER_ID = UUID(int=5), UUID(int=6)
SECRET = "secret"
NAMES = {TOPIC_ID: TOPIC, OTHER_ID: SECRET}

Allowed = set[tuple[Operation, ResourceType, str]]


class Told:
    """Stands in for an authorizer: allows what is listed, and remembers what was asked and what was denied."""

    creates_on_demand = True

    def __init__(self, *allowed: tuple[Operation, ResourceType, str], everything: bool = False) -> None:
        self.allowed, self.everything = set(allowed), everything
        self.asked: Allowed = set()
        self.told: Allowed = set()

    def allows(self, client: Any, operation: Operation, kind: ResourceType, name: str) -> bool:
        self.asked.add((operation, kind, name))
        return self.everything or (operation, kind, name) in self.allowed

    def allows_any(self, client: Any, operation: Operation, kind: ResourceType) -> bool:
        return self.everything or any((operation, kind) == each[:2] for each in self.allowed)

    def denied(self, client: Any, api_key: int, operation: Operation, kind: ResourceType, name: str) -> None:
        self.told.add((operation, kind, name))


class Image:
    """Stands in for what is known of the cluster."""

    def name_of(self, topic_id: UUID | None) -> str | None:
        return None if topic_id is None else NAMES.get(topic_id)

    def id_of(self, name: str) -> UUID | None:
        return next((topic_id for topic_id, known in NAMES.items() if known == name), None)


def screened(told: Told, key: ApiKey, version: int, request: Any) -> Screened:
    client: Any = None
    authorization, metadata = told, Image()
    return RULES[key].screen(ClientAccess(authorization, metadata, client, key, version), request)  # type: ignore[arg-type]


def asked(key: ApiKey, version: int, values: Mapping[str, Any]) -> Any:
    return messages.decode_request(key, version, messages.encode_request(key, version, values))


def every_version(key: ApiKey) -> Iterator[tuple[int, Any]]:
    spec, _ = HANDLERS[key]
    for version in range(spec.min_version, spec.max_version + 1):
        for request in requests(key, version, {"topic_id": TOPIC_ID}):
            yield version, request


def test_every_api_has_a_row() -> None:
    """One without would be refused to everybody, where there is an authorizer."""
    assert set(RULES) == set(HANDLERS)


def test_what_is_open_to_all_is_known_by_name() -> None:
    """Produce and Fetch ask themselves; of the others each is open in Kafka, too, or there is nothing of the kind here."""
    assert set(HANDLERS) - set(SCREENED) == {
        ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_CLUSTER, ApiKey.LIST_TRANSACTIONS,
    }  # fmt: skip


NOT_REFUSED = {ApiKey.LIST_GROUPS, ApiKey.METADATA}
"""What is left of them is served, also when nothing else is."""


@pytest.mark.parametrize("key", [key for key in SCREENED if key not in NOT_REFUSED], ids=lambda key: key.api_name)
def test_who_may_do_nothing_is_refused_in_every_version(key: ApiKey) -> None:
    for version, request in every_version(key):
        told = Told()
        found = screened(told, key, version, request)
        names_a_topic_that_is_not_there = key is ApiKey.DELETE_TOPICS and not told.told
        if names_a_topic_that_is_not_there:
            assert found.request is None
            assert set(error_codes(found.finish({}))) == {ErrorCode.UNKNOWN_TOPIC_ID}
            continue
        assert found.request is None, (version, found.request)
        answer = found.finish({})
        codes = set(error_codes(answer))
        assert codes, version
        assert codes <= set(FAILED.values()), (version, codes)
        assert messages.encode_response(key, version, answer)
        assert told.told, "and it is told"
        assert {FAILED[kind] for _, kind, _ in told.told} == codes


@pytest.mark.parametrize("key", SCREENED, ids=lambda key: key.api_name)
def test_who_may_do_everything_is_served_what_was_asked(key: ApiKey) -> None:
    for version, request in every_version(key):
        found = screened(told := Told(everything=True), key, version, request)
        assert found.request == request
        assert not told.told


@pytest.mark.parametrize("key", SCREENED, ids=lambda key: key.api_name)
def test_what_an_api_asks_is_in_its_row(key: ApiKey) -> None:
    """So the page that is made of it says the truth."""
    declared = {(need.operation, need.kind) for need in RULES[key].needs}
    for version, request in every_version(key):
        screened(told := Told(), key, version, request).finish({"topics": [], "groups": []})
        assert {(operation, kind) for operation, kind, _ in told.asked} <= declared


def topics(field: str = "name", **rest: Any) -> list[dict[str, Any]]:
    return [{field: name, **rest} for name in (TOPIC, SECRET)]


CLUSTER = (ResourceType.CLUSTER, CLUSTER_NAME)
PARTITION = [{"partition_index": 0}]
BY_ROW = [
    (ApiKey.LIST_OFFSETS, 7, Operation.DESCRIBE, {"topics": topics(partitions=PARTITION), "replica_id": -1}, "topics"),
    (ApiKey.CREATE_TOPICS, 7, Operation.CREATE, {"topics": topics(num_partitions=1), "timeout": 1}, "topics"),
    (ApiKey.DELETE_TOPICS, 6, Operation.DELETE, {"topics": topics(topic_id=None), "timeout": 1}, "responses"),
    (ApiKey.DELETE_TOPICS, 5, Operation.DELETE, {"topic_names": [TOPIC, SECRET], "timeout": 1}, "responses"),
    (ApiKey.DELETE_RECORDS, 2, Operation.DELETE, {"topics": topics(partitions=PARTITION), "timeout": 1}, "topics"),
    (ApiKey.CREATE_PARTITIONS, 3, Operation.ALTER, {"topics": topics(count=2), "timeout": 1}, "results"),
    (ApiKey.DESCRIBE_PRODUCERS, 0, Operation.READ, {"topics": topics(partition_indexes=[0])}, "topics"),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, Operation.DESCRIBE, {"topics": topics("topic", partitions=[])}, "topics"),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, Operation.DESCRIBE, {"topics": topics()}, "topics"),
    (ApiKey.METADATA, 12, Operation.DESCRIBE, {"topics": topics(topic_id=None)}, "topics"),
    (ApiKey.METADATA, 0, Operation.DESCRIBE, {"topics": topics()}, "topics"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "version", "operation", "values", "answered"), BY_ROW, ids=lambda value: str(value)[:20]
)
def test_one_topic_is_served_and_the_other_refused(
    key: ApiKey, version: int, operation: Operation, values: dict[str, Any], answered: str
) -> None:
    request = asked(key, version, values)
    found = screened(told := Told((operation, ResourceType.TOPIC, TOPIC)), key, version, request)
    left = getattr(found.request, "topic_names", None) or found.request.topics
    assert [row if isinstance(row, str) else getattr(row, "name", None) or row.topic for row in left] == [TOPIC]
    served = {"name": TOPIC, "topic": TOPIC, "error_code": 0}
    answer = found.finish({answered: [served]})
    assert [row.get("name") or row.get("topic") for row in answer[answered]] == [TOPIC, SECRET]
    assert set(error_codes(answer[answered][1])) <= {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert told.told == {(operation, ResourceType.TOPIC, SECRET)}


# -- what has a rule of its own -----------------------------------------------------------------------------------------------

DESCRIBES = (Operation.DESCRIBE, ResourceType.TOPIC, TOPIC)
ONE_TOPIC = {"name": TOPIC, "error_code": 0}
TWO_TOPICS = [ONE_TOPIC, {"name": SECRET, "error_code": 0}]


@pytest.mark.parametrize(("version", "everything"), [(0, []), (1, None), (12, None)])
def test_all_topics_are_those_that_may_be_described(version: int, everything: Any) -> None:
    request = asked(ApiKey.METADATA, version, {"topics": everything})
    found = screened(told := Told(DESCRIBES), ApiKey.METADATA, version, request)
    assert found.finish({"topics": TWO_TOPICS})["topics"] == [ONE_TOPIC]
    assert not told.told, "nobody asked for it"


@pytest.mark.parametrize("version", [0, 4, 12])
def test_metadata_of_nothing_that_may_be_described(version: int) -> None:
    """No handler is asked for such a topic, which it would make; and nothing of others is told instead."""
    request = asked(ApiKey.METADATA, version, {"topics": [{"name": SECRET, "topic_id": None}]})
    found = screened(Told(), ApiKey.METADATA, version, request)
    assert not found.request.topics
    (row,) = found.finish({"topics": TWO_TOPICS})["topics"]
    assert (row["name"], row["error_code"]) == (SECRET, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_a_topic_asked_for_by_its_id_keeps_its_name() -> None:
    request = asked(ApiKey.METADATA, 12, {"topics": [{"name": None, "topic_id": OTHER_ID}]})
    (row,) = screened(Told(), ApiKey.METADATA, 12, request).finish({"topics": []})["topics"]
    assert (row["name"], row["topic_id"], row["error_code"]) == (None, OTHER_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@pytest.mark.parametrize(
    ("allowed", "on_demand", "served"),
    [
        ((), True, False),
        ((), False, True),
        (((Operation.CREATE, ResourceType.TOPIC, "new"),), True, True),
        (((Operation.CREATE, *CLUSTER),), True, True),
    ],
)
def test_a_topic_on_demand_needs_create(allowed: tuple[Any, ...], on_demand: bool, served: bool) -> None:
    request = asked(ApiKey.METADATA, 12, {"topics": [{"name": "new"}], "allow_auto_topic_creation": on_demand})
    told = Told((Operation.DESCRIBE, ResourceType.TOPIC, "new"), *allowed)
    found = screened(told, ApiKey.METADATA, 12, request)
    assert bool(found.request.topics) is served
    assert bool(told.told) is not served


def test_offsets_need_the_group_and_each_topic() -> None:
    may = ((Operation.READ, ResourceType.GROUP, GROUP), (Operation.READ, ResourceType.TOPIC, TOPIC))
    values = {"group_id": GROUP, "topics": topics(partitions=[{"partition_index": 0, "committed_offset": 1}])}
    request = asked(ApiKey.OFFSET_COMMIT, 8, values)
    found = screened(Told(*may), ApiKey.OFFSET_COMMIT, 8, request)
    assert [row.name for row in found.request.topics] == [TOPIC]
    for few, code in ((may[:1], ErrorCode.TOPIC_AUTHORIZATION_FAILED), (may[1:], ErrorCode.GROUP_AUTHORIZATION_FAILED)):
        found = screened(Told(*few), ApiKey.OFFSET_COMMIT, 8, request)
        assert found.request is None
        assert set(error_codes(found.finish({}))) == {code}


DESCRIBES_GROUP = (Operation.DESCRIBE, ResourceType.GROUP, GROUP)


@pytest.mark.parametrize("version", [7, 8])
def test_offsets_of_hidden_topics_are_not_told(version: int) -> None:
    told = Told(DESCRIBES, DESCRIBES_GROUP)
    offset = {"partition_indexes": [0]}
    one = {"group_id": GROUP, "topics": topics(**offset)}
    found = screened(told, ApiKey.OFFSET_FETCH, version, asked(ApiKey.OFFSET_FETCH, version, _groups(version, one)))
    group = found.request if version < 8 else found.request.groups[0]
    assert [row.name for row in group.topics] == [TOPIC]
    answer = _group_of(
        version, found.finish(_groups(version, {"group_id": GROUP, "error_code": 0, "topics": [ONE_TOPIC]}))
    )
    assert [(row["name"], next(error_codes(row), 0)) for row in answer["topics"]] == [
        (TOPIC, 0), (SECRET, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]  # fmt: skip
    nothing: dict[str, Any] = {"error_code": 0, "topics": []}
    served = nothing if version < 8 else {"groups": [{"group_id": GROUP, **nothing}]}
    assert messages.encode_response(ApiKey.OFFSET_FETCH, version, found.finish(served)), "in the words of the version"
    every = {"group_id": GROUP, "topics": None}
    found = screened(told, ApiKey.OFFSET_FETCH, version, asked(ApiKey.OFFSET_FETCH, version, _groups(version, every)))
    answer = _group_of(
        version, found.finish(_groups(version, {"group_id": GROUP, "error_code": 0, "topics": TWO_TOPICS}))
    )
    assert answer["topics"] == [ONE_TOPIC]


def _groups(version: int, group: dict[str, Any]) -> dict[str, Any]:
    return group if version < 8 else {"groups": [group]}


def _group_of(version: int, answer: dict[str, Any]) -> dict[str, Any]:
    return answer if version < 8 else answer["groups"][0]


def test_of_many_groups_each_is_served_or_refused() -> None:
    groups = [{"group_id": each, "topics": None} for each in (GROUP, "other")]
    found = screened(Told(DESCRIBES_GROUP), ApiKey.OFFSET_FETCH, 8, asked(ApiKey.OFFSET_FETCH, 8, {"groups": groups}))
    assert [group.group_id for group in found.request.groups] == [GROUP]
    answer = found.finish({"groups": [{"group_id": GROUP, "error_code": 0, "topics": []}]})
    assert [(g["group_id"], g["error_code"]) for g in answer["groups"]] == [(GROUP, 0), ("other", 30)]
    found = screened(Told(DESCRIBES_GROUP), ApiKey.FIND_COORDINATOR, 4, asked(
        ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [GROUP, "other", GROUP, "other"]}
    ))  # fmt: skip
    assert found.request.coordinator_keys == (GROUP,)
    rows = found.finish({"coordinators": [{"key": GROUP, "error_code": 0}]})["coordinators"]
    assert [(row["key"], row["error_code"]) for row in rows] == [(GROUP, 0), ("other", 30)]


def test_a_group_that_is_named_twice_is_told_all_that_it_is_refused() -> None:
    groups = [{"group_id": GROUP, "topics": topics(partition_indexes=[0])}, {"group_id": GROUP, "topics": []}]
    found = screened(
        Told(DESCRIBES, DESCRIBES_GROUP), ApiKey.OFFSET_FETCH, 8, asked(ApiKey.OFFSET_FETCH, 8, {"groups": groups})
    )
    (answer,) = found.finish({"groups": [{"group_id": GROUP, "error_code": 0, "topics": []}]})["groups"]
    assert [(row["name"], next(error_codes(row))) for row in answer["topics"]] == [(SECRET, 29)]


def test_groups_that_may_not_be_described_are_not_listed() -> None:
    request = asked(ApiKey.LIST_GROUPS, 4, {})
    rows = [{"group_id": GROUP}, {"group_id": "other"}]
    found = screened(told := Told(DESCRIBES_GROUP), ApiKey.LIST_GROUPS, 4, request)
    assert found.finish({"groups": rows})["groups"] == rows[:1]
    assert not told.told
    found = screened(Told((Operation.DESCRIBE, *CLUSTER)), ApiKey.LIST_GROUPS, 4, request)
    assert found.finish({"groups": rows})["groups"] == rows


def test_what_a_new_topic_is_like_is_told_to_who_may_know() -> None:
    request = asked(ApiKey.CREATE_TOPICS, 7, {"topics": [{"name": TOPIC, "num_partitions": 2}], "timeout": 1})
    made = {"name": TOPIC, "error_code": 0, "num_partitions": 2, "replication_factor": 1, "configs": [1]}
    creates = (Operation.CREATE, *CLUSTER)
    (row,) = screened(Told(creates), ApiKey.CREATE_TOPICS, 7, request).finish({"topics": [made]})["topics"]
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert row == {"name": TOPIC, "error_code": 0, "topic_config_error_code": code}
    knows = (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, TOPIC)
    found = screened(Told(creates, knows), ApiKey.CREATE_TOPICS, 7, request)
    assert found.finish({"topics": [made]})["topics"] == [made]


@pytest.mark.parametrize(
    ("resource_type", "needed"),
    [
        (2, (ResourceType.TOPIC, "x")), (32, (ResourceType.GROUP, "x")),
        (4, CLUSTER), (8, CLUSTER), (16, CLUSTER),
    ],
)  # fmt: skip
def test_settings_belong_to_what_has_them(resource_type: int, needed: tuple[ResourceType, str]) -> None:
    resource = {"resource_type": resource_type, "resource_name": "x"}
    for key, version, operation in (
        (ApiKey.DESCRIBE_CONFIGS, 4, Operation.DESCRIBE_CONFIGS),
        (ApiKey.ALTER_CONFIGS, 2, Operation.ALTER_CONFIGS),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, Operation.ALTER_CONFIGS),
    ):
        request = asked(key, version, {"resources": [resource]})
        assert screened(Told((operation, *needed)), key, version, request).request == request
        found = screened(told := Told(), key, version, request)
        assert found.request is None
        assert told.told == {(operation, *needed)}
        assert set(error_codes(found.finish({}))) == {FAILED[needed[0]]}


@pytest.mark.parametrize(
    ("allowed", "served"),
    [
        ((), False),
        (((Operation.IDEMPOTENT_WRITE, *CLUSTER),), True),
        (((Operation.WRITE, ResourceType.TOPIC, TOPIC),), True),
        (((Operation.WRITE, ResourceType.GROUP, TOPIC),), False),
    ],
)
def test_who_may_write_somewhere_may_do_it_idempotently(allowed: tuple[Any, ...], served: bool) -> None:
    """KIP-679."""
    request = asked(ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": None, "transaction_timeout": 1})
    assert (screened(Told(*allowed), ApiKey.INIT_PRODUCER_ID, 4, request).request is not None) is served


@pytest.mark.parametrize(
    ("row", "allowed", "code"),
    [
        ({"name": "new", "topic_id": None}, Operation.DESCRIBE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"name": None, "topic_id": UUID(int=9)}, Operation.DESCRIBE, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"name": None, "topic_id": UUID(int=9)}, Operation.DELETE, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"name": "new", "topic_id": None}, Operation.DELETE, None),
        ({"name": "other", "topic_id": None}, Operation.DELETE, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_topic_that_only_the_controller_knows_is_not_deleted(
    row: dict[str, Any], allowed: Operation, code: ErrorCode | None
) -> None:
    """A broker that lags behind cannot say whose topic it is, so it must not pass the request on."""
    request = asked(ApiKey.DELETE_TOPICS, 6, {"topics": [row], "timeout": 0})
    found = screened(Told((allowed, ResourceType.TOPIC, "new")), ApiKey.DELETE_TOPICS, 6, request)
    if code is None:
        assert found.request == request
        return
    assert found.request is None
    answer = found.finish({})
    assert [each["error_code"] for each in answer["responses"]] == [code]
    assert messages.encode_response(ApiKey.DELETE_TOPICS, 6, answer)


@pytest.mark.parametrize("version", [10, 11])
def test_an_id_where_none_may_be_is_left_to_the_handler(version: int) -> None:
    """It refuses all of the request; a refusal for lack of a right could not be told, for an answer needs a name there."""
    request = asked(ApiKey.METADATA, version, {"topics": [{"name": None, "topic_id": OTHER_ID}]})
    told = Told()
    assert screened(told, ApiKey.METADATA, version, request).request == request
    assert not told.told
