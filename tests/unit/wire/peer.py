"""The only other broker, played by the test: controller, follower and leader in one, on a socket of its own.

It answers registrations and heartbeats by itself, unless told otherwise. AlterPartition and Fetch requests are handed to the
test, which answers them when and how it likes, or hangs up. What the controller decides is written into the cluster store.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any
from uuid import UUID

from minikafka.metadata.image import BROKER, TOPIC, BrokerState, PartitionState, TopicState
from minikafka.metadata.memory import MemoryStore
from minikafka.protocol import messages, wire
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode

from tests.unit.wire.client import DEADLINE, Follower

LISTENER = "BROKERS"
TOPIC_ID = UUID(int=7)


class Asked:
    """A request that waits for the test."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()


class Peer:
    """Broker 2. See the module."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.registrations: list[Any] = []
        self.admits = asyncio.Event()
        """While it is not set, registrations wait for their answer."""
        self.admits.set()
        self._forgotten = -1
        self.alterations: asyncio.Queue[Asked] = asyncio.Queue()
        self.fetches: asyncio.Queue[Asked] = asyncio.Queue()
        self._epochs = 10
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ("", 0)
        self.me = Follower(2, 2)

    # -- life -----------------------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Open the socket and take the controller's lease."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()[:2]
        self.lead_the_cluster()
        self.is_known(epoch=self.me.broker_epoch)

    def lead_the_cluster(self) -> None:
        """Take the lease, from whomever."""
        held = self.store.held
        assert self.store.acquire_now(self.me.replica, *self.address, held.epoch if held else 0)

    async def close(self) -> None:
        """Nobody is here any more: who connects is refused."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.hang_up()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def hang_up(self) -> None:
        """Close every connection; what waited for an answer will never know."""
        for writer in self._writers:
            writer.close()

    def forget(self) -> None:
        """Know nothing of the broker's present registration any more; the next one waits for :attr:`admits`.

        The broker finds that out by its next heartbeat, which it sends at once, for it has to connect anew.
        """
        self.admits.clear()
        self._forgotten = self._epochs
        self.hang_up()

    # -- decisions --------------------------------------------------------------------------------------------------------

    def decide(self, key: str, value: Any) -> int:
        """Write a record as the controller; the store's revision with it."""
        assert self.store.held is not None
        return self.store.commit_now(self.store.held.epoch, {key: value})

    def decide_topic(self, topic: TopicState) -> int:
        return self.decide(TOPIC + topic.name, topic.to_json())

    def decide_topic_state(self, state: PartitionState) -> int:
        """Topic t with one partition."""
        return self.decide_topic(TopicState("t", TOPIC_ID, (state,), {}))

    def is_known(self, *, epoch: int, fenced: bool = False) -> int:
        """What the cluster knows of this broker."""
        state = BrokerState(2, epoch, f"two-{epoch}", ((LISTENER, *self.address),), None, fenced)
        return self.decide(BROKER + "2", state.to_json())

    async def asked_to_alter(self) -> tuple[Asked, int, list[tuple[int, int]]]:
        """The next AlterPartition: (request, partition epoch, ISR with broker epochs)."""
        asked = await next_of(self.alterations)
        part = asked.request.topics[0].partitions[0]
        return asked, part.partition_epoch, [(m.broker_id, m.broker_epoch) for m in part.new_isr_with_epochs]

    # -- the wire -----------------------------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                api_key, version, correlation, client_id = struct.unpack_from(">hhih", frame)
                flexible = messages.is_flexible(api_key, version)
                start = 10 + max(client_id, 0)
                body = frame[wire.skip_tags(frame, start) if flexible else start :]
                values = await self._answer(api_key, messages.decode_request(api_key, version, body))
                answer = messages.encode_response(api_key, version, values)
                writer.write(wire.response_frame(correlation, answer, flexible))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # asyncio.streams would log that a handler was cancelled
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, api_key: int, request: Any) -> dict[str, Any]:
        if api_key == ApiKey.BROKER_REGISTRATION:
            return await self._register(request)
        if api_key == ApiKey.BROKER_HEARTBEAT:
            known = request.broker_epoch > self._forgotten
            error = ErrorCode.NONE if known else ErrorCode.STALE_BROKER_EPOCH
            return {"error_code": error, "is_caught_up": True, "is_fenced": False, "should_shut_down": False}
        waiting = {ApiKey.ALTER_PARTITION: self.alterations, ApiKey.FETCH: self.fetches}[api_key]
        asked = Asked(request)
        waiting.put_nowait(asked)
        return await asked.answer

    async def _register(self, request: Any) -> dict[str, Any]:
        self.registrations.append(request)
        await self.admits.wait()
        self._epochs += 1
        endpoints = tuple((e.name, e.host, e.port) for e in request.listeners)
        state = BrokerState(request.broker_id, self._epochs, str(request.incarnation_id), endpoints, None, False)
        self.decide(BROKER + str(request.broker_id), state.to_json())
        return {"error_code": ErrorCode.NONE, "broker_epoch": self._epochs}


def altered(asked: Asked, isr: tuple[int, ...], partition_epoch: int) -> None:
    """Answer an AlterPartition: it is done."""
    topic = asked.request.topics[0]
    part = topic.partitions[0]
    row = {
        "partition_index": 0,
        "leader_id": asked.request.broker_id,
        "leader_epoch": part.leader_epoch,
        "isr": isr,
        "partition_epoch": partition_epoch,
    }
    asked.answer.set_result({"error_code": 0, "topics": [{"topic_id": topic.topic_id, "partitions": [row]}]})


async def next_of(queue: asyncio.Queue[Asked]) -> Asked:
    """The next request, which must come."""
    async with asyncio.timeout(DEADLINE):
        return await queue.get()
