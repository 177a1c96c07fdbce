"""ListOffsets and DeleteRecords, as a leader answers them; over the wire: tests/unit/wire."""

from __future__ import annotations

import pytest
from minikafka.log.config import LogConfig
from minikafka.protocol.errors import ErrorCode
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    MAX_TIMESTAMP,
    TO_HIGH_WATERMARK,
    FoundOffset,
    delete_records,
    list_offset,
)

from tests.unit.replication.test_replicas import EPOCH, Lab

TIERED = -5


@pytest.fixture
def partition() -> HostedPartition:
    """Three records, of which two are committed."""
    lab = Lab()
    for _ in range(2):
        lab.produce(0)
    lab.follower_has(2)
    lab.produce(0)
    found = lab.partitions[0]
    assert (found.high_watermark, found.log.log_end_offset) == (2, 3)
    return found


def test_clients_see_the_high_watermark_and_replicas_the_end(partition: HostedPartition) -> None:
    assert list_offset(partition, EPOCH, LATEST, replica=False) == FoundOffset(offset=2, leader_epoch=EPOCH)
    assert list_offset(partition, EPOCH, LATEST, replica=True).offset == 3


def test_the_start_has_the_epoch_of_its_record(partition: HostedPartition) -> None:
    for asked in (EARLIEST, EARLIEST_LOCAL):
        assert list_offset(partition, -1, asked, replica=False) == FoundOffset(offset=0, leader_epoch=EPOCH)


def test_by_time_nothing_above_the_high_watermark_is_told(partition: HostedPartition) -> None:
    latest = partition.log.max_timestamp()
    assert latest is not None
    assert list_offset(partition, -1, 0, replica=False).offset == 0
    assert list_offset(partition, -1, latest.timestamp + 1, replica=False) == FoundOffset()
    assert list_offset(partition, -1, MAX_TIMESTAMP, replica=False).offset < 2
    assert list_offset(partition, -1, TIERED, replica=False) == FoundOffset()


def test_another_term_is_refused(partition: HostedPartition) -> None:
    assert list_offset(partition, EPOCH - 1, LATEST, replica=False).error is ErrorCode.FENCED_LEADER_EPOCH
    assert list_offset(partition, EPOCH + 1, EARLIEST, replica=False).error is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_leader_that_has_not_caught_up_knows_no_end_yet() -> None:
    lab = Lab()
    found = lab.partitions[0]
    assert found.leader is not None
    found.leader.start_offset = 5  # its term begins above its high watermark
    assert list_offset(found, -1, LATEST, replica=False).error is ErrorCode.OFFSET_NOT_AVAILABLE
    assert list_offset(found, -1, EARLIEST, replica=False).error is ErrorCode.NONE


def test_what_is_committed_may_be_deleted(partition: HostedPartition) -> None:
    assert delete_records(partition, 1) == (ErrorCode.NONE, 1)
    assert delete_records(partition, 0) == (ErrorCode.NONE, 1), "a start never goes back"
    assert delete_records(partition, TO_HIGH_WATERMARK) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize("before", [3, -2])
def test_nothing_else_may(partition: HostedPartition, before: int) -> None:
    assert delete_records(partition, before) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert partition.log.log_start_offset == 0


def test_nor_what_is_compacted_or_led_by_others(partition: HostedPartition) -> None:
    partition.log.configure(LogConfig(cleanup_policy="compact"))
    assert delete_records(partition, 1) == (ErrorCode.POLICY_VIOLATION, -1)
    partition.log.configure(LogConfig())
    partition.resign()
    assert delete_records(partition, 1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
