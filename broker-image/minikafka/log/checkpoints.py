"""Kafka's small files: text checkpoints, `meta.properties`, `partition.metadata` and the clean shutdown marker.

Formats follow Kafka's classes of the same names (`CheckpointFile`, `OffsetCheckpointFile`, `MetaProperties`,
`PartitionMetadataFile`, `CleanShutdownFileHandler`), so that Kafka's tools read our directories.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from minikafka.log.errors import MalformedCheckpoint
from minikafka.log.filesystem import FileSystem
from minikafka.protocol.records import OFFSET_MAX
from minikafka.protocol.types import TopicPartition

CHECKPOINT_VERSION = "0"
DIGITS_MAX = 20
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
REPLICATION_OFFSETS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"


def parse_whole_number(text: str) -> int | None:
    """Read digits that make a number, at most 20 of them; None where they are something else.

    `str.isdigit` and `int` take digits of other scripts, `isdigit` such as `int` does not, and neither has a limit.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX else None


def format_checkpoint(rows: Iterable[Iterable[object]]) -> bytes:
    """Version line, count line, then one line of space-separated fields for each row."""
    lines = [" ".join(map(str, row)) for row in rows]
    return "\n".join([CHECKPOINT_VERSION, str(len(lines)), *lines, ""]).encode()


def parse_checkpoint(data: bytes, columns: int, path: str) -> list[list[str]]:
    """The rows of a checkpoint file.

    Raises MalformedCheckpoint for a wrong version, a wrong count, or a row without exactly `columns` fields.
    """
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        raise MalformedCheckpoint(f"{path}: not a text file") from None
    if lines[0] != CHECKPOINT_VERSION:
        raise MalformedCheckpoint(f"{path}:1: version {lines[0]!r}, only {CHECKPOINT_VERSION} is known")
    count = parse_whole_number(lines[1]) if len(lines) > 1 else None
    if count is None:
        raise MalformedCheckpoint(f"{path}:2: the number of entries is missing")
    if lines[-1] != "" or len(lines) - 3 != count:
        raise MalformedCheckpoint(f"{path}: {count} entries announced, {max(0, len(lines) - 3)} whole lines found")
    rows = [line.split() for line in lines[2:-1]]
    for number, row in enumerate(rows, 3):
        if len(row) != columns:
            raise MalformedCheckpoint(f"{path}:{number}: {columns} fields expected, {len(row)} found")
    return rows


def read_offsets(fs: FileSystem, path: str) -> dict[TopicPartition, int]:
    """An offset checkpoint (`topic partition offset` lines); an absent or empty file holds none.

    Raises MalformedCheckpoint, OSError.
    """
    data = fs.read_bytes(path) if fs.exists(path) else b""
    if not data:
        return {}  # Kafka makes checkpoint files before it has anything to write
    offsets: dict[TopicPartition, int] = {}
    for topic, partition, offset in parse_checkpoint(data, 3, path):
        try:
            offsets[TopicPartition(topic, int(partition))] = _offset(offset)
        except ValueError:
            raise MalformedCheckpoint(f"{path}: {topic} {partition} {offset}: not numbers, or too large") from None
    return offsets


def _offset(text: str) -> int:
    """Raise ValueError."""
    offset = int(text)
    if offset > OFFSET_MAX:
        raise ValueError
    return offset


def write_offsets(fs: FileSystem, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace an offset checkpoint. Raises OSError."""
    fs.write_atomic(path, format_checkpoint((tp.topic, tp.partition, offset) for tp, offset in sorted(offsets.items())))


class MetaProperties(NamedTuple):
    """Whose data directory this is."""

    cluster_id: str
    node_id: int


def format_meta_properties(meta: MetaProperties) -> bytes:
    return f"#\ncluster.id={meta.cluster_id}\nnode.id={meta.node_id}\nversion=1\n".encode()


def parse_meta_properties(data: bytes, path: str) -> MetaProperties:
    """Read `meta.properties` version 1. Other keys (Kafka's `directory.id`) are ignored.

    Raises MalformedCheckpoint naming the missing or bad key.
    """
    values: dict[str, str] = {}
    for line in data.decode(errors="replace").split("\n"):
        key, equals, value = line.partition("=")
        if equals and not line.startswith(("#", "!")):
            values[key.strip()] = value.strip()
    if values.get("version") != "1":
        raise MalformedCheckpoint(f"{path}: version is {values.get('version')!r}, only 1 is known")
    if not values.get("cluster.id"):
        raise MalformedCheckpoint(f"{path}: cluster.id is missing")
    node_id = parse_whole_number(values.get("node.id", ""))
    if node_id is None:
        raise MalformedCheckpoint(f"{path}: node.id is {values.get('node.id', '')!r}, a number is needed")
    return MetaProperties(values["cluster.id"], node_id)


def encode_uuid(value: uuid.UUID) -> str:
    """Kafka's text form of an id: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> uuid.UUID:
    """The inverse of `encode_uuid`. Raises ValueError."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def format_partition_metadata(topic_id: uuid.UUID) -> bytes:
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}\n".encode()


def parse_partition_metadata(data: bytes, path: str) -> uuid.UUID:
    """The topic id. Raises MalformedCheckpoint."""
    lines = data.decode(errors="replace").splitlines()
    if len(lines) == 2 and lines[0] == "version: 0" and lines[1].startswith("topic_id: "):
        try:
            return decode_uuid(lines[1].removeprefix("topic_id: ").strip())
        except ValueError:
            pass
    raise MalformedCheckpoint(f"{path}: not `version: 0` and `topic_id: ID`")


def format_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def parse_clean_shutdown(data: bytes) -> int:
    """The broker epoch in the marker, or -1 when it says nothing usable (an empty marker of an older Kafka is clean,
    too)."""
    try:
        return int(json.loads(data)["brokerEpoch"])
    # Infinity is a number in JSON as Python has it.
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return -1
