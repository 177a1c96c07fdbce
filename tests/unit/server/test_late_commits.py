"""Offset commits whose replicas come late: the log has them, so this coordinator must know them as the next one will."""

from __future__ import annotations

import asyncio
import time

import pytest
from minikafka.groups.config import GroupConfig
from minikafka.groups.records import CommittedOffset
from minikafka.groups.requests import CommitRequest
from minikafka.log.config import LogConfig
from minikafka.log.log import Log
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.clock import Clock
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.internal_log import InternalLog
from minikafka.replication.partition import ReplicationConfig
from minikafka.server.group_service import GroupService
from minikafka.server.machine import Machine

from tests.unit.replication.cluster import NOW_MS, AllAlive
from tests.unit.replication.unwired import replica_manager
from tests.waiting import until

OFFSETS = TopicPartition("__consumer_offsets", 0)
LEDGER = TopicPartition("ledger", 0)
TIMEOUT_MS = 50
DEADLINE = 60.0


class Coordinator:
    """The leader of a partition of ``__consumer_offsets``, whose follower (2) fetches when a test says so."""

    def __init__(self) -> None:
        self.log = Log.open(
            "/d/__consumer_offsets-0",
            OFFSETS,
            LogConfig(),
            MemoryFileSystem(),
            clean=True,
            recovery_point=0,
            now_ms=NOW_MS,
            checkpoints=None,
        )
        clock = Clock(self.now, lambda: int(time.time() * 1000), asyncio.get_running_loop().call_later)
        self.replicas = replica_manager(clock)
        self.partition = HostedPartition(
            OFFSETS,
            b"i" * 16,
            1,
            self.log,
            ReplicationConfig(1, 30.0),
            AllAlive(),
            0,
            topic_config=None,
            moved=self.replicas.moved,
        )
        self.replicas.add(self.partition)
        self.partition.apply_state(PartitionState((1, 2), (1, 2), 1), time.monotonic())
        self.groups = self.service()

    @staticmethod
    def now() -> float:
        """As the tests bend it."""
        return time.monotonic()

    def service(self) -> GroupService:
        internal = InternalLog(self.replicas, lambda *_: None)

        async def ensure() -> None:
            pass

        service = GroupService(
            config=GroupConfig(offsets_commit_timeout_ms=TIMEOUT_MS),
            offsets_partitions=1,
            log=internal,
            ensure_offsets_topic=ensure,
            partition_count=lambda _: 1,
            topic_id=lambda _topic: bytes(16),
            partition_leader=lambda _topic, _index: 1,
            endpoint_of=lambda _id, _listener: ("h", 1),
            clock=Machine.clock._replace(now=self.now),
            new_id=lambda: "m",
        )
        service.host.on_leadership_change(0, True)
        return service

    async def commit(self, offset: int) -> ErrorCode:
        request = CommitRequest(group_id="g", member_id="", generation=-1, offsets={LEDGER: CommittedOffset(offset)})
        async with asyncio.timeout(DEADLINE):
            return (await self.groups.commit(request))[LEDGER]

    def follower_fetches(self) -> None:
        leader = self.partition.leader
        assert leader is not None
        leader.follower_fetch(2, 1, 0, self.log.log_end_offset, -1, time.monotonic())
        self.replicas.flush_ready()

    def an_hour_later(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Requests that have waited too long are swept out."""
        now = time.monotonic()
        with monkeypatch.context() as clock:
            clock.setattr(time, "monotonic", lambda: now + 3600.0)
            self.replicas._sweep()

    def committed(self, service: GroupService) -> int | None:
        found = service.fetch("g", [LEDGER]).offsets[LEDGER]
        return None if found is None else found.offset


async def test_a_commit_that_timed_out_and_is_replicated_then(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Coordinator()
    assert await one.commit(10) is ErrorCode.COORDINATOR_NOT_AVAILABLE, "the follower is away"
    assert one.committed(one.groups) is None
    one.an_hour_later(monkeypatch)
    one.follower_fetches()
    assert one.committed(one.groups) == 10
    later = one.service()
    await until(lambda: 0 in later.coordinator.owned)  # at once, unless the machine is busy
    assert one.committed(later) == 10, "the next coordinator reads it from the log"
    one.groups.stop()


async def test_a_commit_that_times_out_long_after_any_other_append_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """``offsets.commit.timeout.ms`` alone says how long a commit waits."""
    one = Coordinator()
    waiting = asyncio.ensure_future(one.commit(10))
    await asyncio.sleep(0)
    one.an_hour_later(monkeypatch)
    assert not waiting.done()
    one.follower_fetches()
    assert await waiting is ErrorCode.NONE
    assert one.committed(one.groups) == 10
    one.groups.stop()


async def test_what_was_never_replicated_stays_unseen_here() -> None:
    """Leadership is lost before a follower has it: whether the record survives is the next leader's to say."""
    one = Coordinator()
    assert await one.commit(10) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    one.groups.host.on_leadership_change(0, False)
    one.partition.fail_producers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert one.partition.producers == type(one.partition.producers)()
    assert one.groups.fetch("g", [LEDGER]).error is not ErrorCode.NONE
    one.groups.stop()
