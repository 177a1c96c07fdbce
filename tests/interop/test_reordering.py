"""When librdkafka reorders without idempotence, and when not (docs/reference/scenarios.md, `reordering-in-flight`).

What fails with its connection fails together, and since librdkafka's retries are of records and not of requests (its issues #623,
#1092, #1432) they go back to their places in the queue: a leader that is killed costs no order. One request that is refused
alone is another matter: those behind it are under way already, and are taken.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from minikafka.config import BrokerConfig
from minikafka.controller.topics import NewTopic
from minikafka.metadata.memory import MemoryStore
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.produce import PartitionResult
from minikafka.replication.replicas import ReplicaManager
from minikafka.server.broker import Broker

RECORDS = 12
REFUSED = 3
"""The request of the third record is refused, once."""
DEADLINE = 60.0


async def started(data: Path) -> Broker:
    broker = Broker(
        BrokerConfig.from_properties(
            {
                "node.id": "1",
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "log.dirs": str(data),
                "minikafka.metadata.store": "memory",
            }
        ),
        MemoryStore(),
    )
    async with asyncio.timeout(DEADLINE):
        await broker.start()
        await broker.topics.create(NewTopic("t", 1, 1))
        while (hosted := broker.replicas.get("t", 0)) is None or hosted.leader is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return broker


def refuse_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a leader below min.insync.replicas does, which has its followers back a moment later."""
    append, asked = ReplicaManager._append, [0]

    def refusing(self: ReplicaManager, partition: Any, index: int, *more: Any) -> Any:
        asked[0] += 1
        if asked[0] == REFUSED:
            return PartitionResult(index, ErrorCode.NOT_ENOUGH_REPLICAS), -1
        return append(self, partition, index, *more)

    monkeypatch.setattr(ReplicaManager, "_append", refusing)


def send(port: int, idempotent: bool) -> int:
    """Records of a request each, handed over at once; how many have no outcome."""
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "max.in.flight.requests.per.connection": 5,
            "enable.idempotence": idempotent,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "log_level": 0,
        }
    )
    for number in range(RECORDS):
        producer.produce("t", str(number).encode(), partition=0)
    left: int = producer.flush(DEADLINE)
    return left


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_request_that_is_refused_alone_is_overtaken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idempotent: bool
) -> None:
    """R18: unless the producer numbers its batches; then the leader refuses those behind it as well (KIP-98)."""
    broker = await started(tmp_path)
    try:
        refuse_one(monkeypatch)
        port = broker.listeners.advertised()[0][2]
        assert await asyncio.to_thread(send, port, idempotent) == 0
        hosted = broker.replicas.get("t", 0)
        assert hosted is not None
        found = [
            int(record.value or b"") for batch in hosted.log.read_batches(0, RECORDS) for record in batch.records()
        ]
    finally:
        await broker.stop()
    assert sorted(found) == list(range(RECORDS))
    assert (found == sorted(found)) is idempotent, found
    assert idempotent or found.index(REFUSED - 1) > found.index(REFUSED)
