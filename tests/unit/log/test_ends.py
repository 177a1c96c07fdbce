"""What is removed at either end of a log's files: Retention and LogTruncator by themselves."""

from __future__ import annotations

import pytest
from minikafka.log.config import LogConfig
from minikafka.log.epochs import LeaderEpochCache
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.producer_state import ProducerStateManager
from minikafka.log.retention import Retention
from minikafka.log.segments import SegmentList
from minikafka.log.truncation import RESTART, LogTruncator, interrupted_restart

from tests.unit.log.build import DIR, TAILS, replicated

KEEP = LogConfig(retention_ms=-1)
ENDS = 20
"""Of five segments, each with two batches of two records and a snapshot at its base; times are the base offsets."""


class Scene:
    def __init__(self, *, tails: bool = False) -> None:
        self.fs = MemoryFileSystem()
        self.fs.makedirs(DIR)
        self.fs.makedirs(TAILS)
        self.segments = SegmentList(self.fs, DIR, KEEP, TAILS if tails else None)
        self.epochs = LeaderEpochCache(self.fs, DIR)
        self.producers = ProducerStateManager(self.fs, DIR, 1000)
        self.retention = Retention(self.fs, DIR, self.segments, self.producers, KEEP)
        self.truncation = LogTruncator(self.fs, DIR, self.segments, self.epochs, self.producers)
        for base in range(0, ENDS, 4):
            self.segments.add(base)
            self.producers.take_snapshot(base, durable=True)
            self.epochs.assign(base, base)
            for first in (base, base + 2):
                data = replicated(2, first, base, timestamp=base)
                self.segments.active.append(data, len(data), first + 1, base)
        self.size = self.segments[0].size

    @property
    def bases(self) -> list[int]:
        return [segment.base_offset for segment in self.segments]

    @property
    def snapshots(self) -> list[int]:
        return [int(name[:20]) for name in self.fs.listdir(DIR) if name.endswith(".snapshot")]

    def deletable(self, config: LogConfig, *, now_ms: int = 0, high_watermark: int = ENDS, start: int = 0) -> int:
        self.retention.configure(config)
        return self.retention.deletable(now_ms, high_watermark, start)


@pytest.fixture
def scene() -> Scene:
    return Scene()


class TestRetention:
    def test_nothing_goes_without_a_reason(self, scene: Scene) -> None:
        assert scene.deletable(KEEP, now_ms=10**12) == 0

    @pytest.mark.parametrize(("now_ms", "gone"), [(10, 0), (11, 1), (15, 2), (27, 5)])
    def test_by_time(self, scene: Scene, now_ms: int, gone: int) -> None:
        assert scene.deletable(LogConfig(retention_ms=10), now_ms=now_ms) == gone

    def test_by_time_of_the_file_where_records_have_none(self) -> None:
        fs = MemoryFileSystem()
        fs.makedirs(DIR)
        segments = SegmentList(fs, DIR, KEEP)
        data = replicated(1, 0, 0)
        segments.add(0).append(data, len(data), 0, -1)
        producers = ProducerStateManager(fs, DIR, 1000)
        retention = Retention(fs, DIR, segments, producers, LogConfig(retention_ms=10))
        written = fs.modified_ms(segments.active.path)
        assert retention.deletable(written + 10, 1, 0) == 0
        assert retention.deletable(written + 11, 1, 0) == 1

    @pytest.mark.parametrize(("spare", "gone"), [(-1, 2), (0, 2), (1, 1)])
    def test_by_size_never_below_what_is_allowed(self, scene: Scene, spare: int, gone: int) -> None:
        assert scene.deletable(LogConfig(retention_ms=-1, retention_bytes=3 * scene.size + spare)) == gone

    @pytest.mark.parametrize(("start", "gone"), [(3, 0), (4, 1), (7, 1), (20, 4)])
    def test_by_the_log_start_but_for_the_active_one(self, scene: Scene, start: int, gone: int) -> None:
        assert scene.deletable(KEEP, start=start) == gone

    @pytest.mark.parametrize(("high_watermark", "gone"), [(3, 0), (4, 1), (11, 2), (20, 5)])
    def test_never_above_the_high_watermark(self, scene: Scene, high_watermark: int, gone: int) -> None:
        assert scene.deletable(LogConfig(retention_ms=0), now_ms=99, high_watermark=high_watermark) == gone

    def test_a_compacted_topic_keeps_all_but_what_is_below_its_start(self, scene: Scene) -> None:
        config = LogConfig(retention_ms=0, retention_bytes=0, cleanup_policy="compact")
        assert scene.deletable(config, now_ms=99, start=9) == 2

    def test_an_empty_active_segment_stays(self, scene: Scene) -> None:
        scene.segments.add(ENDS)
        assert scene.deletable(LogConfig(retention_ms=0), now_ms=99) == 5

    def test_deleted_with_their_snapshots_durably(self, scene: Scene) -> None:
        scene.retention.delete(2)
        scene.fs.power_loss()
        assert scene.bases == scene.snapshots == [8, 12, 16]
        assert not scene.fs.exists(f"{DIR}/{4:020d}.log")


class TestTruncation:
    def test_data_epochs_and_snapshots_go_back_together(self, scene: Scene) -> None:
        scene.truncation.cut(scene.segments.boundary(11), 0, was_flushed=True)
        scene.fs.power_loss()
        assert scene.bases == scene.snapshots == [0, 4, 8]
        assert scene.segments.active.next_offset == 10
        assert LeaderEpochCache.load(scene.fs, DIR).entries == scene.epochs.entries == [(0, 0), (4, 4), (8, 8)]

    def test_epochs_of_what_was_not_flushed_wait_for_the_next_flush(self, scene: Scene) -> None:
        scene.truncation.cut(scene.segments.boundary(10), 0, was_flushed=False)
        assert scene.epochs.dirty
        scene.truncation.cut(scene.segments.boundary(6), 0, was_flushed=True)
        assert not scene.epochs.dirty

    @pytest.mark.parametrize("tails", [False, True])
    def test_begun_anew_until_it_is_finished_the_next_process_is_told(self, tails: bool) -> None:
        scene = Scene(tails=tails)
        scene.truncation.begin_anew(40)
        assert (scene.bases, scene.snapshots, scene.epochs.entries, len(scene.producers)) == ([40], [], [], 0)
        scene.truncation.make_durable()
        scene.fs.power_loss()
        assert interrupted_restart(scene.fs, DIR) == 40
        assert [name for name in scene.fs.listdir(DIR) if name.endswith(".log")] == [f"{40:020d}.log"]
        assert scene.fs.listdir(TAILS) == []
        scene.truncation.finish()
        scene.fs.power_loss()
        assert interrupted_restart(scene.fs, DIR) is None
        assert not scene.fs.exists(f"{DIR}/{RESTART}")
