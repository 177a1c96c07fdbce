"""With the unflushed volume, losing a pod without a warning is a power loss: it takes what was not flushed, and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from minikafka.protocol.types import TopicPartition
from minikafka_chaos.load.clients import TopicPlan
from minikafka_chaos.verdict.verdict import Outcome

from tests.e2e.broker_cluster import SMALL, BrokerCluster
from tests.e2e.kubectl import eventually
from tests.e2e.load import Scripted
from tests.e2e.machine import say

WHERE = TopicPartition("volatile", 0)
FOLLOWER = 2
HEAL_SECONDS_MAX = 240
SPEC = {
    "brokers": {"replicas": 3, "resources": SMALL},
    "replication": {"defaultFactor": 3, "minInsyncReplicas": 2},
    "storage": {"size": "500Mi"},
    "unflushedVolume": {"sizeLimit": "64Mi"},
    "flightRecorder": {"type": "PersistentClaim", "size": "100Mi"},
    "listeners": {"external": {"type": "NodePort"}},
}


def test_power_loss_takes_exactly_the_unflushed_tail(
    broker_cluster: Callable[[str], BrokerCluster], tmp_path: Path
) -> None:
    cluster = broker_cluster("volatile")
    cluster.up(SPEC)
    records = Scripted(cluster.bootstrap, TopicPlan(WHERE.topic, assignment=[[0, 1, FOLLOWER]]), tmp_path)

    records.send(100)
    _wait_for_end(cluster, 100)
    cluster.kill_container(FOLLOWER)
    recovered = _recovered_after(cluster, 1)
    assert (recovered["clean"], recovered["log_end_offset"]) == (False, 100), "a process crash takes nothing"
    _wait_for_end(cluster, 100)

    cluster.delete_pod(FOLLOWER)
    recovered = _recovered_after(cluster, 2)
    assert (recovered["clean"], recovered["log_end_offset"]) == (True, 100), "who is told to stop flushes first"
    _wait_for_end(cluster, 100)

    records.send(50)
    _wait_for_end(cluster, 150)
    flushed = cluster.replica(FOLLOWER, WHERE).flushed_offset
    assert flushed == 100
    cluster.lose_power(FOLLOWER)
    recovered = _recovered_after(cluster, 3)
    assert (recovered["clean"], recovered["log_end_offset"]) == (False, flushed), "exactly the unflushed tail is gone"
    _wait_for_end(cluster, 150)

    verdict = records.verdict()
    assert verdict.outcome is Outcome.PASSED, verdict.as_json()
    say(f"power loss took offsets {flushed} to 149 of one replica, which has them again; {verdict.summary}")


def _wait_for_end(cluster: BrokerCluster, end: int) -> None:
    """The follower is in sync, and its log ends there."""
    cluster.wait_broker_ready(FOLLOWER, HEAL_SECONDS_MAX)
    cluster.wait_full_isr(WHERE.topic, HEAL_SECONDS_MAX)
    eventually(
        lambda: cluster.replica(FOLLOWER, WHERE).log_end_offset,
        lambda offset: offset == end,
        seconds=HEAL_SECONDS_MAX,
        what=f"the log end offset of broker {FOLLOWER} is {end}",
    )


def _recovered_after(cluster: BrokerCluster, restarts: int) -> dict[str, Any]:
    """What the follower found when it opened its log after so many restarts."""

    def openings() -> list[dict[str, Any]]:
        found = [each for each in cluster.events(FOLLOWER) if each["event"] == "log_recovered"]
        return [each["fields"] for each in found if (each["topic"], each["partition"]) == WHERE]

    found = eventually(
        openings,
        lambda seen: len(seen) >= restarts,
        seconds=HEAL_SECONDS_MAX,
        what=f"broker {FOLLOWER} opened its log {restarts} times",
    )
    return found[restarts - 1]
