"""The history that is made of brokers' acknowledgements: it says no more of senders than brokers know."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from minikafka.protocol.records import BatchHeader
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.session.evidence import Acknowledgement, CommittedLog, acknowledgements, write_history
from minikafka_chaos.verdict.claims import Terms
from minikafka_chaos.verdict.report_table import print_verdict
from minikafka_chaos.verdict.verdict import NO_LOSS, UNKNOWN_TO_BROKERS, Outcome, Verdict, judge
from rich.console import Console

from tests.forms import in_full

pytestmark = pytest.mark.slow

ORDERS = TopicPartition("orders", 0)


def batch(offset: int, records: int = 1) -> BatchHeader:
    return BatchHeader(offset, 60, 0, 2, 1000 + offset, 0, records - 1, 0, 0, -1, -1, -1, records)


def acknowledged(time: float, offset: int, crc: int | None = None) -> Acknowledgement:
    return Acknowledgement(time, ORDERS, offset, 1, 1000 + offset if crc is None else crc)


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


@pytest.mark.parametrize(
    "fields",
    ["", ', "fields": 5', ', "fields": {"offset": 1}', ', "fields": {"offset": "1", "records": 1, "crc": 2}'],
)
def test_a_damaged_event_of_a_broker_is_named(fields: str, tmp_path: Path) -> None:
    """But not a last line that was cut off, as where a broker was killed."""
    line = '{"time": 1, "event": "produce_acknowledged", "topic": "orders", "partition": 0%s}\n'
    whole = line % ', "fields": {"offset": 1, "records": 1, "crc": 2}'
    (tmp_path / "broker-1.jsonl").write_text(whole + whole[:-9])
    assert acknowledgements(tmp_path, ["orders"]) == [Acknowledgement(1, ORDERS, 1, 1, 2)]
    (tmp_path / "broker-1.jsonl").write_text(whole + line % fields)
    with pytest.raises(ToolTrouble, match=r"broker-1\.jsonl: line 2 is damaged: no produce_acknowledged"):
        acknowledgements(tmp_path, ["orders"])


def test_what_was_acknowledged_twice_was_sent_once(tmp_path: Path) -> None:
    judged = verdict(tmp_path, [acknowledged(1.0, 0), acknowledged(2.0, 0)], [0])
    assert (judged.outcome, judged.counts["acknowledged"]) == (Outcome.PASSED, 1)


@pytest.mark.parametrize("gone", [0, *in_full([1, 2])])
def test_what_is_gone_is_lost(gone: int, tmp_path: Path) -> None:
    told = [acknowledged(float(offset), offset) for offset in range(3)]
    judged = verdict(tmp_path, told, [offset for offset in range(4) if offset != gone])
    assert (judged.outcome, judged.counts["lost"]) == (Outcome.FAILED, 1)


def test_what_brokers_do_not_know_is_not_judged_nor_counted(tmp_path: Path) -> None:
    """Offsets 1 and 2 were acknowledged by a leader that died, and again by the next one: two are lost, and that is all."""
    told = [acknowledged(1.0, 0), acknowledged(2.0, 1, 7), acknowledged(2.0, 2, 8)]
    told += [acknowledged(3.0, 1), acknowledged(4.0, 2)]
    log = CommittedLog(ORDERS, 0, 3, [batch(offset) for offset in range(3)])
    judged = judge(write_history(tmp_path, told, [log], lambda: 99.0), None, Terms(by_brokers=True))
    assert judged.kinds == {"lost-write": 2}
    assert [each.claim for each in judged.findings if each.held is not None] == [NO_LOSS]
    assert all(each.detail for each in judged.findings)
    assert [judged.counts[name] for name in UNKNOWN_TO_BROKERS] == [None] * len(UNKNOWN_TO_BROKERS)
    assert "producer" not in judged.anomalies[0].evidence
    text = io.StringIO()
    print_verdict(Console(file=text, width=200, color_system=None), judged)
    first, *_, last = text.getvalue().splitlines()
    assert first.startswith("Failed: 2 acknowledged records lost: ")
    assert last.startswith("lost-write: ")
    assert text.getvalue().count("brokers do not know") == 1, "one row for all that they do not know"
    assert text.getvalue().count("not judged") == 2, "that, and the replicas, whose logs are not there"
    assert not any(
        row in text.getvalue() for row in ("longest ack gap", "records sent", "failed / unknown", "duplicated")
    )


def test_a_loss_is_told_though_what_came_in_its_place_was_deleted(tmp_path: Path) -> None:
    """The log begins behind it now; but two records were acknowledged at one offset."""
    told = [acknowledged(1.0, 1, 7), acknowledged(2.0, 1), acknowledged(3.0, 2)]
    log = CommittedLog(ORDERS, 2, 3, [batch(2)])
    judged = judge(write_history(tmp_path, told, [log], lambda: 99.0), None, Terms(by_brokers=True))
    assert (judged.outcome, judged.kinds) == (Outcome.FAILED, {"inconsistent-offsets": 1})
    assert "offset 1 holds 2 values" in judged.summary
