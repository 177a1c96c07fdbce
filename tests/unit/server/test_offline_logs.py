"""A disk that refuses, under running brokers: others lead, the broker says so and is well again by itself, or it ends (R17)."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from minikafka.config import BrokerConfig
from minikafka.controller.topics import NewTopic
from minikafka.groups.placement import OFFSETS_TOPIC
from minikafka.log.errors import LogDirFailure
from minikafka.log.filesystem import RealFile, RealFileSystem
from minikafka.protocol import produce as produce_codec
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication import offline_logs
from minikafka.replication.hosted import HostedPartition
from minikafka.server import main
from minikafka.server.broker import Broker

from tests.unit.replication.cluster import batch
from tests.unit.server.in_process import DEADLINE, Cluster, get, running
from tests.waiting import until

Refuses = Callable[[str, str], bool]


class Disks:
    """The disks of all brokers in this process; refuses what a test says."""

    def __init__(self) -> None:
        self.refuses: Refuses | None = None
        self.number = errno.ENOSPC
        self.hits = 0

    def ask(self, operation: str, path: str) -> None:
        if self.refuses is not None and self.refuses(operation, path):
            self.hits += 1
            raise OSError(self.number, os.strerror(self.number), path)


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disks]:
    found = Disks()
    append, fsync, write_atomic = RealFile.append, RealFile.fsync, RealFileSystem.write_atomic
    pread = RealFile.pread

    def asked_append(self: RealFile, *buffers: Any) -> None:
        found.ask("append", self._path)
        append(self, *buffers)

    def asked_fsync(self: RealFile) -> None:
        found.ask("fsync", self._path)
        fsync(self)

    def asked_write(self: RealFileSystem, path: str, data: bytes, *, durable: bool = True) -> None:
        found.ask("write_atomic", path)
        write_atomic(self, path, data, durable=durable)

    def asked_pread(self: RealFile, n: int, position: int) -> bytes:
        found.ask("pread", self._path)
        return pread(self, n, position)

    sendfile = os.sendfile

    def asked_sendfile(out: int, file: int, offset: int, count: int) -> int:
        path = os.readlink(f"/proc/self/fd/{file}")
        if found.refuses is not None and found.refuses("sendfile", path):
            found.hits += 1
            raise OSError(errno.EIO, "Input/output error")
        return sendfile(out, file, offset, count)

    monkeypatch.setattr(os, "sendfile", asked_sendfile)
    monkeypatch.setattr(RealFile, "pread", asked_pread)
    monkeypatch.setattr(RealFile, "append", asked_append)
    monkeypatch.setattr(RealFile, "fsync", asked_fsync)
    monkeypatch.setattr(RealFileSystem, "write_atomic", asked_write)
    monkeypatch.setattr(offline_logs, "RETRY_SECONDS_FIRST", 0.05)
    monkeypatch.setattr(offline_logs, "RETRY_SECONDS_MAX", 0.4)
    yield found
    found.refuses = None


@pytest.fixture
async def cluster(tmp_path: Path, disks: Disks) -> AsyncIterator[Cluster]:
    """Three brokers, topic t with one record in sync everywhere."""
    async with running(tmp_path, 3, replica_lag_time_max_ms="3000") as cluster:
        await cluster.create("t")
        await until(lambda: hosted(leader(cluster)).leader is not None)
        assert await produce(leader(cluster)) is ErrorCode.NONE
        await until(lambda: all(hosted(b).log.log_end_offset == 1 for b in cluster.brokers.values()))
        yield cluster


def leader(cluster: Cluster) -> Broker:
    return cluster.brokers[cluster.state("t").leader]


def hosted(broker: Broker) -> HostedPartition:
    found = broker.replicas.get("t", 0)
    assert found is not None
    return found


async def produce(broker: Broker, acks: int = -1) -> ErrorCode:
    """One record to this broker, and its answer."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    request = produce_codec.ProduceRequest(None, acks, int(DEADLINE * 1000), [("t", [(0, batch("m"))])])
    broker.replicas.produce(request, answered.set_result)
    broker.replicas.flush_ready()
    result = (await answered)[0][1][0]
    assert "/" not in (result.message or ""), "no paths of this machine"
    return ErrorCode(result.error)


def events(cluster: Cluster, broker: Broker) -> list[str]:
    lines = (cluster.data / f"events-{broker.broker_id}.jsonl").read_text().splitlines()
    return [json.loads(line)["event"] for line in lines]


async def all_in_sync(cluster: Cluster, topic: str = "t") -> None:
    await until(lambda: len(cluster.state(topic).isr) == 3 and cluster.state(topic).leader >= 0)


async def test_a_lack_of_descriptors_is_no_failure_of_the_disk(cluster: Cluster, disks: Disks) -> None:
    """One user's many segments took all of them, and all partitions went offline for it."""
    broker = leader(cluster)
    before = hosted(broker).log
    disks.number, disks.refuses = errno.EMFILE, lambda operation, path: path.endswith(".log")
    assert await produce(broker) is ErrorCode.KAFKA_STORAGE_ERROR  # a client tries again
    disks.refuses = None
    assert await produce(broker) is ErrorCode.NONE
    assert disks.hits and hosted(broker).log is before and leader(cluster) is broker
    assert "log_offline" not in events(cluster, broker)


async def test_a_leader_whose_disk_is_full_has_others_lead_and_comes_back_by_itself(
    cluster: Cluster, disks: Disks
) -> None:
    old = leader(cluster)
    here = str(cluster.data / f"broker-{old.broker_id}")
    disks.refuses = lambda operation, path: path.startswith(here) and operation in ("append", "write_atomic")
    assert await produce(old) is ErrorCode.KAFKA_STORAGE_ERROR
    await until(lambda: cluster.state("t").leader not in (-1, old.broker_id))
    new = leader(cluster)
    await until(lambda: hosted(new).leader is not None)
    assert await produce(new) is ErrorCode.NONE

    status, body = await get(old, "/healthz")
    assert (status, "No space left on device" in body) == (503, True)
    assert "minikafka_offline_logs 1" in (await get(old, "/metrics"))[1]
    assert (await get(old, "/readyz"))[0] == 507
    assert not old.failed.is_set()

    disks.refuses = None
    await all_in_sync(cluster)
    assert (await get(old, "/healthz")) == (200, "ok\n")
    assert "minikafka_offline_logs 0" in (await get(old, "/metrics"))[1]
    assert [name for name in events(cluster, old) if name.startswith("log_o")] == ["log_offline", "log_online"]
    assert hosted(old).log.log_end_offset == 2


@pytest.mark.slow
async def test_a_controller_that_ends_fences_nobody_on_its_way_out(cluster: Cluster) -> None:
    """It closes all connections by itself. Found here: it took that for the death of every other broker."""
    old = cluster.controller
    await old.abort()
    for broker in (b for b in cluster.brokers.values() if b is not old):
        await until(lambda b=broker: b.membership.controller_id != old.broker_id)  # type: ignore[misc]
    cluster.brokers.pop(old.broker_id)
    try:
        await cluster.has_controller()
        fenced = [
            json.loads(line) for line in (cluster.data / f"events-{old.broker_id}.jsonl").read_text().splitlines()
        ]
        assert not [e for e in fenced if e["event"] == "broker_fenced"]
        assert not [
            b for b in cluster.controller.metadata.image.brokers.values() if b.fenced and b.broker_id != old.broker_id
        ]
    finally:
        cluster.brokers[old.broker_id] = old


@pytest.mark.slow
async def test_leadership_that_cannot_be_noted_is_taken_when_there_is_room(cluster: Cluster, disks: Disks) -> None:
    """Audit t3: the partition was dead for good, also after the disk was well."""
    old = leader(cluster)
    disks.refuses = lambda operation, path: operation == "write_atomic" and "epoch" in path
    await old.abort()
    others = {i: b for i, b in cluster.brokers.items() if b is not old}
    await until(lambda: any(len(b.offline_logs) for b in others.values()))
    disks.refuses = None
    cluster.brokers.pop(old.broker_id)
    try:
        await until(lambda: any(hosted(b).leader is not None for b in others.values()))
        new = next(b for b in others.values() if hosted(b).leader is not None)
        assert await produce(new) is ErrorCode.NONE
        assert hosted(new).log.epochs.latest == hosted(new).leader_epoch
    finally:
        cluster.brokers[old.broker_id] = old


@pytest.mark.slow
async def test_a_follower_whose_truncation_fails_half_way_agrees_again(cluster: Cluster, disks: Disks) -> None:
    """Audit t10 under a running broker: a log that is offline is opened anew."""
    old = leader(cluster)
    follower = next(b for b in cluster.brokers.values() if b is not old)
    partition = hosted(follower)
    partition.log.go_offline("left half done", OSError(errno.EIO, "Input/output error"))
    before = partition.log
    assert await produce(old, acks=1) is ErrorCode.NONE
    await until(lambda: hosted(follower).log is not before)
    await all_in_sync(cluster)
    await until(lambda: hosted(follower).log.log_end_offset == 2)
    assert before.failure is not None


@pytest.mark.slow
async def test_a_follower_that_was_about_to_begin_anew_does_so(cluster: Cluster, disks: Disks) -> None:
    """Its log came back empty, below its high watermark, and the broker ended for that with exit code 3."""
    old = leader(cluster)
    broker = next(b for b in cluster.brokers.values() if b is not old)
    partition = hosted(broker)
    await until(lambda: partition.high_watermark == 1)
    assert partition.follower is not None
    disks.refuses = lambda operation, path: operation == "write_atomic" and path.endswith("epoch-checkpoint")
    with pytest.raises(LogDirFailure) as failure:
        partition.follower.begin_at(0, "a test")
    before = partition.log
    broker.reporter.log_failed(partition, failure.value)
    disks.refuses = None
    await until(lambda: hosted(broker).log is not before)
    assert await produce(old, acks=1) is ErrorCode.NONE
    await all_in_sync(cluster)
    await until(lambda: hosted(broker).log.log_end_offset == 2)
    assert hosted(broker).log.log_start_offset == 0
    assert not broker.failed.is_set()


@pytest.mark.slow
async def test_a_disk_that_cannot_read_the_groups_takes_their_log_offline(cluster: Cluster, disks: Disks) -> None:
    """The coordinator told of it, tried again for ever, and went on leading what it could not read."""
    await cluster.create(OFFSETS_TOPIC, leader=cluster.controller.broker_id)
    old = cluster.brokers[cluster.state(OFFSETS_TOPIC).leader]
    await until(lambda: 0 in old.groups.coordinator.owned)
    written: list[ErrorCode] = []
    old.internal.append(OFFSETS_TOPIC, 0, bytearray(batch("not a group's")), written.append)
    await until(lambda: written == [ErrorCode.NONE])
    await all_in_sync(cluster, OFFSETS_TOPIC)

    disks.refuses = lambda operation, path: operation == "pread" and OFFSETS_TOPIC in path
    await old.abort()
    others = {i: b for i, b in cluster.brokers.items() if b is not old}
    cluster.brokers.pop(old.broker_id)
    try:
        tp = TopicPartition(OFFSETS_TOPIC, 0)
        await until(lambda: any(tp in b.offline_logs for b in others.values()))
        disks.refuses = None
        await until(lambda: any(0 in b.groups.coordinator.owned for b in others.values()))
        await until(lambda: all(b.context.health.verdict()[0] and not len(b.offline_logs) for b in others.values()))
        (coordinator,) = [b for b in others.values() if 0 in b.groups.coordinator.owned]
        assert coordinator.replicas.by_name[OFFSETS_TOPIC][0].leader is not None
    finally:
        cluster.brokers[old.broker_id] = old


@pytest.mark.slow
async def test_a_disk_that_cannot_read_what_is_sent_takes_the_log_offline(cluster: Cluster, disks: Disks) -> None:
    """By sendfile the error comes after the answer was made: followers and consumers got a closed connection, for ever."""
    old = leader(cluster)
    here = str(cluster.data / f"broker-{old.broker_id}" / "t-0")
    disks.refuses = lambda operation, path: operation == "sendfile" and path.startswith(here)
    assert await produce(old, acks=1) is ErrorCode.NONE
    await until(lambda: TopicPartition("t", 0) in old.offline_logs)
    await until(lambda: cluster.state("t").leader not in (-1, old.broker_id))
    assert "minikafka_offline_logs 1" in (await get(old, "/metrics"))[1]
    disks.refuses = None
    await all_in_sync(cluster)
    await until(lambda: old.context.health.verdict() == (True, "ok"))


@pytest.mark.slow
async def test_standard_error_on_the_same_full_disk_costs_nothing(
    cluster: Cluster, disks: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be told must not keep the broker from doing it: the loop that tells of a failure ended by it."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    old = leader(cluster)
    here = str(cluster.data / f"broker-{old.broker_id}")
    disks.refuses = lambda operation, path: path.startswith(here) and operation in ("append", "write_atomic")
    monkeypatch.setattr(sys, "stderr", Full())
    assert await produce(old) is ErrorCode.KAFKA_STORAGE_ERROR
    await until(lambda: cluster.state("t").leader not in (-1, old.broker_id))
    disks.refuses = None
    await all_in_sync(cluster)


@pytest.mark.slow
async def test_what_nobody_expected_of_a_log_that_is_opened_anew_is_tried_again_too(cluster: Cluster) -> None:
    """Whoever stopped trying would be fenced until the next start."""
    old = leader(cluster)
    follower = next(b for b in cluster.brokers.values() if b is not old)
    stranger = cluster.data / f"broker-{follower.broker_id}" / "t-0" / "notes.txt"
    stranger.write_text("somebody was here")
    hosted(follower).log.go_offline("left half done", OSError(errno.EIO, "Input/output error"))
    assert await produce(old, acks=1) is ErrorCode.NONE
    await until(
        lambda: any("not a file of a log" in problem for problem in follower.context.health.problems().values())
    )
    stranger.unlink()
    await all_in_sync(cluster)
    await until(lambda: follower.context.health.problems() == {})


@pytest.mark.slow
async def test_a_log_that_cannot_be_created_is_created_when_there_is_room(cluster: Cluster, disks: Disks) -> None:
    disks.refuses = lambda operation, path: operation == "write_atomic" and "/u-0/" in path
    controller = cluster.controller
    await controller.topics.create(NewTopic("u", 1, 3))
    await until(lambda: disks.hits >= 3)
    disks.refuses = None
    await until(lambda: all(b.replicas.get("u", 0) is not None for b in cluster.brokers.values()))
    await until(lambda: len(cluster.state("u").isr) == 3 and cluster.state("u").leader >= 0)
    led = cluster.brokers[cluster.state("u").leader]
    await until(lambda: led.replicas.get("u", 0).leader is not None)  # type: ignore[union-attr]


@pytest.mark.slow
async def test_deleting_a_topic_whose_log_is_offline_ends_the_trouble(cluster: Cluster, disks: Disks) -> None:
    old = leader(cluster)
    here = str(cluster.data / f"broker-{old.broker_id}" / "t-0")
    disks.refuses = lambda operation, path: path.startswith(here) and operation == "append"
    assert await produce(old) is ErrorCode.KAFKA_STORAGE_ERROR
    await until(lambda: len(old.offline_logs) == 1)
    assert await cluster.delete("t") is ErrorCode.NONE
    await until(lambda: old.context.health.verdict()[0] and not old.is_fenced)


@pytest.mark.slow
async def test_after_a_failed_fsync_the_process_ends_with_3_and_no_clean_marker(tmp_path: Path, disks: Disks) -> None:
    """Exit code 3 is the supervisor's sign to start it again; KIP-966: it may have lost records."""
    config = BrokerConfig.from_properties(
        {
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path / "data"),
            "minikafka.metadata.store": f"sqlite:{tmp_path / 'store.db'}",
            "log.flush.interval.messages": "1",
        }
    )
    started: list[Broker] = []

    class Watched(Broker):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "Broker", Watched)
        serving = asyncio.ensure_future(main._serve(config))
        await until(lambda: bool(started) and started[0].follower.ready.is_set())
        broker = started[0]
        await broker.topics.create(NewTopic("t", 1, 1))
        await until(lambda: broker.replicas.get("t", 0) is not None and hosted(broker).leader is not None)
        disks.refuses = lambda operation, path: operation == "fsync" and "/t-0/" in path
        unflushed = asyncio.ensure_future(produce(broker))
        async with asyncio.timeout(DEADLINE):
            assert await serving == 3
        assert not unflushed.done(), "what could not be flushed is not acknowledged"
        unflushed.cancel()
    assert broker.failure is not None and "cannot be trusted" in broker.failure
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()


async def test_the_unflushed_volume_is_emptied_before_the_disk_is_tried(tmp_path: Path) -> None:
    """It may be what was full: a log that is opened anew on it would be refused again."""
    async with running(tmp_path, **{"minikafka.unflushed.dir": str(tmp_path / "unflushed")}) as cluster:
        await cluster.create("t", leader=1)
        broker = cluster.brokers[1]
        partition = broker.replicas.get("t", 0)
        assert partition is not None
        await until(lambda: partition.leader is not None)
        partition.log.append_as_leader(batch("a"), partition.log.epochs.latest, broker.clock.unix_ms())
        assert partition.log.unflushed_bytes
        await broker.housekeeping.write_checkpoints()
        assert not partition.log.unflushed_bytes
