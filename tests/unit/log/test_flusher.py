"""The flusher by itself: what it has fsynced, what it counts as durable, and when it is due."""

from __future__ import annotations

import errno

import pytest
from minikafka.log.config import LogConfig
from minikafka.log.epochs import LeaderEpochCache
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.flushing import Flusher
from minikafka.log.segments import SegmentList

from tests.unit.log.build import DIR, replicated

CONFIG = LogConfig(flush_interval_messages=10, flush_interval_ms=1000)
SNAPSHOT = f"{DIR}/{2:020d}.snapshot"


class Scene:
    """A flusher, what it flushes, and a record of the disk's fsyncs."""

    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.fs.makedirs(DIR)
        self.segments = SegmentList(self.fs, DIR, CONFIG)
        self.segments.add(0)
        self.epochs = LeaderEpochCache(self.fs, DIR)
        self.flusher = Flusher(self.fs, DIR, self.segments, self.epochs, CONFIG)
        self.end = 0
        self.synced: list[str] = []
        self.refuses = ""
        self.fs.fault_hook = self.saw

    def saw(self, operation: str, path: str) -> None:
        if "fsync" in operation:
            self.synced.append(path.rpartition("/")[2])
            if self.refuses and path.endswith(self.refuses):
                raise OSError(errno.EIO, "Input/output error", path)

    def append(self) -> None:
        data = replicated(2, self.end, 0)
        self.segments.active.append(data, len(data), self.end + 1, 0)
        self.end += 2

    def roll(self) -> None:
        old = self.segments.active
        old.seal()
        self.fs.write_atomic(SNAPSHOT, b"", durable=False)
        self.segments.add(self.end)
        self.flusher.add_files([old.index.path, old.time_index.path, SNAPSHOT])


@pytest.fixture
def scene() -> Scene:
    return Scene()


def log_file(base: int) -> str:
    return f"{base:020d}.log"


def test_everything_that_is_not_durable_is_fsynced_once(scene: Scene) -> None:
    scene.append()
    scene.roll()
    scene.append()
    scene.epochs.assign(3, 0)
    scene.flusher.flush(scene.end)
    first = f"{0:020d}"
    assert scene.synced[:6] == [
        "t-0",
        log_file(0),
        log_file(2),
        f"{first}.index",
        f"{first}.timeindex",
        f"{2:020d}.snapshot",
    ]
    assert "leader-epoch-checkpoint" in scene.synced[6:]
    assert scene.flusher.flushed_offset == scene.flusher.recovery_point == 4
    scene.synced.clear()
    scene.flusher.flush(scene.end)
    assert scene.synced == []


def test_only_the_segments_above_the_flushed_offset(scene: Scene) -> None:
    scene.append()
    scene.flusher.flush(scene.end)
    scene.roll()
    scene.append()
    scene.synced.clear()
    scene.flusher.flush(scene.end)
    assert log_file(0) not in scene.synced
    assert log_file(2) in scene.synced


def test_one_at_a_time(scene: Scene) -> None:
    scene.append()
    job = scene.flusher.start(scene.end)
    assert scene.flusher.under_way
    scene.append()
    assert scene.flusher.start(scene.end) is job
    job.run()
    scene.flusher.complete(job)
    assert scene.flusher.flushed_offset == 2, "not what was appended after it began"
    assert not scene.flusher.under_way
    scene.flusher.flush(scene.end)
    assert scene.flusher.flushed_offset == 4


def test_one_that_never_ran_is_done_by_the_next(scene: Scene) -> None:
    scene.append()
    scene.roll()
    scene.epochs.assign(3, 0)
    job = scene.flusher.start(scene.end)
    scene.flusher.settle()
    job.run()
    assert scene.synced == []
    assert scene.flusher.flushed_offset == 0
    scene.flusher.flush(scene.end)
    assert {"t-0", log_file(0), f"{2:020d}.snapshot", "leader-epoch-checkpoint"} <= set(scene.synced)


def test_one_that_ran_counts_when_it_is_settled(scene: Scene) -> None:
    scene.append()
    job = scene.flusher.start(scene.end)
    job.run()
    scene.flusher.settle()
    assert scene.flusher.flushed_offset == 2
    scene.flusher.lower(0)
    assert scene.flusher.complete(job) == 0.0
    assert scene.flusher.flushed_offset == 0, "completed once: what came since would be taken for flushed"


@pytest.mark.parametrize("refuses", [log_file(0), ".index", "leader-epoch-checkpoint", "t-0"])
def test_a_failed_fsync_advances_nothing(scene: Scene, refuses: str) -> None:
    scene.append()
    scene.roll()
    scene.epochs.assign(3, 0)
    scene.refuses = refuses
    job = scene.flusher.start(scene.end)
    job.run()
    with pytest.raises(OSError, match="Input/output"):
        scene.flusher.complete(job)
    assert scene.flusher.flushed_offset == scene.flusher.recovery_point == 0


def test_the_recovery_point_waits_for_the_indexes(scene: Scene) -> None:
    scene.append()
    job = scene.flusher.start(scene.end)
    scene.roll()
    job.run()
    scene.flusher.complete(job)
    assert (scene.flusher.flushed_offset, scene.flusher.recovery_point) == (2, 0)
    second = scene.flusher.start(scene.end)
    assert scene.flusher.recovery_point == 0
    second.run()
    scene.flusher.complete(second)
    assert scene.flusher.recovery_point == 2


@pytest.mark.parametrize(("offset", "was_flushed", "left"), [(0, True, 0), (3, True, 3), (4, False, 4), (9, False, 4)])
def test_lowered_it_tells_whether_some_was_flushed(scene: Scene, offset: int, was_flushed: bool, left: int) -> None:
    scene.flusher.skip_to(4)
    assert scene.flusher.lower(offset) is was_flushed
    assert scene.flusher.flushed_offset == left


def test_it_never_skips_back(scene: Scene) -> None:
    scene.flusher.skip_to(4)
    scene.flusher.skip_to(2)
    assert scene.flusher.flushed_offset == 4


class TestIsDue:
    def test_by_messages(self, scene: Scene) -> None:
        for _ in range(4):
            scene.append()
        assert not scene.flusher.is_due(0.0, scene.end)
        scene.append()
        assert scene.flusher.is_due(0.0, scene.end)

    def test_by_time_since_the_first_unflushed_record(self, scene: Scene) -> None:
        assert not scene.flusher.is_due(5.0, scene.end)
        scene.append()
        assert not scene.flusher.is_due(5.9, scene.end)
        assert scene.flusher.is_due(6.0, scene.end)
        scene.flusher.flush(scene.end)
        scene.append()
        assert not scene.flusher.is_due(6.5, scene.end)

    def test_by_a_completed_segment(self, scene: Scene) -> None:
        scene.append()
        scene.roll()
        assert scene.flusher.is_due(0.0, scene.end)
        scene.flusher.flush(scene.end)
        assert not scene.flusher.is_due(0.0, scene.end)

    def test_settings_may_change(self, scene: Scene) -> None:
        scene.append()
        scene.flusher.configure(LogConfig(flush_interval_messages=2))
        assert scene.flusher.is_due(0.0, scene.end)
