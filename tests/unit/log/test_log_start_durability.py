"""The log start survives a crash as soon as it has moved (found by simulation: seed 1670)."""

from uuid import UUID

from minikafka.log.config import LogConfig
from minikafka.log.manager import LogManager
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.protocol.records import Record, build_batch
from minikafka.protocol.types import TopicPartition

TP = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000


def manager(disk: MemoryFileSystem) -> LogManager:
    return LogManager.open(["/data"], disk, cluster_id="c", node_id=1, config_for=lambda _: LogConfig(), now_ms=NOW_MS)


def test_deleted_records_do_not_come_back_after_a_crash() -> None:
    disk = MemoryFileSystem()
    logs = manager(disk)
    log = logs.create(TP, UUID(int=7), LogConfig(), now_ms=NOW_MS)
    for epoch in (0, 1):
        for _ in range(5):
            batch = build_batch([Record(0, NOW_MS, None, b"v")])
            log.append_as_leader(memoryview(batch), epoch, NOW_MS)
    log.flush()
    log.increment_log_start_offset(7)
    log.release()
    disk.power_loss()

    found = manager(disk).logs[TP]
    assert (found.log_start_offset, found.log_end_offset) == (7, 10)
    assert found.epochs.entries == [(1, 7)]


def test_a_start_that_a_truncation_moves_back_is_not_the_old_one_after_a_crash() -> None:
    """Found by crash states: the log came back empty, at an end that it had given up."""
    disk = MemoryFileSystem()
    log = manager(disk).create(TP, UUID(int=7), LogConfig(), now_ms=NOW_MS)
    for _ in range(10):
        log.append_as_leader(build_batch([Record(0, NOW_MS, None, b"v")]), 0, NOW_MS)
    log.flush()
    log.increment_log_start_offset(7)
    log.truncate_to(4)
    log.release()
    disk.power_loss()

    found = manager(disk).logs[TP]
    assert (found.log_start_offset, found.log_end_offset) == (4, 4)
