"""The history that is made of brokers' acknowledgements: it says no more of senders than brokers know."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from minikafka.protocol.records import BatchHeader
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.session.evidence import Acknowledgement, CommittedLog, write_history
from minikafka_chaos.verdict.verdict import Outcome, Verdict, judge

from tests.forms import in_full

pytestmark = pytest.mark.slow

ORDERS = TopicPartition("orders", 0)


def batch(offset: int, records: int = 1) -> BatchHeader:
    return BatchHeader(offset, 60, 0, 2, 1000 + offset, 0, records - 1, 0, 0, -1, -1, -1, records)


def acknowledged(time: float, offset: int) -> Acknowledgement:
    return Acknowledgement(time, ORDERS, offset, 1, 1000 + offset)


def verdict(folder: Path, told: Sequence[Acknowledgement], offsets: Sequence[int]) -> Verdict:
    log = CommittedLog(ORDERS, 0, max(offsets) + 1, [batch(offset) for offset in offsets])
    return judge(write_history(folder, told, [log], lambda: 99.0))


def test_a_record_that_was_in_flight_when_its_leader_died_is_not_stale(tmp_path: Path) -> None:
    """Nobody acknowledged it; the next leader had it, and went on behind it."""
    judged = verdict(tmp_path, [acknowledged(1.0, 0), acknowledged(3.0, 2)], [0, 1, 2])
    assert (judged.outcome, judged.summary) == (Outcome.PASSED, judged.summary)
    assert (judged.counts["acknowledged"], judged.counts["unknown_but_there"]) == (2, 1)


def test_a_record_that_waited_for_other_partitions_of_its_request_is_not_stale(tmp_path: Path) -> None:
    """Another producer's behind it was acknowledged first."""
    judged = verdict(tmp_path, [acknowledged(1.0, 1), acknowledged(2.0, 0)], [0, 1])
    assert judged.outcome is Outcome.PASSED, judged.summary


def test_what_was_acknowledged_twice_was_sent_once(tmp_path: Path) -> None:
    judged = verdict(tmp_path, [acknowledged(1.0, 0), acknowledged(2.0, 0)], [0])
    assert (judged.outcome, judged.counts["acknowledged"]) == (Outcome.PASSED, 1)


@pytest.mark.parametrize("gone", [0, *in_full([1, 2])])
def test_what_is_gone_is_lost(gone: int, tmp_path: Path) -> None:
    told = [acknowledged(float(offset), offset) for offset in range(3)]
    judged = verdict(tmp_path, told, [offset for offset in range(4) if offset != gone])
    assert (judged.outcome, judged.counts["lost"]) == (Outcome.FAILED, 1)
