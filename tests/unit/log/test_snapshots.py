"""Producer snapshots: which one is loaded, what is replayed after it, which files go (R18)."""

from __future__ import annotations

import pytest
from minikafka.log.config import LogConfig
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.producer_state import ProducerStateManager
from minikafka.log.segments import SegmentList
from minikafka.protocol.records import Record, build_batch, read_header

from tests.unit.log.build import DIR, NOW_MS


class Scene:
    """Eight records of producer 7 in segments of four, and what is known after each pair of them."""

    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.fs.makedirs(DIR)
        self.segments = SegmentList(self.fs, DIR, LogConfig())
        self.producers = self.new()
        for first in range(0, 8, 2):
            if first % 4 == 0:
                self.segments.add(first)
            self.append(first)
            self.producers.take_snapshot(first + 2, durable=True)

    def new(self) -> ProducerStateManager:
        return ProducerStateManager(self.fs, DIR, 1000)

    def append(self, first: int) -> None:
        records = [Record(first + n, NOW_MS, b"k", b"v") for n in range(2)]
        data = memoryview(build_batch(records, producer_id=7, producer_epoch=0, base_sequence=first))
        headers = [read_header(data)]
        self.segments.active.append_batches(data, headers)
        self.producers.apply_batches(data, headers)

    def rebuilt(self, end: int, *, start: int = 0, now_ms: int = 0) -> int | None:
        """The last sequence that is known then."""
        producers = self.new()
        producers.rebuild(self.segments, start, end, now_ms)
        state = producers.get(7)
        return None if state is None else state.last_sequence

    @property
    def files(self) -> list[int]:
        return [int(name[:20]) for name in self.fs.listdir(DIR) if name.endswith(".snapshot")]

    def damage(self, offset: int) -> None:
        self.fs.write_atomic(f"{DIR}/{offset:020d}.snapshot", b"?")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_newest_below_the_end_counts(scene: Scene) -> None:
    scene.segments.cut(scene.segments.boundary(6))
    assert scene.rebuilt(6) == 5
    assert scene.files == [2, 4, 6], "one beyond the end goes"


def test_what_comes_after_it_is_replayed(scene: Scene) -> None:
    scene.producers.remove_snapshots(above=2)
    assert scene.rebuilt(8) == 7


def test_without_any_all_is_replayed(scene: Scene) -> None:
    scene.producers.remove_snapshots(above=-1)
    assert scene.files == []
    assert scene.rebuilt(8) == 7


def test_a_damaged_one_is_removed_and_an_older_one_takes_its_place(scene: Scene) -> None:
    scene.damage(8)
    assert scene.rebuilt(8) == 7
    assert scene.files == [2, 4, 6]


def test_one_from_before_the_first_segment_is_of_no_use(scene: Scene) -> None:
    scene.segments.remove_first(1)
    for offset in (4, 6, 8):
        scene.damage(offset)
    assert scene.rebuilt(8, start=4) == 7
    assert scene.files == []


def test_nothing_below_the_log_start_is_replayed(scene: Scene) -> None:
    scene.producers.remove_snapshots(above=-1)
    assert scene.rebuilt(8, start=8) is None


def test_expired_producers_are_forgotten(scene: Scene) -> None:
    assert scene.rebuilt(8, now_ms=NOW_MS + 999) == 7
    assert scene.rebuilt(8, now_ms=NOW_MS + 1000) is None


def test_snapshots_are_checked_one_by_one(scene: Scene) -> None:
    scene.damage(4)
    whole, problems = scene.producers.check_snapshots()
    assert whole == [f"{DIR}/{offset:020d}.snapshot" for offset in (2, 6, 8)]
    assert len(problems) == 1 and f"{4:020d}.snapshot" in problems[0]
    assert scene.files == [2, 6, 8]


@pytest.mark.parametrize(("above", "below", "left"), [(4, 0, [2, 4]), (99, 4, [4, 6, 8]), (6, 4, [4, 6])])
def test_files_go_at_either_end(scene: Scene, above: int, below: int, left: list[int]) -> None:
    scene.producers.remove_snapshots(above=above, below=below)
    assert scene.files == left
