"""Requests that a run makes by itself, and not by librdkafka: a new topic that is told by its id, and the state of a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicCollection
from confluent_kafka.admin import AdminClient
from minikafka.client.connection import BrokerConnection, NoAnswer
from minikafka.client.security import PLAINTEXT
from minikafka.config import BrokerConfig
from minikafka.metadata.memory import MemoryStore
from minikafka.protocol.api_keys import ApiKey
from minikafka.server.broker import Broker
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load.clients import TopicPlan
from minikafka_chaos.load.group_state import group_state
from minikafka_chaos.load.topics import TopicNotMade, create_new_topic, delete_topic, wait_for_leaders

from tests.waiting import until

SECONDS_MAX = 60.0
PLAN = TopicPlan("bank", 2, 1, config={"min.insync.replicas": "1"})


@pytest.fixture
async def bootstrap(tmp_path: Path) -> AsyncIterator[str]:
    properties = {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(tmp_path),
        "minikafka.metadata.store": "memory",
        "offsets.topic.replication.factor": "1",
    }
    broker = Broker(BrokerConfig.from_properties(properties), MemoryStore())
    async with asyncio.timeout(SECONDS_MAX):
        await broker.start()
    yield f"127.0.0.1:{broker.listeners.advertised()[0][2]}"
    await broker.stop()


def described(bootstrap: str, name: str = PLAN.name) -> Any:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return admin.describe_topics(TopicCollection([name]))[name].result(SECONDS_MAX)


def uuid_of(described: Any) -> str:
    number = (described.topic_id.get_most_significant_bits() % 2**64) << 64
    number |= described.topic_id.get_least_significant_bits() % 2**64
    text = f"{number:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


async def created(bootstrap: str, plan: TopicPlan = PLAN, seconds: float = SECONDS_MAX) -> str:
    return await asyncio.to_thread(create_new_topic, bootstrap, PLAINTEXT, plan, seconds)


async def test_the_id_is_the_brokers(bootstrap: str) -> None:
    made = await created(bootstrap)
    await asyncio.to_thread(wait_for_leaders, bootstrap, PLAINTEXT, PLAN, SECONDS_MAX)
    found = await asyncio.to_thread(described, bootstrap)
    assert made == uuid_of(found) and len(found.partitions) == 2
    await asyncio.to_thread(delete_topic, bootstrap, PLAINTEXT, PLAN.name)
    assert await created(bootstrap) != made


async def test_by_an_assignment(bootstrap: str) -> None:
    plan = TopicPlan("placed", assignment=[[1], [1], [1]])
    assert await created(bootstrap, plan)
    assert len((await asyncio.to_thread(described, bootstrap, "placed")).partitions) == 3


async def test_one_that_is_there_is_not_ours(bootstrap: str) -> None:
    await created(bootstrap)
    with pytest.raises(TopicNotMade, match="TOPIC_ALREADY_EXISTS"):
        await created(bootstrap)


async def test_bad_settings(bootstrap: str) -> None:
    with pytest.raises(TopicNotMade, match="INVALID_CONFIG"):
        await created(bootstrap, TopicPlan("bad", config={"no.such.setting": "1"}))


async def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(TopicNotMade, match=r"bank could not be created: 127\.0\.0\.1:1: Connection refused"):
        await created("127.0.0.1:1", seconds=0.0)


async def test_an_answer_that_was_lost(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was made, by this run or by somebody else: nobody can tell, so nobody says that it is ours, or that it is not."""
    ask, lost = BrokerConnection.request, []

    def request(self: BrokerConnection, api_key: int, newest: int, values: Mapping[str, Any]) -> Any:
        answer = ask(self, api_key, newest, values)
        if api_key == ApiKey.CREATE_TOPICS and not lost:
            lost.append(answer)
            raise NoAnswer("closed the connection")
        return answer

    monkeypatch.setattr(BrokerConnection, "request", request)
    with pytest.raises(ToolTrouble, match="whether this run has made it is not known") as raised:
        await created(bootstrap)
    assert not isinstance(raised.value, TopicNotMade)


async def test_the_state_of_a_group(bootstrap: str) -> None:
    """By Kafka's own names; of a group that nobody knows, and where nobody answers."""
    assert await asyncio.to_thread(group_state, "127.0.0.1:1", PLAINTEXT, "g", 1.0) is None
    await created(bootstrap)

    def state() -> str | None:
        return group_state(bootstrap, PLAINTEXT, "g", SECONDS_MAX)

    await until(lambda: asyncio.to_thread(state), lambda found: found == "Dead", SECONDS_MAX)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([PLAN.name])
    polling = asyncio.create_task(asyncio.to_thread(consumer.poll, SECONDS_MAX))
    try:
        await until(lambda: asyncio.to_thread(state), lambda found: found == "Stable", SECONDS_MAX)
    finally:
        await asyncio.to_thread(_produce_one, bootstrap)
        await polling
        await asyncio.to_thread(consumer.close)
    await until(lambda: asyncio.to_thread(state), lambda found: found == "Empty", SECONDS_MAX)


def _produce_one(bootstrap: str) -> None:
    """So that the poll ends."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(PLAN.name, b"v")
    assert producer.flush(SECONDS_MAX) == 0
