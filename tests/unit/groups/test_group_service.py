"""The APIs of groups, each at every version that it is advertised in."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from minikafka.groups.placement import OFFSETS_TOPIC
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.api import load_handlers

from .dialogue import Lab, subscription
from .one_broker import (
    BROKER_ID,
    PARTITIONS,
    error_of,
    id_of,
    member,
    one_broker,
    stable,
    versions,
)


@pytest.mark.parametrize("version", versions("JoinGroup"))
async def test_join_group(version: int) -> None:
    async with one_broker() as broker:
        joined = await member(broker, version)
        assert joined.member_id.startswith("alice-")
        assert joined.leader == joined.member_id
        assert joined.generation_id == 1
        assert joined.protocol_name == "range"
        assert joined.members[0].metadata == subscription("ledger")


@pytest.mark.parametrize("version", versions("JoinGroup"))
async def test_join_group_refused(version: int) -> None:
    async with one_broker() as broker:
        answer = await broker.ask(
            "JoinGroup", version, group_id="", session_timeout=10_000, member_id="", protocol_type="c", protocols=[]
        )
        assert error_of(answer) is ErrorCode.INVALID_GROUP_ID
        assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", versions("SyncGroup"))
async def test_sync_group(version: int) -> None:
    async with one_broker() as broker:
        joined = await member(broker)
        said: dict[str, Any] = {
            "group_id": "bank",
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "assignments": [{"member_id": joined.member_id, "assignment": b"all"}],
        }
        if version >= 5:
            refused = await broker.ask("SyncGroup", version, **said)
            assert error_of(refused) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            said |= {"protocol_type": "consumer", "protocol_name": "range"}
        answer = await broker.ask("SyncGroup", version, **said)
        assert error_of(answer) is ErrorCode.NONE
        assert answer.assignment == b"all"


async def test_a_member_id_is_a_name_on_the_wire_whatever_the_client_is_called() -> None:
    """A longer one could not be answered with; and those that have not come back yet are many."""
    async with one_broker() as broker:
        static = await member(broker, version=5, instance="i" * 32_760)
        assert static.member_id.startswith("iii") and len(static.member_id) < 300
    first = Lab().join(client="a" * 32_760).answer
    assert first.member_id.startswith("aaa") and len(first.member_id) < 300


@pytest.mark.parametrize("version", versions("Heartbeat"))
async def test_heartbeat(version: int) -> None:
    async with one_broker() as broker:
        joined = await stable(broker)
        said = {"group_id": "bank", "generation_id": joined.generation_id, "member_id": joined.member_id}
        assert error_of(await broker.ask("Heartbeat", version, **said)) is ErrorCode.NONE
        said["generation_id"] += 1
        assert error_of(await broker.ask("Heartbeat", version, **said)) is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", versions("LeaveGroup"))
async def test_leave_group(version: int) -> None:
    async with one_broker() as broker:
        joined = await stable(broker)
        if version < 3:
            answer = await broker.ask("LeaveGroup", version, group_id="bank", member_id="nobody")
            assert error_of(answer) is ErrorCode.UNKNOWN_MEMBER_ID
            answer = await broker.ask("LeaveGroup", version, group_id="bank", member_id=joined.member_id)
        else:
            members = [{"member_id": joined.member_id}, {"member_id": "nobody"}]
            answer = await broker.ask("LeaveGroup", version, group_id="bank", members=members)
            assert [error_of(m) for m in answer.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
        assert error_of(answer) is ErrorCode.NONE
        answer = await broker.ask("LeaveGroup", version, group_id="", member_id="", members=[])
        assert error_of(answer) is ErrorCode.INVALID_GROUP_ID


def named(topic: Any) -> str | UUID:
    """By what an answer names a topic: its name, and from version 10 on its id."""
    return topic.name if hasattr(topic, "name") else topic.topic_id  # type: ignore[no-any-return]


def named_in(version: int, name: str) -> str | UUID:
    return id_of(name) if version >= 10 else name


@pytest.mark.parametrize("version", versions("OffsetCommit"))
async def test_offset_commit(version: int) -> None:
    """Unknown topics and partitions are refused one by one."""
    async with one_broker() as broker:
        rows = [
            {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 3, "committed_metadata": None},
            {"partition_index": 9, "committed_offset": 5, "committed_metadata": "x"},
        ]
        topics = [{"name": name, "topic_id": id_of(name), "partitions": rows} for name in ("ledger", "nowhere")]
        answer = await broker.ask("OffsetCommit", version, group_id="simple", member_id="", topics=topics)
        codes = {(named(t), p.partition_index): error_of(p) for t in answer.topics for p in t.partitions}
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        no_topic = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else unknown
        ledger, nowhere = named_in(version, "ledger"), named_in(version, "nowhere")
        assert codes == {
            (ledger, 0): ErrorCode.NONE,
            (ledger, 9): unknown,
            (nowhere, 0): no_topic,
            (nowhere, 9): no_topic,
        }
        fetched = await broker.ask("OffsetFetch", 7, group_id="simple", topics=None)
        row = fetched.topics[0].partitions[0]
        assert (row.committed_offset, row.committed_leader_epoch, row.metadata) == (5, 3 if version >= 6 else -1, "")


@pytest.mark.parametrize("version", versions("OffsetFetch"))
async def test_offset_fetch(version: int) -> None:
    async with one_broker() as broker:
        rows = [{"partition_index": 1, "committed_offset": 5, "committed_leader_epoch": 3, "committed_metadata": "m"}]
        topics = [{"name": "ledger", "partitions": rows}]
        await broker.ask("OffsetCommit", 9, group_id="simple", member_id="", topics=topics)
        wanted = [{"name": "ledger", "partition_indexes": [0, 1]}]
        if version >= 8:
            wanted = [{**wanted[0], "topic_id": id_of("ledger")}]
            asked = [{"group_id": "simple", "topics": wanted}, {"group_id": "other", "topics": None}]
            answer = await broker.ask("OffsetFetch", version, groups=asked)
            assert [(g.group_id, error_of(g)) for g in answer.groups] == [
                ("simple", ErrorCode.NONE),
                ("other", ErrorCode.NONE),
            ]
            assert [len(g.topics) for g in answer.groups] == [1, 0]
            found = answer.groups[0].topics
            asked[1]["group_id"] = "simple"  # named twice, answered once: with all that one of both asks for
            (everything,) = (await broker.ask("OffsetFetch", version, groups=asked)).groups
            assert [row.partition_index for row in everything.topics[0].partitions] == [1]
        else:
            found = (await broker.ask("OffsetFetch", version, group_id="simple", topics=wanted)).topics
        none, row = found[0].partitions
        assert (none.committed_offset, none.metadata, error_of(none)) == (-1, "", ErrorCode.NONE)
        assert (row.partition_index, row.committed_offset, row.metadata) == (1, 5, "m")
        if version >= 5:
            assert (none.committed_leader_epoch, row.committed_leader_epoch) == (-1, 3)


async def test_offsets_of_a_topic_whose_id_nobody_knows() -> None:
    """KIP-848: its successor's offsets are not its own. In a list of all there are only topics that there are."""
    async with one_broker() as broker:
        rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        topics = [{"topic_id": id_of("ledger"), "partitions": rows}]
        await broker.ask("OffsetCommit", 10, group_id="simple", member_id="", topics=topics)
        wanted = [{"topic_id": id_of("nowhere"), "partition_indexes": [0]}]
        asked = [{"group_id": "simple", "topics": wanted}]
        (group,) = (await broker.ask("OffsetFetch", 10, groups=asked)).groups
        assert error_of(group) is ErrorCode.NONE
        assert [(t.topic_id, error_of(p), p.committed_offset) for t in group.topics for p in t.partitions] == [
            (id_of("nowhere"), ErrorCode.UNKNOWN_TOPIC_ID, -1)
        ]
        del broker.topics["ledger"]
        (group,) = (await broker.ask("OffsetFetch", 10, groups=[{"group_id": "simple", "topics": None}])).groups
        assert (error_of(group), group.topics) == (ErrorCode.NONE, ())


@pytest.mark.parametrize("version", versions("OffsetFetch"))
async def test_offset_fetch_from_the_wrong_broker(version: int) -> None:
    """The error is the group's, and in version 1, which has no such field, each partition's."""
    async with one_broker(leads=False) as broker:
        wanted = [{"name": "ledger", "partition_indexes": [0]}]
        answer = await broker.ask(
            "OffsetFetch", version, group_id="g", topics=wanted, groups=[{"group_id": "g", "topics": wanted}]
        )
        if version == 1:
            assert error_of(answer.topics[0].partitions[0]) is ErrorCode.NOT_COORDINATOR
        else:
            assert error_of(answer.groups[0] if version >= 8 else answer) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", versions("FindCoordinator"))
async def test_find_coordinator(version: int) -> None:
    async with one_broker() as broker:
        answer = await broker.ask("FindCoordinator", version, key="bank", key_type=0, coordinator_keys=["bank", "two"])
        found = answer.coordinators if version >= 4 else [answer]
        assert [(error_of(c), c.node_id, c.host, c.port) for c in found] == [
            (ErrorCode.NONE, BROKER_ID, "host", 9092)
        ] * len(found)
        if version >= 1:
            answer = await broker.ask("FindCoordinator", version, key="tx", key_type=1, coordinator_keys=["tx"])
            found = answer.coordinators if version >= 4 else [answer]
            assert (
                error_of(found[0]) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            )  # which ends librdkafka's client
            assert "transactions" in found[0].error_message
            answer = await broker.ask("FindCoordinator", version, key="tx", key_type=2, coordinator_keys=["tx"])
            found = answer.coordinators if version >= 4 else [answer]
            assert error_of(found[0]) is ErrorCode.INVALID_REQUEST


async def test_the_first_find_coordinator_creates_the_offsets_topic() -> None:
    """And a refusal is something to try again for."""
    async with one_broker(leads=False) as broker:
        del broker.topics[OFFSETS_TOPIC]
        broker.topic_error = KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "too few brokers")
        answer = await broker.ask("FindCoordinator", 3, key="bank", key_type=0)
        assert error_of(answer) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker.topic_error = None
        answer = await broker.ask("FindCoordinator", 3, key="bank", key_type=0)
        assert (error_of(answer), answer.node_id) == (ErrorCode.NONE, BROKER_ID)
        assert (await member(broker)).generation_id == 1  # with the topic's own number of partitions, not the default
        assert broker.groups.coordinator.partitions == PARTITIONS


async def test_find_coordinator_without_a_leader() -> None:
    async with one_broker(leads=False) as broker:
        answer = await broker.ask("FindCoordinator", 3, key="bank", key_type=0)
        assert error_of(answer) is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", versions("DescribeGroups"))
async def test_describe_groups(version: int) -> None:
    async with one_broker() as broker:
        await stable(broker, instance="one")
        answer = await broker.ask(
            "DescribeGroups", version, groups=["bank", "nobody"], include_authorized_operations=False
        )
        bank, nobody = answer.groups
        assert (bank.group_state, bank.protocol_type, bank.protocol_data) == ("Stable", "consumer", "range")
        (one,) = bank.members
        assert (one.client_id, one.client_host, one.member_assignment) == ("alice", "/127.0.0.1", b"all")
        if version >= 4:
            assert one.group_instance_id == "one"
        assert nobody.group_state == "Dead"
        assert error_of(nobody) is (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)


@pytest.mark.parametrize("version", versions("ListGroups"))
async def test_list_groups(version: int) -> None:
    async with one_broker() as broker:
        await stable(broker)
        answer = await broker.ask("ListGroups", version, states_filter=["stable"], types_filter=["classic"])
        (group,) = answer.groups
        assert (group.group_id, group.protocol_type) == ("bank", "consumer")
        if version >= 4:
            assert group.group_state == "Stable"
            assert (await broker.ask("ListGroups", version, states_filter=["Empty"])).groups == ()
        if version >= 5:
            assert group.group_type == "classic"


@pytest.mark.parametrize("version", versions("DeleteGroups"))
async def test_delete_groups(version: int) -> None:
    async with one_broker() as broker:
        joined = await stable(broker)
        answer = await broker.ask("DeleteGroups", version, groups_names=["bank", "nobody", "bank"])
        assert {r.group_id: error_of(r) for r in answer.results} == {
            "bank": ErrorCode.NON_EMPTY_GROUP,
            "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        await broker.ask("LeaveGroup", 0, group_id="bank", member_id=joined.member_id)
        answer = await broker.ask("DeleteGroups", version, groups_names=["bank"])
        assert error_of(answer.results[0]) is ErrorCode.NONE
        assert broker.events[-1] == "group_deleted"


async def test_offset_delete() -> None:
    async with one_broker() as broker:
        rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        topics = [{"name": "ledger", "partitions": rows}]
        await broker.ask("OffsetCommit", 9, group_id="simple", member_id="", topics=topics)
        wanted = [{"name": "ledger", "partitions": [{"partition_index": 0}, {"partition_index": 9}]}]
        answer = await broker.ask("OffsetDelete", 0, group_id="simple", topics=wanted)
        assert error_of(answer) is ErrorCode.NONE
        assert [error_of(p) for p in answer.topics[0].partitions] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        answer = await broker.ask("OffsetDelete", 0, group_id="nobody", topics=wanted)
        assert error_of(answer) is ErrorCode.GROUP_ID_NOT_FOUND


def test_every_group_api_is_there() -> None:
    """Ranges from the KIP-896 floor up; docs and ApiVersions take them from here."""
    served = {key: (spec.min_version, spec.max_version) for key, (spec, _) in load_handlers().items()}
    assert (
        served.items()
        >= {
            8: (2, 10),
            9: (1, 10),
            10: (0, 6),
            11: (0, 9),
            12: (0, 4),
            13: (0, 5),
            14: (0, 5),
            15: (0, 6),
            16: (0, 5),
            42: (0, 2),
            47: (0, 0),
        }.items()
    )
