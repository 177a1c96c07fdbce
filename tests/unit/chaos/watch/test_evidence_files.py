"""What is read of a run's folder, of a trace, and of files that grow; and what a person is to read of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from minikafka.local.layout import ClusterRecord, write_record
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.errors import BadScenario
from minikafka_chaos.watch import run_folder
from minikafka_chaos.watch.acknowledgement_rules import put_together
from minikafka_chaos.watch.evidence import (
    Acknowledgements,
    EventLine,
    Evidence,
    JournalLine,
    LogGrowth,
    Note,
    ProcessCondition,
    Scrape,
)
from minikafka_chaos.watch.lines import BAD, ORDINARY, WARNING, line_of
from minikafka_chaos.watch.live import GrowingFile, LiveCluster
from minikafka_chaos.watch.recording import Recording
from minikafka_chaos.watch.run_folder import read_run
from minikafka_chaos.watch.state import EpochStart, ReplicaKey, WatchedCondition
from minikafka_chaos.watch.trace import is_trace, read_trace

BANK = TopicPartition("bank", 0)
LED = {"leader_epoch": 0, "partition_epoch": 0, "start_offset": 0, "isr": [1, 2], "high_watermark": 0}


def event_line(time: float, broker: int, event: str, **fields: Any) -> dict[str, Any]:
    return {"time": time, "broker": broker, "event": event, "topic": "bank", "partition": 0, "fields": fields}


def send(time: float, offset: int, kind: str = "ok") -> dict[str, Any]:
    where = {"topic": "bank", "partition": 0}
    return {"time": time, "process": 0, "op": "send", "type": kind, **where, "offset": offset, "value": f"m{offset}"}


def write(path: Path, lines: Sequence[Mapping[str, Any]], end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(line) for line in lines) + end)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run in which broker 1 led, three records were acknowledged, and it was killed."""
    kill = {"kind": "action", "fault": "Kill", "step": "dies", "target": "broker-1"}
    write(
        tmp_path / "journal.jsonl",
        [
            {"time": 1.0, "kind": "scenario", "scenario": {"metadata": {"name": "small"}}},
            {"time": 9.0, **kill, "phase": "begin"},
            {"time": 9.1, **kill, "phase": "end", "ok": True},
        ],
    )
    write(tmp_path / "events" / "broker-1.jsonl", [event_line(2.0, 1, "became_leader", **LED)])
    samples = [["minikafka_log_end_offset", {"topic": "bank", "partition": "0"}, 3.0], ["minikafka_up", {}, 1.0]]
    write(
        tmp_path / "metrics" / "samples.jsonl",
        [{"time": 5.0, "broker": 1, "samples": samples}, {"time": 6.0, "broker": 2, "error": "refused"}],
    )
    workload = {"time": 2.5, "op": "workload", "type": "info", "settings": {"acks": "all"}}
    write(
        tmp_path / "history.jsonl", [workload, send(3.0, 0, "invoke"), send(3.1, 0), send(3.2, 1), send(3.3, 2, "info")]
    )
    return tmp_path


def test_a_run_is_read_whole(run: Path) -> None:
    recording = Recording()
    recording.take_all(read_run(run))
    replica = recording.newest.replica(ReplicaKey("bank", 0, 1))
    assert (replica.log_end, replica.high_watermark, replica.epochs) == (3, 2, (EpochStart(0, 0),))
    assert recording.newest.broker(1).condition is WatchedCondition.DEAD
    assert recording.newest.broker(2).silent
    texts = [step.line.text for step in recording.steps if step.line is not None]
    assert texts[0] == "scenario small" and texts[-1] == "dies: Kill broker-1"
    assert [step.time for step in recording.steps] == sorted(step.time for step in recording.steps)


def test_of_a_load_acknowledgements_are_put_together(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sends = [send(10 + n / 1000, n) for n in range(500)]
    workload = {"time": 2.5, "op": "workload", "type": "info", "settings": {"acks": "all"}}
    write(run / "history.jsonl", [workload, *sends])
    monkeypatch.setattr(run_folder, "ACKNOWLEDGEMENTS_MAX", 50)
    found = [each for each in read_run(run) if isinstance(each, Acknowledgements)]
    assert len(found) <= 51 and sum(each.records for each in found) == 500
    assert max(each.end for each in found) == 500 and all(each.by_all for each in found)


def test_what_one_leader_acknowledged_is_not_put_together_with_what_all_did() -> None:
    mixed = [Acknowledgements(0.0, BANK, 1, True, {}), Acknowledgements(0.0, BANK, 2, False, {})]
    assert put_together(mixed) == Acknowledgements(0.0, BANK, 2, False, {}, 2)


def test_no_run(tmp_path: Path) -> None:
    with pytest.raises(BadScenario, match=r"is no run: it has no journal.jsonl"):
        read_run(tmp_path)


@pytest.mark.parametrize("name", ["events/broker-1.jsonl", "history.jsonl", "metrics/samples.jsonl"])
def test_a_damaged_file_is_named_with_its_line(run: Path, name: str) -> None:
    with (run / name).open("a") as file:
        file.write("{torn\n{}\n")
    with pytest.raises(BadScenario, match=r"line \d+ is no JSON"):
        read_run(run)


@pytest.mark.parametrize("name", ["journal.jsonl", "events/broker-1.jsonl", "history.jsonl", "metrics/samples.jsonl"])
def test_a_last_line_that_is_cut_off_is_left_out_and_said(run: Path, name: str) -> None:
    before = read_run(run)
    with (run / name).open("a") as file:
        file.write('{"time": 3')
    torn = f"{name}: torn, the last line was cut off; what came then is not known"
    assert read_run(run) == [*before, Note(max(each.time for each in before), torn)]


LINES = """\
   0.000 seed 3: 3 brokers, 2 partitions, min ISR 2
   0.019 controller: broker_registered -None target=3 broker_epoch=1 clean=True
   0.040 b3 broker_ready listeners=['CLIENTS://sim:1003', 'BROKERS://sim:2003'] seconds=0.0403
   0.207 b2 t-1 became_leader leader_epoch=0 partition_epoch=0 start_offset=0 isr=[2, 3, 1] high_watermark=0
   0.479 b2 group_rebalanced group=g generation=1 members=1 reason=a member joined
   0.587 b2 t-1 leads append 0..2
   0.600 cut b1 from b2
   0.700 b2 loses power torn
   0.800 b1 t-1 log_truncated from_offset=2 to_offset=1 records=1 reason=log diverges from leader 2 after epoch 6 leader_epoch=0
"""


def whole(lines: Sequence[str], outcome: str = "all invariants hold") -> str:
    """As `minikafka simulate` prints it."""
    digest = blake2b("".join(lines).encode(), digest_size=8).hexdigest()
    return "\n".join([*lines, f"seed 3: {outcome}", f"9 events, 2 acknowledged records; trace hash {digest}\n"])


TRACE = whole(LINES.splitlines())


def test_a_trace_is_read() -> None:
    assert is_trace(TRACE) and not is_trace("{}") and not is_trace("   0.000 something else")
    shrunk = "\nshrunk from 9 faults to 1:\n   0.100 cut b1 from b2\nreplay:  minikafka simulate --seed 3"
    found, torn = read_trace(TRACE + shrunk)
    assert torn is None
    listeners = ["CLIENTS://sim:1003", "BROKERS://sim:2003"]
    truncated = {"from_offset": 2, "to_offset": 1, "records": 1, "leader_epoch": 0}
    led = {"leader_epoch": 0, "partition_epoch": 0, "start_offset": 0, "isr": [2, 3, 1], "high_watermark": 0}
    joined = {"group": "g", "generation": 1, "members": 1, "reason": "a member joined"}
    assert found == [
        Note(0.0, "seed 3: 3 brokers, 2 partitions, min ISR 2"),
        EventLine(0.04, 3, "broker_ready", None, None, {"listeners": listeners, "seconds": 0.0403}),
        EventLine(0.207, 2, "became_leader", "t", 1, led),
        EventLine(0.479, 2, "group_rebalanced", None, None, joined),
        LogGrowth(0.587, 2, TopicPartition("t", 1), 2),
        Note(0.6, "cut b1 from b2"),
        ProcessCondition(0.7, 2, WatchedCondition.DEAD, "loses power torn"),
        EventLine(0.8, 1, "log_truncated", "t", 1, {**truncated, "reason": "log diverges from leader 2 after epoch 6"}),
    ]


@pytest.mark.parametrize("end", [TRACE.index("seed 3: all") + 5, len(TRACE) - 2, len(LINES) + 2, len(LINES)])
def test_a_trace_without_its_end_is_shown_and_called_torn(end: int) -> None:
    found, torn = read_trace(TRACE[:end])
    said = "the trace is torn: it ends after line 9, at 0.800 s, and what came then is not known"
    assert (found[:-1], found[-1], torn) == (read_trace(TRACE)[0], Note(0.8, said), said)


def test_a_last_line_of_a_trace_that_was_cut_off_is_left_out() -> None:
    for more in (1, 9, 20):
        end = TRACE.index("   0.700") + more
        found, torn = read_trace(TRACE[:end])
        assert torn is not None and "after line 7, at 0.600 s" in torn
        assert found[-2] == Note(0.6, "cut b1 from b2")
    assert (
        read_trace(TRACE[:20])[1]
        == "the trace is torn: it ends after line 0, at 0.000 s, and what came then is not known"
    )


@pytest.mark.parametrize("text", [TRACE, LINES], ids=["whole", "torn"])
@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("   0.600 cut b1", " cut b1", 7),
        ("   0.600 cut b1", "   0.00 cut b1", 7),
        ("   0.600 cut b1", "\n   0.600 cut b1", 7),
        ("   0.600 cut b1", "   0.500 cut b1", 7),
        ("isr=[2, 3, 1]", "isr=[2, \N{REPLACEMENT CHARACTER}, 1]", 4),
    ],
)
def test_a_trace_that_is_damaged_before_its_end_is_refused(text: str, old: str, new: str, line: int) -> None:
    with pytest.raises(BadScenario, match=f"line {line} is damaged"):
        read_trace(text.replace(old, new))


@pytest.mark.parametrize(("old", "new"), [("0..2", "0..3"), ("   0.600 cut b1 from b2\n", "")])
def test_a_trace_whose_lines_are_others_is_refused(old: str, new: str) -> None:
    with pytest.raises(BadScenario, match=r"its lines are not those that trace hash [0-9a-f]{16} is of"):
        read_trace(TRACE.replace(old, new))


def test_a_violation_may_have_several_lines() -> None:
    words = "L1 no event failed: ConfigError: one\ntwo"
    lines = [*LINES.splitlines(), f"   0.900 VIOLATION {words}", "   0.900 b1 exits"]
    found, torn = read_trace(whole(lines, words))
    assert torn is None
    assert found[-2:] == [Note(0.9, f"VIOLATION {words}"), ProcessCondition(0.9, 1, WatchedCondition.DEAD, "exits")]


def test_a_file_that_grows_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    file = GrowingFile(path)
    assert list(file.lines()) == []
    path.write_text('{"n": 1}\n{"n": 2')
    assert list(file.lines()) == [{"n": 1}]
    with path.open("a") as more:
        more.write('}\nno JSON\n[3]\n{"n": 4}\n')
    assert list(file.lines()) == [{"n": 2}, {"n": 4}]
    file.close()


def test_a_file_that_is_begun_anew_is_read_to_its_end_first(tmp_path: Path) -> None:
    """The broker gives it another name and goes on (`minikafka.events.max.bytes`)."""
    path = tmp_path / "events.jsonl"
    path.write_text('{"n": 1}\n')
    file = GrowingFile(path)
    assert list(file.lines()) == [{"n": 1}]
    with path.open("a") as more:
        more.write('{"n": 2}\n')
    path.rename(tmp_path / "events.1.jsonl")
    path.write_text('{"n": 3}\n')
    assert list(file.lines()) == [{"n": 2}, {"n": 3}]
    file.close()


def test_of_a_file_that_is_large_already_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka_chaos.watch.live.BYTES_FIRST_MAX", 20)
    path = tmp_path / "events.jsonl"
    path.write_text("".join(f'{{"n": {n}}}\n' for n in range(9)))
    file = GrowingFile(path)
    assert list(file.lines()) == [{"n": 7}, {"n": 8}]
    file.close()


def test_of_acknowledgements_that_come_together_one_is_remembered(tmp_path: Path) -> None:
    write_record(tmp_path, ClusterRecord("id", 2, 20_000))
    acknowledged = {"records": 2, "crc": 1, "acks": -1}
    lines = [
        event_line(2.0, 1, "became_leader", **LED),
        *(event_line(3.0 + n / 2000, 1, "produce_acknowledged", offset=2 * n, **acknowledged) for n in range(1, 100)),
        event_line(4.0, 1, "isr_shrunk", isr=[1]),
        event_line(5.0, 1, "produce_acknowledged", offset=200, **acknowledged),
    ]
    write(tmp_path / "broker-1" / "events.jsonl", lines)
    cluster = LiveCluster(tmp_path)
    led, together, shrunk, later = cluster.read_files()
    cluster.close()
    assert isinstance(led, EventLine) and isinstance(shrunk, EventLine)
    assert together == Acknowledgements(3.0495, BANK, 200, True, {}, 198, 1)
    assert later == Acknowledgements(5.0, BANK, 202, True, {}, 2, 1)
    assert text_of(together) == "198 records acknowledged, bank-0 up to offset 199"


def test_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(BadScenario, match="--data: "):
        LiveCluster(tmp_path / "nothing")


def text_of(evidence: Evidence) -> str:
    line = line_of(evidence)
    assert line is not None
    return line.text


def test_a_line_moves_nobodys_cursor() -> None:
    hostile = EventLine(
        0.0, 1, "authentication_failed", None, None, {"principal": "\x1b[2J\rroot\u202e", "address": None}
    )
    assert text_of(hostile) == "authentication_failed principal=\ufffd[2J root\ufffd"
    assert len(text_of(Note(0.0, "long " * 1000))) == 400


def test_lines_say_how_they_are_meant() -> None:
    unclean = line_of(EventLine(0.0, 1, "leader_elected", "bank", 0, {"leader": 2, "clean": False}))
    assert unclean is not None and unclean.tone == BAD
    many = line_of(Acknowledgements(0.0, BANK, 9, True, {}, 4))
    assert many is not None and (many.tone, many.text) == (ORDINARY, "4 records acknowledged, bank-0 up to offset 8")
    internal = line_of(EventLine(0.0, 1, "became_leader", "__consumer_offsets", 0, LED))
    assert internal is not None and internal.internal
    assert line_of(Scrape(0.0, 1, [])) is None
    assert line_of(JournalLine(0.0, {"kind": "claims"})) is None
    not_judged = line_of(JournalLine(0.0, {"kind": "check", "claim": "alike", "held": None, "detail": "no logs"}))
    assert not_judged is not None and (not_judged.text, not_judged.tone) == ("alike: not judged: no logs", WARNING)


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "action", "phase": "begin"},
        {"kind": "action", "phase": "end", "ok": True, "target": None, "fault": ["odd"]},
        {"kind": "recovered", "targets": "broker-x"},
        {"kind": "scenario", "scenario": {"spec": {"steps": ["odd", {"wait": 3}]}}},
        {"kind": "check", "step": None, "ok": True},
        {"kind": "verdict"},
        {"kind": 7},
    ],
)
def test_a_line_of_another_version_ends_nothing(line: dict[str, Any]) -> None:
    recording = Recording()
    recording.take(JournalLine(0.0, line))
    assert recording.newest.brokers == []
