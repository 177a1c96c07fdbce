"""The walk over the records of a batch: what it finds, and that the compiled form finds the same as the one in Python."""

from __future__ import annotations

import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from minikafka.protocol import record_walk
from minikafka.protocol.record_walk import (
    INT64_MAX,
    INT64_MIN,
    MALFORMED,
    NOTHING,
    OFFSETS,
    Walked,
    find_record_in_python,
    walk_records_in_python,
)
from minikafka.protocol.records import HEADER_BYTES, Record, build_batch, varint

WALKS = {"Python": walk_records_in_python, "installed": record_walk.walk_records}
"""The second is the compiled one where there was a C compiler."""

walks = pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
finds = pytest.mark.parametrize("find", [find_record_in_python, record_walk.find_record], ids=WALKS)


def body_of(*records: Record) -> bytes:
    return bytes(build_batch(records)[HEADER_BYTES:])


def three() -> bytes:
    return body_of(
        Record(0, 1000, b"k", b"v", [("h", b"1"), ("n", None)]), Record(1, 990, None, b""), Record(2, 1010, b"", None)
    )


@walks
def test_what_it_finds(walk) -> None:
    assert Walked(*walk(three(), 0, 3, 1000)) == (NOTHING, 3, 1010, 990, 1)
    assert walk(b"head" + three(), 4, 3, 1000) == (NOTHING, 3, 1010, 990, 1)
    assert walk(memoryview(bytearray(three())), 0, 3, 1000) == (NOTHING, 3, 1010, 990, 1)


@walks
def test_a_record_without_a_timestamp_has_none(walk) -> None:
    assert walk(body_of(Record(0, -1, b"k", b"v")), 0, 1, -1) == (NOTHING, 1, -1, INT64_MAX, -1)


@walks
@pytest.mark.parametrize("cut", range(1, len(three())))
def test_a_body_that_ends_early_is_malformed(walk, cut: int) -> None:
    assert walk(three()[:-cut], 0, 3, 0)[0] == MALFORMED


@walks
def test_more_and_fewer_records_than_are_asked_for(walk) -> None:
    assert walk(three(), 0, 4, 0)[:2] == (MALFORMED, 3)
    assert walk(three(), 0, 2, 0)[:2] == (MALFORMED, 2)
    assert walk(b"", 0, 1, 0)[:2] == (MALFORMED, 0)


@walks
def test_offset_deltas_that_are_not_0_1_2(walk) -> None:
    records = three()
    assert records[3] == 0
    assert walk(records[:3] + varint(1) + records[4:], 0, 3, 0)[:2] == (OFFSETS, 0)


def record(fields: bytes) -> bytes:
    return varint(len(fields)) + fields


@walks
@pytest.mark.parametrize(
    "fields",
    [
        b"",
        b"\0",
        b"\0\0\0" + varint(-1) + varint(-1) + varint(-1),  # fewer headers than none
        b"\0\0\0" + varint(-1) + varint(-1) + varint(1) + varint(-1) + varint(-1),  # a header without a name
        b"\0\0\0" + varint(-1) + varint(-1) + varint(100),
        b"\0\0\0" + varint(2**31 - 1) + varint(-1) + varint(0),
        b"\0\0\0" + varint(-1) + varint(-1) + varint(0) + b"x",
        b"\0" + b"\x80" * 10 + b"\0" + varint(-1) + varint(-1) + varint(-1) + varint(0),
        b"\0\0" + b"\x80" * 5 + b"\0" + varint(-1) + varint(-1) + varint(-1) + varint(0),
    ],
)
def test_fields_that_are_no_record(walk, fields: bytes) -> None:
    assert walk(record(fields), 0, 1, 0)[:2] == (MALFORMED, 0)


@walks
def test_a_timestamp_wraps_as_in_java(walk) -> None:
    fields = b"\0" + varint(1) + varint(0) + varint(-1) + varint(-1) + varint(0)
    assert walk(record(fields), 0, 1, INT64_MAX) == (NOTHING, 1, -1, -(2**63), 0)


@walks
def test_a_position_outside_the_body(walk) -> None:
    for position in (-1, 5):
        with pytest.raises(ValueError, match="outside"):
            walk(b"1234", position, 1, 0)


@finds
def test_the_record_that_is_found(find) -> None:
    body = three()  # at 1000, 990 and 1010
    assert find(body, 0, 3, 1000, 1000, 0) == (NOTHING, 0, 1000)
    assert find(body, 0, 3, 1000, 0, 1) == (NOTHING, 1, 990)
    assert find(body, 0, 3, 1000, 1001, -5) == (NOTHING, 2, 1010)
    assert find(body, 0, 3, 1000, 1011, 0) == (NOTHING, 2, 1010), "the largest, where none is late enough"
    assert find(body, 0, 2, 1000, 1011, 1) == (NOTHING, 1, 990)
    assert find(body, 0, 3, 1000, 0, 3) == (NOTHING, -1, INT64_MIN), "all come before the first"
    assert find(body[:-1], 0, 3, 1000, 1000, 0) == (NOTHING, 0, 1000), "nobody looks behind it"
    assert find(body[:-1], 0, 3, 1000, 1001, 0)[0] == MALFORMED
    with pytest.raises(ValueError, match="outside"):
        find(body, len(body) + 1, 3, 1000, 1000, 0)


records = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(-1, 2**62),
        st.none() | st.binary(max_size=70),
        st.none() | st.binary(max_size=70),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    ),
    min_size=1,
    max_size=5,
)
"""Contents that need one byte for their length, and two."""


@pytest.mark.slow
@given(records, st.data())
def test_both_forms_agree_on_damaged_batches(drawn: list[Record], data: st.DataObject) -> None:
    rows = [row._replace(offset=index) for index, row in enumerate(drawn)]
    body = bytearray(body_of(*rows))
    base = rows[0].timestamp
    assert record_walk.walk_records(body, 0, len(rows), base)[:3] == (
        NOTHING,
        len(rows),
        max(r.timestamp for r in rows),
    )
    for position in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=3)):
        body[position] = data.draw(st.integers(0, 255))
    count = data.draw(st.integers(0, len(rows) + 1))
    assert record_walk.walk_records(body, 0, count, base) == walk_records_in_python(body, 0, count, base)
    sought = (data.draw(st.integers(-1, 2**62)), data.draw(st.integers(-1, 8)))
    assert record_walk.find_record(body, 0, count, base, *sought) == find_record_in_python(
        body, 0, count, base, *sought
    )


@pytest.mark.slow
@pytest.mark.skipif(record_walk.find_record is find_record_in_python, reason="there was no C compiler")
@pytest.mark.parametrize(("walk", "more"), [("walk_records", ()), ("find_record", (INT64_MAX, 0))])
def test_other_threads_run_during_a_walk_over_much(walk: str, more: tuple[int, ...]) -> None:
    """Every client of a broker waited for the tenth of a second that 64 MiB of tiny records take."""
    count = 12_000
    body = body_of(*[Record(n, 0, None, bytes(100)) for n in range(count)])
    enough = threading.Event()

    def walk_often() -> None:
        for _ in range(20_000):
            if enough.is_set():
                return
            getattr(record_walk, walk)(body, 0, count, 0, *more)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # so that another thread runs only where it is let
    try:
        thread = threading.Thread(target=walk_often)
        thread.start()
        let = thread.is_alive()
        enough.set()
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert let


@pytest.mark.slow
@given(st.binary(max_size=60), st.integers(-1, 5), st.integers(INT64_MIN, INT64_MAX), st.integers(-1, 3))
def test_both_forms_agree_on_anything(body: bytes, count: int, base: int, first: int) -> None:
    assert record_walk.walk_records(body, 0, count, base) == walk_records_in_python(body, 0, count, base)
    assert record_walk.find_record(body, 0, count, base, 0, first) == find_record_in_python(
        body, 0, count, base, 0, first
    )
