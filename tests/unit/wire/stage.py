"""A real broker on loopback, in this process, whose only peer is played by the test.

The broker under test is number 1. Nothing of it is replaced: requests go over its sockets, and what the controller decides
reaches it through the cluster store that it watches.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

from minikafka.config import BrokerConfig
from minikafka.metadata.image import PartitionState, TopicState
from minikafka.metadata.memory import MemoryStore
from minikafka.metadata.store import ClusterStore
from minikafka.protocol.api_keys import ApiKey
from minikafka.server.broker import Broker

from tests.unit.wire.client import CONSUMER, DEADLINE, Client, Fetched, Follower, fetched
from tests.unit.wire.peer import LISTENER, TOPIC_ID, Peer
from tests.waiting import until

CLIENTS = "CLIENTS"
ROUND_TRIPS = 3


class Stage:
    """Broker, peer and store of one test."""

    def __init__(self, data: Path, store: MemoryStore | None = None) -> None:
        self.data = data
        self.store = store or MemoryStore()
        self.store.open_now(None)
        self.peer = Peer(self.store)
        self.broker: Broker
        self._clients: list[Client] = []
        self._brokers: list[Broker] = []
        self._look: Client | None = None

    # -- life -----------------------------------------------------------------------------------------------------------

    def new_broker(self, store: ClusterStore | None = None) -> Broker:
        """A broker on the stage's data directory; not started."""
        config = BrokerConfig.from_properties(
            {
                "node.id": "1",
                "listeners": f"{CLIENTS}://127.0.0.1:0,{LISTENER}://127.0.0.1:0",
                "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,{LISTENER}:PLAINTEXT",
                "inter.broker.listener.name": LISTENER,
                "log.dirs": str(self.data / "data"),
                "minikafka.metadata.store": "memory",
                "controlled.shutdown.enable": "false",
                # Nothing happens by the clock: who falls silent here is the test.
                "broker.heartbeat.interval.ms": "60000",
                "broker.session.timeout.ms": "600000",
                "replica.lag.time.max.ms": "600000",
            }
        )
        self.broker = Broker(config, store or self.store)
        self._brokers.append(self.broker)
        self._look = None
        return self.broker

    async def start(self) -> Broker:
        """Start the broker, and wait until it is registered."""
        starting = await self.begin()
        async with asyncio.timeout(DEADLINE):
            await starting
        return self.broker

    async def begin(self) -> asyncio.Task[None]:
        """Begin to start the broker; it listens when this returns."""
        starting = asyncio.ensure_future(self.new_broker().start())
        await self.until(lambda: len(self.broker.listeners.names) == len(self.broker.config.listeners))
        return starting

    async def stop(self) -> None:
        """A clean shutdown."""
        async with asyncio.timeout(DEADLINE):
            await self.broker.stop()

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        for broker in self._brokers:
            await broker.stop()
        await self.peer.close()

    # -- connections ------------------------------------------------------------------------------------------------------

    async def client(self) -> Client:
        """A connection where clients connect."""
        return await self._connect(CLIENTS)

    async def follower(self) -> Client:
        """A connection where brokers connect."""
        return await self._connect(self.broker.config.inter_broker_listener)

    async def _connect(self, listener: str) -> Client:
        endpoints = {name: (host, port) for name, host, port in self.broker.listeners.advertised()}
        client = await Client.connect(*endpoints[listener])
        self._clients.append(client)
        return client

    # -- the cluster ------------------------------------------------------------------------------------------------------

    async def partition(
        self, state: PartitionState, *, configs: dict[str, str] | None = None, topic_id: UUID = TOPIC_ID
    ) -> None:
        """The controller decides on partition t-0; the broker has taken it in when this returns."""
        await self.took(self.peer.decide_topic(TopicState("t", topic_id, (state,), configs or {})))

    async def took(self, revision: int) -> None:
        """The broker has seen what the store held at ``revision``, and acted on it."""
        await self.until(lambda: self.broker.metadata.image.revision >= revision)

    async def until(self, satisfied: Any) -> None:
        """Wait for something inside this process."""
        await until(satisfied, seconds=DEADLINE)

    async def still_waits(self, answer: asyncio.Future[Any]) -> None:
        """Whatever the broker had to say by now it has said, and this answer was not among it."""
        if self._look is None:
            self._look = await self.client()
        for _ in range(ROUND_TRIPS):
            await self._look.ask(ApiKey.METADATA, {"topics": []})
        assert not answer.done(), f"answered: {answer.result()}"

    async def has(self, follower: Client, offset: int, who: Follower | None = None, **more: Any) -> Fetched:
        """The follower fetches at ``offset``: it has everything below."""
        return await fetched(follower.fetch(TOPIC_ID, offset, who or self.peer.me, **more))

    async def sees(self, consumer: Client, offset: int) -> Fetched:
        """What a consumer gets at ``offset``, without waiting."""
        return await fetched(consumer.fetch(TOPIC_ID, offset, CONSUMER))
