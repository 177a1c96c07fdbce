"""Record batches, compressed bodies, and the records of consumer groups."""

from __future__ import annotations

from collections.abc import Iterator

from minikafka.groups.records import (
    CommittedOffset,
    StoredGroup,
    StoredMember,
    UnstorableGroupRecord,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from minikafka.groups.replay import Replay
from minikafka.groups.subscription import subscribed_topics
from minikafka.log.config import LogConfig
from minikafka.log.errors import LogError
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.record_validation import walk_ahead
from minikafka.protocol.compression import (
    Codec,
    CorruptCompression,
    DecompressedTooLarge,
    UnsupportedCompression,
    check_lz4_for_java,
    compress,
    decompress,
)
from minikafka.protocol.record_walk import find_record, find_record_in_python, walk_records, walk_records_in_python
from minikafka.protocol.records import (
    HEADER_BYTES,
    MalformedRecords,
    Record,
    RecordBatch,
    build_batch,
    build_control_batch,
    iterate_batches,
    parse_records,
    set_crc,
)
from minikafka.protocol.types import TopicPartition

from tests.fuzz.choices import Choices, pieces
from tests.fuzz.target import Refuted, Target
from tests.unit.log.build import NOW_MS, batch, open_log

DECOMPRESSED_BYTES_MAX = 1 << 20
RECORDS_MAX = 100_000
"""A batch of more is walked over by the compiled walk alone."""
RIGHT_CRC = 1


def read_batches(data: bytes) -> None:
    """Read batches as a reader, a leader, a follower and dump-log do; the first byte says whether their CRCs are made right."""
    buffer = bytearray(data[1:])
    if data[:1] and data[0] & RIGHT_CRC:
        _make_crcs_right(buffer)
    for found in _whole(buffer):
        _read_batch(found)
    for append in (_as_leader, _as_follower):
        try:
            append(bytearray(buffer))
        except LogError:
            pass


def _make_crcs_right(buffer: bytearray) -> None:
    for found in _whole(buffer):
        set_crc(memoryview(buffer)[found.position : found.position + found.header.size])


def _whole(buffer: bytearray) -> Iterator[RecordBatch]:
    try:
        yield from iterate_batches(buffer)
    except MalformedRecords:
        return


def _read_batch(found: RecordBatch) -> None:
    header = found.header
    try:
        body = decompress(header.codec, found.data[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX)
    except (CorruptCompression, UnsupportedCompression):
        return
    if header.records_count <= RECORDS_MAX:
        walk = (body, 0, header.records_count, header.base_timestamp)
        if walk_records(*walk) != walk_records_in_python(*walk):
            raise Refuted(f"{walk_records(*walk)} compiled, {walk_records_in_python(*walk)} in Python")
        find = (*walk, header.max_timestamp, 1)
        if find_record(*find) != find_record_in_python(*find):
            raise Refuted(f"{find_record(*find)} compiled, {find_record_in_python(*find)} in Python")
    try:
        list(parse_records(found.data))
    except (MalformedRecords, CorruptCompression):
        pass


def _as_leader(buffer: bytearray) -> None:
    ahead = walk_ahead(memoryview(buffer), LogConfig(), NOW_MS)
    log = open_log(MemoryFileSystem())
    log.append_as_leader(buffer, 0, NOW_MS, ahead=ahead)
    for found in log.read_batches(0, log.log_end_offset):
        list(found.records())


def _as_follower(buffer: bytearray) -> None:
    log = open_log(MemoryFileSystem())
    log.append_as_follower(buffer, 5)
    list(log.read_batches(log.log_start_offset, log.log_end_offset))


def batches() -> Iterator[bytes]:
    """Make a batch by each codec, what else brokers write, and what older formats begin with."""
    headers = [("h", b"v"), ("n", None)]
    for codec in Codec:
        yield b"\1" + bytes(batch(3, codec=codec))
    yield b"\1" + bytes(batch(2, producer=5, sequence=7, transactional=True) + batch(1))
    yield b"\1" + bytes(build_batch([Record(7, NOW_MS, None, None, headers), Record(9, NOW_MS, b"", b"")]))
    yield b"\1" + bytes(
        build_control_batch(commit=True, producer_id=5, producer_epoch=0, timestamp_ms=NOW_MS, coordinator_epoch=1)
    )
    for magic in (0, 1):
        yield b"\0" + bytes(12) + bytes(4) + bytes((magic,)) + bytes(60)


def read_compressed(data: bytes) -> None:
    """Decompress what the first byte's codec has made: no more comes out than is allowed."""
    codec = data[0] % (len(Codec) + 1) if data else 0
    body = memoryview(data)[1:]
    if codec == Codec.NONE:
        return
    try:
        if codec == Codec.LZ4:
            check_lz4_for_java(body, DECOMPRESSED_BYTES_MAX)
    except CorruptCompression:
        pass
    if len(decompress(codec, body, DECOMPRESSED_BYTES_MAX)) > DECOMPRESSED_BYTES_MAX:
        raise Refuted(f"more than {DECOMPRESSED_BYTES_MAX} bytes")


def compressed() -> Iterator[bytes]:
    """Make small bodies, and bombs of zeros."""
    for codec in list(Codec)[1:]:
        for plain in (b"", b"abc" * 20, bytes(DECOMPRESSED_BYTES_MAX // 16)):
            yield bytes((codec,)) + compress(codec, plain)
    yield bytes((Codec.GZIP,)) + compress(Codec.GZIP, bytes(3 * DECOMPRESSED_BYTES_MAX))
    yield bytes((Codec.ZSTD,)) + compress(Codec.ZSTD, bytes(64 * DECOMPRESSED_BYTES_MAX))


def read_group_records(data: bytes) -> None:
    """Read records of `__consumer_offsets` back into groups, and what members say in their metadata.

    What is read is written, and read to the same again.
    """
    choices = Choices(data)
    replay = Replay()
    for offset in range(8):
        key, value = choices.piece(), choices.piece()
        replay.add(offset, key, value or None)
        subscribed_topics([value])
    for group in replay.groups():
        for member in group.members.values():
            subscribed_topics([metadata for _, metadata in member.protocols])


def group_records() -> Iterator[bytes]:
    """Make a committed offset of each version that is written, a group with members, and their subscriptions."""
    where = TopicPartition("t", 0)
    subscription = b"\0\1\0\0\0\1\0\1t\0\0\0\0"
    member = StoredMember("m", None, "c", "/h", 1000, 1000, subscription, b"\0\0\0\0\0\0")
    group = StoredGroup("consumer", 3, "range", "m", NOW_MS, [member])
    for committed in (CommittedOffset(5, 1, "said", NOW_MS), CommittedOffset(5, 1, "", NOW_MS, NOW_MS + 1, bytes(16))):
        yield pieces([offset_key("g", where), offset_value(committed), offset_key("g", where), b""])
    yield pieces([group_key("g"), group_value(group), offset_key("g", where), offset_value(CommittedOffset(1))])
    yield pieces([b"", subscription])


TARGETS = (
    Target(
        "batches",
        read_batches,
        batches,
        (MalformedRecords, CorruptCompression, UnsupportedCompression, DecompressedTooLarge),
    ),
    Target(
        "compression",
        read_compressed,
        compressed,
        (CorruptCompression, UnsupportedCompression),
        megabytes_max=16,
    ),
    Target("group-records", read_group_records, group_records, (UnstorableGroupRecord,)),
)
