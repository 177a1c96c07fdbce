"""A replica's log as its files have it, with and without an unflushed directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from minikafka.protocol.records import Record, build_batch
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.record.replica_logs import NoReplicaDirectory, ReplicaLog, ReplicaLogError, read_replica_log

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


def test_the_unflushed_tail_counts(tmp_path: Path) -> None:
    first, second, third = batch(0, "m0"), batch(1, "m1"), batch(2, "m2")
    tails = {len(first): second, len(first + second): third}
    one = replica(tmp_path, 1, first, tails=tails)
    two = replica(tmp_path, 2, first + second + third)
    assert (one.start_offset, one.end_offset) == (0, 3)
    assert one.batches == two.batches


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


def test_garbage_in_the_log_is_damage(tmp_path: Path) -> None:
    one = replica(tmp_path, 1, batch(0, "m0") + b"\xff" * 500)
    assert one.end_offset == 1
    assert one.damage is not None
    assert one.damage.startswith("00000000000000000000.log: ")


def test_a_flipped_bit_makes_a_wrong_crc(tmp_path: Path) -> None:
    content = bytearray(batch(0, "m0"))
    content[-1] ^= 1
    assert [each.crc_right for each in replica(tmp_path, 1, bytes(content)).batches] == [False]


def test_an_empty_log_starts_and_ends_where_its_segment_says(tmp_path: Path) -> None:
    one = replica(tmp_path, 1, b"", base=200)
    assert (one.start_offset, one.end_offset, one.batches) == (200, 200, [])


def test_the_checkpointed_log_start_counts_and_batches_below_it_do_not(tmp_path: Path) -> None:
    replica(tmp_path, 1, batch(0, "m0", "m1") + batch(2, "m2") + batch(3, "m3", "m4"))
    (tmp_path / "1" / "data" / "log-start-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    log = read_replica_log(1, TP, tmp_path / "1" / "data")
    assert (log.start_offset, log.end_offset) == (4, 5)
    assert [each.base_offset for each in log.batches] == [3]


def test_a_checkpoint_that_cannot_be_read_is_trouble(tmp_path: Path) -> None:
    replica(tmp_path, 1, batch(0, "m0"))
    (tmp_path / "1" / "data" / "log-start-offset-checkpoint").write_text("garbage")
    with pytest.raises(ReplicaLogError, match="version 'garbage'"):
        read_replica_log(1, TP, tmp_path / "1" / "data")


def test_a_missing_replica_is_trouble_not_an_anomaly(tmp_path: Path) -> None:
    with pytest.raises(NoReplicaDirectory, match="no directory of t-0"):
        read_replica_log(1, TP, tmp_path)
    with pytest.raises(ReplicaLogError, match=r"no directory .*nowhere"):
        read_replica_log(1, TP, tmp_path / "nowhere")


def test_segments_are_read_in_order(tmp_path: Path) -> None:
    replica(tmp_path, 1, batch(0, "m0") + batch(1, "m1"))
    log = replica(tmp_path, 1, batch(2, "m2"), base=2)
    assert [b.base_offset for b in log.batches] == [0, 1, 2]
    assert [b.values for b in log.batches] == [("m0",), ("m1",), ("m2",)]
