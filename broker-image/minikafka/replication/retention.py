"""Removes what of a replica is old."""

from __future__ import annotations

from minikafka.replication.hosted import HostedPartition


def retain(partition: HostedPartition, now_ms: int) -> None:
    """Forget producers that were silent for long, and delete the segments that ``retention.ms``, ``retention.bytes`` or the log
    start no longer keep; never what is not committed. Leaders and followers do so alike.

    Args:
        now_ms: the wall clock, Unix time in milliseconds.

    Raises:
        LogError: the disk refused; some segments may be gone.
    """
    log = partition.log
    log.producers.remove_expired(now_ms)
    if log.config.delete or log.log_start_offset:
        log.delete_old_segments(now_ms, partition.high_watermark)
