"""ACLs on brokers with real sockets: made over the wire, in force at once, everywhere and after a restart (31 item 2)."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from minikafka.authorization.service import NAME_MAX, Authorization
from minikafka.config import BrokerConfig
from minikafka.config.listener_security import ListenerSecurity
from minikafka.metadata.image import ClusterImage
from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.security.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from minikafka.security.authorizer import KAFKAS_NAME, SUPPORTED, bits
from minikafka.security.sasl_client import Login
from minikafka.server.broker import Broker
from minikafka.server.membership import NOT_A_BROKER
from minikafka.telemetry.event_limit import EMITTED_MAX, TELL_SECONDS

from tests.interop.raw_client import record_batch
from tests.unit.server.in_process import Cluster, context, running
from tests.unit.server.strangers import PLAIN, SASL, Stranger
from tests.waiting import until

USERS = {name: Login("PLAIN", name, name) for name in ("admin", "alice", "bob")}
SETTINGS = {
    **SASL,
    "listener.name.client.plain.sasl.jaas.config": f"{PLAIN} required "
    + " ".join(f'user_{name}="{name}"' for name in USERS)
    + ";",
    "authorizer.class.name": KAFKAS_NAME,
    "super.users": "User:admin;User:ANONYMOUS",  # brokers, on a listener where nobody logs in
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "true",
}
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


@asynccontextmanager
async def secured(data: Path, brokers: int = 1, **more: str) -> AsyncIterator[Cluster]:
    async with running(data, brokers, **{**SETTINGS, **more}) as cluster:
        await cluster.has_controller()
        yield cluster


@asynccontextmanager
async def client_of(broker: Broker, user: str) -> AsyncIterator[Stranger]:
    client = await Stranger.at(broker)
    assert not (await client.log_in(USERS[user])).error_code
    yield client
    client.close()


def creation(
    operation: Operation,
    name: str,
    user: str = "alice",
    kind: ResourceType = TOPIC,
    how: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
    host: str = "*",
) -> dict[str, Any]:
    return {
        "resource_type": kind, "resource_name": name, "resource_pattern_type": how, "principal": f"User:{user}",
        "host": host, "operation": operation, "permission_type": permission,
    }  # fmt: skip


async def made(client: Stranger, *creations: Mapping[str, Any]) -> list[int]:
    answer = await client.ask(ApiKey.CREATE_ACLS, 3, {"creations": list(creations)})
    return [int(row.error_code) for row in answer.results]


def choice(**wish: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": ResourceType.ANY, "resource_name_filter": None, "pattern_type_filter": PatternType.ANY,
        "principal_filter": None, "host_filter": None, "operation": Operation.ANY, "permission_type": Permission.ANY, **wish,
    }  # fmt: skip


async def produced(client: Stranger, topic: str, acks: int = 1) -> Any:
    rows = [{"name": topic, "partition_data": [{"index": 0, "records": record_batch([b"value"])}]}]
    values = {"transactional_id": None, "acks": acks, "timeout": 1000, "topic_data": rows}
    client.request(ApiKey.PRODUCE, 9, values)
    frame = await client.frame()
    if frame is None:
        return None
    answer = messages.decode_response(ApiKey.PRODUCE, 9, messages.answer_body(ApiKey.PRODUCE, 9, frame))
    return answer.responses[0].partition_responses[0].error_code


async def fetched(client: Stranger, *topics: str, replica_id: int = -1) -> dict[str, int]:
    rows = [
        {"topic": topic, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}
        for topic in topics
    ]
    values = {"replica_id": replica_id, "max_wait": 0, "min_bytes": 0, "max_bytes": 1000, "topics": rows}
    answer = await client.ask(ApiKey.FETCH, 11, values)
    assert sorted(row.topic for row in answer.responses) == sorted(topics), "each is answered once"
    assert not any(part.records for row in answer.responses for part in row.partitions if part.error_code)
    return {row.topic: int(row.partitions[0].error_code) for row in answer.responses}


def denials(cluster: Cluster, broker_id: int = 1) -> list[tuple[str, ...]]:
    lines = (cluster.data / f"events-{broker_id}.jsonl").read_text().splitlines()
    events = [event["fields"] for line in lines if (event := json.loads(line))["event"] == "authorization_denied"]
    assert all(fields["address"] == "127.0.0.1" for fields in events)
    return [(e["principal"], e["operation"], e["resource"], e["request"]) for e in events]


@pytest.mark.slow
async def test_acls_count_at_once_on_every_broker_and_after_a_restart(tmp_path: Path) -> None:
    """Made through a broker that is not the controller."""
    async with secured(tmp_path, 2) as cluster:
        await cluster.create("orders", leader=1)
        await cluster.create("secret", leader=1)
        leader, other = cluster.brokers[1], next(b for b in cluster.brokers.values() if not b.membership.leads)
        async with client_of(leader, "alice") as alice, client_of(other, "admin") as admin:
            assert await produced(alice, "orders") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert await fetched(alice, "orders") == {"orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
            write = creation(Operation.WRITE, "ord", how=PatternType.PREFIXED)
            read = creation(Operation.READ, "orders")
            assert await made(admin, write, read) == [0, 0]
            await until(lambda: len(leader.metadata.image.acls) == 2)
            assert await produced(alice, "orders") == ErrorCode.NONE
            assert await produced(alice, "secret") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            both = await fetched(alice, "orders", "secret")
            assert both == {"orders": 0, "secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
            assert await made(admin, creation(Operation.WRITE, "orders", permission=Permission.DENY)) == [0]
            await until(lambda: len(leader.metadata.image.acls) == 3)
            assert await produced(alice, "orders") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await other.abort()
        other.events.close()
        again = await cluster.start(other.broker_id)
        assert len(again.metadata.image.acls) == 3
        async with client_of(again, "admin") as admin:
            answer = await admin.ask(ApiKey.DELETE_ACLS, 3, {"filters": [choice(permission_type=Permission.DENY)]})
            (row,) = answer.filter_results[0].matching_acls
            assert (row.principal, row.resource_name, row.operation) == ("User:alice", "orders", Operation.WRITE)
        await until(lambda: all(len(b.metadata.image.acls) == 2 for b in cluster.brokers.values()))
        async with client_of(leader, "alice") as alice:
            assert await produced(alice, "orders") == ErrorCode.NONE


async def test_what_may_not_be_written_is_not(tmp_path: Path) -> None:
    """Also with acks=0, after which the connection is closed, as Kafka does."""
    async with secured(tmp_path) as cluster:
        await cluster.create("orders")
        partition = cluster.brokers[1].replicas.get("orders", 0)
        assert partition is not None
        for acks in (-1, 1, 0):
            async with client_of(cluster.brokers[1], "alice") as alice:
                answer = await produced(alice, "orders", acks)
                assert answer == (None if acks == 0 else ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert partition.log.log_end_offset == 0


@pytest.mark.slow
async def test_topics_are_made_through_the_controller_as_far_as_acls_allow(tmp_path: Path) -> None:
    """What is passed on to the controller is what is left of the request; its answer has the refused rows, too."""
    async with secured(tmp_path, 2) as cluster:
        other = next(b for b in cluster.brokers.values() if not b.membership.leads)
        async with client_of(other, "alice") as alice, client_of(other, "admin") as admin:
            assert await made(admin, creation(Operation.CREATE, "mine-", how=PatternType.PREFIXED)) == [0]
            wishes = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("mine-1", "others")]
            answer = await alice.ask(ApiKey.CREATE_TOPICS, 7, {"topics": wishes, "timeout": 1000})
            rows = {row.name: row for row in answer.topics}
            assert {name: int(row.error_code) for name, row in rows.items()} == {"mine-1": 0, "others": 29}
            mine = rows["mine-1"]
            assert (mine.num_partitions, mine.replication_factor) == (-1, -1)
            assert mine.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert sorted(other.metadata.image.topics) == ["mine-1"]
            answer = await alice.ask(ApiKey.CREATE_ACLS, 3, {"creations": [creation(Operation.ALL, "*")]})
            assert [row.error_code for row in answer.results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
            assert len(other.metadata.image.acls) == 1, "who may not alter the cluster gives nobody anything"
            answer = await alice.ask(ApiKey.METADATA, 12, {"topics": [{"name": "on-demand"}]})
            assert [row.error_code for row in answer.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            answer = await admin.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [wishes[1]], "timeout": 1000})
            assert answer.topics[0].num_partitions == 1
            answer = await alice.ask(ApiKey.METADATA, 12, {"topics": None})
            assert [row.name for row in answer.topics] == []


async def test_denials_are_told_once(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        broker = cluster.brokers[1]
        await cluster.create("orders")
        async with client_of(broker, "alice") as alice:
            for _ in range(3):
                await produced(alice, "orders")
                await alice.ask(ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g"]})
        assert denials(cluster) == [
            ("User:alice", "WRITE", "TOPIC:orders", "Produce"),
            ("User:alice", "DELETE", "GROUP:g", "DeleteGroups"),
        ]
        assert broker.stats.authorizations_denied == 6


class Clock:
    now = 0.0


def test_denials_do_not_fill_the_disk() -> None:
    clock, told = Clock(), []
    of = context(authorizer_class_name="StandardAuthorizer")
    emit: Any = lambda name, **fields: told.append((name, fields))  # noqa: E731
    service = Authorization(of.config, None, of.stats, emit, lambda: clock.now)  # type: ignore[arg-type]
    client: Any = type("Client", (), {"principal": "User:a", "client_host": "127.0.0.1", "listener": "L"})
    for minute in (1, 2):
        for number in range(2 * EMITTED_MAX):
            service.denied(client, ApiKey.FETCH, Operation.READ, TOPIC, f"t{number}")
        assert len(told) == minute * EMITTED_MAX
        clock.now += TELL_SECONDS
    service.denied(client, ApiKey.HEARTBEAT, Operation.READ, GROUP, "g" * 1_000_000)
    assert told[-1][1]["resource"] == "GROUP:" + "g" * NAME_MAX
    assert of.stats.authorizations_denied == 4 * EMITTED_MAX + 1


def test_what_the_want_of_acls_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing before the image is read, and never that somebody is a broker."""
    of = context(
        authorizer_class_name="StandardAuthorizer", super_users="User:admin", allow_everyone_if_no_acl_found="true"
    )
    image = ClusterImage("cluster")
    metadata: Any = type("Metadata", (), {"image": image})
    service = Authorization(of.config, metadata, of.stats, lambda *_, **__: None, lambda: 0.0)

    def allowed(user: str) -> tuple[bool, bool]:
        client: Any = type("Client", (), {"principal": user, "client_host": "127.0.0.1", "listener": "L"})
        return (
            service.allows(client, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME),
            service.allows_any(client, Operation.WRITE, TOPIC),
        )

    assert (allowed("User:a"), allowed("User:admin")) == ((False, False), (True, True))
    image.revision = 1
    assert allowed("User:a") == (True, True)
    secured_listener = ListenerSecurity("SASL_SSL", brokers=frozenset({"User:admin"}))
    monkeypatch.setattr(BrokerConfig, "security", lambda *_: secured_listener)
    client: Any = type("Client", (), {"principal": "User:a", "client_host": "127.0.0.1", "listener": "REPLICATION"})
    assert not service.is_broker(client), "no ACL counts for what brokers ask"
    client.principal = "User:admin"
    assert service.is_broker(client)


@pytest.mark.slow
async def test_what_a_client_may_do_is_told(tmp_path: Path) -> None:
    """With an authorizer by ACLs, without one everything."""
    for more, topic, group, cluster_bits in (
        ({}, bits({Operation.READ, Operation.DESCRIBE}), bits({Operation.DESCRIBE}), 0),
        (
            {"authorizer.class.name": ""},
            bits(set(SUPPORTED[TOPIC])), bits(set(SUPPORTED[GROUP])), bits(set(SUPPORTED[ResourceType.CLUSTER])),
        ),
    ):  # fmt: skip
        async with secured(tmp_path / str(len(more)), **more) as cluster:
            await cluster.create("orders")
            async with client_of(cluster.brokers[1], "admin") as admin, client_of(cluster.brokers[1], "alice") as alice:
                codes = await made(
                    admin, creation(Operation.READ, "orders"), creation(Operation.DESCRIBE, "g", kind=GROUP)
                )
                assert codes == ([ErrorCode.SECURITY_DISABLED] * 2 if more else [0, 0])
                asked = {"topics": [{"name": "orders"}], "include_topic_authorized_operations": True}
                answer = await alice.ask(ApiKey.METADATA, 10, {**asked, "include_cluster_authorized_operations": True})
                assert answer.topics[0].topic_authorized_operations == topic
                assert answer.cluster_authorized_operations == cluster_bits
                answer = await alice.ask(
                    ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [], "response_partition_limit": 9}
                )
                assert [(row.name, row.topic_authorized_operations) for row in answer.topics] == [("orders", topic)]
                answer = await alice.ask(ApiKey.DESCRIBE_CLUSTER, 2, {"include_cluster_authorized_operations": True})
                assert answer.cluster_authorized_operations == cluster_bits
                for key, values in ((ApiKey.DESCRIBE_ACLS, choice()), (ApiKey.DELETE_ACLS, {"filters": [choice()]})):
                    answer = await admin.ask(key, 3, values)
                    code = answer.error_code if key is ApiKey.DESCRIBE_ACLS else answer.filter_results[0].error_code
                    assert code == (ErrorCode.SECURITY_DISABLED if more else 0)
                assert group


WRONG = [
    creation(Operation.READ, ""),
    creation(Operation.READ, "x", kind=ResourceType.ANY),
    creation(Operation.READ, "x", how=PatternType.MATCH),
    creation(Operation.READ, "x", how=PatternType.ANY),
    creation(Operation.ANY, "x"),
    creation(Operation.READ, "x", permission=Permission.ANY),
    creation(Operation.READ, "not-the-cluster", kind=ResourceType.CLUSTER),
    creation(Operation.READ, "x") | {"principal": "alice"},
    creation(Operation.READ, "x" * 2000),
]


async def test_what_cannot_be_an_acl_is_refused_by_itself(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        broker = cluster.brokers[1]
        async with client_of(broker, "admin") as admin:
            good = creation(Operation.ALTER, CLUSTER_NAME, kind=ResourceType.CLUSTER)
            assert await made(admin, *WRONG, good, good) == [ErrorCode.INVALID_REQUEST] * len(WRONG) + [0, 0]
            assert len(broker.metadata.image.acls) == 1
            assert await made(admin, good) == [0], "it is there already"
            for number in ("resource_type", "operation", "permission_type", "resource_pattern_type"):
                assert await made(admin, good | {number: 99}, good) == [ErrorCode.INVALID_REQUEST, 0]
            answer = await admin.ask(ApiKey.DESCRIBE_ACLS, 3, choice(operation=99))
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            answer = await admin.ask(
                ApiKey.DELETE_ACLS, 3, {"filters": [choice(operation=99), choice(host_filter="x")]}
            )
            assert [row.error_code for row in answer.filter_results] == [ErrorCode.INVALID_REQUEST, 0]
            answer = await admin.ask(ApiKey.DESCRIBE_ACLS, 3, choice())
            (row,) = answer.resources
            assert (row.resource_type, row.resource_name, row.pattern_type) == (ResourceType.CLUSTER, CLUSTER_NAME, 3)
            (acl,) = row.acls
            assert (acl.principal, acl.host, acl.operation, acl.permission_type) == (
                "User:alice",
                "*",
                Operation.ALTER,
                3,
            )
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("minikafka.server.api.acls.ROWS_MAX", 2)
                answer = await admin.ask(ApiKey.DELETE_ACLS, 3, {"filters": [choice()] * 3})
            assert {row.error_code.value for row in answer.filter_results} == {ErrorCode.INVALID_REQUEST}
            answer = await admin.ask(ApiKey.DELETE_ACLS, 3, {"filters": [choice(), choice()]})
            assert [len(row.matching_acls) for row in answer.filter_results] == [1, 1], "as both found it"
            assert len(broker.metadata.image.acls) == 0
            lines = (cluster.data / "events-1.jsonl").read_text().splitlines()
            told = [e["event"] for line in lines if (e := json.loads(line))["event"].startswith("acl_")]
            assert told == ["acl_created", "acl_deleted"]


async def test_many_acls_are_made_and_removed_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """49,000 held the event loop for 1.3 s. What was made before the controller is gone stays, and is told."""
    monkeypatch.setattr("minikafka.server.api.acls.AT_ONCE", 2)
    async with secured(tmp_path) as cluster:
        broker = cluster.brokers[1]
        left, acls, role = itertools.count(1), broker.metadata.image.acls, broker.membership.role
        assert role is not None
        submit, before = role.submit, len(acls)

        async def until_the_third(decide: Any) -> Any:
            if next(left) == 3:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "gone")
            return await submit(decide)

        async with client_of(broker, "admin") as admin:
            monkeypatch.setattr(role, "submit", until_the_third)
            rows = [creation(Operation.READ, f"t{number}") for number in range(5)]
            assert await made(admin, *rows) == [0, 0, 0, 0, ErrorCode.NOT_CONTROLLER]
            assert await made(admin, *rows) == [0] * 5
            answer = await admin.ask(ApiKey.DELETE_ACLS, 3, {"filters": [choice(operation=Operation.READ)]})
            assert len(answer.filter_results[0].matching_acls) == 5
            assert len(broker.metadata.image.acls) == before
            assert next(left) == 1 + 3 + 3 + 1 + 3


async def test_who_comes_to_the_brokers_listener_needs_cluster_action(tmp_path: Path) -> None:
    """Where nobody logs in there, everybody is ANONYMOUS; a broker that may not act in the cluster is refused, and told."""
    heartbeat = {
        "broker_id": 1,
        "broker_epoch": 1,
        "current_metadata_offset": 0,
        "want_fence": False,
        "want_shut_down": False,
    }
    async with secured(tmp_path, **{"super.users": "User:admin"}) as cluster:
        broker = cluster.brokers[1]
        await cluster.create("orders")
        anonymous = await Stranger.at(broker, "REPLICATION")
        answer = await anonymous.ask(ApiKey.BROKER_HEARTBEAT, 1, heartbeat)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        replica = await fetched(anonymous, "orders", replica_id=2)
        assert replica == {"orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        async with client_of(broker, "admin") as admin:
            acts = creation(Operation.CLUSTER_ACTION, CLUSTER_NAME, "ANONYMOUS", ResourceType.CLUSTER)
            assert await made(admin, acts) == [0]
        answer = await anonymous.ask(ApiKey.BROKER_HEARTBEAT, 1, heartbeat)
        assert answer.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        replica = await fetched(anonymous, "orders", replica_id=2)
        assert replica["orders"] != ErrorCode.TOPIC_AUTHORIZATION_FAILED
        anonymous.close()


@pytest.mark.slow
async def test_a_broker_joins_as_soon_as_it_may(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Until then it asks again, and both sides say why not."""
    async with secured(tmp_path, **{"super.users": "User:admin"}) as cluster:
        joining = asyncio.create_task(cluster.start(2))
        await until(lambda: NOT_A_BROKER in capsys.readouterr().err)
        assert not joining.done()
        async with client_of(cluster.brokers[1], "admin") as admin:
            acts = creation(Operation.CLUSTER_ACTION, CLUSTER_NAME, "ANONYMOUS", ResourceType.CLUSTER)
            assert await made(admin, acts) == [0]
        await joining
        refused = ("User:ANONYMOUS", "CLUSTER_ACTION", f"CLUSTER:{CLUSTER_NAME}", "BrokerRegistration")
        assert refused in denials(cluster)


async def test_groups_need_acls(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        broker = cluster.brokers[1]
        async with client_of(broker, "alice") as alice, client_of(broker, "admin") as admin:
            find = {"key_type": 0, "coordinator_keys": ["g", "h"]}
            join = {
                "group_id": "g", "member_id": "", "protocol_type": "consumer", "session_timeout": 10_000,
                "rebalance_timeout": 10_000, "protocols": [{"name": "range", "metadata": b""}],
            }  # fmt: skip
            answer = await alice.ask(ApiKey.JOIN_GROUP, 5, join)
            assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
            assert await made(admin, creation(Operation.READ, "g", kind=GROUP)) == [0]

            async def coordinators() -> dict[str, int]:
                answer = await alice.ask(ApiKey.FIND_COORDINATOR, 4, find)
                return {row.key: int(row.error_code) for row in answer.coordinators}

            found = await coordinators()
            while found["g"] == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                found = await coordinators()
            assert found == {"g": 0, "h": ErrorCode.GROUP_AUTHORIZATION_FAILED}
            answer = await alice.ask(ApiKey.JOIN_GROUP, 5, join)
            assert answer.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("everyone", ["true", "false"])
async def test_what_no_acl_is_about(tmp_path: Path, everyone: str) -> None:
    async with secured(tmp_path, **{"allow.everyone.if.no.acl.found": everyone}) as cluster:
        await cluster.create("orders")
        broker = cluster.brokers[1]
        async with client_of(broker, "alice") as alice, client_of(broker, "admin") as admin:
            code = await produced(alice, "orders")
            assert code == (ErrorCode.NONE if everyone == "true" else ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            assert await made(admin, creation(Operation.WRITE, "orders", "bob")) == [0]
            assert await produced(alice, "orders") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
