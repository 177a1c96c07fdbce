"""The cluster store was put back to an earlier state: what was acknowledged since is not given up by itself (decision 012)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from minikafka.protocol.errors import ErrorCode
from minikafka.replication.partition import Role
from minikafka.server.broker import Broker

from tests.unit.server.in_process import Cluster, get, running
from tests.unit.server.test_offline_logs import hosted, leader, produce
from tests.waiting import until

LATER = 1000
"""A leader epoch that the restored metadata does not reach by the elections of a restart."""


def grow_epoch(cluster: Cluster, broker_ids: Sequence[int]) -> None:
    """The last records of topic t were written in a later term."""
    for broker_id in broker_ids:
        path = cluster.data / f"broker-{broker_id}" / "t-0" / "leader-epoch-checkpoint"
        lines = path.read_text().splitlines()
        lines[-1] = f"{LATER} {lines[-1].split()[1]}"
        path.write_text("\n".join(lines) + "\n")


def told(cluster: Cluster, broker: Broker, event: str) -> list[dict[str, object]]:
    lines = (cluster.data / f"events-{broker.broker_id}.jsonl").read_text().splitlines()
    return [found for found in map(json.loads, lines) if found["event"] == event]


async def restarted(cluster: Cluster, ahead: Sequence[int]) -> None:
    """All brokers stop cleanly and come back; the logs of some are from a later time than the metadata."""
    await until(lambda: all(broker.membership.broker_epoch >= 0 for broker in cluster.brokers.values()))
    for broker in cluster.brokers.values():
        assert await broker.abort(), "its log would be recovered, and have the epochs of its records"
        broker.events.close()
    grow_epoch(cluster, ahead)
    await asyncio.gather(*(cluster.start(broker_id) for broker_id in list(cluster.brokers)))
    await until(lambda: all(b.replicas.get("t", 0) is not None for b in cluster.brokers.values()))


async def with_a_record(cluster: Cluster) -> None:
    for topic in ("t", "u"):
        await cluster.create(topic)
    await until(lambda: hosted(leader(cluster)).leader is not None)
    assert await produce(leader(cluster)) is ErrorCode.NONE
    await until(lambda: all(hosted(b).log.log_end_offset == 1 for b in cluster.brokers.values()))


@pytest.mark.slow
async def test_a_log_that_is_ahead_of_the_metadata_is_neither_led_nor_followed(tmp_path: Path) -> None:
    """A leader failed on it at each look, for ever; a follower cut its log for the leader of the older term."""
    async with running(tmp_path, 3) as cluster:
        await with_a_record(cluster)
        await restarted(cluster, ahead=[1, 2, 3])
        brokers = cluster.brokers.values()
        await until(lambda: all(told(cluster, b, "metadata_behind_log") for b in brokers))
        for broker in brokers:
            assert hosted(broker).role is Role.NONE
            assert hosted(broker).log.log_end_offset == 1
            (event, *_) = told(cluster, broker, "metadata_behind_log")
            assert event["fields"]["log_leader_epoch"] == LATER  # type: ignore[index]
            assert "minikafka_partitions_ahead_of_metadata 1" in (await get(broker, "/metrics"))[1]
            status, body = await get(broker, "/healthz")
            assert status == 200, "a restart would only bring about elections, and with them the older history"
            assert body.startswith("cluster metadata: older than 1 log here (t-0), which are left alone; t-0:")
            await until(lambda b=broker: not b.is_fenced)  # type: ignore[misc]
        await until(lambda: any(b.replicas.by_name["u"][0].leader is not None for b in brokers))

        assert await cluster.delete("t") is ErrorCode.NONE
        await until(lambda: all(b.context.health.verdict() == (True, "ok") for b in brokers))


@pytest.mark.slow
async def test_a_follower_keeps_what_its_leader_never_had(tmp_path: Path) -> None:
    """The restored metadata has a replica in its ISR that was not in it any more: it leads, without the newest records."""
    async with running(tmp_path, 3) as cluster:
        await with_a_record(cluster)
        await restarted(cluster, ahead=[2, 3])
        two, three = cluster.brokers[2], cluster.brokers[3]
        await until(lambda: all(told(cluster, b, "metadata_behind_log") for b in (two, three)))
        for broker in (two, three):
            assert (hosted(broker).role, hosted(broker).log.log_end_offset) == (Role.NONE, 1)
            assert broker.fetchers.leader_of(hosted(broker)) is None


async def test_a_running_broker_ends_when_the_store_goes_back_under_it(tmp_path: Path) -> None:
    """It went on with an image that was a mixture of two histories."""
    async with running(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        store, backup = tmp_path / "store.db", tmp_path / "backup.db"
        with contextlib.closing(sqlite3.connect(store)) as db, contextlib.closing(sqlite3.connect(backup)) as copy:
            db.backup(copy)
        await cluster.create("t")
        with contextlib.closing(sqlite3.connect(backup)) as copy, contextlib.closing(sqlite3.connect(store)) as db:
            copy.backup(db)
        await until(broker.failed.is_set)
        assert broker.failure is not None
        assert "it was put back to an earlier state" in broker.failure
        assert (await get(broker, "/healthz"))[0] == 503
