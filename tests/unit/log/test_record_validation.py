"""Records of a producer's batch: what a leader computes from them, and which it refuses (Kafka's `LogValidator`)."""

from __future__ import annotations

import gc
import struct
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest
from minikafka.log.config import LogConfig
from minikafka.log.errors import InvalidRecord, InvalidTimestamp, LogError, RecordTooLarge
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.log import Log
from minikafka.log.record_validation import RECORDS_NAMED, largest_timestamp, walk_ahead
from minikafka.protocol.compression import (
    BLOCK_COST_BYTES,
    DECOMPRESSED_BYTES_MAX,
    LZ4_FRAME_HEADER,
    Codec,
    compress,
    decompress,
)
from minikafka.protocol.records import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    MAX_TIMESTAMP_POSITION,
    RECORDS_COUNT_POSITION,
    BatchHeader,
    Record,
    build_batch,
    iterate_batches,
    read_header,
    set_crc,
    varint,
)

from tests.unit.log.build import NOW_MS, open_log

DAY_MS = 24 * 3600 * 1000
LAST_OFFSET_DELTA_POSITION = 23
EARLY_LIMIT = LogConfig(message_timestamp_before_max_ms=DAY_MS)
SKIPPABLE_FRAME = bytes.fromhex("502a4d18") + (1).to_bytes(4, "little") + b"x"
codecs = pytest.mark.parametrize("codec", Codec, ids=[codec.name for codec in Codec])


def rows(*timestamps: int, key: bytes | None = b"k") -> list[Record]:
    return [Record(index, timestamp, key, b"v") for index, timestamp in enumerate(timestamps)]


def with_header(batch: bytearray, position: int, form: str, value: int) -> bytearray:
    struct.pack_into(form, batch, position, value)
    set_crc(batch)
    return batch


def with_body(records: Sequence[Record], plain: bytes, codec: Codec) -> bytearray:
    """A batch with the header of these records, and another body."""
    batch = build_batch(records, codec=codec)[:HEADER_BYTES] + compress(codec, plain)
    return with_header(batch, 8, ">i", len(batch) - 12)


def stored(log: Log) -> BatchHeader:
    (batch,) = iterate_batches(log.read(0, 10**8, log.log_end_offset).read())
    assert batch.crc_matches()
    assert len(list(batch.records())) == batch.header.records_count
    return batch.header


def refuse(log: Log, batch: bytearray, kind: type[LogError], match: str) -> LogError:
    with pytest.raises(kind, match=match) as caught:
        log.append_as_leader(batch, 0, NOW_MS)
    assert log.log_end_offset == log.size_bytes == 0
    return caught.value


@codecs
@pytest.mark.parametrize("said", [-1, 0, NOW_MS - 9000, NOW_MS + 60_000, 2**62])
def test_max_timestamp_is_the_records_own_whatever_the_header_says(codec: Codec, said: int) -> None:
    """Every Sarama before 1.45.1 leaves it unset: records were deleted and producers forgotten for that (27 A1)."""
    log = open_log(MemoryFileSystem())
    batch = build_batch(
        rows(NOW_MS - 9000, NOW_MS - 4000, NOW_MS - 5000), codec=codec, producer_id=7, producer_epoch=0, base_sequence=0
    )
    info = log.append_as_leader(with_header(batch, MAX_TIMESTAMP_POSITION, ">q", said), 0, NOW_MS)
    assert info.max_timestamp == stored(log).max_timestamp == NOW_MS - 4000
    found = log.offset_for_timestamp(NOW_MS - 8000, 3)
    assert found is not None and found.offset == 1
    log.roll()
    assert log.delete_old_segments(NOW_MS, 3) == 0
    assert log.producers.remove_expired(NOW_MS) == 0


def test_records_without_timestamps_leave_none() -> None:
    log = open_log(MemoryFileSystem())
    log.append_as_leader(with_header(build_batch(rows(-1, -1)), MAX_TIMESTAMP_POSITION, ">q", NOW_MS), 0, NOW_MS)
    assert stored(log).max_timestamp == -1


def test_the_timestamp_type_is_the_topics() -> None:
    log = open_log(MemoryFileSystem())
    batch = build_batch(rows(NOW_MS - 9000, NOW_MS - 4000))
    batch[ATTRIBUTES_POSITION] |= LOG_APPEND_TIME_FLAG
    set_crc(batch)
    log.append_as_leader(batch, 0, NOW_MS)
    assert not stored(log).log_append_time
    assert stored(log).max_timestamp == NOW_MS - 4000


def test_who_sets_log_append_time_where_the_broker_does_is_refused() -> None:
    log = open_log(MemoryFileSystem(), LogConfig(message_timestamp_type="LogAppendTime"))
    batch = build_batch(rows(NOW_MS))
    batch[ATTRIBUTES_POSITION] |= LOG_APPEND_TIME_FLAG
    set_crc(batch)
    refuse(log, batch, InvalidTimestamp, "must not set the timestamp type")


@pytest.mark.parametrize("timestamp", [NOW_MS + 2 * 3600 * 1000, NOW_MS - 2 * DAY_MS])
@codecs
def test_each_records_timestamp_is_held_against_the_limits(codec: Codec, timestamp: int) -> None:
    log = open_log(MemoryFileSystem(), LogConfig(message_timestamp_before_max_ms=DAY_MS))
    batch = build_batch(rows(NOW_MS, timestamp, NOW_MS, timestamp), codec=codec)
    with_header(batch, MAX_TIMESTAMP_POSITION, ">q", NOW_MS)
    error = refuse(log, batch, InvalidTimestamp, f"timestamp {timestamp} is too far from the broker's {NOW_MS}")
    assert [index for index, _ in error.record_errors] == [1, 3]


@codecs
def test_a_compacted_topic_takes_no_record_without_a_key(codec: Codec) -> None:
    for policy in ("compact", "compact,delete"):
        log = open_log(MemoryFileSystem(), LogConfig(cleanup_policy=policy))
        batch = build_batch([*rows(NOW_MS), Record(1, NOW_MS, None, b"v")], codec=codec)
        error = refuse(log, batch, InvalidRecord, "record 1 has no key")
        assert [index for index, _ in error.record_errors] == [1]
        log.append_as_leader(build_batch(rows(NOW_MS)), 0, NOW_MS)
    log = open_log(MemoryFileSystem())
    log.append_as_leader(build_batch(rows(NOW_MS, key=None), codec=codec), 0, NOW_MS)


@codecs
def test_records_that_are_not_what_the_header_says(codec: Codec) -> None:
    log = open_log(MemoryFileSystem())
    three = rows(NOW_MS, NOW_MS, NOW_MS)
    plain = bytes(build_batch(three)[HEADER_BYTES:])
    for count, match in ((2, "something follows the last of 2 records"), (4, "record 3 of 4 is no whole record")):
        batch = build_batch(three, codec=codec)
        struct.pack_into(">i", batch, LAST_OFFSET_DELTA_POSITION, count - 1)
        refuse(log, with_header(batch, RECORDS_COUNT_POSITION, ">i", count), InvalidRecord, match)
    refuse(log, with_body(three, b"no records at all", codec), InvalidRecord, "record 0 of 3 is no whole record")
    refuse(
        log,
        with_body(three, plain[: len(plain) // 3] * 3, codec),
        InvalidRecord,
        "the offset delta of record 1 is not 1",
    )
    log.append_as_leader(with_body(three, plain, codec), 0, NOW_MS)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_what_does_not_decompress_is_refused(codec: Codec) -> None:
    """Kafka answers UNKNOWN_SERVER_ERROR; this one, too, is not retried by any client."""
    batch = build_batch(rows(NOW_MS), codec=codec)[:HEADER_BYTES] + b"nothing of that kind"
    refuse(
        open_log(MemoryFileSystem()), with_header(batch, 8, ">i", len(batch) - 12), InvalidRecord, codec.name.lower()
    )


@pytest.mark.slow
@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_what_decompresses_into_too_much_is_refused(codec: Codec) -> None:
    log = open_log(MemoryFileSystem(), LogConfig(max_message_bytes=1 << 23))
    batch = with_body(rows(NOW_MS), bytes(DECOMPRESSED_BYTES_MAX + 1), codec)
    refuse(log, batch, RecordTooLarge, f"more than {DECOMPRESSED_BYTES_MAX} bytes when decompressed")


def test_a_larger_topic_may_hold_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka.log.record_validation.DECOMPRESSED_BYTES_MAX", 1000)
    log = open_log(MemoryFileSystem(), LogConfig(max_message_bytes=300))
    large = [Record(0, NOW_MS, b"k", b"v" * 2000)]
    log.append_as_leader(build_batch(large, codec=Codec.LZ4), 0, NOW_MS)
    refuse_more = [Record(0, NOW_MS, b"k", b"v" * 2500)]
    with pytest.raises(RecordTooLarge, match="more than 2400 bytes"):
        log.append_as_leader(build_batch(refuse_more, codec=Codec.LZ4), 0, NOW_MS)


def test_no_topic_may_hold_any_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner may set max.message.bytes to 2 GiB."""
    monkeypatch.setattr("minikafka.log.record_validation.DECOMPRESSED_BYTES_MAX", 1000)
    monkeypatch.setattr("minikafka.log.record_validation.DECOMPRESSED_BYTES_LIMIT", 1500)
    log = open_log(MemoryFileSystem(), LogConfig(max_message_bytes=(1 << 31) - 1))
    with pytest.raises(RecordTooLarge, match="more than 1500 bytes"):
        log.append_as_leader(build_batch([Record(0, NOW_MS, b"k", b"v" * 2000)], codec=Codec.LZ4), 0, NOW_MS)


def test_records_are_parsed_only_to_name_the_wrong_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk is compiled, the parser is not: each batch without keys took a thousand times longer for it."""

    def never(*args: object) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr("minikafka.log.record_validation.record_heads", never)
    without_keys = build_batch(rows(NOW_MS, key=None))
    open_log(MemoryFileSystem()).append_as_leader(without_keys, 0, NOW_MS)
    config = LogConfig(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=DAY_MS)
    open_log(MemoryFileSystem(), config).append_as_leader(build_batch(rows(0, NOW_MS + DAY_MS)), 0, NOW_MS)


@codecs
@pytest.mark.parametrize(
    ("config", "wrong", "kind", "match"),
    [
        (LogConfig(), Record(0, NOW_MS + DAY_MS, b"k", None), InvalidTimestamp, f"timestamp {NOW_MS + DAY_MS} is too far"),
        (EARLY_LIMIT, Record(0, NOW_MS - 2 * DAY_MS, b"k", None), InvalidTimestamp, "is too far"),
        (LogConfig(cleanup_policy="compact"), Record(0, NOW_MS, None, None), InvalidRecord, "has no key"),
    ],
    ids=["later", "earlier", "no key"],
)  # fmt: skip
def test_as_many_wrong_records_are_named_as_can_be_while_others_wait(
    codec: Codec, config: LogConfig, wrong: Record, kind: type[LogError], match: str
) -> None:
    """A megabyte may hold a million of them, and the answer would be made for seconds, in Python."""
    batch = build_batch([wrong._replace(offset=n) for n in range(RECORDS_NAMED + 1)], codec=codec)
    error = refuse(open_log(MemoryFileSystem(), config), batch, kind, match)
    assert [index for index, _ in error.record_errors] == list(range(RECORDS_NAMED))
    late = [*rows(*[NOW_MS] * RECORDS_NAMED), wrong._replace(offset=RECORDS_NAMED)]
    error = refuse(open_log(MemoryFileSystem(), config), build_batch(late, codec=codec), kind, match)
    assert not error.record_errors


def test_wrong_records_of_a_topic_that_may_hold_more_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first reader of a batch takes the second one does, too."""
    monkeypatch.setattr("minikafka.protocol.compression.DECOMPRESSED_BYTES_MAX", 1000)
    monkeypatch.setattr(decompress, "__defaults__", (1000,))
    batch = build_batch([Record(0, NOW_MS + DAY_MS, b"k", b"v" * 2000)], codec=Codec.LZ4)
    refuse(open_log(MemoryFileSystem()), batch, InvalidTimestamp, "is too far")


@pytest.mark.parametrize(("base", "delta", "timestamp"), [(-(2**63), -(2**63), 0), (2**63 - 1, 2**63 - 1, -2)])
def test_timestamps_wrap_for_every_reader_as_in_java(base: int, delta: int, timestamp: int) -> None:
    """A search by time answered with a number that fits into no answer."""
    log = open_log(MemoryFileSystem())
    record = b"\0" + varint(delta) + b"\0" + b"\1\1\0"
    batch = with_body(rows(base), varint(len(record)) + record, Codec.NONE)
    log.append_as_leader(batch, 0, NOW_MS)
    (found,) = iterate_batches(log.read(0, 10**8, 1).read())
    assert [each.timestamp for each in found.records()] == [timestamp]


@pytest.mark.parametrize(
    ("frame", "match"),
    [
        (lambda plain: bytes(cramjam.lz4.compress(plain)), "not independent"),
        (lambda plain: compress(Codec.LZ4, plain[:-1]) + compress(Codec.LZ4, plain[-1:]), "something follows"),
        (lambda plain: SKIPPABLE_FRAME + compress(Codec.LZ4, plain), "does not begin with a frame"),
        (lambda plain: b"", "does not begin with a frame"),
    ],
    ids=["dependent blocks", "two frames", "skippable frame", "nothing"],
)
def test_an_lz4_frame_that_no_java_consumer_gets_past_is_refused(frame: Callable[[bytes], bytes], match: str) -> None:
    """The Java clients have a reader of their own (`Lz4BlockInputStream`), and so has Kafka when it validates."""
    plain = bytes(build_batch(rows(NOW_MS, NOW_MS))[HEADER_BYTES:])
    batch = build_batch(rows(NOW_MS, NOW_MS), codec=Codec.LZ4)[:HEADER_BYTES] + frame(plain)
    refuse(open_log(MemoryFileSystem()), with_header(batch, 8, ">i", len(batch) - 12), InvalidRecord, match)


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("size", [False, True])
def test_an_lz4_frame_of_another_library_is_taken(checksum: bool, size: bool) -> None:
    """With what Java reads over."""
    plain = bytes(build_batch(rows(*[NOW_MS] * 100))[HEADER_BYTES:])
    frame = lz4.frame.compress(
        plain, block_linked=False, block_checksum=checksum, content_checksum=checksum, store_size=size
    )
    batch = build_batch(rows(*[NOW_MS] * 100), codec=Codec.LZ4)[:HEADER_BYTES] + frame
    log = open_log(MemoryFileSystem())
    log.append_as_leader(with_header(batch, 8, ">i", len(batch) - 12), 0, NOW_MS)
    assert stored(log).records_count == 100


def test_an_lz4_frame_of_very_many_blocks_is_refused() -> None:
    """Each is a step in Python: a megabyte of blocks of one byte took a tenth of a second, and a larger batch many."""
    blocks = (DECOMPRESSED_BYTES_MAX // BLOCK_COST_BYTES + 2) * b"\1\0\0\x80\0"
    batch = build_batch(rows(NOW_MS), codec=Codec.LZ4)[:HEADER_BYTES] + LZ4_FRAME_HEADER + blocks + bytes(4)
    refuse(open_log(MemoryFileSystem()), with_header(batch, 8, ">i", len(batch) - 12), RecordTooLarge, "lz4: more than")


@pytest.mark.parametrize("size", [-(2**31), -12, 0, 48, 2**31 - 1])
def test_a_batch_that_is_not_whole_is_not_looked_at_ahead(size: int) -> None:
    batch = with_header(build_batch(rows(NOW_MS), codec=Codec.GZIP), 8, ">i", size)
    assert walk_ahead(memoryview(batch), LogConfig(), NOW_MS) is None


def test_what_was_found_ahead_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even to name the wrong records: that would be done on the event loop."""
    strict = LogConfig(message_timestamp_before_max_ms=5)
    view = memoryview(build_batch(rows(NOW_MS - 9), codec=Codec.GZIP))
    found, refused = walk_ahead(view, LogConfig(), NOW_MS), walk_ahead(view, strict, NOW_MS)
    monkeypatch.setattr("minikafka.log.record_validation.decompress", lambda *args: pytest.fail("decompressed"))
    assert largest_timestamp(view, read_header(view), LogConfig(), NOW_MS, found) == NOW_MS - 9
    with pytest.raises(InvalidTimestamp) as caught:
        largest_timestamp(view, read_header(view), strict, NOW_MS, refused)
    assert [index for index, _ in caught.value.record_errors] == [0]


@pytest.mark.parametrize("wrong", ["time", "count", "size"])
def test_a_refusal_does_not_keep_what_was_decompressed(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    """300 batches in 66 KB, each of which holds 4 MB, took 1.1 GB, also when the client had gone (found by an attack)."""
    monkeypatch.setattr("minikafka.log.record_validation.DECOMPRESSED_BYTES_MAX", 1_000)
    config = LogConfig(message_timestamp_before_max_ms=5, max_message_bytes=1 if wrong == "size" else 100_000)
    value = bytes(2_000 if wrong == "size" else 9)
    batch = build_batch([Record(0, NOW_MS - 9, None, value)], codec=Codec.GZIP)
    view = memoryview(with_header(batch, 57, ">i", 7) if wrong == "count" else batch)
    known = walk_ahead(view, config, NOW_MS)
    assert isinstance(known, LogError)
    assert known.__traceback__ is known.__cause__ is known.__context__ is None
    appended = memoryview(bytes(view))
    kept = weakref.ref(appended)
    gc.disable()
    try:
        with suppress(LogError):
            largest_timestamp(appended, read_header(view), config, NOW_MS, known)
        del appended
        assert kept() is None, "a circle, which only a garbage collection ends"
    finally:
        gc.enable()
    assert known.__traceback__ is None


def test_many_gzip_members_are_refused() -> None:
    """zlib copies all that follows a member: a megabyte of empty ones took seconds."""
    batch = build_batch(rows(NOW_MS), codec=Codec.GZIP)[:HEADER_BYTES] + compress(Codec.GZIP, b"") * 200
    refuse(open_log(MemoryFileSystem()), with_header(batch, 8, ">i", len(batch) - 12), InvalidRecord, "members")


def test_what_is_right_keeps_its_crc() -> None:
    log = open_log(MemoryFileSystem())
    batch = build_batch(rows(NOW_MS, NOW_MS + 1))
    crc = read_header(batch).crc
    log.append_as_leader(batch, 0, NOW_MS)
    assert stored(log).crc == crc
