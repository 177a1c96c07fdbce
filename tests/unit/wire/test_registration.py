"""A broker leads nothing under a registration that it does not have, and says truly how it was stopped (R15, KIP-966)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from minikafka.metadata.image import BROKER, BrokerState, PartitionState
from minikafka.metadata.memory import MemoryStore
from minikafka.metadata.store import Changes
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode

from tests.unit.wire.client import CONSUMER, LATEST, LEADER, produced
from tests.unit.wire.stage import TOPIC_ID, Stage

LED = PartitionState((1,), (1,), 1, leader_epoch=3, partition_epoch=5)


async def test_nothing_is_led_before_the_own_registration_is_in_the_image(stage: Stage) -> None:
    """R12, R15: the store still holds what was decided about an earlier incarnation; it may be over by now."""
    stage.peer.decide_topic_state(LED)
    earlier = BrokerState(1, 4, "earlier", (("CLIENTS", "127.0.0.1", 1),), None, False)
    stage.peer.decide(BROKER + "1", earlier.to_json())
    stage.peer.admits.clear()
    starting = await stage.begin()
    client = await stage.client()
    await stage.until(lambda: stage.peer.registrations and "t" in stage.broker.metadata.image.topics)
    told = await client.ask(ApiKey.METADATA, {"topics": [{"topic_id": TOPIC_ID, "name": None}]})
    assert told.topics[0].name == "t", "the image is known"
    assert (await produced(client.produce(b"a", acks=LEADER)))[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await stage.sees(client, 0)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await client.list_offset(LATEST, CONSUMER))[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not (stage.data / "data" / "t-0").exists(), "nor is anything made on disk"
    stage.peer.admits.set()
    await starting
    assert await produced(client.produce(b"a", acks=LEADER)) == (ErrorCode.NONE, 0)


async def test_nothing_is_led_while_another_registration_is_asked_for(stage: Stage) -> None:
    """R15: the controller has fenced this incarnation, which may find that out late; until the next one nothing is written."""
    await stage.start()
    await stage.partition(LED)
    client = await stage.client()
    assert await produced(client.produce(b"a", acks=LEADER)) == (ErrorCode.NONE, 0)
    await lose_registration(stage)
    assert (await produced(client.produce(b"b", acks=LEADER)))[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await stage.took(stage.peer.decide_topic_state(replace(LED, partition_epoch=6)))
    assert (await produced(client.produce(b"b", acks=LEADER)))[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    stage.peer.admits.set()
    await stage.until(lambda: stage.broker.metadata.image.brokers[1].epoch == stage.broker.broker_epoch)
    assert (await produced(client.produce(b"b", acks=LEADER)))[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER, "in the old term"
    await stage.partition(replace(LED, leader_epoch=5, partition_epoch=8))
    assert await produced(client.produce(b"b", acks=LEADER)) == (ErrorCode.NONE, 1)


async def test_a_clean_stop_is_told_once(stage: Stage) -> None:
    """KIP-966: the marker speaks of the log as it was found at start, not as it is when a registration is lost later."""
    broker = await stage.start()
    assert stage.peer.registrations[0].previous_broker_epoch == -1
    epoch = broker.broker_epoch
    await stage.stop()
    await stage.start()
    assert stage.peer.registrations[1].previous_broker_epoch == epoch
    await lose_registration(stage)
    assert len(stage.peer.registrations) == 3
    assert stage.peer.registrations[2].previous_broker_epoch == -1


async def lose_registration(stage: Stage) -> None:
    """The controller does not know this incarnation any more; the next one waits for its answer."""
    known = len(stage.peer.registrations)
    stage.peer.forget()
    await stage.until(lambda: len(stage.peer.registrations) == known + 1)


async def test_nobody_is_served_before_there_is_an_image(tmp_path: Path) -> None:
    """A client that asks a broker which knows of no topic would take its records for undeliverable."""

    class HeldStore(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.answers = asyncio.Event()

        async def changes(self, revision: int) -> Changes:
            await self.answers.wait()
            return await super().changes(revision)

    store = HeldStore()
    stage = Stage(tmp_path, store)
    await stage.peer.listen()
    try:
        stage.peer.decide_topic_state(LED)
        starting = await stage.begin()
        await stage.until(lambda: stage.broker.metadata.image.cluster_id)
        with pytest.raises(ConnectionRefusedError):
            await stage.client()
        store.answers.set()
        await starting
        told = await (await stage.client()).ask(ApiKey.METADATA, {"topics": [{"topic_id": TOPIC_ID, "name": None}]})
        assert told.topics[0].name == "t"
    finally:
        await stage.close()


async def test_a_broker_that_is_stopped_before_there_is_an_image_serves_nobody(stage: Stage) -> None:
    """The first image may come while it stops."""
    listeners = stage.new_broker().listeners
    await listeners.open()
    listeners.close()
    await listeners.serve()
    with pytest.raises(ConnectionRefusedError):
        await stage.client()
