"""The Kafka protocol by hand: just enough to send a broker exact bytes, good or bad, and to load it with little CPU.

Deliberately independent of ``minikafka.protocol``: a mistake made alike in an encoder and its decoder shows only here.
Versions are pinned to one each: ApiVersions v0, Metadata v9, Produce v9, Fetch v12, ListOffsets v6.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import NamedTuple

import crc32c
import lz4.frame
import zstandard

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS = 0, 1, 2, 3, 18, 19
ACKS_ALL = -1
EARLIEST, LATEST = -2, -1
CLIENT_ID = b"raw-client"
BATCH_HEADER_BYTES = 61
"""From base offset to record count, both included (record batch v2)."""

Buffer = bytes | bytearray | memoryview


class ConnectionClosed(ConnectionError):
    """The broker closed the connection before the whole answer was there."""


class RawConnection:
    """One TCP connection to one broker; blocking, with a time-out in seconds for every step.

    ``address`` is ``host:port``, or a list of them with commas between, of which the first is taken.
    """

    def __init__(self, address: str, timeout_s: float = 60.0) -> None:
        host, port = address.split(",", maxsplit=1)[0].rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def send(self, data: Buffer) -> None:
        """Send all of ``data`` as it is."""
        self.socket.sendall(data)

    def receive_exactly(self, size: int) -> bytearray:
        """Receive ``size`` bytes; raises :class:`ConnectionClosed` when the broker ends the stream before."""
        data = bytearray(size)
        view = memoryview(data)
        got = 0
        while got < size:
            try:
                count = self.socket.recv_into(view[got:])
            except ConnectionResetError as error:
                raise ConnectionClosed(f"reset after {got} of {size} bytes") from error
            if not count:
                raise ConnectionClosed(f"closed after {got} of {size} bytes")
            got += count
        return data

    def receive(self) -> bytearray:
        """Receive one response, without its length prefix; begins with the correlation id."""
        (size,) = struct.unpack(">i", self.receive_exactly(4))
        return self.receive_exactly(size)

    def call(self, request_bytes: Buffer) -> bytearray:
        """Send one request and receive its response."""
        self.send(request_bytes)
        return self.receive()


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """A zigzag-coded signed varint."""
    return uvarint((value << 1) ^ (value >> 63))


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """Decode an unsigned varint: (value, next position)."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def compact_string(text: str) -> bytes:
    """A compact (KIP-482) string."""
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw


def request(api_key: int, version: int, body: Buffer, *, correlation_id: int = 7, flexible: bool = True) -> bytes:
    """A whole request with its length prefix; header v2 when ``flexible``, else v1."""
    header = struct.pack(">hhih", api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    header += b"\0" if flexible else b""
    return struct.pack(">i", len(header) + len(body)) + header + bytes(body)


class ProducerState(NamedTuple):
    """What an idempotent producer writes into its batches; the default is a producer that is not."""

    producer_id: int = -1
    epoch: int = -1
    base_sequence: int = -1


NOT_IDEMPOTENT = ProducerState()


def record_batch(
    values: Sequence[bytes],
    *,
    attributes: int = 0,
    producer: ProducerState = NOT_IDEMPOTENT,
    timestamp_ms: int | None = None,
    base_offset: int = 0,
) -> bytes:
    """One uncompressed record batch v2 with null keys, CRC-32C right, timestamps all alike (now by default)."""
    now_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    records = bytearray()
    for delta, value in enumerate(values):
        body = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + b"\0"
        records += varint(len(body)) + body
    return seal_batch(records, len(values), now_ms, attributes=attributes, producer=producer, base_offset=base_offset)


def seal_batch(
    records: Buffer,
    count: int,
    now_ms: int,
    *,
    attributes: int = 0,
    producer: ProducerState = NOT_IDEMPOTENT,
    base_offset: int = 0,
) -> bytes:
    """Put the header before ``records``, whatever they are: the CRC is right even when they are not."""
    checked = struct.pack(">hiqqqhii", attributes, count - 1, now_ms, now_ms, *producer, count) + bytes(records)
    return struct.pack(">qiibI", base_offset, len(checked) + 9, -1, 2, crc32c.crc32c(checked)) + checked


def random_batch(count: int, size_bytes: int) -> bytes:
    """A batch of ``count`` records with ``size_bytes`` random bytes each (the same in all of them)."""
    return record_batch([os.urandom(size_bytes)] * count)


def compressed_batch(count: int, size_bytes: int, codec: str) -> bytes:
    """A batch of ``count`` different records of ``size_bytes`` of made-up words, compressed by lz4 or zstd as Java does.

    The words are drawn from 2,000 of six letters, so that the codecs leave between a third and two thirds of them.
    """
    draw = random.Random(0)
    words = [bytes(draw.choices(b"abcdefghijklmnopqrstuvwxyz", k=6)) + b" " for _ in range(2000)]
    values = [b"".join(draw.choices(words, k=size_bytes // 7 + 1))[:size_bytes] for _ in range(count)]
    plain = record_batch(values)[BATCH_HEADER_BYTES:]
    now_ms = int(time.time() * 1000)
    if codec == "lz4":
        packed = lz4.frame.compress(plain, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False)
        return seal_batch(packed, count, now_ms, attributes=3)
    return seal_batch(zstandard.ZstdCompressor().compress(plain), count, now_ms, attributes=4)


def produce_request(
    topic: str,
    partition: int,
    records: Buffer,
    *,
    acks: int = ACKS_ALL,
    timeout_ms: int = 30_000,
    correlation_id: int = 7,
) -> bytes:
    """Produce v9 to one partition."""
    body = b"".join(
        (
            *(b"\0", struct.pack(">hi", acks, timeout_ms), b"\x02", compact_string(topic)),
            *(b"\x02", struct.pack(">i", partition), uvarint(len(records) + 1), records, b"\0\0\0"),
        )
    )
    return request(PRODUCE, 9, body, correlation_id=correlation_id)


class ProduceAnswer(NamedTuple):
    """The first partition of a Produce v9 response."""

    error_code: int
    base_offset: int


def read_produce_answer(response: Buffer) -> ProduceAnswer:
    """Decode a Produce v9 response."""
    _, position = read_uvarint(response, 5)
    length, position = read_uvarint(response, position)
    _, position = read_uvarint(response, position + length - 1)
    _, error_code, base_offset = struct.unpack_from(">ihq", response, position)
    return ProduceAnswer(error_code, base_offset)


def fetch_request(
    topic: str, partition: int, offset: int, *, max_bytes: int = 1 << 20, max_wait_ms: int = 500, leader_epoch: int = -1
) -> bytes:
    """Fetch v12 from one partition, without a fetch session."""
    body = b"".join(
        (
            *(
                struct.pack(">iiiibii", -1, max_wait_ms, 1, max_bytes, 0, 0, -1),
                b"\x02",
                compact_string(topic),
                b"\x02",
            ),
            *(struct.pack(">iiqiqi", partition, leader_epoch, offset, -1, -1, max_bytes), b"\0\0\x01\x01\0"),
        )
    )
    return request(FETCH, 12, body)


class FetchAnswer(NamedTuple):
    """The first partition of a Fetch v12 response; its records are ``response[start:start + size]``."""

    error_code: int
    high_watermark: int
    start: int
    size: int


def read_fetch_answer(response: Buffer) -> FetchAnswer:
    """Decode the head of a Fetch v12 response."""
    top_error, _session = struct.unpack_from(">hi", response, 9)
    topics, position = read_uvarint(response, 15)
    if topics < 2:
        return FetchAnswer(top_error, -1, position, 0)
    length, position = read_uvarint(response, position)
    _, position = read_uvarint(response, position + length - 1)
    _, error_code, high_watermark, _stable, _start = struct.unpack_from(">ihqqq", response, position)
    aborted, position = read_uvarint(response, position + 30)
    position += 16 * max(aborted - 1, 0) + 4
    length, position = read_uvarint(response, position)
    return FetchAnswer(top_error or error_code, high_watermark, position, max(length - 1, 0))


def next_offset(data: Buffer, start: int, size: int, offset: int) -> int:
    """The offset after the last whole batch of fetched records; ``offset`` when there is none."""
    position, stop = start, start + size
    while position + BATCH_HEADER_BYTES <= stop:
        base, length = struct.unpack_from(">qi", data, position)
        if position + 12 + length > stop:
            break
        (last_delta,) = struct.unpack_from(">i", data, position + 23)
        offset = base + last_delta + 1
        position += 12 + length
    return offset


def list_offset(connection: RawConnection, topic: str, partition: int, timestamp_ms: int = LATEST) -> int:
    """The offset at ``timestamp_ms``, or at one of EARLIEST and LATEST, as a consumer sees it (ListOffsets v6)."""
    body = b"".join(
        (
            *(struct.pack(">ib", -1, 0), b"\x02", compact_string(topic), b"\x02"),
            *(struct.pack(">iiq", partition, -1, timestamp_ms), b"\0\0\0"),
        )
    )
    response = connection.call(request(LIST_OFFSETS, 6, body))
    _, position = read_uvarint(response, 9)
    length, position = read_uvarint(response, position)
    _, position = read_uvarint(response, position + length - 1)
    _, error_code, _timestamp, offset = struct.unpack_from(">ihqq", response, position)
    if error_code:
        raise ConnectionError(f"ListOffsets of {topic}-{partition}: error {error_code}")
    return int(offset)


class PartitionInfo(NamedTuple):
    """One partition as Metadata v9 tells it."""

    error_code: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class ClusterInfo(NamedTuple):
    """What Metadata v9 tells: brokers by id as ``host:port``, the controller, topics with their partitions."""

    brokers: dict[int, str]
    controller: int
    topics: dict[str, dict[int, PartitionInfo]]
    topic_errors: dict[str, int]

    def leader_address(self, topic: str, partition: int) -> str:
        """``host:port`` of the leader; raises ``KeyError`` when there is none."""
        return self.brokers[self.topics[topic][partition].leader]


def metadata(connection: RawConnection, topics: Iterable[str] | None = (), *, create: bool = False) -> ClusterInfo:
    """Ask for ``topics`` (None: all of them); with ``create``, let the broker make those that are not there."""
    if topics is None:
        wanted = b"\0"
    else:
        names = [compact_string(topic) + b"\0" for topic in topics]
        wanted = uvarint(len(names) + 1) + b"".join(names)
    return _read_metadata(connection.call(request(METADATA, 9, wanted + bytes((create, 0, 0, 0)))))


def _read_metadata(response: Buffer) -> ClusterInfo:
    count, position = read_uvarint(response, 9)
    brokers = {}
    for _ in range(count - 1):
        (node_id,) = struct.unpack_from(">i", response, position)
        host, position = _read_string(response, position + 4)
        (port,) = struct.unpack_from(">i", response, position)
        _rack, position = _read_string(response, position + 4)
        position += 1
        brokers[node_id] = f"{host}:{port}"
    _cluster_id, position = _read_string(response, position)
    (controller,) = struct.unpack_from(">i", response, position)
    count, position = read_uvarint(response, position + 4)
    topics, errors = {}, {}
    for _ in range(count - 1):
        (error,) = struct.unpack_from(">h", response, position)
        name, position = _read_string(response, position + 2)
        partitions, position = read_uvarint(response, position + 1)
        of_topic = {}
        for _ in range(partitions - 1):
            error_code, index, leader, epoch = struct.unpack_from(">hiii", response, position)
            replicas, position = _read_ints(response, position + 14)
            in_sync, position = _read_ints(response, position)
            _offline, position = _read_ints(response, position)
            position += 1
            of_topic[index] = PartitionInfo(error_code, leader, epoch, replicas, in_sync)
        position += 5
        topics[name], errors[name] = of_topic, error
    return ClusterInfo(brokers, controller, topics, errors)


def _read_string(data: Buffer, position: int) -> tuple[str, int]:
    length, position = read_uvarint(data, position)
    end = position + max(length - 1, 0)
    return bytes(data[position:end]).decode(), end


def _read_ints(data: Buffer, position: int) -> tuple[tuple[int, ...], int]:
    length, position = read_uvarint(data, position)
    return struct.unpack_from(f">{length - 1}i", data, position), position + 4 * (length - 1)


def api_versions(connection: RawConnection) -> dict[int, tuple[int, int]]:
    """Every API that the broker advertises: key -> (lowest, highest version) (ApiVersions v0)."""
    response = connection.call(request(API_VERSIONS, 0, b"", flexible=False))
    error_code, count = struct.unpack_from(">hi", response, 4)
    if error_code:
        raise ConnectionError(f"ApiVersions v0: error {error_code}")
    rows = (struct.unpack_from(">hhh", response, 10 + 6 * index) for index in range(count))
    return {key: (lowest, highest) for key, lowest, highest in rows}
