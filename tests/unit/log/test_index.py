"""The sparse indexes against brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.index import PENDING_ENTRIES_MAX, CorruptIndex, OffsetIndex, TimeIndex

BASE = 1000
steps = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 500)), max_size=200)


def offset_index(fs: MemoryFileSystem) -> OffsetIndex:
    fs.makedirs("/d")
    return OffsetIndex(fs, "/d/i", BASE, 10**6)


def time_index(fs: MemoryFileSystem) -> TimeIndex:
    fs.makedirs("/d")
    return TimeIndex(fs, "/d/t", BASE, 10**6)


@pytest.mark.slow
@given(steps, st.integers(0, 400), st.booleans(), st.integers(0, 210))
def test_offset_lookups(gaps: list[tuple[int, int]], drained: int, reopened: bool, kept: int) -> None:
    fs = MemoryFileSystem()
    index = offset_index(fs)
    model: list[tuple[int, int]] = []
    offset, position = BASE - 1, 0
    for n, (d_offset, d_position) in enumerate(gaps):
        offset, position = offset + d_offset, position + d_position
        index.append(offset, position)
        model.append((offset, position))
        if n == drained:
            index.drain()
    if kept < len(model):
        index.truncate_to(model[kept][0])
        del model[kept:]
    if reopened:
        index.drain()
        index.close()
        index = offset_index(fs)
    assert len(index) == len(model)
    for target in range(BASE - 2, offset + 2):
        assert index.position_before(target) == max((p for o, p in model if o <= target), default=0)
    for target in range(0, position + 2, 7):
        assert index.position_at_or_below(target) == max((p for _, p in model if p <= target), default=0)
    if len(index):
        index.drain()
        index.sanity_check(position + 1)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), max_size=150), st.integers(0, 160), st.booleans())
def test_time_lookups(gaps: list[tuple[int, int]], kept: int, reopened: bool) -> None:
    fs = MemoryFileSystem()
    index = time_index(fs)
    model: list[tuple[int, int]] = []
    offset, timestamp = BASE - 1, 50
    for d_offset, d_time in gaps:
        offset, timestamp = offset + d_offset, timestamp + d_time
        index.append(timestamp, offset)
        if not model or timestamp > model[-1][0]:
            model.append((timestamp, offset))
    if kept < len(model):
        index.truncate_to(model[kept][1])
        del model[kept:]
    if reopened:
        index.drain()
        index = time_index(fs)
    assert index.last() == (model[-1] if model else (-1, BASE))
    for target in range(45, timestamp + 5):
        assert index.offset_before(target) == max((o for t, o in model if t < target), default=BASE)
    index.append(10, offset)
    assert len(index) == len(model) + (not model)


def test_entries_are_written_in_kafkas_format_a_few_at_a_time() -> None:
    fs = MemoryFileSystem()
    index = offset_index(fs)
    for n in range(PENDING_ENTRIES_MAX - 1):
        index.append(BASE + n, n * 10)
    assert not fs.exists("/d/i")
    index.append(BASE + 63, 630)
    assert fs.read_bytes("/d/i")[-8:] == (63).to_bytes(4, "big") + (630).to_bytes(4, "big")
    times = time_index(fs)
    times.append(2**40, BASE + 5)
    times.drain()
    times.drain()
    assert fs.read_bytes("/d/t") == (2**40).to_bytes(8, "big") + (5).to_bytes(4, "big")


def test_an_index_is_full_one_entry_early() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/d")
    index = OffsetIndex(fs, "/d/i", 0, 3 * 8 + 7)
    index.append(1, 1)
    assert not index.full
    index.append(2, 2)
    assert index.full


def test_half_an_entry_left_by_a_full_disk_is_overwritten() -> None:
    fs = MemoryFileSystem()
    index = offset_index(fs)
    index.append(BASE + 1, 10)
    index.append(BASE + 2, 20)
    fs.capacity = fs.used() + 11
    with pytest.raises(OSError, match="No space"):
        index.drain()
    fs.capacity = None
    assert index.position_before(BASE + 2) == 20
    index.drain()
    assert fs.file_size("/d/i") == 16
    assert index.entry(1) == (2, 20)


@pytest.mark.parametrize(
    "content", [None, b"\0" * 9, b"\xff" * 8, b"\0\0\0\5\0\0\0\1\0\0\0\4\0\0\0\2", b"\0\0\0\5\0\0\3\xe8"]
)
def test_an_impossible_offset_index_is_found(content: bytes | None) -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/d")
    if content is not None:
        fs.write_atomic("/d/i", content)
    with pytest.raises(CorruptIndex):
        offset_index(fs).sanity_check(1000)


@pytest.mark.parametrize("content", [None, b"\0" * 13, b"\0" * 8 + b"\0\0\0\x63", b"\0" * 7 + b"\5" + b"\0" * 16])
def test_an_impossible_time_index_is_found(content: bytes | None) -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/d")
    if content is not None:
        fs.write_atomic("/d/t", content)
    with pytest.raises(CorruptIndex):
        time_index(fs).sanity_check(BASE + 50)


def test_empty_indexes_are_sound() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/d")
    fs.write_atomic("/d/i", b"")
    fs.write_atomic("/d/t", b"")
    offset_index(fs).sanity_check(0)
    time_index(fs).sanity_check(BASE)


def test_a_file_stays_open_where_descriptors_are_not_scarce() -> None:
    fs = MemoryFileSystem()
    for is_scarce in (False, True):
        fs.descriptors_are_scarce = is_scarce
        index = offset_index(fs)
        index.append(BASE + 7, 70)
        index.drain()
        assert index.entry(0) == index.entry(0) == (7, 70)
        assert (index._file is None) is is_scarce
        index.clear()
