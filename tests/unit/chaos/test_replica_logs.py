"""Divergence: found by comparing segment files, with and without an unflushed directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from minikafka.protocol.records import Record, build_batch
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.anomalies import Kind
from minikafka_chaos.replica_logs import ReplicaLog, ReplicaLogError, check_logs, read_replica_log

TP = TopicPartition("t", 0)


def batch(offset: int, *values: str, epoch: int = 0) -> bytes:
    records = [Record(offset + n, 1_700_000_000_000, None, f"{v}|pad".encode()) for n, v in enumerate(values)]
    return bytes(build_batch(records, leader_epoch=epoch))


def replica(
    root: Path, broker: int, content: bytes, base: int = 0, tails: dict[int, bytes] | None = None
) -> ReplicaLog:
    data, unflushed = root / f"{broker}" / "data", root / f"{broker}" / "unflushed"
    (data / str(TP)).mkdir(parents=True, exist_ok=True)
    (data / str(TP) / f"{base:020d}.log").write_bytes(content)
    for position, tail in (tails or {}).items():
        (unflushed / str(TP)).mkdir(parents=True, exist_ok=True)
        (unflushed / str(TP) / f"{base:020d}.log.{position:020d}").write_bytes(tail)
    return read_replica_log(broker, TP, data, unflushed if tails else None)


def test_equal_logs_of_different_length_agree(tmp_path: Path) -> None:
    one = replica(tmp_path, 1, batch(0, "m0") + batch(1, "m1"))
    two = replica(tmp_path, 2, batch(0, "m0"))
    assert (one.end_offset, two.end_offset) == (2, 1)
    assert check_logs([one, two]) == []


def test_story_b_different_records_at_one_offset_diverge(tmp_path: Path) -> None:
    one = replica(tmp_path, 1, batch(0, "m0") + batch(1, "m1"))
    two = replica(tmp_path, 2, batch(0, "m0") + batch(1, "m2", epoch=1))
    (found,) = check_logs([one, two])
    assert (found.kind, found.offset) == (Kind.DIVERGENT_REPLICAS, 1)
    assert [b["values"] for b in found.evidence["batches"]] == [["m1"], ["m2"]]
    assert found.evidence["brokers"] == [1, 2]


def test_the_same_record_of_another_epoch_diverges(tmp_path: Path) -> None:
    one = replica(tmp_path, 1, batch(0, "m0", epoch=0))
    two = replica(tmp_path, 2, batch(0, "m0", epoch=1))
    assert [a.kind for a in check_logs([one, two])] == [Kind.DIVERGENT_REPLICAS]


def test_other_batch_boundaries_diverge(tmp_path: Path) -> None:
    one = replica(tmp_path, 1, batch(0, "m0", "m1") + batch(2, "m2"))
    two = replica(tmp_path, 2, batch(0, "m0") + batch(1, "m1") + batch(2, "m2"))
    (found,) = check_logs([one, two])
    assert (found.kind, found.offset) == (Kind.DIVERGENT_REPLICAS, 0)


def test_each_diverging_pair_is_told(tmp_path: Path) -> None:
    logs = [replica(tmp_path, broker, batch(0, value)) for broker, value in ((1, "a"), (2, "a"), (3, "b"))]
    assert [a.evidence["brokers"] for a in check_logs(logs)] == [[1, 3], [2, 3]]


def test_logs_that_start_later_are_compared_from_there(tmp_path: Path) -> None:
    one = replica(tmp_path, 1, batch(0, "old") + batch(1, "m1"))
    two = replica(tmp_path, 2, batch(1, "m1"), base=1)
    assert check_logs([one, two]) == []


def test_the_unflushed_tail_counts(tmp_path: Path) -> None:
    first, second, third = batch(0, "m0"), batch(1, "m1"), batch(2, "m2")
    tails = {len(first): second, len(first + second): third}
    one = replica(tmp_path, 1, first, tails=tails)
    two = replica(tmp_path, 2, first + second + third)
    assert one.end_offset == 3
    assert check_logs([one, two]) == []


def test_a_tail_whose_copy_was_cut_short_is_taken_from_the_tail(tmp_path: Path) -> None:
    first, second = batch(0, "m0"), batch(1, "m1")
    one = replica(tmp_path, 1, first + second[:30], tails={len(first): second})
    assert one.end_offset == 2
    assert one.damage is None


def test_a_torn_last_batch_is_no_damage(tmp_path: Path) -> None:
    one = replica(tmp_path, 1, batch(0, "m0") + batch(1, "m1")[:-3])
    assert (one.end_offset, one.damage) == (1, None)


def test_preallocated_zeros_are_no_damage(tmp_path: Path) -> None:
    one = replica(tmp_path, 1, batch(0, "m0") + bytes(500))
    assert (one.end_offset, one.damage) == (1, None)


def test_garbage_in_the_log_is_broken(tmp_path: Path) -> None:
    found = check_logs([replica(tmp_path, 1, batch(0, "m0") + b"\xff" * 500)])
    assert [a.kind for a in found] == [Kind.BROKEN_LOG]


def test_a_flipped_bit_is_a_corrupt_batch(tmp_path: Path) -> None:
    content = bytearray(batch(0, "m0"))
    content[-1] ^= 1
    found = check_logs([replica(tmp_path, 1, bytes(content))])
    assert [a.kind for a in found] == [Kind.CORRUPT_BATCH]


@pytest.mark.parametrize(
    "content", [batch(0, "m0") + batch(0, "m1"), batch(0, "m0", epoch=2) + batch(1, "m1", epoch=1)]
)
def test_b13_offsets_and_epochs_grow(tmp_path: Path, content: bytes) -> None:
    assert [a.kind for a in check_logs([replica(tmp_path, 1, content)])] == [Kind.BROKEN_LOG]


def test_a_missing_replica_is_trouble_not_an_anomaly(tmp_path: Path) -> None:
    with pytest.raises(ReplicaLogError, match="no directory of t-0"):
        read_replica_log(1, TP, tmp_path)


def test_segments_are_read_in_order(tmp_path: Path) -> None:
    replica(tmp_path, 1, batch(0, "m0") + batch(1, "m1"))
    log = replica(tmp_path, 1, batch(2, "m2"), base=2)
    assert [b.base_offset for b in log.batches] == [0, 1, 2]
    assert log.values(log.batches[2]) == ["m2"]
