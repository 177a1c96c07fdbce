"""Groups whose log is loaded or cannot be, leadership that comes and goes, and what fails or hangs up meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from minikafka.groups import host as group_host
from minikafka.groups.placement import partition_for
from minikafka.groups.records import CommittedOffset, offset_records
from minikafka.groups.requests import GroupProtocol, JoinRequest, SyncRequest
from minikafka.log.errors import LogDirFailure
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import Record, build_batch, iterate_batches
from minikafka.protocol.types import TopicPartition

from tests.waiting import until

from .dialogue import RANGE
from .one_broker import (
    PARTITIONS,
    error_of,
    member,
    one_broker,
    stable,
)


async def test_offsets_and_members_survive_the_broker() -> None:
    """What one service wrote, in Kafka's record batches, another one reads."""
    async with one_broker() as first:
        joined = await stable(first)
        rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        topics = [{"name": "ledger", "partitions": rows}]
        committed = await first.ask(
            "OffsetCommit",
            9,
            group_id="bank",
            member_id=joined.member_id,
            generation_id_or_member_epoch=joined.generation_id,
            topics=topics,
        )
        assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
        async with one_broker(log=first.log) as heir:
            answer = await heir.ask(
                "Heartbeat", 4, group_id="bank", generation_id=joined.generation_id, member_id=joined.member_id
            )
            assert error_of(answer) is ErrorCode.NONE
            fetched = await heir.ask("OffsetFetch", 7, group_id="bank", topics=None)
            assert fetched.topics[0].partitions[0].committed_offset == 5
            assert "group_loaded" in heir.events


@pytest.mark.slow
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


async def test_every_slice_goes_on_where_the_last_one_ended() -> None:
    """Offsets that are passed over make consumers start over, without a word."""
    topics = [f"ledger-{number}" for number in range(5)]
    async with one_broker() as first:
        first.topics |= dict.fromkeys(topics, 1)
        for topic in topics:
            rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
            one = [{"name": topic, "partitions": rows}]
            await first.ask("OffsetCommit", 9, group_id="simple", member_id="", topics=one)
        async with one_broker(log=first.log, leads=False) as heir:
            heir.topics |= first.topics
            heir.groups.host.load_slice = 0.0
            heir.lead()
            await until(lambda: len(heir.groups.coordinator.owned) == PARTITIONS)
            answer = await heir.ask("OffsetFetch", 7, group_id="simple", topics=None)
            assert [topic.name for topic in answer.topics] == topics


async def test_what_another_program_wrote_in_a_transaction_is_no_commit() -> None:
    """Whether it was committed is for Kafka to say; MiniKafka has no transactions."""
    async with one_broker() as first:
        rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        await first.ask(
            "OffsetCommit", 9, group_id="simple", member_id="", topics=[{"name": "ledger", "partitions": rows}]
        )
        written = offset_records("simple", {TopicPartition("ledger", 0): CommittedOffset(9)})
        records = [Record(1 + n, 0, key, value) for n, (key, value) in enumerate(written)]
        batch = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        first.log[partition_for("simple", PARTITIONS)].append(bytes(batch))
        async with one_broker(log=first.log) as heir:
            answer = await heir.ask("OffsetFetch", 7, group_id="simple", topics=None)
            assert answer.topics[0].partitions[0].committed_offset == 5


async def test_a_load_of_an_earlier_term_has_no_say_in_the_present_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It read a log that may have been opened anew since; what that refuses is no trouble of today."""
    partition = partition_for("simple", PARTITIONS)
    async with one_broker() as first:
        rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        for _ in range(3):
            topics = [{"name": "ledger", "partitions": rows}]
            await first.ask("OffsetCommit", 9, group_id="simple", member_id="", topics=topics)
        async with one_broker(log=first.log, leads=False) as heir:
            heir.groups.host.load_slice = 0.0
            heir.lead()
            heir.groups.host.on_leadership_change(partition, False)
            heir.read_error = LogDirFailure("the log before", permanent=False)
            batches = [batch for raw in first.log[partition] for batch in iterate_batches(raw)]
            monkeypatch.setattr(heir, "read", lambda *_: iter(batches))
            heir.groups.host.on_leadership_change(partition, True)
            await until(lambda: partition in heir.groups.coordinator.owned)
            assert "component_failed" not in heir.events


@pytest.mark.slow
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


async def test_a_topic_that_is_made_anew_while_its_offsets_are_loaded() -> None:
    """It was read from the old one's offset (found by an attack)."""
    async with one_broker() as first:
        rows = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        topics = [{"name": "ledger", "partitions": rows}]
        await first.ask("OffsetCommit", 9, group_id="g", member_id="", topics=topics)
        async with one_broker(log=first.log, leads=False) as heir:
            heir.hold_commit = []
            heir.lead()
            heir.make_anew("ledger")
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
        broker.make_anew("ledger")
        assert (await broker.ask("OffsetFetch", 7, group_id="g", topics=None)).topics == ()
