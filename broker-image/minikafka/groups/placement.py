"""Which partition of ``__consumer_offsets`` keeps a group, and so which broker coordinates it."""

from __future__ import annotations

import struct

OFFSETS_TOPIC = "__consumer_offsets"


def java_string_hash(text: str) -> int:
    """``String.hashCode`` of Java: over UTF-16 code units, wrapping as a signed 32-bit integer."""
    raw = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for (unit,) in struct.iter_unpack(">H", raw):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(group_id: str, partitions: int) -> int:
    """``Utils.abs(groupId.hashCode()) % partitions``; Kafka's ``abs`` of the smallest int is 0."""
    value = java_string_hash(group_id)
    return (0 if value == -(1 << 31) else abs(value)) % partitions
