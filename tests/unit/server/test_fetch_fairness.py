"""A follower gives each of its partitions a turn, however long the backlog of the others is (audit t8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from minikafka.protocol.fetch import FollowerData
from minikafka.protocol.produce import ProduceRequest
from minikafka.replication.fetch_loop import FetchLoop

from tests.unit.replication.cluster import batch
from tests.unit.server.in_process import running
from tests.waiting import until

BACKLOG = 40
BATCH = "x" * 1000


@pytest.mark.slow
@pytest.mark.parametrize("topics", [{"t": 4}, {"a": 3, "b": 1}], ids=["one topic", "two topics"])
async def test_the_last_partition_does_not_wait_for_the_first_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topics: dict[str, int]
) -> None:
    taken: list[tuple[bytes, int]] = []
    take = FetchLoop._take

    def noted(loop: FetchLoop[Any], data: FollowerData, asked: Any, now: float) -> Any:
        if data.records:
            taken.append((data.topic_id, data.partition))
        return take(loop, data, asked, now)

    monkeypatch.setattr(FetchLoop, "_take", noted)
    one_batch = {"replica_fetch_max_bytes": "1500", "replica_fetch_response_max_bytes": "1500"}
    async with running(tmp_path, 2, replica_lag_time_max_ms="600000", **one_batch) as cluster:
        for topic, partitions in topics.items():
            await cluster.create(topic, partitions, leader=1)
        leader, follower = cluster.brokers[1], cluster.brokers[2]
        await until(lambda: len([p for p in follower.replicas.all() if p.follower is not None]) == 4)
        behind = [p for p in follower.replicas.all() if p.follower is not None]
        follower.fetchers.stop()
        last = behind[-1]
        for partition in behind:
            topic, index = partition.topic_partition
            for _ in range(1 if partition is last else BACKLOG):
                answers: list[Any] = []
                leader.replicas.produce(
                    ProduceRequest(None, 1, 1000, [(topic, [(index, batch(BATCH))])]), answers.append
                )
                assert answers[0][0][1][0].error == 0
        for partition in behind:
            follower.fetchers.follow(partition, 1)
        await until(lambda: len(taken) == 3 * BACKLOG + 1)
    turn = taken.index((last.topic_id, last.topic_partition.partition))
    assert turn < len(behind), f"its turn came after {turn} others"
    assert len(set(taken[:4])) == 4
    assert len(set(taken[5:8])) == 3, "the others take turns, too"
