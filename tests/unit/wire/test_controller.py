"""A controller's word counts when it is in the store, and it knows all that was written before its term (R15)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from minikafka.metadata.image import TOPIC, PartitionState, TopicState
from minikafka.metadata.memory import MemoryStore
from minikafka.metadata.store import FencedControllerError, Lease, StoreError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode

from tests.unit.wire.client import FOREVER_MS, Client, answered
from tests.unit.wire.stage import LISTENER, Stage


class SlowStore(MemoryStore):
    """Commits wait for the test once it says so, and end as it says."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: asyncio.Queue[asyncio.Future[None]] | None = None
        self.before_acquire: list[tuple[str, Any]] = []
        """What the controller before writes last, while this one is about to take the lease."""

    async def commit(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        if self.waiting is not None:
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.put_nowait(gate)
            await gate
        return await super().commit(controller_epoch, records)

    async def acquire(self, holder: int, host: str, port: int, expected_epoch: int) -> Lease | None:
        while self.before_acquire and self.held is not None:
            self.commit_now(self.held.epoch, dict([self.before_acquire.pop()]))
        return await super().acquire(holder, host, port, expected_epoch)


@pytest.fixture
async def ruler(tmp_path: Path) -> Any:
    """Broker 1 is the controller: the one before it is gone."""
    stage = Stage(tmp_path, SlowStore())
    await stage.peer.listen()
    await stage.peer.close()
    try:
        yield stage
    finally:
        stage.store.waiting = None  # type: ignore[attr-defined]
        await stage.close()


def registration(stage: Stage, incarnation: int) -> dict[str, Any]:
    return {
        "broker_id": 2,
        "cluster_id": stage.store.open_now(None),
        "incarnation_id": UUID(int=incarnation),
        "listeners": [{"name": LISTENER, "host": "127.0.0.1", "port": 1, "security_protocol": 0}],
        "rack": None,
        "previous_broker_epoch": -1,
    }


async def heartbeat(broker: Client, epoch: int, **wishes: bool) -> Any:
    wanted = {"want_fence": False, "want_shut_down": False, **wishes}
    return await broker.ask(
        ApiKey.BROKER_HEARTBEAT, {"broker_id": 2, "broker_epoch": epoch, "current_metadata_offset": 0, **wanted}, 1
    )


def create(name: str) -> dict[str, Any]:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    return {"topics": [topic], "timeout": FOREVER_MS, "validate_only": False}


async def two_brokers(stage: Stage) -> tuple[Client, int]:
    """Broker 2, which the test plays, is registered and active: (its connection, its broker epoch)."""
    await stage.start()
    other = await stage.follower()
    answer = await other.ask(ApiKey.BROKER_REGISTRATION, registration(stage, 5), 3)
    assert ErrorCode(int(answer.error_code)) is ErrorCode.NONE
    assert (await heartbeat(other, answer.broker_epoch)).is_fenced is False
    return other, answer.broker_epoch


async def led_by_two(stage: Stage) -> tuple[Client, int, TopicState]:
    """... and leads t-0 alone, with broker 1 caught up."""
    other, epoch = await two_brokers(stage)
    topic = TopicState("t", UUID(int=7), (PartitionState((2, 1), (2,), 2, leader_epoch=1, partition_epoch=4),), {})
    role = stage.broker.membership.role
    assert role is not None
    await role.submit(lambda controller: controller.partitions.workspace.put_topic(topic))
    return other, epoch, topic


def alteration(stage: Stage, topic: TopicState, epoch: int) -> dict[str, Any]:
    part = {
        "partition_index": 0,
        "leader_epoch": 1,
        "new_isr_with_epochs": [
            {"broker_id": 2, "broker_epoch": epoch},
            {"broker_id": 1, "broker_epoch": stage.broker.broker_epoch},
        ],
        "leader_recovery_state": 0,
        "partition_epoch": 4,
    }
    return {
        "broker_id": 2,
        "broker_epoch": epoch,
        "topics": [{"topic_id": topic.topic_id, "partitions": [part]}],
    }


async def hold(stage: Stage) -> asyncio.Queue[asyncio.Future[None]]:
    """From now on the store takes its time."""
    assert isinstance(stage.store, SlowStore)
    stage.store.waiting = asyncio.Queue()
    return stage.store.waiting


async def begun(waiting: asyncio.Queue[asyncio.Future[None]]) -> asyncio.Future[None]:
    """A commit that has begun."""
    async with asyncio.timeout(20):
        return await waiting.get()


async def test_no_answer_before_the_commit(ruler: Stage) -> None:
    """R10, R15: to AlterPartition; a leader that is told too early counts on an ISR that nobody else knows."""
    other, epoch, topic = await led_by_two(ruler)
    waiting = await hold(ruler)
    answer = other.send(ApiKey.ALTER_PARTITION, alteration(ruler, topic, epoch), 3)
    gate = await begun(waiting)
    await ruler.still_waits(answer)
    assert ruler.store.record(TOPIC + "t")["partitions"][0]["isr"] == [2]
    gate.set_result(None)
    row = (await answered(answer)).topics[0].partitions[0]
    assert (int(row.error_code), tuple(row.isr), row.partition_epoch) == (0, (2, 1), 5)
    assert ruler.store.record(TOPIC + "t")["partitions"][0]["isr"] == [2, 1]


@pytest.mark.parametrize("failure", [FencedControllerError("another took the lease"), StoreError("the store is away")])
async def test_a_commit_that_fails_is_no_success(ruler: Stage, failure: StoreError) -> None:
    """R15: whoever waited is told NOT_CONTROLLER, and asks the next one."""
    other, epoch, topic = await led_by_two(ruler)
    waiting = await hold(ruler)
    altered = other.send(ApiKey.ALTER_PARTITION, alteration(ruler, topic, epoch), 3)
    (await begun(waiting)).set_exception(failure)
    answer = await answered(altered)
    assert (ErrorCode(int(answer.error_code)), len(answer.topics)) == (ErrorCode.NOT_CONTROLLER, 0)


async def test_a_registration_counts_when_it_is_written(ruler: Stage) -> None:
    """R15, KIP-631: no broker epoch is given away that the store does not know."""
    await ruler.start()
    other = await ruler.follower()
    waiting = await hold(ruler)
    answer = other.send(ApiKey.BROKER_REGISTRATION, registration(ruler, 5), 3)
    gate = await begun(waiting)
    await ruler.still_waits(answer)
    gate.set_exception(FencedControllerError("another took the lease"))
    refused = await answered(answer)
    assert (ErrorCode(int(refused.error_code)), refused.broker_epoch) == (ErrorCode.NOT_CONTROLLER, -1)


async def test_a_topic_exists_when_it_is_written(ruler: Stage) -> None:
    """R15: CreateTopics of a client."""
    await ruler.start()
    client = await ruler.client()
    waiting = await hold(ruler)
    answer = client.send(ApiKey.CREATE_TOPICS, create("t"))
    gate = await begun(waiting)
    await ruler.still_waits(answer)
    gate.set_result(None)
    assert int((await answered(answer)).topics[0].error_code) == 0
    assert ruler.store.record(TOPIC + "t") is not None


async def test_what_is_written_is_told_though_the_store_is_away_by_then(
    ruler: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic is there, whether or not this broker can see it yet."""
    await ruler.start()
    client = await ruler.client()
    waiting = await hold(ruler)
    answer = client.send(ApiKey.CREATE_TOPICS, create("t"))
    gate = await begun(waiting)

    async def away(since: int) -> None:
        raise StoreError(f"nothing is known after {since}")

    monkeypatch.setattr(ruler.store, "changes", away)
    gate.set_result(None)
    assert int((await answered(answer)).topics[0].error_code) == 0


async def test_what_the_controller_before_wrote_last_is_known(ruler: Stage) -> None:
    """R15: records are read after the lease is taken. Read before, the last of them would be overwritten."""
    topic = TopicState("t", UUID(int=7), (PartitionState((2,), (2,), 2, leader_epoch=9, partition_epoch=9),), {})
    assert isinstance(ruler.store, SlowStore)
    ruler.store.before_acquire = [(TOPIC + "t", topic.to_json())]
    await ruler.start()
    client = await ruler.client()
    answer = await client.ask(ApiKey.CREATE_TOPICS, create("t"))
    assert ErrorCode(int(answer.topics[0].error_code)) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert ruler.store.record(TOPIC + "t")["topicId"] == str(topic.topic_id)
