"""Frames of the requests that clients send most, faster than kio makes them: a schedule sends hundreds of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from minikafka.protocol import messages, wire
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.types import TopicPartition

PRODUCE_VERSION, LIST_OFFSETS_VERSION = 9, 7
CLIENT_ID = "client"


def produce(parts: Sequence[tuple[TopicPartition, bytes]], acks: int, timeout_ms: int) -> bytes:
    """Produce v9; an entry for each partition, in the order given."""
    topics: dict[str, list[bytes]] = {}
    for tp, batch in parts:
        partition = struct.pack(">i", tp.partition) + wire.uvarint(len(batch) + 1) + batch + b"\0"
        topics.setdefault(tp.topic, []).append(partition)
    body = b"\0" + struct.pack(">hi", acks, timeout_ms) + wire.uvarint(len(topics) + 1)
    for name, partitions in topics.items():
        body += wire.compact_string(name) + wire.uvarint(len(partitions) + 1) + b"".join(partitions) + b"\0"
    return wire.request_frame(ApiKey.PRODUCE, PRODUCE_VERSION, 0, CLIENT_ID, body + b"\0", True)


@lru_cache(maxsize=4096)
def list_offsets(topic: str, partition: int, leader_epoch: int, timestamp: int) -> bytes:
    """ListOffsets v7 of one partition; `timestamp` in milliseconds, or -1 for the end and -2 for the start."""
    asked = {"partition_index": partition, "current_leader_epoch": leader_epoch, "timestamp": timestamp}
    values = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [asked]}]}
    return frame((ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION), values)


def frame(api: tuple[int, int], values: dict[str, object]) -> bytes:
    """Any request: API key and version, and the values as kio names them."""
    key, version = api
    body = messages.encode_request(key, version, values)
    return wire.request_frame(key, version, 0, CLIENT_ID, body, messages.is_flexible(key, version))
