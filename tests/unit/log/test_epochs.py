"""The rules of KAFKA's LeaderEpochFileCache (KIP-101, KIP-279), each named where it is checked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from minikafka.log.epochs import CHECKPOINT_NAME, UNDEFINED, EpochEndOffset, EpochEntry, LeaderEpochCache
from minikafka.log.errors import MalformedCheckpoint
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.protocol.records import read_header

from tests.unit.log.build import replicated

LEO = 100


def cache_of(*entries: tuple[int, int]) -> LeaderEpochCache:
    fs = MemoryFileSystem()
    fs.makedirs("/d")
    cache = LeaderEpochCache.load(fs, "/d")
    for epoch, start in entries:
        cache.assign(epoch, start)
    return cache


def test_an_empty_cache_knows_nothing() -> None:
    cache = cache_of()
    assert cache.latest == -1
    assert cache.latest_entry is None
    assert cache.earliest_entry is None
    assert cache.end_offset_for(0, LEO) == UNDEFINED
    assert cache.epoch_for_offset(0) == -1
    assert cache.start_offset_of(0) == -1
    assert len(cache) == 0


class TestEndOffsetFor:
    """`endOffsetFor` of an epoch q."""

    cache = cache_of((2, 10), (5, 20), (7, 50))

    def test_undefined_epoch_is_undefined(self) -> None:
        assert self.cache.end_offset_for(-1, LEO) == UNDEFINED

    def test_the_latest_epoch_ends_at_the_log_end(self) -> None:
        assert self.cache.end_offset_for(7, LEO) == EpochEndOffset(7, LEO)

    def test_an_epoch_above_the_latest_is_undefined(self) -> None:
        assert self.cache.end_offset_for(8, LEO) == UNDEFINED

    def test_an_epoch_below_the_first_ends_where_the_first_begins(self) -> None:
        assert self.cache.end_offset_for(1, LEO) == EpochEndOffset(1, 10)

    @pytest.mark.parametrize(
        ("asked", "answer"), [(2, (2, 20)), (3, (2, 20)), (4, (2, 20)), (5, (5, 50)), (6, (5, 50))]
    )
    def test_any_other_is_answered_by_its_floor(self, asked: int, answer: tuple[int, int]) -> None:
        assert self.cache.end_offset_for(asked, LEO) == answer


class TestAssign:
    """Entries that contradict the new one are dropped."""

    def test_the_same_epoch_again_changes_nothing(self) -> None:
        cache = cache_of((1, 0))
        assert not cache.assign(1, 5)
        assert cache.entries == [EpochEntry(1, 0)]

    def test_same_or_later_starts_are_dropped(self) -> None:
        cache = cache_of((1, 0), (2, 10), (3, 20))
        assert cache.assign(4, 10)
        assert cache.entries == [(1, 0), (4, 10)]

    def test_same_or_later_epochs_are_dropped(self) -> None:
        cache = cache_of((1, 0), (3, 10), (5, 20))
        assert cache.assign(3, 30)
        assert cache.entries == [(1, 0), (3, 30)]

    def test_the_latest_epoch_at_an_earlier_start_replaces_it(self) -> None:
        cache = cache_of((1, 0), (2, 10))
        assert cache.assign(2, 5)
        assert cache.entries == [(1, 0), (2, 5)]

    @pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1)])
    def test_negative_arguments_are_refused(self, epoch: int, start: int) -> None:
        with pytest.raises(ValueError, match="negative"):
            cache_of().assign(epoch, start)


def test_truncate_from_end_drops_entries_at_or_after() -> None:
    cache = cache_of((1, 0), (2, 10), (3, 20))
    cache.truncate_from_end(10)
    assert cache.entries == [(1, 0)]
    assert cache.latest == 1
    assert cache.latest_entry == (1, 0)
    cache.truncate_from_end(10)
    cache.truncate_from_end(0)
    assert cache.entries == []
    assert cache.latest == -1


def test_truncate_from_start_keeps_the_covering_epoch() -> None:
    cache = cache_of((1, 0), (2, 10), (3, 20))
    cache.truncate_from_start(15)
    assert cache.entries == [(2, 15), (3, 20)]
    assert cache.earliest_entry == (2, 15)
    cache.truncate_from_start(20)
    assert cache.entries == [(3, 20)]
    cache.truncate_from_start(5)
    assert cache.entries == [(3, 20)]
    assert cache.start_offset_of(3) == 20
    assert cache.start_offset_of(2) == -1


def test_the_checkpoint_has_kafkas_text_format() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/d")
    cache = LeaderEpochCache.load(fs, "/d")
    cache.assign(0, 0)
    cache.assign(4, 25)
    assert fs.read_bytes(f"/d/{CHECKPOINT_NAME}") == b"0\n2\n0 0\n4 25\n"
    assert LeaderEpochCache.load(fs, "/d").entries == [(0, 0), (4, 25)]
    assert LeaderEpochCache.load(fs, "/d").latest == 4
    cache.clear()
    assert LeaderEpochCache.load(fs, "/d").entries == []


@pytest.mark.parametrize(
    "damaged",
    [
        b"", b"1\n0\n", b"0\n", b"0\nx\n", b"0\n2\n0 0\n", b"0\n1\n0 0", b"0\n1\n0\n", b"0\n1\n0 x\n", b"0\n1\n-1 0\n",
        b"\xff\xfe\n", b"0\n2\n5 0\n4 10\n", b"0\n2\n4 10\n5 10\n", b"0\n1\n2147483648 0\n", b"0\n1\n0 9223372036854775807\n",
        "0\n\N{SUPERSCRIPT ONE}\n0 0\n".encode(), b"0\n" + b"9" * 5000 + b"\n",
    ],
)  # fmt: skip
def test_a_damaged_checkpoint_is_refused(damaged: bytes) -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/d")
    fs.write_atomic(f"/d/{CHECKPOINT_NAME}", damaged)
    with pytest.raises(MalformedCheckpoint):
        LeaderEpochCache.load(fs, "/d")


def test_an_assignment_is_durable_after_fsync_only_and_a_truncation_at_once() -> None:
    """KAFKA-15046: a leader change costs no fsync; the flush of the log does it."""
    fs = MemoryFileSystem()
    fs.makedirs("/d")
    cache = LeaderEpochCache.load(fs, "/d")
    before = fs.fsyncs
    cache.assign(1, 0)
    assert fs.fsyncs == before
    assert cache.dirty
    cache.assign(2, 5)
    cache.truncate_from_end(5)
    assert fs.fsyncs > before
    assert not cache.dirty
    cache.assign(3, 7)
    cache.fsync()
    fs.power_loss()
    assert LeaderEpochCache.load(fs, "/d").entries == [(1, 0), (3, 7)]


def test_who_takes_the_fsync_over_is_told_once_until_he_gives_up() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/d")
    cache = LeaderEpochCache.load(fs, "/d")
    assert not cache.take_dirty()
    cache.assign(1, 0)
    assert cache.take_dirty()
    assert not cache.take_dirty()
    cache.mark_dirty()
    assert cache.take_dirty()


@pytest.mark.parametrize(
    ("before", "batches", "after"),
    [
        ([], [(0, 3), (2, 3), (4, 5)], [(3, 0), (5, 4)]),
        ([(3, 0)], [(4, 3), (6, 3)], [(3, 0)]),
        ([(3, 0), (5, 4)], [(4, 3), (6, 6)], [(3, 0), (6, 6)]),
        ([(3, 0)], [(4, -1)], [(3, 0)]),
    ],
    ids=["new", "known", "an entry of a write that failed", "of an old format"],
)
def test_a_leaders_batches_bring_their_epochs(
    before: list[tuple[int, int]], batches: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/d")
    cache = LeaderEpochCache.load(fs, "/d")
    for epoch, start in before:
        cache.assign(epoch, start)
    cache.assign_batches([read_header(replicated(2, offset, epoch)) for offset, epoch in batches])
    assert cache.entries == after


entries = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 60)), max_size=20)


@pytest.mark.slow
@given(entries, st.integers(-1, 35), st.integers(0, 70))
def test_lookups_agree_with_brute_force(assigned: list[tuple[int, int]], query: int, offset: int) -> None:
    cache = cache_of(*assigned)
    kept = cache.entries
    assert [e.epoch for e in kept] == sorted({e.epoch for e in kept})
    assert [e.start_offset for e in kept] == sorted({e.start_offset for e in kept})
    assert cache.latest == (kept[-1].epoch if kept else -1)
    covering = [e.epoch for e in kept if e.start_offset <= offset]
    assert cache.epoch_for_offset(offset) == (covering[-1] if covering else -1)
    answer = cache.end_offset_for(query, LEO)
    floor = [e for e in kept if e.epoch <= query]
    above = [e for e in kept if e.epoch > query]
    if query < 0 or not kept or query > cache.latest:
        assert answer == UNDEFINED
    elif query == cache.latest:
        assert answer == (query, LEO)
    else:
        assert answer == (floor[-1].epoch if floor else query, above[0].start_offset)


@pytest.mark.slow
@given(entries, st.tuples(st.integers(0, 30), st.integers(0, 60)))
def test_assign_keeps_exactly_what_does_not_contradict(assigned: list[tuple[int, int]], new: tuple[int, int]) -> None:
    cache = cache_of(*assigned)
    before = cache.entries
    if cache.assign(*new):
        assert cache.entries == [e for e in before if e.epoch < new[0] and e.start_offset < new[1]] + [new]
    else:
        assert before[-1].epoch == new[0]
        assert before[-1].start_offset <= new[1]
        assert cache.entries == before


def test_when_the_disk_refuses_nothing_changes() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/d")
    cache = LeaderEpochCache.load(fs, "/d")
    cache.assign(1, 0)
    cache.assign(2, 5)

    def hook(operation: str, path: str) -> None:
        raise OSError(28, "No space left on device", path)

    fs.fault_hook = hook
    changes = [
        lambda: cache.assign(3, 9),
        lambda: cache.truncate_from_end(5),
        lambda: cache.truncate_from_start(3),
        cache.clear,
    ]
    for change in changes:
        with pytest.raises(OSError, match="No space"):
            change()
    assert cache.entries == [(1, 0), (2, 5)]
    assert cache.latest == 2
