"""The list of a log's segments by itself: looking up, growing, and being cut at either end."""

from __future__ import annotations

import errno
from itertools import product

import pytest
from minikafka.log.config import LogConfig
from minikafka.log.errors import CorruptBatch
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.segments import SegmentList

from tests.forms import for_each
from tests.unit.log.build import DIR, TAILS, replicated

BASES = (0, 6, 12)
"""Of segments of three batches of two records each; the last has two of them and ends at 16."""


def listed(fs: MemoryFileSystem | None = None, *, tails: bool = False) -> tuple[MemoryFileSystem, SegmentList]:
    fs = fs or MemoryFileSystem()
    fs.makedirs(DIR)
    fs.makedirs(TAILS)
    segments = SegmentList(fs, DIR, LogConfig(), TAILS if tails else None)
    for base in BASES:
        segment = segments.add(base)
        for first in range(base, min(base + 6, 16), 2):
            data = replicated(2, first, 0)
            segment.append(data, len(data), first + 1, 0)
    return fs, segments


def bases(segments: SegmentList) -> list[int]:
    return [segment.base_offset for segment in segments]


def test_it_is_a_sequence_whose_last_is_active() -> None:
    _, segments = listed()
    assert (len(segments), bases(segments)) == (3, list(BASES))
    assert segments[-1] is segments.active
    assert segments[:2] == [segments[0], segments[1]]
    assert str(segments) == "t-0"


def test_size_is_that_of_the_files() -> None:
    fs, segments = listed()
    assert segments.size_bytes == sum(fs.file_size(segment.path) for segment in segments)


@pytest.mark.parametrize(("offset", "base"), [(0, 0), (5, 0), (6, 6), (11, 6), (12, 12), (99, 12)])
def test_which_segment_holds_an_offset(offset: int, base: int) -> None:
    _, segments = listed()
    assert segments[segments.number(offset)].base_offset == base
    assert segments.since(offset) == segments[segments.number(offset) :]


def test_an_offset_below_all_is_looked_for_in_the_first() -> None:
    fs = MemoryFileSystem()
    fs.makedirs(DIR)
    segments = SegmentList(fs, DIR, LogConfig())
    segments.add(7)
    assert segments.number(3) == 0


@for_each(product(range(17), (False, True)))
def test_a_cut_at_every_offset(offset: int, tails: bool) -> None:
    fs, segments = listed(tails=tails)
    boundary = segments.boundary(offset)
    assert boundary.offset == offset - offset % 2, "inside a batch, the whole batch goes"
    segments.cut(boundary)
    assert segments.active.next_offset == boundary.offset
    assert bases(segments) == list(BASES[: segments.number(offset) + 1])
    left = {name for name in fs.listdir(DIR) if name.endswith(".log")}
    assert left == {f"{base:020d}.log" for base in bases(segments)}
    assert [batch.header.next_offset for batch in segments.batches(0, 99)] == list(range(2, boundary.offset + 1, 2))


def test_batches_across_segments_up_to_a_bound() -> None:
    _, segments = listed()
    found = [batch.header.base_offset for batch in segments.batches(5, 14)]
    assert found == [4, 6, 8, 10, 12]


def test_a_segment_that_goes_on_with_something_else() -> None:
    _, segments = listed()
    segments[1].size += 1
    with pytest.raises(CorruptBatch, match=r"00006\.log: no batch at byte"):
        list(segments.batches(0, 99))


def test_the_oldest_go_from_the_front() -> None:
    fs, segments = listed()
    segments.remove_first(2)
    assert bases(segments) == [12]
    assert fs.listdir(DIR) == [f"{12:020d}.{kind}" for kind in ("index", "log", "timeindex")]


def test_one_that_cannot_be_removed_stays_in_the_list() -> None:
    fs, segments = listed()

    def refuse(operation: str, path: str) -> None:
        if operation == "remove" and path.endswith(f"{6:020d}.log"):
            raise OSError(errno.EIO, "Input/output error", path)

    fs.fault_hook = refuse
    with pytest.raises(OSError, match="Input/output"):
        segments.remove_first(2)
    assert bases(segments) == [6, 12]


def test_emptied_and_begun_anew() -> None:
    _, segments = listed()
    while segments:
        segments.remove_last()
    assert segments.add(40) is segments.active
    assert bases(segments) == [40]


def test_new_files_are_told_once_until_somebody_gives_up() -> None:
    _, segments = listed()
    assert segments.take_new_files()
    assert not segments.take_new_files()
    segments.mark_new_files()
    assert segments.take_new_files()


def test_what_lies_there_is_opened_as_it_is() -> None:
    fs, written = listed()
    written.close()
    segments = SegmentList(fs, DIR, LogConfig())
    segments.open(BASES)
    assert bases(segments) == list(BASES)
    assert segments.active.base_offset == 12
    assert segments.size_bytes == written.size_bytes
    assert not segments.take_new_files()


def test_only_the_two_newest_know_where_batches_lie_without_looking() -> None:
    _, segments = listed()
    cached = [len(segment._lasts) for segment in segments]
    assert cached == [0, 3, 2]


def test_which_files_are_its_own() -> None:
    _, ours = listed(tails=True)
    _, theirs = listed()
    files = [part.file for segment in ours for part in segment.ranges(0, segment.size)]
    assert files and all(ours.reads_from(file) and not theirs.reads_from(file) for file in files)
