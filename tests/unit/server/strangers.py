"""Connections of whoever has not logged in yet, byte by byte, and a broker that wants a login."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from minikafka.protocol import messages, wire
from minikafka.protocol.api_keys import ApiKey
from minikafka.security.sasl_client import Login, exchange
from minikafka.server.broker import Broker
from minikafka.server.connection import ClientConnection

from tests.unit.server.in_process import DEADLINE, Cluster, running
from tests.waiting import until

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = {
    "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,REPLICATION:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.client.plain.sasl.jaas.config": f'{PLAIN} required user_alice="right" user_bob="bobs";',
    "connection.failed.authentication.delay.ms": "0",
}
ALICE = Login("PLAIN", "alice", "right")
SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}


def fetch(absent: int = 0) -> dict[str, Any]:
    """A Fetch that waits for the first record of a partition, or of partitions that are not there."""
    row = {"current_leader_epoch": -1, "fetch_offset": 0, "log_start_offset": -1, "partition_max_bytes": 1 << 20}
    partitions = [{"partition": index, **row} for index in range(absent or 1)]
    topics = [{"topic": "nowhere" if absent else "t", "partitions": partitions}]
    limits = {"max_wait": 2**31 - 1, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0, "session_epoch": -1}
    return {"replica_id": -1, "session_id": 0, "topics": topics, "forgotten_topics_data": [], "rack_id": "", **limits}


class Stranger:
    """A connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def at(cls, broker: Broker, listener: str = "CLIENT") -> Stranger:
        host, port = next((h, p) for n, h, p in broker.listeners.advertised() if n == listener)
        return cls(*await asyncio.open_connection(host, port))

    async def frame(self) -> bytes | None:
        """None when the connection is closed instead."""
        try:
            async with asyncio.timeout(DEADLINE):
                return await self._reader.readexactly(struct.unpack(">i", await self._reader.readexactly(4))[0])
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def send(self, token: bytes) -> None:
        self._writer.write(len(token).to_bytes(4, "big") + token)

    def request(self, key: ApiKey, version: int, values: Mapping[str, Any]) -> None:
        body = messages.encode_request(key, version, values)
        self._writer.write(wire.request_frame(key, version, 7, "test", body, messages.is_flexible(key, version)))

    async def ask(self, key: ApiKey, version: int, values: Mapping[str, Any]) -> Any:
        """The answer; None when the connection is closed instead."""
        self.request(key, version, values)
        frame = await self.frame()
        return (
            None if frame is None else messages.decode_response(key, version, messages.answer_body(key, version, frame))
        )

    async def log_in(self, login: Login = ALICE, version: int = 2) -> Any:
        answer = await self.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": login.mechanism})
        assert not answer.error_code
        return await self.authenticate(login, version)

    async def authenticate(self, login: Login, version: int = 2) -> Any:
        steps = exchange(login)
        message = next(steps)
        while True:
            answer = await self.ask(ApiKey.SASL_AUTHENTICATE, version, {"auth_bytes": message})
            if answer is None or answer.error_code:
                return answer
            try:
                message = steps.send(answer.auth_bytes)
            except StopIteration:
                return answer

    async def is_served(self) -> bool:
        return await self.ask(ApiKey.METADATA, 9, {"topics": []}) is not None

    def close(self) -> None:
        self._writer.close()


def connections(broker: Broker) -> list[ClientConnection]:
    return [each for each in broker.connections._open if isinstance(each, ClientConnection)]


@asynccontextmanager
async def one_broker(data: Path, **more: str) -> AsyncIterator[tuple[Cluster, Broker]]:
    async with running(data, **{**SASL, **more}) as cluster:
        yield cluster, cluster.brokers[1]


async def refusals(cluster: Cluster, count: int) -> list[tuple[str | None, str]]:
    """(principal, reason) of each event, when there are so many."""
    path = cluster.data / "events-1.jsonl"

    def told() -> list[dict[str, Any]]:
        events = [json.loads(line) for line in path.read_text().splitlines()]
        return [event["fields"] for event in events if event["event"] == "authentication_failed"]

    await until(lambda: len(told()) >= count)
    assert all(fields["address"] == "127.0.0.1" for fields in told())
    return [(fields["principal"], fields["reason"]) for fields in told()]


class Session:
    """A connection that has logged in, whose session the test moves through time."""

    def __init__(self, client: Stranger, broker: Broker) -> None:
        (connection,) = connections(broker)
        assert connection.door is not None
        self.client, self.broker, self.door = client, broker, connection.door

    def passes(self, seconds: float) -> None:
        self.door._began -= seconds
        self.door._ends -= seconds
