"""What is asked twice, of nobody, of another broker, or for nothing: answered as Apache Kafka 4.3 answers it, or once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from minikafka.groups.requests import FetchResult
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.broker import Broker

from tests.unit.server.in_process import Cluster, running
from tests.waiting import until

REASSIGN, DESCRIBE_CLUSTER, ALTER_LOG_DIRS, FIND_COORDINATOR = 45, 60, 34, 10
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE = 0, 1
STRANGE = UUID(int=5)
THROTTLE = "leader.replication.throttled.rate"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """One broker with two data directories; the topic ``t`` has two partitions."""
    both = f"{tmp_path}/a,{tmp_path}/b"
    async with running(tmp_path, 1, log_dirs=both, auto_create_topics_enable="true") as cluster:
        await cluster.create("t", partitions=2)
        yield cluster


async def ask(cluster: Cluster, api_key: int, version: int, broker: int = 1, **values: Any) -> Any:
    connection = await cluster.connect(cluster.brokers[broker], "CLIENT")
    try:
        return await connection.request(api_key, version, values)
    finally:
        connection.close()


def codes(rows: Any) -> list[ErrorCode]:
    return [ErrorCode(int(row.error_code)) for row in rows]


# -- settings ---------------------------------------------------------------------------------------------------------


async def described(cluster: Cluster, kind: int, name: str, keys: list[str] | None) -> tuple[ErrorCode, list[str]]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    (row,) = (await ask(cluster, ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource])).results
    return ErrorCode(int(row.error_code)), [entry.name for entry in row.configs]


async def test_describe_configs(cluster: Cluster) -> None:
    for kind, name in ((TOPIC, "t"), (BROKER, "1")):
        everything = await described(cluster, kind, name, None)
        assert len(everything[1]) > 10
        assert await described(cluster, kind, name, []) == everything
    assert (await described(cluster, TOPIC, "t", ["retention.ms"] * 2))[1] == ["retention.ms"]
    for kind, name, code in (
        (LOGGER, "1", ErrorCode.NONE),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "m", ErrorCode.NONE),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ErrorCode.NONE),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (77, "1", ErrorCode.INVALID_REQUEST),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
    ):
        assert await described(cluster, kind, name, None) == (code, []), (kind, name)


def change(kind: int, name: str, *changes: tuple[str, str | None, int]) -> dict[str, Any]:
    configs = [{"name": n, "value": v, "config_operation": o} for n, v, o in changes]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


SET_RETENTION = ("retention.ms", "5", SET)


async def altered(
    cluster: Cluster, *resources: Mapping[str, Any], api: int = ApiKey.INCREMENTAL_ALTER_CONFIGS, broker: int = 1
) -> list[ErrorCode]:
    version, asked = (
        (1, list(resources)) if api == ApiKey.INCREMENTAL_ALTER_CONFIGS else (2, [_replaced(r) for r in resources])
    )
    answer = await ask(cluster, api, version, broker, resources=asked, validate_only=False)
    return codes(answer.responses)


def _replaced(resource: dict[str, Any]) -> dict[str, Any]:
    """As AlterConfigs has it, whose settings have no operation."""
    configs = [{"name": row["name"], "value": row["value"]} for row in resource["configs"]]
    return resource | {"configs": configs}


@pytest.mark.slow
async def test_a_change_of_nothing_is_no_error(cluster: Cluster) -> None:
    """kafka-reassign-partitions removes throttles that nobody has set, at the end of --verify and of --cancel."""
    for resource in (
        change(BROKER, "1", (THROTTLE, None, DELETE)),
        change(BROKER, "", (THROTTLE, "", DELETE)),
        change(BROKER, "1", ("broker.session.timeout.ms", None, DELETE), ("no.such", None, DELETE)),
        change(BROKER, "1"),
        change(LOGGER, "1"),
        change(CLIENT_METRICS, "m", ("interval.ms", None, DELETE)),
        change(GROUP, "g", ("consumer.session.timeout.ms", None, DELETE)),
        change(TOPIC, "t", ("leader.replication.throttled.replicas", "", DELETE), ("retention.ms", None, DELETE)),
    ):
        assert await altered(cluster, resource) == [ErrorCode.NONE], resource
    assert await altered(cluster, change(BROKER, "1"), api=ApiKey.ALTER_CONFIGS) == [ErrorCode.NONE]


@pytest.mark.slow
async def test_settings_are_changed_at_any_broker(tmp_path: Path) -> None:
    """KIP-590: who does not lead passes them on, in the words of the API that was asked."""
    async with running(tmp_path, 2) as cluster:
        await cluster.create("t")
        for broker in cluster.brokers:
            for api in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
                assert await altered(cluster, change(TOPIC, "t", SET_RETENTION), api=api, broker=broker) == [
                    ErrorCode.NONE
                ]


async def test_a_cursor_is_among_the_topics_that_are_asked_for(cluster: Cluster) -> None:
    """Else Kafka refuses the whole request (`DescribeTopicPartitionsRequestHandler`)."""
    for asked, cursor, error in (
        (["t"], "t", ErrorCode.NONE),
        (["t"], "u", ErrorCode.INVALID_REQUEST),
        (["u"], "t", ErrorCode.INVALID_REQUEST),
        ([], "s", ErrorCode.NONE),
    ):
        answer = await ask(
            cluster,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            0,
            topics=[{"name": name} for name in asked],
            response_partition_limit=10,
            cursor={"topic_name": cursor, "partition_index": 0},
        )
        assert codes(answer.topics) == [error], (asked, cursor)


async def test_what_is_asked_for_twice_is_answered_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other than in Kafka: a request of 4 KB could have an answer of 80 MB."""
    broker = cluster.brokers[1]
    topic_id = broker.metadata.image.topics["t"].topic_id
    monkeypatch.setattr(broker.groups, "fetch", lambda _, wanted: FetchResult(ErrorCode.NONE, dict.fromkeys(wanted)))
    for version, topic in ((9, {"name": "t"}), (10, {"topic_id": topic_id})):
        asked = [{**topic, "partition_indexes": [1, 1]}, {**topic, "partition_indexes": [0, 1]}]
        groups = [{"group_id": "g", "topics": asked}, {"group_id": "g", "topics": asked[:1]}]
        (group,) = (await ask(cluster, ApiKey.OFFSET_FETCH, version, groups=groups, require_stable=False)).groups
        assert [[row.partition_index for row in each.partitions] for each in group.topics] == [[1, 0]]
    (old,) = (
        await ask(cluster, ApiKey.OFFSET_FETCH, 7, group_id="g", topics=[{"name": "t", "partition_indexes": [1, 1]}])
    ).topics
    assert [row.partition_index for row in old.partitions] == [1]

    (described,) = (await ask(cluster, ApiKey.DESCRIBE_GROUPS, 5, groups=["g", "g"])).groups
    assert described.group_id == "g"
    (found,) = (await ask(cluster, FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g", "g"])).coordinators
    assert found.key == "g"
    twice = [{"name": "t", "partition_indexes": [1, 1]}, {"name": "t", "partition_indexes": [1]}]
    (producers,) = (await ask(cluster, ApiKey.DESCRIBE_PRODUCERS, 0, topics=twice)).topics
    assert [row.partition_index for row in producers.partitions] == [1]
    row = {"current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": 1}
    rows = [{"partition": index, **row} for index in [1, 0, 1] * 10]  # only of many is it worth looking at
    fetch = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1, "session_epoch": -1, "rack_id": ""}
    (fetched,) = (
        await ask(cluster, ApiKey.FETCH, 12, **fetch, topics=[{"topic": "t", "partitions": rows}] * 2)
    ).responses
    assert [data.partition_index for data in fetched.partitions] == [1, 0]


async def test_the_settings_of_what_is_named_twice_are_told_once(cluster: Cluster) -> None:
    def resources(*keys: list[str] | None) -> list[dict[str, Any]]:
        return [{"resource_type": TOPIC, "resource_name": "t", "configuration_keys": each} for each in keys]

    some = resources(["retention.ms"], ["segment.bytes", "retention.ms"])
    (row,) = (await ask(cluster, ApiKey.DESCRIBE_CONFIGS, 4, resources=some)).results
    assert sorted(entry.name for entry in row.configs) == ["retention.ms", "segment.bytes"]
    (row,) = (await ask(cluster, ApiKey.DESCRIBE_CONFIGS, 4, resources=[*some, *resources(None), *some])).results
    assert len(row.configs) > 10


async def test_a_refusal_does_not_repeat_megabytes(cluster: Cluster) -> None:
    resource = change(TOPIC, "t", ("retention.ms", "x" * 1_000_000, SET))
    (row,) = (
        await ask(cluster, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    ).responses
    assert row.error_message.startswith("retention.ms=xxx") and len(row.error_message) < 2100


@pytest.mark.slow
async def test_changes_that_are_refused(cluster: Cluster) -> None:
    nonsense, unchangeable = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
    for resource, code in (
        (change(BROKER, "1", (THROTTLE, "5", SET)), unchangeable),
        (change(BROKER, "", (THROTTLE, "5", SET)), unchangeable),
        (change(BROKER, "", ("min.insync.replicas", None, DELETE)), unchangeable),  # the controller has set it
        (change(BROKER, "2", (THROTTLE, None, DELETE)), nonsense),
        (change(GROUP, "g", ("consumer.session.timeout.ms", "1", SET)), unchangeable),
        (change(GROUP, ""), nonsense),
        (change(77, "1"), nonsense),
        (change(TOPIC, "", SET_RETENTION), nonsense),
        (change(TOPIC, "t", SET_RETENTION, ("retention.ms", None, DELETE)), nonsense),
        (change(TOPIC, "t", ("retention.ms", None, SET)), nonsense),
        (change(TOPIC, "t", ("retention.ms", "5", 9)), nonsense),
        (change(TOPIC, "nobody", SET_RETENTION), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        assert await altered(cluster, resource) == [code], resource
    for api in (ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS):
        once, other = change(TOPIC, "t", SET_RETENTION), change(BROKER, "1")
        assert await altered(cluster, once, other, once, api=api) == [nonsense, ErrorCode.NONE, nonsense]
    for resource, code in (
        (change(TOPIC, "t", ("retention.ms", None, SET)), nonsense),
        (change(BROKER, "1", (THROTTLE, "5", SET)), unchangeable),
        (change(BROKER, ""), unchangeable),  # it would remove what the controller has set
        (change(LOGGER, "1"), nonsense),
    ):
        assert await altered(cluster, resource, api=ApiKey.ALTER_CONFIGS) == [code], resource
    assert cluster.brokers[1].metadata.image.topics["t"].configs == {}


# -- topics -----------------------------------------------------------------------------------------------------------


def new(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": [], **more}


async def created(cluster: Cluster, version: int, *topics: dict[str, Any], validate_only: bool = False) -> Any:
    answer = await ask(
        cluster, ApiKey.CREATE_TOPICS, version, topics=topics, timeout=10_000, validate_only=validate_only
    )
    return answer.topics


@pytest.mark.slow
async def test_create_topics_tells_the_settings(cluster: Cluster) -> None:
    """KIP-525, also where it is only asked."""
    override = [{"name": "retention.ms", "value": "3600000"}]
    for name, validate_only in (("asked", True), ("made", False)):
        for version in (5, 7):
            (row,) = await created(
                cluster, version, new(f"{name}{version}", configs=override), validate_only=validate_only
            )
            settings = {entry.name: entry for entry in row.configs}
            assert set(settings) == {e.name for e in cluster.brokers[1].config.describe_topic({})}
            assert (settings["retention.ms"].value, settings["retention.ms"].config_source) == ("3600000", 1)
            assert (settings["segment.bytes"].value, settings["segment.bytes"].config_source) == ("1073741824", 5)
            assert (row.num_partitions, row.replication_factor) == (1, 1)


async def test_create_topics_tells_the_settings_of_some_topics(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 49,000 they were 29 MB, for what is only to be validated."""
    monkeypatch.setattr("minikafka.server.api.create_topics.SETTINGS_ANSWERED_MAX", 2)
    rows = await created(cluster, 7, new("x"), new("y"), new("z"), validate_only=True)
    assert codes(rows) == [ErrorCode.NONE] * 3
    assert [bool(row.configs) for row in rows] == [True, True, False]
    told = [int(row.topic_config_error_code) for row in rows]
    assert told == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]


@pytest.mark.slow
async def test_topics_named_twice(cluster: Cluster) -> None:
    """One answer, and nothing is done."""
    assert codes(await created(cluster, 7, new("x"), new("y"), new("x"))) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    more = {"name": "t", "count": 3, "assignments": None}
    answer = await ask(cluster, ApiKey.CREATE_PARTITIONS, 3, topics=[more, more], timeout=1000, validate_only=False)
    assert codes(answer.results) == [ErrorCode.INVALID_REQUEST]
    answer = await ask(cluster, ApiKey.DELETE_TOPICS, 5, topic_names=["t", "y", "t"], timeout=1000)
    assert codes(answer.responses) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    topic_id = cluster.brokers[1].metadata.image.topics["t"].topic_id
    for wishes in (
        [{"name": None, "topic_id": topic_id}] * 2,
        [{"name": "t", "topic_id": None}] * 2,
        [{"name": "t", "topic_id": None}, {"name": None, "topic_id": topic_id}],
        [{"name": "t", "topic_id": topic_id}],
        [{"name": None, "topic_id": None}],
    ):
        answer = await ask(cluster, ApiKey.DELETE_TOPICS, 6, topics=wishes, timeout=1000)
        assert set(codes(answer.responses)) == {ErrorCode.INVALID_REQUEST}, wishes
        assert len(answer.responses) == len({str(wish) for wish in wishes})
    assert set(cluster.brokers[1].metadata.image.topics) == {"t"}
    assert cluster.brokers[1].metadata.image.partition("t", 2) is None


async def test_a_topic_that_is_made_anew_before_its_turn_is_not_deleted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked for by its id was deleted by its name, and an acknowledged record of the other one was lost."""
    await cluster.create("u")
    broker = cluster.brokers[1]
    ids = [broker.metadata.image.topics[name].topic_id for name in ("t", "u")]
    decide_each = broker.topics.decide_each

    async def decide_slowly(*args: Any) -> Any:
        monkeypatch.undo()
        await cluster.delete("u")
        await cluster.create("u")
        return await decide_each(*args)

    monkeypatch.setattr(broker.topics, "decide_each", decide_slowly)
    wishes = [{"name": None, "topic_id": each} for each in ids]
    answer = await ask(cluster, ApiKey.DELETE_TOPICS, 6, topics=wishes, timeout=1000)
    assert codes(answer.responses) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
    assert set(broker.metadata.image.topics) == {"u"}


async def test_topics_of_one_request_are_made_and_written_together(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was written apart: a request of 2,000 took 20 s. Where a turn is over the rest is decided in another."""
    store = cluster.brokers[1].membership.store
    commit, written = store.commit, list[set[str]]()

    async def counted(epoch: int, records: Mapping[str, Any]) -> int:
        written.append({key for key in records if key.startswith("topic/")})
        return await commit(epoch, records)

    monkeypatch.setattr(store, "commit", counted)
    monkeypatch.setattr("minikafka.transport.turn.TURN_SECONDS_MAX", 60.0)
    wishes = [new(name) for name in ("a", "b", "b", "c", ".")]
    rows = await created(cluster, 7, *wishes)
    assert codes(rows) == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]
    monkeypatch.setattr("minikafka.transport.turn.TURN_SECONDS_MAX", -1.0)
    assert codes(await created(cluster, 7, new("d"), new("e"))) == [ErrorCode.NONE] * 2
    assert [keys for keys in written if keys] == [{"topic/a", "topic/c"}, {"topic/d"}, {"topic/e"}]


async def test_topics_that_are_not_there(cluster: Cluster) -> None:
    wishes = [
        {"name": "nobody", "topic_id": None},
        {"name": None, "topic_id": STRANGE},
        {"name": "t", "topic_id": None},
    ]
    answer = await ask(cluster, ApiKey.DELETE_TOPICS, 6, topics=wishes, timeout=1000)
    assert codes(answer.responses) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NONE,
    ]
    assert all(answer.responses[n].error_message for n in (0, 1))
    assert answer.responses[2].topic_id is not None


async def test_a_setting_without_a_value(cluster: Cluster) -> None:
    configs = [{"name": "retention.ms", "value": None}]
    assert codes(await created(cluster, 7, new("x", configs=configs))) == [ErrorCode.INVALID_CONFIG]
    assert "x" not in cluster.brokers[1].metadata.image.topics


# -- Metadata ---------------------------------------------------------------------------------------------------------


async def listed(cluster: Cluster, version: int, *topics: tuple[str | None, UUID | None], create: bool = False) -> Any:
    wishes = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
    answer = await ask(cluster, ApiKey.METADATA, version, topics=wishes, allow_auto_topic_creation=create)
    return [(row.name, ErrorCode(int(row.error_code))) for row in answer.topics]


@pytest.mark.slow
async def test_metadata_has_each_topic_once(cluster: Cluster) -> None:
    topic_id = cluster.brokers[1].metadata.image.topics["t"].topic_id
    for version in (1, 12):
        assert await listed(cluster, version, ("t", None), ("t", None)) == [("t", ErrorCode.NONE)]
    assert await listed(cluster, 12, (None, topic_id), (None, topic_id)) == [("t", ErrorCode.NONE)]
    assert await listed(cluster, 12, ("nobody", None), (None, topic_id)) == [("t", ErrorCode.NONE)], "only ids count"
    assert await listed(cluster, 12, (None, STRANGE)) == [(None, ErrorCode.UNKNOWN_TOPIC_ID)]


@pytest.mark.slow
@pytest.mark.parametrize("version", [10, 11])
async def test_versions_that_cannot_ask_by_id(cluster: Cluster, version: int) -> None:
    """They have the field (KAFKA-10774). The answer cannot be without a name there."""
    for wish in ((None, STRANGE), ("t", STRANGE), (None, None)):
        assert await listed(cluster, version, wish) == [(wish[0] or "", ErrorCode.INVALID_REQUEST)]


@pytest.mark.slow
async def test_a_topic_on_demand_is_made_after_the_answer(cluster: Cluster) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for _ in range(2):
        told = await listed(cluster, 12, ("x", None), ("t", None), ("bad name!", None), create=True)
        if told[0][1] is ErrorCode.NONE:
            break
        assert told == [("x", unknown), ("t", ErrorCode.NONE), ("bad name!", ErrorCode.INVALID_TOPIC_EXCEPTION)]
    broker: Broker = cluster.brokers[1]
    await until(lambda: "x" in broker.metadata.image.topics)
    assert await listed(cluster, 12, ("x", None)) == [("x", ErrorCode.NONE)]
    await until(lambda: not broker.topics._being_created)


# -- partitions -------------------------------------------------------------------------------------------------------


async def test_log_dirs_are_all_told(cluster: Cluster, tmp_path: Path) -> None:
    async def told(topics: Any) -> dict[str, list[tuple[str, list[int]]]]:
        results = (await ask(cluster, ApiKey.DESCRIBE_LOG_DIRS, 4, topics=topics)).results
        assert set(codes(results)) == {ErrorCode.NONE}
        return {
            r.log_dir: [(t.name, sorted(p.partition_index for p in t.partitions)) for t in r.topics] for r in results
        }

    found = await told(None)
    assert set(found) == {f"{tmp_path}/a", f"{tmp_path}/b"}
    for folder, topics in found.items():
        ((name, (index,)),) = topics
        assert (Path(folder) / f"{name}-{index}").is_dir()
    assert list((await told([])).values()) == [[], []]
    one = await told([{"topic": "t", "partitions": [1]}])
    assert sorted(map(len, one.values())) == [0, 1]


@pytest.mark.slow
async def test_replicas_are_where_they_are(cluster: Cluster, tmp_path: Path) -> None:
    """What kafka-reassign-partitions prints for a rollback names the directories that there are."""

    async def placed(path: str, topic: str = "t", index: int = 0) -> ErrorCode:
        dirs = [{"path": path, "topics": [{"name": topic, "partitions": [index]}]}]
        (row,) = (await ask(cluster, ALTER_LOG_DIRS, 2, dirs=dirs)).results
        return codes(row.partitions)[0]

    here = next(folder for folder in ("a", "b") if (tmp_path / folder / "t-0").is_dir())
    assert await placed(f"{tmp_path}/{here}") is ErrorCode.NONE
    assert await placed(f"{tmp_path}/{'ab'.replace(here, '')}") is ErrorCode.INVALID_REQUEST
    assert await placed(f"{tmp_path}/c") is ErrorCode.LOG_DIR_NOT_FOUND
    assert await placed(f"{tmp_path}/a", index=9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.slow
async def test_rows_are_answered_as_kafka_has_them(cluster: Cluster) -> None:
    part = {"partition_index": 0, "offset": 0}
    twice = [
        {"name": "t", "partitions": [part, part]},
        {"name": "t", "partitions": [part]},
        {"name": "t", "partitions": []},
    ]
    answer = await ask(cluster, ApiKey.DELETE_RECORDS, 2, topics=twice, timeout=1000)
    assert [[p.partition_index for p in t.partitions] for t in answer.topics] == [[0]]
    wanted = [{"topic": "t", "partitions": [0]}, {"topic": "t", "partitions": [1]}]
    answer = await ask(cluster, ApiKey.ELECT_LEADERS, 2, election_type=0, topic_partitions=wanted, timeout=1000)
    found = [[p.partition_id for p in t.partition_result] for t in answer.replica_election_results]
    assert found == [[0], [1]]
    answer = await ask(cluster, ApiKey.ELECT_LEADERS, 2, election_type=9, topic_partitions=wanted, timeout=1000)
    assert codes([answer, *answer.replica_election_results[0].partition_result]) == [ErrorCode.INVALID_REQUEST] * 2
    row = {"partition_index": 0, "replicas": [1]}
    moves = [{"name": "t", "partitions": [row]}, {"name": "t", "partitions": []}]
    answer = await ask(cluster, REASSIGN, 0, topics=moves, timeout=1000)
    assert [len(t.partitions) for t in answer.responses] == [1, 0]


@pytest.mark.slow
async def test_list_offsets(cluster: Cluster) -> None:
    async def told(version: int, *timestamps: int) -> list[ErrorCode]:
        rows = [{"partition_index": 0, "timestamp": t, "current_leader_epoch": -1} for t in timestamps]
        topics = [{"name": "t", "partitions": rows}, {"name": "t", "partitions": []}]
        answer = await ask(cluster, ApiKey.LIST_OFFSETS, version, topics=topics, replica_id=-1, isolation_level=0)
        assert len(answer.topics) == 1
        return codes(answer.topics[0].partitions)

    assert await told(7, -1, -2) == [ErrorCode.INVALID_REQUEST], "a partition that is named twice"
    for timestamp, since in ((-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9)):
        for version in (since - 1, since):
            if version:
                assert await told(version, timestamp) == [
                    ErrorCode.NONE if version == since else ErrorCode.UNSUPPORTED_VERSION
                ]
    assert await told(10, -6) == [ErrorCode.UNSUPPORTED_VERSION]


async def test_an_endpoint_that_nobody_knows(cluster: Cluster) -> None:
    for kind, code in (
        (1, ErrorCode.NONE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ):
        answer = await ask(cluster, DESCRIBE_CLUSTER, 1, endpoint_type=kind)
        assert int(answer.error_code) == code


@pytest.mark.slow
async def test_a_broker_without_the_replica(tmp_path: Path) -> None:
    """And one that is not the controller: what it can judge of settings it does, the rest goes on."""
    async with running(tmp_path, 2) as cluster:
        await cluster.has_controller()
        leads = cluster.controller.broker_id
        other = 3 - leads
        answer = await ask(
            cluster,
            ApiKey.CREATE_TOPICS,
            7,
            leads,
            topics=[new("t", num_partitions=-1, replication_factor=-1,
                        assignments=[{"partition_index": 0, "broker_ids": [leads]}])],
            timeout=10_000,
            validate_only=False,
        )  # fmt: skip
        assert codes(answer.topics) == [ErrorCode.NONE]
        await until(lambda: "t" in cluster.brokers[other].metadata.image.topics)
        for index, code in ((0, ErrorCode.NOT_LEADER_OR_FOLLOWER), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
            for api, version, row, more in (
                (ApiKey.DELETE_RECORDS, 2, {"offset": 0}, {"timeout": 9}),
                (
                    ApiKey.LIST_OFFSETS,
                    7,
                    {"timestamp": -1, "current_leader_epoch": -1},
                    {"replica_id": -1, "isolation_level": 0},
                ),
            ):
                topics = [{"name": "t", "partitions": [{"partition_index": index, **row}]}]
                answer = await ask(cluster, api, version, other, topics=topics, **more)
                assert codes(answer.topics[0].partitions) == [code]
            epochs = [
                {"topic": "t", "partitions": [{"partition": index, "current_leader_epoch": -1, "leader_epoch": 0}]}
            ]
            answer = await ask(cluster, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, other, replica_id=-1, topics=epochs)
            assert codes(answer.topics[0].partitions) == [code]
        resources = (
            change(BROKER, str(other), (THROTTLE, None, DELETE)),
            change(BROKER, str(leads), (THROTTLE, None, DELETE)),
            change(TOPIC, "t", SET_RETENTION),
            change(TOPIC, "nobody", SET_RETENTION),
        )
        assert await altered(cluster, *resources, broker=other) == [
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert cluster.brokers[other].metadata.image.topics["t"].configs == {"retention.ms": "5"}


async def test_filters_of_quotas_that_are_none(cluster: Cluster) -> None:
    every = {"entity_type": "user", "match_type": 2, "match": None}
    for components, code in (
        ([every, every | {"entity_type": "client-id"}], ErrorCode.NONE),
        ([every, every], ErrorCode.INVALID_REQUEST),
        ([every, every | {"entity_type": "ip"}], ErrorCode.INVALID_REQUEST),
        ([every | {"entity_type": ""}], ErrorCode.INVALID_REQUEST),
        ([every | {"entity_type": "group"}], ErrorCode.UNSUPPORTED_VERSION),
        ([every | {"match_type": 3}], ErrorCode.INVALID_REQUEST),
        ([every | {"match": "u"}], ErrorCode.INVALID_REQUEST),
        ([every | {"match_type": 0}], ErrorCode.INVALID_REQUEST),
    ):
        answer = await ask(cluster, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=components, strict=False)
        assert answer.error_code == code, components


@pytest.mark.slow
async def test_quotas_are_set_at_any_broker_and_found_by_filters(cluster: Cluster) -> None:
    """KIP-546. The broker that is asked may have to pass it on."""
    wished: list[tuple[dict[str, str | None], str]] = [
        ({"user": "alice"}, "producer_byte_rate"),
        ({"user": "alice", "client-id": None}, "consumer_byte_rate"),
        ({"client-id": "app"}, "request_percentage"),
        ({"ip": "127.0.0.1"}, "connection_creation_rate"),
    ]

    def entries(*, remove: bool) -> list[dict[str, Any]]:
        return [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
                "ops": [{"key": key, "value": 5000.0, "remove": remove}],
            }
            for entity, key in wished
        ]

    async def found(*components: tuple[str, int, str | None], strict: bool = False) -> list[tuple[str, float]]:
        asked = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
        answer = await ask(cluster, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=asked, strict=strict)
        return sorted((value.key, value.value) for entry in answer.entries for value in entry.values)

    for version in (0, 1):
        set_ = await ask(
            cluster, ApiKey.ALTER_CLIENT_QUOTAS, version, entries=entries(remove=False), validate_only=False
        )
        assert [entry.error_code for entry in set_.entries] == [ErrorCode.NONE] * len(wished)
        assert [key for key, _ in await found()] == sorted(key for _, key in wished)
        assert await found(("user", 0, "alice")) == [("consumer_byte_rate", 5000.0), ("producer_byte_rate", 5000.0)]
        assert await found(("user", 0, "alice"), strict=True) == [("producer_byte_rate", 5000.0)]
        assert await found(("client-id", 1, None)) == [("consumer_byte_rate", 5000.0)]
        assert await found(("client-id", 2, None), strict=True) == [("request_percentage", 5000.0)]
        assert await found(("ip", 2, None)) == [("connection_creation_rate", 5000.0)]
        assert await found(("ip", 0, "10.0.0.1")) == []
        await ask(cluster, ApiKey.ALTER_CLIENT_QUOTAS, version, entries=entries(remove=True), validate_only=False)
        assert await found() == []
