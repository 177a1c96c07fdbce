"""Small builders for the tests of the log."""

from __future__ import annotations

from typing import Any

from minikafka.log.filesystem import FileSystem, MemoryFileSystem
from minikafka.log.inspection import inspect_log
from minikafka.log.log import Log, LogCheckpoints, LogConfig
from minikafka.protocol.compression import Codec
from minikafka.protocol.records import Record, build_batch
from minikafka.protocol.types import TopicPartition

TP = TopicPartition("t", 0)
DIR = "/data/t-0"
UNFLUSHED = "/unflushed"
TAILS = "/unflushed/t-0"
NOW_MS = 1_000_000


def batch(
    count: int = 1,
    *,
    timestamp: int = NOW_MS,
    size: int = 20,
    producer: int = -1,
    producer_epoch: int = 0,
    sequence: int = -1,
    codec: Codec = Codec.NONE,
    transactional: bool = False,
    fill: bytes = b"v",
) -> bytearray:
    """A producer's batch of `count` records with values of `size` bytes; timestamps grow by 1 ms."""
    records = [Record(n, timestamp + n, b"k", fill * size) for n in range(count)]
    if producer < 0:
        return build_batch(records, codec=codec)
    return build_batch(
        records,
        codec=codec,
        producer_id=producer,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def replicated(count: int, base_offset: int, epoch: int, *, timestamp: int = NOW_MS, size: int = 20) -> bytearray:
    """A batch as a leader sends it to a follower."""
    records = [Record(base_offset + n, timestamp + n, b"k", b"v" * size) for n in range(count)]
    return build_batch(records, leader_epoch=epoch)


def open_log(
    fs: FileSystem,
    config: LogConfig | None = None,
    *,
    clean: bool = True,
    recovery_point: int = 0,
    unflushed: bool = False,
    log_start_offset: int = 0,
    directory: str = DIR,
    checkpoints: LogCheckpoints | None = None,
) -> Log:
    return Log.open(
        directory,
        TP,
        config or LogConfig(),
        fs,
        clean=clean,
        recovery_point=recovery_point,
        now_ms=NOW_MS,
        checkpoints=checkpoints,
        unflushed_dir=UNFLUSHED if unflushed else None,
        log_start_offset=log_start_offset,
    )


def filled(
    batches: int, config: LogConfig | None = None, *, count: int = 3, **options: Any
) -> tuple[MemoryFileSystem, Log]:
    """A log in memory with some batches of leader epoch 0, nothing flushed."""
    fs = MemoryFileSystem()
    log = open_log(fs, config, **options)
    for n in range(batches):
        log.append_as_leader(batch(count, timestamp=NOW_MS + n), 0, NOW_MS)
    return fs, log


def contents(log: Log) -> list[bytes]:
    """All batches, from the log start on."""
    return [bytes(each.data) for each in log.read_batches(log.log_start_offset, log.log_end_offset)]


def assert_sound(fs: FileSystem, log: Log) -> None:
    """Everything on disk agrees with everything else, once the active segment's indexes are written."""
    log.segments.active.seal()
    log.flush()
    for segment in log.segments:
        timestamps = [found.header.max_timestamp for found in segment.walk()]
        assert segment.time_index.last()[0] == max(timestamps, default=-1)
    report = inspect_log(fs, log.directory)
    assert not report.damaged, (report.problems, [segment.problems for segment in report.segments])
    assert report.segments[-1].next_offset == log.log_end_offset
