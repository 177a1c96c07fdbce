"""Every field of every advertised version is used, or its API's module says why not (27 B8).

AlterPartitionReassignments v1 was advertised once, and its one new field ignored: a client that forbids changes of the
replication factor got one. So each request field must be looked at by the handler, and each response field set by it, in each
version that is advertised; what is not is listed in the ``ApiSpec`` with the reason. Produce and Fetch, whose codecs are by
hand, are asked whether a field makes a difference to what they hand on.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from minikafka.groups.requests import GroupProtocol, JoinRequest, SyncRequest
from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.fetch import FetchPartition, decode_fetch
from minikafka.protocol.produce import ProduceRequest, decode_produce
from minikafka.replication import purgatory, replicas
from minikafka.security.scram import credential_of
from minikafka.server.api import fetch, load_handlers, produce
from minikafka.server.api.spec import UNSET_EVERYWHERE
from minikafka.server.broker import Broker

from tests.interop.raw_client import ProducerState, record_batch
from tests.unit.server.api_requests import GROUP, TOPIC, Recorder, field_paths, fields_set, is_list, requests, structs
from tests.unit.server.in_process import DEADLINE, running
from tests.waiting import until

HOT = (ApiKey.PRODUCE, ApiKey.FETCH)
HANDLERS = load_handlers()
COLD = {key: spec for key, (spec, _) in HANDLERS.items() if key not in HOT}


class Used(NamedTuple):
    """Paths of the fields that a handler looks at and sets, and what it did wrong."""

    read: set[str]
    set: set[str]
    failures: list[str]


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[ApiKey, int], Used]:
    """Each API's handler in each version, on a broker that is the controller and has a topic of two partitions."""
    data: Path = tmp_path_factory.mktemp("fields")

    async def ask_all() -> dict[tuple[ApiKey, int], Used]:
        one = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": "1"}
        acls = {"authorizer_class_name": "StandardAuthorizer", "super_users": "User:ANONYMOUS"}
        async with running(data, group_initial_rebalance_delay_ms="0", **one, **acls) as cluster:
            await cluster.create(TOPIC, 2)
            broker = cluster.brokers[1]
            await has_something_to_tell(broker)
            versions = [(key, v) for key, spec in COLD.items() for v in range(spec.min_version, spec.max_version + 1)]
            return {(key, version): await asked(broker, key, version) for key, version in versions}

    return asyncio.run(ask_all())


async def has_something_to_tell(broker: Broker) -> None:
    """A record of an idempotent producer, a user with a quota, an ACL, and a group with a static member."""
    broker.metadata.image.apply(f"acl/TOPIC/LITERAL/{TOPIC}", [["User:u", "*", "READ", "ALLOW"]])
    quota = {"entity": {"user": TOPIC}, "values": {"consumer_byte_rate": 1000.0}}
    broker.metadata.image.apply(f"quota/user={TOPIC}", quota)
    credential = credential_of("SCRAM-SHA-256", "password", salt=b"salt").to_json()
    broker.metadata.image.apply(f"scram/SCRAM-SHA-256/{TOPIC}", credential)
    await until(lambda: broker.replicas.get(TOPIC, 0).leader is not None)
    batch = bytearray(record_batch([b"value"], producer=ProducerState(5, 0, 0)))
    broker.replicas.produce(ProduceRequest(None, 1, 1000, [(TOPIC, [(0, memoryview(batch))])]), lambda _: None)
    joining = JoinRequest(
        GROUP,
        "",
        "consumer",
        (GroupProtocol("range", b""),),
        600_000,
        600_000,
        "static",
        "test",
        "/127.0.0.1",
        False,
        True,
    )
    async with asyncio.timeout(DEADLINE):
        member = await joined(broker, joining)
    await broker.groups.sync(SyncRequest(GROUP, member, 1, {member: b""}, "static", "consumer", "range"))


async def joined(broker: Broker, joining: JoinRequest) -> str:
    """The member's id, as soon as the coordinator's topic is there and has been read."""
    while True:
        await broker.groups.wait_for_topic()
        if broker.groups.find(GROUP, "REPLICATION") is not None:
            answer = await broker.groups.join(joining)
            if not answer.error:
                return answer.member_id
        await asyncio.sleep(0.005)


async def asked(broker: Broker, key: ApiKey, version: int) -> Used:
    _, handle = broker.services.handlers[key]
    used = Used(set(), set(), [])
    context: Any = SimpleNamespace(
        api_version=version, client_id="test", client_host="127.0.0.1", listener="REPLICATION", inter_broker=True,
        principal="User:ANONYMOUS", connection=SimpleNamespace(heartbeats_of=None, asked_by=""),
        mutations=lambda quotas: quotas.mutations(context, strict=True),
    )  # fmt: skip
    known = {  # what only the broker knows
        "topic_id": broker.metadata.image.topics[TOPIC].topic_id,
        "broker_id": 1,
        "broker_epoch": broker.broker_epoch,
        "cluster_id": broker.metadata.image.cluster_id,
    }
    for request in requests(key, version, known):
        try:
            answer = await handle(broker.services, context, Recorder(request, used.read))
            used.set.update(fields_set(answer))
            messages.encode_response(key, version, answer)
        except Exception as error:
            used.failures.append(f"{type(error).__name__}: {error}")
    return used


def below(path: str, listed: Collection[str]) -> bool:
    """Whether a path, or a struct that it lies in, is listed."""
    return any(path == name or path.startswith(f"{name}.") for name in listed)


@pytest.mark.slow
@pytest.mark.parametrize("key", COLD, ids=lambda key: key.api_name)
def test_every_field_is_used_or_listed(used: Mapping[tuple[ApiKey, int], Used], key: ApiKey) -> None:
    spec = COLD[key]
    unset = {**spec.unset, **UNSET_EVERYWHERE}
    wrong = []
    versions = range(spec.min_version, spec.max_version + 1)
    set_ = set().union(*(used[key, version].set for version in versions))  # some answers of some versions are short
    for version in versions:
        read, _, failures = used[key, version]
        request, response = messages.request_type(key, version), messages.response_type(key, version)
        wrong += [f"v{version}: {failure}" for failure in failures]
        wrong += [
            f"v{version}: {p} is not read" for p in field_paths(request) if p not in read and not below(p, spec.unread)
        ]
        wrong += [f"v{version}: {p} is not set" for p in field_paths(response) if p not in set_ and not below(p, unset)]
        wrong += [f"v{version}: {p} is read, though listed" for p in read if below(p, spec.unread)]
        wrong += [f"v{version}: {p} is set, though listed" for p in set_ if below(p, unset)]
    assert wrong == []


# -- Produce and Fetch --------------------------------------------------------------------------------------------------


def attributes_read(of: str) -> frozenset[str]:
    """Of a variable, in what serves Produce and Fetch."""
    trees = [ast.parse(inspect.getsource(module)) for module in (fetch, produce, replicas, purgatory)]
    return frozenset(
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == of
    )


READ_OF_REQUEST, READ_OF_PARTITION = attributes_read("request"), attributes_read("asked")


def decoded(key: ApiKey, version: int, body: bytes) -> dict[str, Any]:
    """What the codec of ours hands on, and is looked at."""
    body = b"\0" * messages.is_flexible(key, version) + body  # the tags of the header come first
    request: Any = (decode_produce if key is ApiKey.PRODUCE else decode_fetch)(memoryview(body), 0, version)
    topics = [(topic, [partition_read(partition) for partition in partitions]) for topic, partitions in request.topics]
    found = {name: getattr(request, name) for name in READ_OF_REQUEST & set(request.__slots__)}
    return found | {"topics": topics}


def partition_read(partition: Any) -> Any:
    if isinstance(partition, FetchPartition):
        return [value for name, value in partition._asdict().items() if name in READ_OF_PARTITION]
    index, records = partition
    return index, records if records is None else bytes(records)


def hot_request(entity_type: Any, changed: str, path: str = "") -> dict[str, Any]:
    """Values for each field, other than the usual for the one whose path is ``changed``."""
    values: dict[str, Any] = {}
    for field in fields(entity_type):
        name = f"{path}{field.name}"
        if inner := next(structs(field.type), None):
            struct = hot_request(inner, changed, f"{name}.")
            values[field.name] = [struct] if is_list(field.type) else struct
        else:
            values[field.name] = two_values(field)[name == changed]
    return values


def two_values(field: Any) -> tuple[Any, Any]:
    if field.name == "records":
        return None, b"records"
    if field.name == "partitions":
        return [1], [2]
    return {
        "string": ("a", "b"), "uuid": (UUID(int=1), UUID(int=2)),
    }.get(field.metadata["kafka_type"], (1, 2))  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("key", HOT, ids=lambda key: key.api_name)
def test_every_field_of_a_hot_request_is_decoded_or_listed(key: ApiKey) -> None:
    spec = HANDLERS[key][0]
    wrong = []
    for version in range(spec.min_version, spec.max_version + 1):
        request = messages.request_type(key, version)
        plain = decoded(key, version, messages.encode_request(key, version, hot_request(request, "")))
        for path in field_paths(request):
            other = messages.encode_request(key, version, hot_request(request, path))
            if hot_request(request, path) == hot_request(request, ""):
                continue  # a struct: its fields are asked one by one
            if (decoded(key, version, other) == plain) != below(path, spec.unread):
                wrong.append(
                    f"v{version}: {path} is {'decoded, though listed' if below(path, spec.unread) else 'not decoded'}"
                )
    assert wrong == []
