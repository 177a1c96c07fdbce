"""Replicas are made and dropped in turns, between which a broker serves others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from minikafka.controller.topics import NewTopic
from minikafka.transport import turn

from tests.waiting import until

from .in_process import DEADLINE, Cluster, running

PARTITIONS = 30


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """One replica each."""
    monkeypatch.setattr(turn, "TURN_SECONDS_MAX", 0.0)


def hosted(cluster: Cluster, topic: str) -> int:
    """Logs, for who is deleted serves nobody from the first turn on."""
    return sum(tp.topic == topic for tp in cluster.brokers[1].logs.logs)


async def test_others_are_served_while_a_topic_is_made_and_dropped(tmp_path: Path) -> None:
    """One of 3,000 partitions held the loop for 9 s. Who asked for it is answered when all of it is there."""
    async with running(tmp_path, 1) as cluster:
        await cluster.has_controller()
        topics, seen = cluster.brokers[1].topics, set[int]()

        async def look() -> None:
            while True:
                seen.add(hosted(cluster, "large"))
                await asyncio.sleep(0)

        looking = asyncio.ensure_future(look())
        async with asyncio.timeout(DEADLINE):
            await topics.create(NewTopic("large", PARTITIONS, 1))
            assert hosted(cluster, "large") == PARTITIONS
            assert len(seen) > PARTITIONS // 2
            seen.clear()
            await topics.require_controller().submit(lambda controller: controller.topics.delete("large"))
            await until(lambda: hosted(cluster, "large") == 0)
        looking.cancel()
        assert len(seen) > PARTITIONS // 2


async def test_a_broker_that_stops_meanwhile_makes_the_rest_when_it_is_back(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as cluster:
        await cluster.has_controller()
        first = cluster.brokers[1]
        role = first.topics.require_controller()
        await role.submit(lambda controller: controller.topics.create(NewTopic("large", 10 * PARTITIONS, 1), False))
        await until(lambda: hosted(cluster, "large") > 0)
        await first.stop()
        made = hosted(cluster, "large")
        await asyncio.sleep(0.05)
        assert hosted(cluster, "large") == made < 10 * PARTITIONS
        assert first.context.health.problems() == {}
        again = await cluster.start(1)
        assert hosted(cluster, "large") == 10 * PARTITIONS and again.stats.clean_shutdown == 1
