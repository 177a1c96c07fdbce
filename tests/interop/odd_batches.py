"""Batches of records that no good producer sends, and some that it does, and the topics that they are sent to.

:data:`TOPICS` have one partition each, on broker 1. :func:`cases` has what one Produce says of that partition, by title;
where cases depend on each other (sequences of an idempotent producer), their order counts.
"""

from __future__ import annotations

import binascii
import gzip
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import cramjam
import crc32c
import lz4.frame
import zstandard

from tests.interop.raw_client import BATCH_HEADER_BYTES, ProducerState, record_batch, seal_batch, varint

MAGIC_AT, CRC_AT, LAST_DELTA_AT, BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT = 16, 17, 23, 27, 35
TRANSACTIONAL, CONTROL, APPEND_TIME = 0x10, 0x20, 0x08
NOW_MS = int(time.time() * 1000)
DAY_MS = 86_400_000
GOOD = record_batch([b"hello"])
ONE_RECORD = GOOD[BATCH_HEADER_BYTES:]
MAX_MESSAGE_BYTES = 1_048_588
SKIPPABLE = struct.pack("<II", 0x184D2A50, 4) + b"skip"
"""A frame of LZ4 or zstd that readers pass over."""

PLAIN, KEYED, STAMPED, STRICT, STRICTLY_STAMPED = (
    f"TOPIC-{name}" for name in ("plain", "keyed", "stamped", "strict", "strictly-stamped")
)
_STRICT = {
    "max.message.bytes": "2000",
    "message.timestamp.before.max.ms": f"{DAY_MS}",
    "message.timestamp.after.max.ms": f"{DAY_MS}",
}
TOPICS: dict[str, dict[str, str]] = {
    PLAIN: {},
    KEYED: {"cleanup.policy": "compact"},
    STAMPED: {"message.timestamp.type": "LogAppendTime"},
    STRICT: _STRICT,
    STRICTLY_STAMPED: _STRICT | {"message.timestamp.type": "LogAppendTime"},
}
"""Their settings, beside ``min.insync.replicas=1``."""


class Case(NamedTuple):
    """What is sent to a partition: ``records`` to ``topic``, or to one made for this request (``fresh``)."""

    title: str
    records: bytes
    topic: str = PLAIN
    fresh: bool = False
    acks: int = -1


def _lz4(data: bytes) -> bytes:
    return lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False)


def _lz4_linked(data: bytes) -> bytes:
    return lz4.frame.compress(data, block_linked=True)


def _snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def _xerial(data: bytes) -> bytes:
    block = _snappy(data)
    return b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


COMPRESSORS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "no codec": (0, bytes),
    "gzip": (1, gzip.compress),
    "snappy": (2, _snappy),
    "snappy-java": (2, _xerial),
    "lz4": (3, _lz4),
    "lz4 with linked blocks": (3, _lz4_linked),
    "zstd": (4, _zstd),
}


def record(
    delta: int,
    value: bytes | None = b"value",
    key: bytes | None = None,
    *,
    timestamp_delta: int = 0,
    attributes: int = 0,
    headers: bytes = b"\0",
) -> bytes:
    """One record, with its length; ``headers`` are the bytes from their count on."""
    body = bytes((attributes,)) + varint(timestamp_delta) + varint(delta)
    for field in (key, value):
        body += varint(-1) if field is None else varint(len(field)) + field
    body += headers
    return varint(len(body)) + body


def stamped(*deltas_ms: int) -> bytes:
    """Records whose timestamps are these milliseconds after the batch's own."""
    return b"".join(record(n, timestamp_delta=delta) for n, delta in enumerate(deltas_ms))


def numbered(*deltas: int) -> bytes:
    """Records with these offset deltas."""
    return b"".join(record(delta) for delta in deltas)


def flipped(batch: bytes, position: int, bits: int = 1) -> bytes:
    """``batch`` with some bits of one byte turned over."""
    changed = bytearray(batch)
    changed[position] ^= bits
    return bytes(changed)


def with_right_crc(batch: bytes) -> bytes:
    """``batch`` with its CRC-32C computed anew."""
    return batch[:CRC_AT] + struct.pack(">I", crc32c.crc32c(batch[CRC_AT + 4 :])) + batch[CRC_AT + 4 :]


def with_field(batch: bytes, position: int, layout: str, value: int) -> bytes:
    """``batch`` with one field of its header set, and the CRC right."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, position, value)
    return with_right_crc(bytes(changed))


def counted(count: int, last_delta: int, records: bytes = ONE_RECORD, *, attributes: int = 0) -> bytes:
    """A batch whose header says ``count`` records and ``last_delta``; its CRC is right."""
    sealed = seal_batch(records, count, NOW_MS, attributes=attributes)
    return with_field(sealed, LAST_DELTA_AT, ">i", last_delta)


def old_message_set(magic: int) -> bytes:
    """One message as Kafka wrote it before 0.11, its CRC-32 right."""
    timestamp = struct.pack(">q", NOW_MS) if magic else b""
    body = struct.pack(">bb", magic, 0) + timestamp + struct.pack(">ii", -1, 5) + b"hello"
    message = struct.pack(">I", binascii.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def idempotent(producer: ProducerState, values: int = 1) -> bytes:
    """A batch of a producer that numbers what it sends."""
    return record_batch([b"v"] * values, producer=producer)


def cases(version: int) -> Iterator[Case]:
    """All of them, for one version of Produce: producers are others in each."""
    yield from _requests()
    yield from _bytes()
    yield from _headers(2_000_000 + version)
    for name, (codec, compress) in COMPRESSORS.items():
        yield from _records(name, codec, compress)
    yield from _frames()
    yield from _timestamps()
    yield from _keys()
    yield from _sequences(1_000_000 + version)


def _requests() -> Iterator[Case]:
    for acks in (0, 1, 2, -2):
        yield Case(f"acks {acks}", GOOD, acks=acks)
    yield Case("acks 0, wrong CRC", flipped(GOOD, CRC_AT), acks=0)
    yield Case("acks 0, nobody's topic", GOOD, topic="nobody-made-this", acks=0)
    yield Case("acks 2, wrong CRC", flipped(GOOD, CRC_AT), acks=2)
    yield Case("two replicas", GOOD, fresh=True)


def _bytes() -> Iterator[Case]:
    two = GOOD + GOOD
    yield from (
        Case("records empty", b""),
        Case("three bytes", b"abc"),
        Case("random bytes", b"\x5a" * 100),
        Case("zeros", bytes(100)),
        Case("half a header", GOOD[:40]),
        Case("a header alone", GOOD[:BATCH_HEADER_BYTES]),
        Case("all but a byte", GOOD[:-1]),
        Case("two batches", two),
        Case("two batches, the second cut", two[:-3]),
        Case("two batches, the second wrong", GOOD + flipped(GOOD, CRC_AT)),
        Case("a batch, then zeros", GOOD + bytes(70)),
        Case("a batch, then three bytes", GOOD + b"xyz"),
        Case("a batch, then magic 1", GOOD + old_message_set(1)),
        Case("magic 0", old_message_set(0)),
        Case("magic 1", old_message_set(1)),
        Case("magic 3", flipped(GOOD, MAGIC_AT)),
        Case("magic 1 on a batch", flipped(GOOD, MAGIC_AT, 3)),
        Case("wrong CRC", flipped(GOOD, CRC_AT)),
        Case("wrong CRC and count", flipped(counted(7, 3), CRC_AT)),
        Case("a flipped bit in the records", flipped(GOOD, len(GOOD) - 2)),
        Case("too large", record_batch([b"x" * MAX_MESSAGE_BYTES])),
        Case("too large, wrong CRC", flipped(record_batch([b"x" * MAX_MESSAGE_BYTES]), CRC_AT)),
        Case("too large for the topic", record_batch([b"x" * 2000]), topic=STRICT),
        Case("just large enough for the topic", record_batch([b"x" * 1927]), topic=STRICT),
        Case("larger when decompressed", _compressed("gzip", record(0, b"x" * 10_000)), topic=STRICT),
        Case("no length", struct.pack(">qi", 0, 0) + GOOD[12:]),
        Case("negative length", struct.pack(">qi", 0, -1) + GOOD[12:]),
        Case("length 20", struct.pack(">qi", 0, 20) + GOOD[12:]),
        Case("largest length", struct.pack(">qi", 0, 2**31 - 1) + GOOD[12:]),
    )


def _headers(known: int) -> Iterator[Case]:
    for count, last_delta in ((0, -1), (0, 0), (-1, 0), (1, 4), (1, -1), (2, 0), (2**31 - 1, 2**31 - 2)):
        yield Case(f"count {count}, last delta {last_delta}", counted(count, last_delta))
    yield Case("no records, count 0", counted(0, -1, b""))
    yield Case("base offset 77", record_batch([b"hello"], base_offset=77))
    yield Case("base offset -1", record_batch([b"hello"], base_offset=-1))
    yield Case("leader epoch 5", GOOD[:12] + struct.pack(">i", 5) + GOOD[16:])
    for bits in (APPEND_TIME, CONTROL, TRANSACTIONAL, TRANSACTIONAL | CONTROL, 0x40, 0x80, 0x4000, -0x8000):
        yield Case(f"attributes {bits:#x}", record_batch([b"hello"], attributes=bits))
    for codec in (5, 6, 7):
        yield Case(f"codec {codec}", record_batch([b"hello"], attributes=codec))
    for state in ((0, -1), (-1, 0), (0, -5), (-5, 0)):
        yield Case(f"producer in epoch {state[0]}, sequence {state[1]}", idempotent(ProducerState(known, *state)))
    for producer_id in (-1, -5):
        yield Case(f"producer {producer_id}", idempotent(ProducerState(producer_id, 0, 0)))
    transactional = record_batch([b"x"], attributes=TRANSACTIONAL, producer=ProducerState(known, 0, 0))
    yield Case("transactional producer", transactional)
    yield Case("transactional producer, wrong CRC", flipped(transactional, CRC_AT))
    control = record_batch([b"x"], attributes=CONTROL, producer=ProducerState(known, 0, 0))
    yield Case("control batch of a producer", control)


def _compressed(name: str, records: bytes, count: int = 1) -> bytes:
    codec, compress = COMPRESSORS[name]
    return seal_batch(compress(records), count, NOW_MS, attributes=codec)


def _records(name: str, codec: int, compress: Callable[[bytes], bytes]) -> Iterator[Case]:
    """Records that do not fit their header, under one codec."""

    def batch(records: bytes, count: int = 1) -> bytes:
        return seal_batch(compress(records), count, NOW_MS, attributes=codec)

    three = numbered(0, 1, 2)
    whole = compress(three)
    yield from (
        Case(f"{name}", batch(three, 3)),
        Case(f"{name}: count too large", batch(three, 4)),
        Case(f"{name}: count too small", batch(three, 2)),
        Case(f"{name}: count far too large", batch(three, 2**31 - 1)),
        Case(f"{name}: something after the records", batch(three + b"rest", 3)),
        Case(f"{name}: no records", batch(b"", 1)),
        Case(f"{name}: half a record", batch(three[:-4], 3)),
        Case(f"{name}: garbage", seal_batch(b"this is nothing of the kind", 1, NOW_MS, attributes=codec)),
        Case(f"{name}: nothing", seal_batch(b"", 1, NOW_MS, attributes=codec)),
        Case(f"{name}: cut", seal_batch(whole[:-3], 3, NOW_MS, attributes=codec)),
        Case(f"{name}: rest", seal_batch(whole + b"rest", 3, NOW_MS, attributes=codec)),
        Case(f"{name}: twice", seal_batch(whole + whole, 3, NOW_MS, attributes=codec)),
    )
    for deltas in ((0, 0, 0), (1, 2, 3), (2, 1, 0), (0, 2, 5), (-1, 0, 1)):
        yield Case(f"{name}: offset deltas {deltas}", batch(numbered(*deltas), len(deltas)))
    for what, odd in _odd_records().items():
        yield Case(f"{name}: {what}", batch(odd))


def _odd_records() -> dict[str, bytes]:
    good = record(0)
    return {
        "an empty value and no key": record(0, b""),
        "neither key nor value": record(0, None),
        "record attributes 5": record(0, attributes=5),
        "record length 0": varint(0) + good[1:],
        "record length -1": varint(-1) + good[1:],
        "record length too large": varint(2**31 - 1) + good[1:],
        "a key longer than its record": varint(len(good) - 1) + good[1:4] + varint(500) + good[5:],
        "a key of length -2": varint(len(good) - 1) + good[1:4] + varint(-2) + good[5:],
        "a varint without end": varint(20) + b"\xff" * 20,
        "headers": record(0, headers=varint(1) + varint(1) + b"h" + varint(1) + b"v"),
        "a header without value": record(0, headers=varint(1) + varint(1) + b"h" + varint(-1)),
        "a header without key": record(0, headers=varint(1) + varint(-1) + varint(1) + b"v"),
        "-1 headers": record(0, headers=varint(-1)),
        "more headers than there are": record(0, headers=varint(5) + varint(1) + b"h" + varint(1) + b"v"),
        "bytes after the headers": record(0, headers=varint(0) + b"rest"),
    }


def _frames() -> Iterator[Case]:
    """What the four formats allow and few write, and what they do not."""
    plain = numbered(0, 1, 2)
    for name, frames in (
        ("gzip", _gzip_frames),
        ("snappy", _snappy_frames),
        ("lz4", _lz4_frames),
        ("zstd", _zstd_frames),
    ):
        codec, _ = COMPRESSORS[name]
        for what, body in frames(plain).items():
            yield Case(f"{name} frame: {what}", seal_batch(body, 3, NOW_MS, attributes=codec))


def _gzip_frames(plain: bytes) -> dict[str, bytes]:
    member = gzip.compress(plain)
    return {
        "two members": gzip.compress(plain[:5]) + gzip.compress(plain[5:]),
        "an empty member first": gzip.compress(b"") + member,
        "a name": member[:3] + b"\x08" + member[4:10] + b"name\0" + member[10:],
        "reserved flags": flipped(member, 3, 0xE0),
        "another method": flipped(member, 2),
        "wrong checksum": flipped(member, len(member) - 8),
        "wrong size": flipped(member, len(member) - 4),
        "no end": member[:-8],
        "zeros after": member + bytes(8),
        "zlib's own format": zlib.compress(plain),
    }


def _snappy_frames(plain: bytes) -> dict[str, bytes]:
    raw, framed = _snappy(plain), _xerial(plain)
    empty = struct.pack(">i", 1) + b"\0"
    return {
        "raw, and more": raw + b"rest",
        "raw, of another length": flipped(raw, 0),
        "raw, of a length that nobody has": b"\xff\xff\xff\xff\x07" + raw[1:],
        "two blocks": _xerial(plain[:5]) + _xerial(plain[5:])[16:],
        "version 0": flipped(framed, 11),
        "an empty block first": framed[:16] + empty + framed[16:],
        "an empty block last": framed + empty,
        "a block of no bytes": framed + bytes(4),
        "a negative length": framed + struct.pack(">i", -5),
        "half a length": framed + b"\0\0",
        "a block cut": framed[:-2],
        "two streams": framed + framed,
        "a header alone": framed[:16],
    }


def _lz4_frames(plain: bytes) -> dict[str, bytes]:
    def frame(**options: bool) -> bytes:
        packed = lz4.frame.compress(plain, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, **options)
        return bytes(packed)

    size = frame(store_size=False)
    return {
        "all that may be in it": frame(block_checksum=True, content_checksum=True, store_size=True),
        "wrong block checksum": flipped(frame(block_checksum=True, store_size=False), -5),
        "wrong content checksum": flipped(frame(content_checksum=True), -1),
        "wrong header checksum": flipped(size, 6),
        "no end mark": size[:-4],
        "an end mark that is a stored block": flipped(size, -1, 0x80),
        "a skippable frame first": SKIPPABLE + size,
        "a skippable frame last": size + SKIPPABLE,
    }


def _zstd_frames(plain: bytes) -> dict[str, bytes]:
    whole = _zstd(plain)
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    streamed = stream.compress(plain) + stream.flush()
    return {
        "no size, and a checksum": streamed,
        "wrong checksum": flipped(streamed, -1),
        "two frames": _zstd(plain[:5]) + _zstd(plain[5:]),
        "an empty frame first": _zstd(b"") + whole,
        "a skippable frame first": SKIPPABLE + whole,
        "a skippable frame last": whole + SKIPPABLE,
        "a byte short": whole[:-1],
        "a second frame cut": whole + whole[:5],
        "zeros after": whole + bytes(8),
    }


def _timestamps() -> Iterator[Case]:
    day = stamped(0, 5000, 2000)
    for codec in ("no codec", "gzip"):
        batch = _compressed(codec, day, 3)
        for what, said in (("unset", -1), ("0", 0), ("2**62", 2**62), ("1 ms late", NOW_MS + 1)):
            lying = with_field(batch, MAX_TIMESTAMP_AT, ">q", said)
            yield Case(f"{codec}: max timestamp {what}", lying, fresh=True)
        yield Case(f"{codec}: max timestamp in LogAppendTime", batch, topic=STAMPED)
        lying = with_field(batch, MAX_TIMESTAMP_AT, ">q", 5)
        yield Case(f"{codec}: max timestamp 5 in LogAppendTime", lying, topic=STAMPED)
    for name, topic in (("", PLAIN), (" in LogAppendTime", STAMPED)):
        said = seal_batch(day, 3, NOW_MS, attributes=APPEND_TIME)
        yield Case(f"says LogAppendTime{name}", said, topic=topic)
        unset = with_field(said, MAX_TIMESTAMP_AT, ">q", -1)
        yield Case(f"says LogAppendTime without one{name}", unset, topic=topic)
        yield Case(f"compressed, says LogAppendTime{name}", _append_timed_gzip(day), topic=topic)
    for name, topic in (("strict", STRICT), ("strict LogAppendTime", STRICTLY_STAMPED), ("plain", PLAIN)):
        for days in (-10, 10):
            batch = record_batch([b"x"], timestamp_ms=NOW_MS + days * DAY_MS)
            yield Case(f"{days} days in {name}", batch, topic=topic)
            records = stamped(0, days * DAY_MS, 0, days * DAY_MS)
            yield Case(f"{days} days among others in {name}", seal_batch(records, 4, NOW_MS), topic=topic)
            yield Case(f"{days} days compressed in {name}", _compressed("gzip", records, 4), topic=topic)
        yield Case(f"no timestamp in {name}", record_batch([b"x"], timestamp_ms=-1), topic=topic)
        yield Case(f"timestamp 0 in {name}", record_batch([b"x"], timestamp_ms=0), topic=topic)
        yield Case(f"timestamp -5 in {name}", record_batch([b"x"], timestamp_ms=-5), topic=topic)
        yield Case(f"timestamp 2**62 in {name}", record_batch([b"x"], timestamp_ms=2**62), topic=topic)
    yield Case("timestamps before the base", seal_batch(stamped(0, -5000), 2, NOW_MS), fresh=True)
    yield Case("a timestamp delta of 2**62", seal_batch(stamped(0, 2**62), 2, NOW_MS))


def _append_timed_gzip(records: bytes) -> bytes:
    return seal_batch(gzip.compress(records), 3, NOW_MS, attributes=APPEND_TIME | 1)


def _keys() -> Iterator[Case]:
    for codec in ("no codec", "gzip"):
        yield Case(f"{codec}: keys in compacted", _compressed(codec, record(0, key=b"k")), topic=KEYED)
        yield Case(f"{codec}: an empty key in compacted", _compressed(codec, record(0, key=b"")), topic=KEYED)
        yield Case(f"{codec}: no key in compacted", _compressed(codec, record(0)), topic=KEYED)
        some = record(0, key=b"k") + record(1) + record(2)
        yield Case(f"{codec}: keys missing in compacted", _compressed(codec, some, 3), topic=KEYED)


def _sequences(producer: int) -> Iterator[Case]:
    """(epoch, first sequence, records) of one producer, in order, on the topic of all (KIP-98)."""
    steps: Sequence[tuple[str, tuple[int, int, int]]] = (
        ("begins at 7", (3, 7, 1)),
        ("duplicate", (3, 7, 1)),
        ("gap", (3, 9, 1)),
        ("next two", (3, 8, 2)),
        ("half of a batch again", (3, 8, 1)),
        ("more than a batch again", (3, 8, 3)),
        ("next", (3, 10, 1)),
        ("older duplicate", (3, 8, 2)),
        ("older epoch", (2, 11, 1)),
        ("newer epoch, not at 0", (4, 3, 1)),
        ("newer epoch", (4, 0, 1)),
        ("back to the older epoch", (3, 11, 1)),
        ("far gap", (4, 1_000_000, 1)),
        ("before", (4, -1, 1)),
    )
    for what, (epoch, sequence, records) in steps:
        yield Case(f"sequences: {what}", idempotent(ProducerState(producer, epoch, sequence), records))
    for what, sequence in (("begins", 5), ("again", 5), ("gap", 9), ("0", 0)):
        yield Case(f"sequences: without an epoch, {what}", idempotent(ProducerState(producer + 9000, -1, sequence)))
    top = 2**31 - 1
    for what, sequence, records in (("at the top", top, 1), ("wraps around", 0, 1), ("across the top", top - 1, 5)):
        state = ProducerState(producer + 1000 + (what == "across the top") * 1000, 0, sequence)
        yield Case(f"sequences: {what}", idempotent(state, records))
    for n in range(7):
        yield Case(f"sequences: one of seven, {n}", idempotent(ProducerState(producer + 5000, 0, n)))
    for n in range(7):
        yield Case(f"sequences: one of seven again, {n}", idempotent(ProducerState(producer + 5000, 0, n)))
