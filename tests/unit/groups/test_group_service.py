"""The asyncio shell: time, the log, leadership, and the APIs over every version they advertise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from minikafka.groups import host as group_host
from minikafka.groups.config import GroupConfig
from minikafka.groups.placement import OFFSETS_TOPIC, partition_for
from minikafka.groups.requests import GroupProtocol, JoinRequest, SyncRequest
from minikafka.log.errors import LogDirFailure
from minikafka.protocol import messages
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.records import RecordBatch, iterate_batches
from minikafka.server.api.groups import SPECS
from minikafka.server.group_service import GroupService
from minikafka.server.machine import Machine

from .dialogue import RANGE, subscription

BY_NAME = {spec.name: (spec, handler) for spec, handler in SPECS}
PARTITIONS = 4
BROKER_ID = 7


class OneBroker:
    """A broker that leads every partition of ``__consumer_offsets``, with its log in memory."""

    clock = Machine.clock

    def __init__(self, log: dict[int, list[bytes]] | None = None, **config: Any) -> None:
        self.log: dict[int, list[bytes]] = {} if log is None else log
        self.topics = {"ledger": 2, OFFSETS_TOPIC: PARTITIONS}
        self.topic_error: Exception | None = None
        self.append_error = ErrorCode.NONE
        self.read_error: Exception | None = None
        self.hold: list[Callable[[ErrorCode], None]] | None = None
        self.hold_commit: list[Callable[[ErrorCode], None]] | None = None
        self.events: list[str] = []
        self.warnings: list[str] = []
        self.groups = GroupService(
            config=GroupConfig(**{"group_initial_rebalance_delay_ms": 0, **config}),
            offsets_partitions=50,
            log=self,
            ensure_offsets_topic=self._ensure,
            partition_count=lambda topic: self.topics.get(topic, 0),
            partition_leader=lambda _topic, partition: BROKER_ID if partition in self.log_leaders else -1,
            endpoint_of=lambda broker, listener: ("host", 9092) if (broker, listener) == (BROKER_ID, "PLAIN") else None,
            clock=Machine.clock,
            new_id=lambda: str(uuid4()),
            emit=lambda event, **fields: self.events.append(event),
            warn=self.warnings.append,
        )
        self.log_leaders: set[int] = set()

    def lead(self) -> None:
        for partition in range(PARTITIONS):
            self.log_leaders.add(partition)
            self.groups.host.on_leadership_change(partition, True)

    def append(self, topic: str, partition: int, batch: bytearray, done: Callable[[ErrorCode], None]) -> None:
        assert topic == OFFSETS_TOPIC
        if self.append_error is ErrorCode.NONE:
            self.log.setdefault(partition, []).append(bytes(batch))
        if self.hold is not None:
            self.hold.append(done)
        else:
            done(self.append_error)

    def read(self, topic: str, partition: int) -> Iterator[RecordBatch]:
        for batch in self.log.get(partition, []):
            yield from iterate_batches(batch)
        if self.read_error is not None:
            raise self.read_error

    def when_committed(self, topic: str, partition: int, done: Callable[[ErrorCode], None]) -> None:
        if self.hold_commit is not None:
            self.hold_commit.append(done)
        else:
            done(ErrorCode.NONE)

    async def _ensure(self) -> None:
        if self.topic_error is not None:
            raise self.topic_error
        self.topics[OFFSETS_TOPIC] = PARTITIONS
        self.lead()

    async def ask(self, name: str, version: int, **values: Any) -> Any:
        """A request over the wire format and back."""
        spec, handler = BY_NAME[name]
        request = messages.decode_request(spec.key, version, messages.encode_request(spec.key, version, values))
        ctx: Any = SimpleNamespace(api_version=version, client_id="alice", client_host="127.0.0.1", listener="PLAIN")
        broker: Any = self
        answer = await handler(broker, ctx, request)
        return messages.decode_response(spec.key, version, messages.encode_response(spec.key, version, answer))


@asynccontextmanager
async def one_broker(*, leads: bool = True, **config: Any) -> AsyncIterator[OneBroker]:
    broker = OneBroker(**config)
    if leads:
        broker.lead()
    try:
        yield broker
    finally:
        broker.groups.stop()


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.001)


def versions(name: str) -> list[int]:
    spec = BY_NAME[name][0]
    return list(range(spec.min_version, spec.max_version + 1))


def error_of(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code.value)


PROTOCOLS = [{"name": "range", "metadata": subscription("ledger")}]


async def member(broker: OneBroker, version: int = 9, instance: str | None = None, group: str = "bank") -> Any:
    """Join, as a client of that version does."""
    said = {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "member_id": "",
        "group_instance_id": instance,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
    }
    answer = await broker.ask("JoinGroup", version, **said)
    if error_of(answer) is ErrorCode.MEMBER_ID_REQUIRED:
        answer = await broker.ask("JoinGroup", version, **said | {"member_id": answer.member_id})
    assert error_of(answer) is ErrorCode.NONE
    return answer


async def stable(broker: OneBroker, instance: str | None = None) -> Any:
    joined = await member(broker, instance=instance)
    await broker.ask(
        "SyncGroup",
        5,
        group_id="bank",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": joined.member_id, "assignment": b"all"}],
    )
    return joined


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


@pytest.mark.parametrize("version", versions("OffsetCommit"))
async def test_offset_commit(version: int) -> None:
    """Unknown topics and partitions are refused one by one."""
    async with one_broker() as broker:
        rows = [
            {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 3, "committed_metadata": None},
            {"partition_index": 9, "committed_offset": 5, "committed_metadata": "x"},
        ]
        topics = [{"name": name, "partitions": rows} for name in ("ledger", "nowhere")]
        answer = await broker.ask("OffsetCommit", version, group_id="simple", member_id="", topics=topics)
        codes = {(t.name, p.partition_index): error_of(p) for t in answer.topics for p in t.partitions}
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == {
            ("ledger", 0): ErrorCode.NONE,
            ("ledger", 9): unknown,
            ("nowhere", 0): unknown,
            ("nowhere", 9): unknown,
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
            asked = [{"group_id": "simple", "topics": wanted}, {"group_id": "simple", "topics": None}]
            answer = await broker.ask("OffsetFetch", version, groups=asked)
            assert [error_of(g) for g in answer.groups] == [ErrorCode.NONE, ErrorCode.NONE]
            assert [len(g.topics[0].partitions) for g in answer.groups] == [2, 1]
            found = answer.groups[0].topics
        else:
            found = (await broker.ask("OffsetFetch", version, group_id="simple", topics=wanted)).topics
        none, row = found[0].partitions
        assert (none.committed_offset, none.metadata, error_of(none)) == (-1, "", ErrorCode.NONE)
        assert (row.partition_index, row.committed_offset, row.metadata) == (1, 5, "m")
        if version >= 5:
            assert (none.committed_leader_epoch, row.committed_leader_epoch) == (-1, 3)


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
            assert error_of(found[0]) is ErrorCode.INVALID_REQUEST
            assert "transactions" in found[0].error_message


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
            assert group.group_type == "Classic"


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


async def test_offsets_and_members_survive_the_broker() -> None:
    """What one service wrote, in Kafka's record batches, another one reads."""
    async with one_broker() as first:
        joined = await stable(first)
        rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        topics = [{"name": "ledger", "partitions": rows}]
        await first.ask(
            "OffsetCommit",
            9,
            group_id="bank",
            member_id=joined.member_id,
            generation_id_or_member_epoch=joined.generation_id,
            topics=topics,
        )
        async with one_broker(log=first.log) as heir:
            answer = await heir.ask(
                "Heartbeat", 4, group_id="bank", generation_id=joined.generation_id, member_id=joined.member_id
            )
            assert error_of(answer) is ErrorCode.NONE
            fetched = await heir.ask("OffsetFetch", 7, group_id="bank", topics=None)
            assert fetched.topics[0].partitions[0].committed_offset == 5
            assert "group_loaded" in heir.events


async def test_a_long_log_is_loaded_in_slices() -> None:
    """The event loop is not kept; meanwhile COORDINATOR_LOAD_IN_PROGRESS."""
    async with one_broker() as first:
        rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": "m" * 3000}]
        for _ in range(20):
            topics = [{"name": "ledger", "partitions": rows}]
            await first.ask("OffsetCommit", 9, group_id="simple", member_id="", topics=topics)
        partition = partition_for("simple", PARTITIONS)
        first.log[partition] *= 100
        async with one_broker(log=first.log) as heir:
            answer = await heir.ask("OffsetFetch", 7, group_id="simple", topics=None)
            assert error_of(answer) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await until(lambda: len(heir.groups.coordinator.owned) == PARTITIONS)
            answer = await heir.ask("OffsetFetch", 7, group_id="simple", topics=None)
            assert answer.topics[0].partitions[0].committed_offset == 5


async def test_leadership_lost_while_loading() -> None:
    """The load is cancelled, and another term loads again, even of a topic that was deleted and made again."""
    async with one_broker() as first:
        rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": "m" * 3000}]
        await first.ask(
            "OffsetCommit", 9, group_id="simple", member_id="", topics=[{"name": "ledger", "partitions": rows}]
        )
        partition = partition_for("simple", PARTITIONS)
        first.log[partition] *= 2000
        async with one_broker(log=first.log) as heir:
            heir.groups.host.on_leadership_change(partition, False)
            answer = await heir.ask("OffsetFetch", 7, group_id="simple", topics=None)
            assert error_of(answer) is ErrorCode.NOT_COORDINATOR
            heir.groups.host.on_leadership_change(partition, True)
            await until(lambda: partition in heir.groups.coordinator.owned)


async def test_a_log_that_cannot_be_read_is_not_half_loaded() -> None:
    """Offsets missing without a word would make consumers start over."""
    async with one_broker(leads=False) as broker:
        broker.read_error = LogDirFailure("disk gone", permanent=False)
        broker.lead()
        answer = await broker.ask("OffsetFetch", 7, group_id="simple", topics=None)
        assert error_of(answer) is ErrorCode.NOT_COORDINATOR
        assert "disk gone" in broker.warnings[0]


async def test_a_log_that_can_be_read_again_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was tried once a leadership: a disk that was busy for a moment left its groups without a coordinator for good."""
    monkeypatch.setattr(group_host, "LOAD_RETRY_SECONDS_FIRST", 0.001)
    for error in (LogDirFailure("disk", permanent=False), ZeroDivisionError("a mistake")):
        async with one_broker(leads=False) as broker:
            broker.read_error = error
            broker.lead()
            fetched = await broker.ask("OffsetFetch", 7, group_id="bank", topics=None, require_stable=False)
            assert error_of(fetched) is ErrorCode.NOT_COORDINATOR
            await until(lambda: len(broker.warnings) >= 2 * PARTITIONS)
            assert broker.events == ["component_failed"] * PARTITIONS, "told once"
            broker.read_error = None
            await until(lambda: broker.groups.coordinator.owned == set(range(PARTITIONS)))
            assert broker.events[PARTITIONS:] == ["component_recovered"] * PARTITIONS


async def test_what_is_not_committed_yet_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader may hold records that never are committed; the next coordinator would contradict it (schedule 108484)."""
    monkeypatch.setattr(group_host, "LOAD_RETRY_SECONDS_FIRST", 0.001)
    async with one_broker(leads=False) as broker:
        broker.hold_commit = []
        broker.lead()
        answer = await broker.ask("OffsetFetch", 7, group_id="bank", topics=None)
        assert error_of(answer) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        waiting, broker.hold_commit = broker.hold_commit, None
        assert len(waiting) == PARTITIONS
        waiting[0](ErrorCode.NOT_LEADER_OR_FOLLOWER)  # it leads in another epoch already: it waits again
        broker.groups.host.on_leadership_change(1, False)
        for committed in waiting[1:]:
            committed(ErrorCode.NONE)
        await until(lambda: broker.groups.coordinator.owned == {0, 2, 3})
        assert broker.events == []


async def test_people_are_told_of_groups_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_host, "COMMIT_WAIT_WARNING_SECONDS", 0.001)
    async with one_broker(leads=False) as broker:
        broker.hold_commit = []
        broker.lead()
        await until(lambda: len(broker.warnings) == PARTITIONS)
        assert "min.insync.replicas" in broker.warnings[0]


async def test_a_topic_that_is_deleted_while_its_offsets_are_loaded() -> None:
    """A new topic of its name was read from the old one's offset (found by an attack)."""
    async with one_broker() as first:
        rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        topics = [{"name": "ledger", "partitions": rows}]
        await first.ask("OffsetCommit", 9, group_id="g", member_id="", topics=topics)
        async with one_broker(log=first.log, leads=False) as heir:
            heir.hold_commit = []
            heir.lead()
            heir.groups.topics_deleted(["ledger"])
            waiting, heir.hold_commit = heir.hold_commit, None
            for committed in waiting:
                committed(ErrorCode.NONE)
            answer = await heir.ask("OffsetFetch", 7, group_id="g", topics=None)
            assert error_of(answer) is ErrorCode.NONE and not answer.topics


async def test_a_log_that_cannot_be_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake there is told, and tried again."""
    monkeypatch.setattr(group_host, "LOAD_RETRY_SECONDS_FIRST", 0.001)
    async with one_broker(leads=False) as broker:
        waits = broker.when_committed

        def mistake(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(broker, "when_committed", mistake)
        broker.lead()
        monkeypatch.setattr(broker, "when_committed", waits)
        await until(lambda: broker.groups.coordinator.owned == set(range(PARTITIONS)))
        assert broker.events == ["component_failed"] * PARTITIONS + ["component_recovered"] * PARTITIONS


async def test_leadership_lost_while_it_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_host, "LOAD_RETRY_SECONDS_FIRST", 0.001)
    async with one_broker(leads=False) as broker:
        broker.read_error = LogDirFailure("disk", permanent=False)
        broker.lead()
        for partition in range(PARTITIONS):
            broker.groups.host.on_leadership_change(partition, False)
        assert broker.events.count("component_recovered") == PARTITIONS, "it is the next leader's"
        assert broker.groups.host._retries == {}
        assert broker.groups.coordinator.owned == set()


async def test_the_clock_goes_on_after_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions run out and rebalances end by one timer; with its last call gone, no group would ever get on."""
    monkeypatch.setattr(group_host, "TICK_RETRY_SECONDS", 0.001)
    async with one_broker(group_min_session_timeout_ms=1) as broker:
        coordinator = broker.groups.coordinator
        tick, calls = coordinator.tick, 0

        def fail(now: Any) -> None:
            nonlocal calls
            calls += 1
            if calls <= 3:
                raise ZeroDivisionError("a mistake")
            tick(now)

        monkeypatch.setattr(coordinator, "tick", fail)
        await member(broker)
        broker.groups.host._wake_at(0.0)
        await until(lambda: calls > 3)
        assert broker.events.count("component_failed") == broker.events.count("component_recovered") == 1


async def test_an_append_that_fails_unexpectedly_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with one_broker() as broker:

        def fail(*_: object) -> None:
            raise ZeroDivisionError("a mistake")

        monkeypatch.setattr(broker, "append", fail)
        topics = [{"name": "ledger", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
        values = {"group_id": "bank", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        async with asyncio.timeout(10):
            answer = await broker.ask("OffsetCommit", 8, **values)
        assert answer.topics[0].partitions[0].error_code.value == ErrorCode.UNKNOWN_SERVER_ERROR
        assert broker.events == ["component_failed"]


async def test_requests_that_wait_are_answered_when_leadership_is_lost() -> None:
    """And when the broker stops."""
    async with one_broker(group_initial_rebalance_delay_ms=600_000) as broker:
        request = JoinRequest("bank", "", "consumer", RANGE, 10_000, 60_000)
        waiting = asyncio.ensure_future(broker.groups.join(request))
        await until(lambda: broker.groups.coordinator.describe_group("bank").state == "PreparingRebalance")
        broker.groups.host.on_leadership_change(partition_for("bank", PARTITIONS), False)
        assert (await waiting).error is ErrorCode.NOT_COORDINATOR


async def test_time_passes() -> None:
    """The timer is armed for the next deadline, also when an earlier one comes in between."""
    async with one_broker(group_initial_rebalance_delay_ms=20, group_min_session_timeout_ms=50) as broker:
        request = JoinRequest("bank", "", "consumer", (GroupProtocol("range", b""),), 60, 60_000)
        joined = await asyncio.wait_for(broker.groups.join(request), 5)
        assert joined.generation == 1
        await broker.groups.sync(SyncRequest("bank", joined.member_id, 1, {}))
        await until(lambda: broker.groups.coordinator.describe_group("bank").state == "Empty")


async def test_a_client_that_hung_up_does_not_disturb() -> None:
    """Its answer falls on the floor."""
    async with one_broker() as broker:
        broker.hold = []
        rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        asked = broker.ask(
            "OffsetCommit", 9, group_id="g", member_id="", topics=[{"name": "ledger", "partitions": rows}]
        )
        task = asyncio.ensure_future(asked)
        held = broker.hold
        await until(lambda: bool(held))
        task.cancel()
        await asyncio.wait([task])
        held[0](ErrorCode.NONE)
        fetched = await broker.ask("OffsetFetch", 7, group_id="g", topics=None)
        assert fetched.topics[0].partitions[0].committed_offset == 5


async def test_offsets_of_deleted_topics_go() -> None:
    async with one_broker() as broker:
        rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        await broker.ask("OffsetCommit", 9, group_id="g", member_id="", topics=[{"name": "ledger", "partitions": rows}])
        broker.groups.topics_deleted(["ledger"])
        assert (await broker.ask("OffsetFetch", 7, group_id="g", topics=None)).topics == ()


def test_every_group_api_is_there() -> None:
    """Ranges from the KIP-896 floor up; docs and ApiVersions take them from here."""
    assert {spec.key: (spec.min_version, spec.max_version) for spec, _ in SPECS} == {
        8: (2, 9),
        9: (1, 9),
        10: (0, 6),
        11: (0, 9),
        12: (0, 4),
        13: (0, 5),
        14: (0, 5),
        15: (0, 6),
        16: (0, 5),
        42: (0, 2),
        47: (0, 0),
    }
