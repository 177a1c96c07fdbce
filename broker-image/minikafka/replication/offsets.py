"""Where a log begins and ends (ListOffsets, KIP-79, KIP-734), and that it begins later (DeleteRecords, KIP-107)."""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.log.results import TimestampOffset
from minikafka.log.timestamps import Search
from minikafka.protocol.errors import ErrorCode
from minikafka.replication.hosted import HostedPartition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
"""Instead of a timestamp. The last two belong to tiered storage, and answer with no offset."""

TO_HIGH_WATERMARK: Final = -1
"""Instead of an offset: delete all that is committed."""


class FoundOffset(NamedTuple):
    """An answer to ListOffsets; all but the error are -1 where there is none."""

    error: ErrorCode = ErrorCode.NONE
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


def list_offset(
    partition: HostedPartition, leader_epoch: int, timestamp: int, search: Search | None = None, *, replica: bool
) -> FoundOffset:
    """What a leader answers to ListOffsets.

    Clients see the high watermark as the end, replicas the log end offset. While a new leader's high watermark lags behind the
    start of its own term the end is OFFSET_NOT_AVAILABLE: otherwise clients would see it go backwards.

    Args:
        leader_epoch: what the asker knows, -1 for nothing.
        timestamp: Unix time in milliseconds, or one of the constants above.
        search: what is known so far; None: all is looked at on the spot.

    Raises:
        LogError: the log cannot be read, or a batch cannot be looked into.
        LargeBatch: nothing is known of a batch that holds much.
    """
    error = partition.check_leader(leader_epoch)
    leader = partition.leader
    if error or leader is None:
        return FoundOffset(error)
    log = partition.log
    end = log.log_end_offset
    if not replica and timestamp != EARLIEST:
        shown = leader.end_offset_for_clients()
        if shown is None:
            return FoundOffset(ErrorCode.OFFSET_NOT_AVAILABLE)
        end = shown
    if timestamp == LATEST:
        return FoundOffset(offset=end, leader_epoch=partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return FoundOffset(offset=start, leader_epoch=log.epochs.epoch_for_offset(start))
    found: TimestampOffset | None = None
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp(search)
    elif timestamp >= 0:
        found = log.offset_for_timestamp(timestamp, end, search)
    if found is None or found.offset >= end:
        return FoundOffset()
    return FoundOffset(ErrorCode.NONE, found.offset, found.timestamp, found.leader_epoch)


def delete_records(partition: HostedPartition, before: int) -> tuple[ErrorCode, int]:
    """Have a leader's log begin at ``before``, or at its high watermark (:data:`TO_HIGH_WATERMARK`).

    Followers take the new start over with their next fetch; segments go with the next look of retention.

    Returns:
        The error, and the log start offset from now on, -1 after an error.

    Raises:
        LogError: the disk refused.
    """
    if partition.leader is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
    if not partition.log.config.delete:
        return ErrorCode.POLICY_VIOLATION, -1
    target = partition.high_watermark if before == TO_HIGH_WATERMARK else before
    if target < 0 or target > partition.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE, -1
    partition.log.increment_log_start_offset(target)
    return ErrorCode.NONE, partition.log.log_start_offset
