"""Gaps in acknowledgement: what is measured, and between what."""

from __future__ import annotations

from minikafka_chaos.record.history import OK, SEND, Op
from minikafka_chaos.verdict.gaps import gaps_around


def ack(time: float, partition: int = 0) -> Op:
    return Op(time, 1, SEND, OK, "t", partition, 0, f"{partition}@{time}")


def test_each_moment_gets_the_gap_around_it() -> None:
    history = [ack(0.0), ack(1.0), ack(1.8), ack(2.0), ack(5.0), ack(5.1)]
    first, second, third = gaps_around(history, [1.1, 2.1, 9.0], within_s=0.5)
    assert first is not None
    assert (first.start, first.end) == (1.0, 1.8)
    assert second is not None
    assert (second.start, second.end) == (2.0, 5.0)
    assert third is None
