"""A connection to a broker as a client or a follower has it; requests are sent as the test says, answers are futures.

Everything goes through kio's schemas, Produce and Fetch too: a mistake that the broker's own encoder and decoder of the hot
requests share would show here.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Any, NamedTuple
from uuid import UUID

from minikafka.protocol import messages, wire
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode

from tests.interop.raw_client import NOT_IDEMPOTENT, ProducerState, record_batch

VERSIONS = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 16,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
}
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
ALL, LEADER = -1, 1
DEADLINE = 20.0
"""Seconds that an answer may take which must come: long, for the machine may be busy."""
FOREVER_MS = 3_600_000
"""For requests that wait: no test lasts so long, so that nothing but the event in question answers them."""


class Follower(NamedTuple):
    """Who a Fetch says it comes from."""

    replica: int
    broker_epoch: int


CONSUMER = Follower(-1, -1)


class Fetched(NamedTuple):
    """One partition of a Fetch answer."""

    error: ErrorCode
    high_watermark: int
    end_offset: int
    """After the last record that came; -1 when none did."""
    diverging: tuple[int, int]
    last_stable_offset: int


class Client:
    """See the module."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: deque[tuple[int, int, asyncio.Future[Any]]] = deque()
        self._correlation = 0
        self._task = asyncio.ensure_future(self._read())

    @classmethod
    async def connect(cls, host: str, port: int) -> Client:
        return cls(*await asyncio.open_connection(host, port))

    async def close(self) -> None:
        self._task.cancel()
        self._writer.close()
        await asyncio.wait((self._task,))

    async def _read(self) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await self._reader.readexactly(4))
                frame = await self._reader.readexactly(size)
                api_key, version, answer = self._waiting.popleft()
                if not answer.done():
                    answer.set_result(
                        messages.decode_response(api_key, version, messages.answer_body(api_key, version, frame))
                    )
        except (asyncio.IncompleteReadError, ConnectionError) as closed:
            for _, _, answer in self._waiting:
                if not answer.done():
                    answer.set_exception(ConnectionError(str(closed)))
                    answer.exception()  # a test that ends with its broker leaves nothing to complain about

    # -- requests -----------------------------------------------------------------------------------------------------

    def send(self, api_key: int, values: dict[str, Any], version: int | None = None) -> asyncio.Future[Any]:
        """Send a request; the future of its answer."""
        version = VERSIONS[api_key] if version is None else version
        self._correlation += 1
        body = messages.encode_request(api_key, version, values)
        frame = wire.request_frame(
            api_key, version, self._correlation, "wire", body, messages.is_flexible(api_key, version)
        )
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((api_key, version, answer))
        self._writer.write(frame)
        return answer

    async def ask(self, api_key: int, values: dict[str, Any], version: int | None = None) -> Any:
        return await answered(self.send(api_key, values, version))

    def produce(
        self,
        *values: bytes,
        acks: int = ALL,
        timeout_ms: int = FOREVER_MS,
        producer: ProducerState = NOT_IDEMPOTENT,
    ) -> asyncio.Future[Any]:
        """One batch to partition 0."""
        records = {"index": 0, "records": record_batch(values, producer=producer)}
        return self.send(
            ApiKey.PRODUCE,
            {"acks": acks, "timeout": timeout_ms, "topic_data": [{"name": "t", "partition_data": [records]}]},
        )

    def fetch(
        self,
        topic_id: UUID,
        offset: int,
        who: Follower = CONSUMER,
        *,
        wait: bool = False,
        leader_epoch: int = -1,
        last_epoch: int = -1,
        partition: int = 0,
        version: int | None = None,
    ) -> asyncio.Future[Any]:
        """From one partition. ``wait``: until there is something, else the answer comes at once."""
        return self.send(
            ApiKey.FETCH,
            {
                "replica_id": who.replica,
                "replica_state": {"replica_id": who.replica, "replica_epoch": who.broker_epoch},
                "max_wait": FOREVER_MS if wait else 0,
                "min_bytes": 1,
                "topics": [
                    {
                        "topic": "t",
                        "topic_id": topic_id,
                        "partitions": [
                            {
                                "partition": partition,
                                "current_leader_epoch": leader_epoch,
                                "fetch_offset": offset,
                                "last_fetched_epoch": last_epoch,
                                "partition_max_bytes": 1 << 20,
                            }
                        ],
                    }
                ],
            },
            version,
        )

    async def list_offset(
        self, timestamp: int, who: Follower = CONSUMER, leader_epoch: int = -1
    ) -> tuple[ErrorCode, int]:
        """(error, offset) of ListOffsets for partition 0; -1: none."""
        answer = await self.ask(
            ApiKey.LIST_OFFSETS,
            {
                "replica_id": who.replica,
                "isolation_level": 0,
                "topics": [
                    {
                        "name": "t",
                        "partitions": [
                            {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": leader_epoch}
                        ],
                    }
                ],
            },
        )
        row = answer.topics[0].partitions[0]
        return ErrorCode(int(row.error_code)), row.offset


async def answered(answer: asyncio.Future[Any]) -> Any:
    """The answer, which must come."""
    async with asyncio.timeout(DEADLINE):
        return await asyncio.shield(answer)


async def produced(answer: asyncio.Future[Any]) -> tuple[ErrorCode, int]:
    """(error, base offset) of a Produce answer, which must come."""
    row = (await answered(answer)).responses[0].partition_responses[0]
    return ErrorCode(int(row.error_code)), row.base_offset


async def fetched(answer: asyncio.Future[Any]) -> Fetched:
    """What a Fetch answer, which must come, holds for its partition."""
    row = (await answered(answer)).responses[0].partitions[0]
    end = getattr(row, "diverging_epoch", None)
    return Fetched(
        ErrorCode(int(row.error_code)),
        row.high_watermark,
        _end_offset(bytes(row.records or b"")),
        (-1, -1) if end is None else (end.epoch, end.end_offset),
        row.last_stable_offset,
    )


def _end_offset(records: bytes) -> int:
    end, position = -1, 0
    while position < len(records):
        base, length = struct.unpack_from(">qi", records, position)
        (last_delta,) = struct.unpack_from(">i", records, position + 23)
        end = base + last_delta + 1
        position += 12 + length
    return end
