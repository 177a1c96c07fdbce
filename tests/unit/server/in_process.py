"""Brokers in the test's own event loop: real listeners on loopback, real logs, and one SQLite store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from minikafka.config import BrokerConfig
from minikafka.controller.topics import NewTopic
from minikafka.metadata.image import PartitionState
from minikafka.metadata.sqlite import SqliteStore
from minikafka.protocol.errors import ErrorCode
from minikafka.server.broker import Broker
from minikafka.server.context import BrokerContext
from minikafka.server.machine import Machine
from minikafka.transport.peer import PeerConnection, connect

from tests.waiting import until

DEADLINE = 60.0

QUICK = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "200",
    "replica.fetch.wait.max.ms": "50",
    "auto.create.topics.enable": "false",
    "log.segment.delete.delay.ms": "0",
}


def context(**settings: str) -> BrokerContext:
    """For a part of a broker alone; names of settings have ``_`` for ``.``."""
    properties = {"node.id": "1", "minikafka.metadata.store": "memory"}
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return BrokerContext(BrokerConfig.from_properties(properties | named), Machine())


class Cluster:
    """Brokers by id, each with a listener for clients and one for brokers."""

    def __init__(self, data: Path, settings: Mapping[str, str]) -> None:
        self.data = data
        self.settings = settings
        self.brokers: dict[int, Broker] = {}

    async def start(self, broker_id: int) -> Broker:
        config = BrokerConfig.from_properties(
            {
                **QUICK,
                "node.id": str(broker_id),
                "listeners": "CLIENT://127.0.0.1:0,REPLICATION://127.0.0.1:0",
                "listener.security.protocol.map": "CLIENT:PLAINTEXT,REPLICATION:PLAINTEXT",
                "inter.broker.listener.name": "REPLICATION",
                "log.dirs": str(self.data / f"broker-{broker_id}"),
                "minikafka.metadata.store": f"sqlite:{self.data / 'store.db'}",
                "minikafka.metrics.port": "0",
                "minikafka.events.path": str(self.data / f"events-{broker_id}.jsonl"),
                **self.settings,
            }
        )
        broker = Broker(config, SqliteStore(self.data / "store.db", broker_id))
        self.brokers[broker_id] = broker
        async with asyncio.timeout(DEADLINE):
            await broker.start()
        return broker

    @property
    def controller(self) -> Broker:
        return next(b for b in self.brokers.values() if b.membership.leads)

    async def has_controller(self) -> None:
        await until(lambda: any(b.membership.leads for b in self.brokers.values()))

    async def create(self, name: str, partitions: int = 1, leader: int | None = None) -> None:
        """A topic with a replica on each broker, known everywhere; ``leader`` leads all of its partitions."""
        await self.has_controller()
        wish = NewTopic(name, partitions, len(self.brokers))
        if leader is not None:
            replicas = sorted(self.brokers, key=lambda broker_id: broker_id != leader)
            wish = NewTopic(name, assignment=dict.fromkeys(range(partitions), replicas))
        await self.controller.topics.create(wish)
        await until(lambda: all(b.replicas.get(name, partitions - 1) is not None for b in self.brokers.values()))

    async def delete(self, name: str) -> ErrorCode:
        """By the controller; what it says."""
        role = self.controller.topics.require_controller()
        return await role.submit(lambda controller: controller.topics.delete(name))

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        """As the controller has decided it."""
        role = self.controller.membership.role
        assert role is not None
        return role.controller.partitions.workspace.image.topics[topic].partitions[partition]

    async def connect(self, broker: Broker, listener: str) -> PeerConnection:
        host, port = next((h, p) for n, h, p in broker.listeners.advertised() if n == listener)
        return await connect(host, port, "test", DEADLINE, DEADLINE)


@asynccontextmanager
async def running(data: Path, brokers: int = 1, **settings: str) -> AsyncIterator[Cluster]:
    """A cluster of so many brokers; names of settings have ``_`` for ``.``."""
    cluster = Cluster(data, {name.replace("_", "."): value for name, value in settings.items()})
    try:
        for broker_id in range(1, brokers + 1):
            await cluster.start(broker_id)
        yield cluster
    finally:
        for broker in cluster.brokers.values():
            await broker.abort()
            broker.events.close()


async def get(broker: Broker, path: str) -> tuple[int, str]:
    """Status and body of an answer of its HTTP server."""
    assert broker._metrics is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", broker._metrics.port)
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    raw = await reader.read()
    writer.close()
    head, _, body = raw.decode().partition("\r\n\r\n")
    return int(head.split()[1]), body
