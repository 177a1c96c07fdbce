"""Gaps in acknowledgement: what is measured, and between what."""

from __future__ import annotations

from minikafka.protocol.types import TopicPartition
from minikafka_chaos.gaps import gaps_around, longest_gaps
from minikafka_chaos.history import OK, SEND, Op


def ack(time: float, partition: int = 0) -> Op:
    return Op(time, 1, SEND, OK, "t", partition, 0, f"{partition}@{time}")


def test_the_longest_gap_of_any_partition_is_found() -> None:
    history = [ack(1.0), ack(1.5), ack(4.0), ack(1.0, 1), ack(2.0, 1)]
    (gap,) = longest_gaps(history)
    assert (gap.topic_partition, gap.start, gap.end, gap.seconds) == (TopicPartition("t", 0), 1.5, 4.0, 2.5)


def test_one_acknowledgement_makes_no_gap() -> None:
    assert longest_gaps([ack(1.0), ack(9.0, 1)]) == []


def test_each_moment_gets_the_gap_around_it() -> None:
    history = [ack(0.0), ack(1.0), ack(1.8), ack(2.0), ack(5.0), ack(5.1)]
    first, second, third = gaps_around(history, [1.1, 2.1, 9.0], within_s=0.5)
    assert first is not None
    assert (first.start, first.end) == (1.0, 1.8)
    assert second is not None
    assert (second.start, second.end) == (2.0, 5.0)
    assert third is None
