"""With the unflushed volume, losing a pod without a warning is a power loss: it takes what was not flushed, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.load.clients import TopicPlan
from minikafka_chaos.verdict.verdict import Outcome

from tests.e2e.broker_cluster import BrokerCluster
from tests.e2e.kubectl import eventually
from tests.e2e.load import Scripted
from tests.e2e.machine import say

pytestmark = pytest.mark.journeys

FOLLOWER = 2
HEAL_SECONDS_MAX = 360


def _records(cluster: BrokerCluster, topic: str, folder: Path) -> Scripted:
    return Scripted(cluster.bootstrap, TopicPlan(topic, assignment=[[0, 1, FOLLOWER]]), folder)


def test_power_loss_takes_exactly_the_unflushed_tail(journeys: BrokerCluster, tmp_path: Path) -> None:
    where = TopicPartition("volatile", 0)
    records = _records(journeys, where.topic, tmp_path)
    records.send(100)
    _wait_for_end(journeys, where, 100)
    journeys.delete_pod(FOLLOWER)
    recovered = _recovered_after(journeys, where, 1)
    assert (recovered["clean"], recovered["log_end_offset"]) == (True, 100), "who is told to stop flushes first"
    _wait_for_end(journeys, where, 100)

    records.send(50)
    _wait_for_end(journeys, where, 150)
    flushed = journeys.replica(FOLLOWER, where).flushed_offset
    assert flushed == 100
    journeys.lose_power(FOLLOWER)
    recovered = _recovered_after(journeys, where, 2)
    assert (recovered["clean"], recovered["log_end_offset"]) == (False, flushed), "exactly the unflushed tail is gone"
    _wait_for_end(journeys, where, 150)

    verdict = records.verdict()
    assert verdict.outcome is Outcome.PASSED, verdict.as_json()
    say(f"power loss took offsets {flushed} to 149 of one replica, which has them again; {verdict.summary}")


@pytest.mark.full
def test_a_process_crash_takes_nothing(journeys: BrokerCluster, tmp_path: Path) -> None:
    where = TopicPartition("crashed", 0)
    records = _records(journeys, where.topic, tmp_path)
    records.send(100)
    _wait_for_end(journeys, where, 100)
    journeys.kill_container(FOLLOWER)
    recovered = _recovered_after(journeys, where, 1)
    assert (recovered["clean"], recovered["log_end_offset"]) == (False, 100)
    _wait_for_end(journeys, where, 100)
    verdict = records.verdict()
    assert verdict.outcome is Outcome.PASSED, verdict.as_json()


def _wait_for_end(cluster: BrokerCluster, where: TopicPartition, end: int) -> None:
    """The follower is in sync, and its log ends there."""
    cluster.wait_broker_ready(FOLLOWER, HEAL_SECONDS_MAX)
    cluster.wait_full_isr(where.topic, HEAL_SECONDS_MAX)
    eventually(
        lambda: cluster.replica(FOLLOWER, where).log_end_offset,
        lambda offset: offset == end,
        seconds=HEAL_SECONDS_MAX,
        what=f"the log end offset of broker {FOLLOWER} is {end}",
    )


def _recovered_after(cluster: BrokerCluster, where: TopicPartition, restarts: int) -> dict[str, Any]:
    """What the follower found when it opened its log after so many restarts."""

    def openings() -> list[dict[str, Any]]:
        found = [each for each in cluster.events(FOLLOWER) if each["event"] == "log_recovered"]
        return [each["fields"] for each in found if (each["topic"], each["partition"]) == where]

    found = eventually(
        openings,
        lambda seen: len(seen) >= restarts,
        seconds=HEAL_SECONDS_MAX,
        what=f"broker {FOLLOWER} opened its log {restarts} times",
    )
    return found[restarts - 1]
