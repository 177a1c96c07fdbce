"""Loading the parts of a log from its files, before there is a log: what `LogLoader.load` finds, and what it cuts off."""

from __future__ import annotations

import pytest
from minikafka.log.config import LogConfig
from minikafka.log.errors import DataDirRefused
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.log.recovery import LoadedLog, LogLoader

from tests.unit.log.build import DIR, TAILS, filled

CONFIG = LogConfig(segment_bytes=500)


def load(
    fs: MemoryFileSystem, *, clean: bool = False, recovery_point: int = 0, start: int = 0, tails: str | None = None
) -> tuple[LogLoader, LoadedLog]:
    loader = LogLoader(
        fs, DIR, CONFIG, clean=clean, recovery_point=recovery_point, log_start_offset=start, tail_directory=tails
    )
    return loader, loader.load()


def test_a_new_log_has_one_empty_segment_at_its_start() -> None:
    _, loaded = load(MemoryFileSystem(), clean=True, start=7)
    assert [segment.base_offset for segment in loaded.segments] == [7]
    assert (loaded.log_start_offset, loaded.flusher.flushed_offset, len(loaded.epochs)) == (7, 7, 0)
    assert loaded.segments.take_new_files()


def test_after_a_clean_stop_everything_counts_as_flushed() -> None:
    fs, log = filled(8, CONFIG)
    log.close()
    loader, loaded = load(fs, clean=True)
    assert loaded.segments.active.next_offset == loaded.flusher.flushed_offset == 24
    assert loaded.epochs.entries == [(0, 0)]
    assert loader.recovered == []


@pytest.mark.parametrize(("point", "recovered"), [(0, 3), (9, 3), (10, 2), (18, 2), (24, 1)])
def test_else_what_lies_above_the_recovery_point_is_read(point: int, recovered: int) -> None:
    fs, log = filled(8, CONFIG)
    assert [segment.base_offset for segment in log.segments] == [0, 9, 18]
    fs.kill()
    loader, loaded = load(fs, recovery_point=point)
    assert len(loader.recovered) == recovered
    assert loaded.flusher.flushed_offset == point
    assert loaded.flusher.is_due(0.0, 24), "the indexes that were written anew are not durable"


def test_a_damaged_segment_takes_all_that_follow_with_it() -> None:
    fs, log = filled(8, CONFIG)
    log.segments[0].data.truncate(log.segments[0].size - 1)
    fs.kill()
    loader, loaded = load(fs)
    assert [segment.base_offset for segment in loaded.segments] == [0]
    assert loaded.segments.active.next_offset == 6
    assert not fs.exists(f"{DIR}/{9:020d}.log")
    assert loader.truncated_bytes > 0
    assert [note.partition(": ")[2][:7] for note in loader.notes] == ["cut fro", "deleted", "deleted"]


def test_a_recovery_point_beyond_the_end_is_not_believed() -> None:
    fs, _ = filled(8, CONFIG)
    fs.kill()
    loader, loaded = load(fs, recovery_point=99)
    assert len(loader.recovered) == 3
    assert loaded.flusher.flushed_offset == 0


def test_tails_are_put_back_before_segments_are_read() -> None:
    fs, log = filled(8, CONFIG, unflushed=True)
    log.flush()
    fs.kill()
    fs.write_atomic(f"{TAILS}/{18:020d}.log.{log.segments[-1].size}", bytes(10))
    loader, loaded = load(fs, recovery_point=24, tails=TAILS)
    assert (loader.restored_bytes, loader.truncated_bytes) == (10, 10)
    assert loaded.segments.active.next_offset == 24


def test_files_that_are_not_a_logs_are_refused() -> None:
    fs, _ = filled(1)
    fs.write_atomic(f"{DIR}/notes.txt", b"")
    with pytest.raises(DataDirRefused, match=r"notes\.txt: not a file of a log"):
        load(fs)
