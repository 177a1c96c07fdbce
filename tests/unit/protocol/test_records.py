"""Record batch v2: layout, CRC, records, codecs."""

from __future__ import annotations

import builtins
import gzip
import mmap
import os
import struct
import sys
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from minikafka.protocol import compression
from minikafka.protocol.compression import (
    GZIP_FED_BYTES,
    PIECE_BYTES,
    Codec,
    CorruptCompression,
    DecompressedTooLarge,
    UnsupportedCompression,
    compress,
    decompress,
)
from minikafka.protocol.records import (
    HEADER_BYTES,
    MalformedRecords,
    Record,
    RecordBatch,
    add_sequence,
    build_batch,
    build_control_batch,
    crc_matches,
    iterate_batches,
    parse_records,
    read_header,
    read_varint,
    set_crc,
    set_log_append_time,
    varint,
)

NOW_MS = 1_700_000_000_000
contents = st.none() | st.binary(max_size=60)
headers = st.lists(st.tuples(st.text(max_size=8), contents), max_size=3)
rows = st.lists(st.tuples(st.integers(-(10**6), 10**6), contents, contents, headers), min_size=1, max_size=6)


@given(rows=rows, base=st.integers(0, 2**50), codec=st.sampled_from(Codec))
def test_records_survive_the_round_trip(rows: list[Any], base: int, codec: Codec) -> None:
    records = [Record(base + n, NOW_MS + t, key, value, h) for n, (t, key, value, h) in enumerate(rows)]
    data = build_batch(records, codec=codec, leader_epoch=7, producer_id=5, producer_epoch=2, base_sequence=11)
    assert list(parse_records(data)) == records
    (batch,) = iterate_batches(data)
    assert batch.crc_matches()
    header = batch.header
    assert (header.base_offset, header.last_offset, header.next_offset) == (base, records[-1].offset, base + len(rows))
    assert (header.size, header.records_count, header.partition_leader_epoch) == (len(data), len(rows), 7)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, 11)
    assert header.last_sequence == 11 + len(rows) - 1
    assert (header.codec, header.transactional, header.control, header.log_append_time) == (codec, False, False, False)


def test_the_bytes_are_kafkas() -> None:
    """The example of the protocol guide's layout, written out by hand."""
    data = build_batch([Record(3, 1000, b"k", b"vv", [("h", None)])], base_offset=2)
    body = bytes([0, 0, 2, 2, ord("k"), 4, ord("v"), ord("v"), 2, 2, ord("h"), 1])
    record = bytes([len(body) * 2]) + body
    after_crc = struct.pack(">hiqqqhii", 0, 1, 1000, 1000, -1, -1, -1, 1) + record
    assert bytes(data[:12]) == struct.pack(">qi", 2, len(after_crc) + 9)
    assert bytes(data[12:21]) == struct.pack(">ibI", -1, 2, crc32c(after_crc))
    assert bytes(data[21:]) == after_crc


@pytest.mark.slow
@given(st.integers(-(2**63), 2**63 - 1))
def test_varints(value: int) -> None:
    assert read_varint(varint(value), 0) == (value, len(varint(value)))


def test_varint_limits() -> None:
    assert varint(-1) == b"\x01"
    assert varint(300) == b"\xd8\x04"
    with pytest.raises(MalformedRecords, match="past the end"):
        read_varint(b"\x80", 0)
    with pytest.raises(MalformedRecords, match="longer than 10"):
        read_varint(b"\x80" * 11, 0)


def test_sequences_wrap() -> None:
    assert add_sequence(2**31 - 1, 1) == 0
    assert add_sequence(5, 3) == 8
    assert add_sequence(1, -2) == 2**31 - 1
    assert read_header(build_batch([Record(0, 0, None, None)])).last_sequence == -1


def test_iteration_stops_before_an_incomplete_batch_and_at_nonsense() -> None:
    one, two = build_batch([Record(0, 0, b"a", None)]), build_batch([Record(1, 0, b"b", None)])
    both = bytes(one + two)
    for size in range(len(both) + 1):
        found = list(iterate_batches(both[:size]))
        assert len(found) == (size >= len(one)) + (size >= len(both))
    assert [each.position for each in iterate_batches(both)] == [0, len(one)]
    with pytest.raises(MalformedRecords, match="magic 1"):
        list(iterate_batches(both[:16] + b"\1" + both[17:]))
    with pytest.raises(MalformedRecords, match="too small"):
        list(iterate_batches(both[:8] + bytes(4) + both[12:]))
    with pytest.raises(MalformedRecords, match="61"):
        read_header(both[: HEADER_BYTES - 1])


def test_control_batches() -> None:
    data = build_control_batch(commit=True, producer_id=8, producer_epoch=1, timestamp_ms=NOW_MS, coordinator_epoch=4)
    header = read_header(data)
    assert header.control
    assert header.transactional
    (record,) = RecordBatch(header, 0, memoryview(data)).records()
    assert record.key == b"\0\0\0\1"
    assert record.value == b"\0\0\0\0\0\4"
    data = build_control_batch(commit=False, producer_id=8, producer_epoch=1, timestamp_ms=NOW_MS, coordinator_epoch=4)
    assert next(parse_records(data)).key == b"\0\0\0\0"


def test_log_append_time_overrides_the_records_own() -> None:
    data = build_batch([Record(0, 5, None, b"x"), Record(1, 9, None, b"y")])
    set_log_append_time(data, NOW_MS)
    assert crc_matches(data)
    assert read_header(data).log_append_time
    assert [record.timestamp for record in parse_records(data)] == [NOW_MS, NOW_MS]


def test_the_crc_covers_everything_from_the_attributes_on() -> None:
    data = build_batch([Record(0, 5, None, b"x")])
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        assert crc_matches(damaged) == (position < 17)


def test_an_empty_batch_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])


def with_body(body: bytes, count: int = 1) -> bytearray:
    data = build_batch([Record(0, 0, None, None)])[:HEADER_BYTES] + body
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 57, count)
    set_crc(data)
    return bytearray(data)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b"", 1),
        (varint(100) + b"\0", 1),
        (varint(-3), 1),
        (varint(6) + b"\0\0\0\1\1\0" + b"extra", 1),
        (varint(6) + b"\0\0\0" + varint(50) + b"\1\0", 1),
        (varint(7) + b"\0\0\0\1\1\0\0", 1),
        (varint(6) + b"\0\0\0\1\1\1", 1),
        (varint(8) + b"\0\0\0\1\1\2\1\1", 1),
    ],
)
def test_malformed_records_are_found(body: bytes, count: int) -> None:
    with pytest.raises(MalformedRecords):
        list(parse_records(with_body(body, count)))


class TestCompression:
    @pytest.mark.slow
    @given(codec=st.sampled_from(Codec), data=st.binary(max_size=2000), repeat=st.integers(1, 200))
    def test_round_trip(self, codec: Codec, data: bytes, repeat: int) -> None:
        assert decompress(codec, compress(codec, data * repeat)) == data * repeat

    def test_snappy_with_and_without_the_java_frame(self) -> None:
        import cramjam

        data = b"abc" * 30_000
        assert compress(Codec.SNAPPY, data).startswith(compression.XERIAL_MAGIC)
        assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data

    def test_lz4_from_other_libraries(self) -> None:
        import cramjam

        data = b"abc" * 50_000
        assert compress(Codec.LZ4, data).startswith(bytes.fromhex("04224d18604082"))
        assert bytes(cramjam.lz4.decompress(compress(Codec.LZ4, data))) == data
        assert decompress(Codec.LZ4, bytes(cramjam.lz4.compress(data))) == data

    @pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
    def test_garbage_is_a_typed_error(self, codec: Codec) -> None:
        with pytest.raises(CorruptCompression, match=codec.name.lower()):
            decompress(codec, b"\xff\xfe\xfd garbage")

    def test_a_snappy_block_that_is_cut_off(self) -> None:
        with pytest.raises(CorruptCompression, match="longer than the batch"):
            decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"x" * 100)[:-1])

    @pytest.mark.parametrize("operation", [compress, decompress])
    def test_unknown_codecs(self, operation: Any) -> None:
        with pytest.raises(UnsupportedCompression, match="codec 5"):
            operation(5, b"x")

    @pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
    @pytest.mark.parametrize("operation", [compress, decompress])
    def test_an_absent_package_is_named(self, codec: Codec, operation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        real = builtins.__import__

        def without(name: str, *args: Any, **kwargs: Any) -> Any:
            if name == "cramjam":
                raise ImportError(name)
            return real(name, *args, **kwargs)

        monkeypatch.delitem(sys.modules, "cramjam", raising=False)
        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(UnsupportedCompression, match="pip install cramjam"):
            operation(codec, b"x")
        assert decompress(Codec.GZIP, compress(Codec.GZIP, b"x")) == b"x"


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_what_is_large_is_decompressed_into_memory_that_nobody_fills_with_zeros(codec: Codec) -> None:
    """Filling it keeps every other thread waiting, for a twentieth of a second in 64 MiB."""
    data = bytes(PIECE_BYTES) + b"and more"
    plain = decompress(codec, compress(codec, data))
    assert plain == data
    assert isinstance(plain, memoryview) and isinstance(plain.obj, mmap.mmap)


def test_gzip_members_of_any_size_follow_each_other() -> None:
    parts = [b"", b"a", os.urandom(GZIP_FED_BYTES), bytes(2 * PIECE_BYTES), b"", b"z" * 100]
    packed, plain = b"".join(gzip.compress(part, 1) for part in parts), b"".join(parts)
    assert decompress(Codec.GZIP, packed, len(plain)) == plain
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.GZIP, packed, len(plain) - 1)
    for cut in (1, 8, 20):
        with pytest.raises(CorruptCompression, match="ends early"):
            decompress(Codec.GZIP, packed[:-cut])
