"""history.jsonl: what is written is read; what is damaged is named."""

from __future__ import annotations

import itertools
import json
import threading
import time
from pathlib import Path

import pytest
from minikafka_chaos.clock import MachineClock
from minikafka_chaos.load.load import padded, unique_part
from minikafka_chaos.record.history import (
    INFO,
    INVOKE,
    OK,
    POLL,
    SEND,
    HistoryError,
    HistoryWriter,
    Op,
    WorkloadSettings,
    check_history,
    read_history,
)


def test_every_kind_of_line_survives_a_round_trip(tmp_path: Path) -> None:
    clock = itertools.count(1_700_000_000)
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path, clock=lambda: float(next(clock))) as history:
        history.workload(WorkloadSettings(acks="1", idempotence=True, max_in_flight=5), topic="t")
        history.invoke_send(1, "t", None, 'p1-"1"\n')
        history.complete_send(1, OK, "t", 2, 17, 'p1-"1"\n')
        history.complete_send(1, INFO, "t", None, None, "x", "_MSG_TIMED_OUT")
        history.assign(9, "t", 2, 0)
        history.poll(9, 3, "t", 2, 17, "p1-é", 4)
        history.poll_failed(9, "t", None, "_TRANSPORT")
        history.read_done(9, "t", 2, 18)
        history.log_bounds(9, "t", 2, 0, 18)
    lines = read_history(path)
    assert [json.loads(line)["op"] for line in path.read_text().splitlines()] == [op.op for op in lines]
    assert lines[2] == Op(lines[2].time, 1, SEND, OK, "t", 2, 17, 'p1-"1"\n', seq=2)
    assert lines[5] == Op(lines[5].time, 9, POLL, OK, "t", 2, 17, "p1-é", None, 4, 3, seq=5)
    assert WorkloadSettings.from_history(lines) == WorkloadSettings("1", True, 5)


def test_lines_have_the_documented_fields(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as history:
        history.invoke_send(1, "t", 0, "v")
    line = json.loads(path.read_text())
    assert set(line) == {"time", "process", "op", "type", "topic", "partition", "offset", "value", "error", "seq"}
    assert (line["op"], line["type"], line["offset"]) == ("send", "invoke", None)


@pytest.mark.slow
def test_an_invocation_is_written_before_the_record_can_leave(tmp_path: Path) -> None:
    """The writer returns only after the line is in its buffer, so it stands before the outcome of the same send."""
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as history:

        def work(process: int) -> None:
            for number in range(200):
                history.invoke_send(process, "t", 0, f"{process}-{number}")
                history.complete_send(process, OK, "t", 0, number, f"{process}-{number}")

        threads = [threading.Thread(target=work, args=(process,)) for process in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    invoked: set[str] = set()
    for op in read_history(path):
        assert op.value is not None
        if op.type == INVOKE:
            invoked.add(op.value)
        else:
            assert op.value in invoked
    assert len(invoked) == 800


def test_late_callbacks_after_the_end_are_dropped(tmp_path: Path) -> None:
    history = HistoryWriter(tmp_path / "history.jsonl")
    history.close()
    history.invoke_send(1, "t", 0, "late")
    assert read_history(tmp_path / "history.jsonl") == []


def test_a_cut_off_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    whole = Op(1.0, 1, SEND, INVOKE, "t", 0, None, "v").line()
    path.write_text(whole + "\n" + whole[:40])
    assert len(read_history(path)) == 1


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("{not json\n", "not a JSON line"),
        ("[]\n", "JSON object"),
        ('{"time":1,"process":1,"op":"jump","type":"ok"}\n', "op is 'jump'"),
        ('{"time":1,"process":1,"op":"send","type":"maybe"}\n', "type is 'maybe'"),
        ('{"time":1,"process":1,"op":{},"type":"ok"}\n', "op is {}"),
        ('{"time":1,"process":1,"op":"send","type":[]}\n', "type is []"),
        ('{"time":"noon","process":1,"op":"poll","type":"ok"}\n', "time must be a number"),
        ('{"time":1,"process":1,"op":"poll","type":"ok","offset":"7"}\n', "offset must be an integer"),
        ('{"time":1,"process":1,"op":"poll","type":"ok","topic":7}\n', "topic must be a string"),
        ('{"time":1,"process":1,"op":"send","type":"ok"}\n', "a send needs its value"),
        (Op(1.0, 1, SEND, INVOKE, None, 0, None, "v", seq=1).line() + "\n", "and its topic"),
        (Op(1.0, 1, POLL, OK, "t", 0, 1, None, batch=1, seq=1).line() + "\n", "poll of type ok needs its value"),
        (Op(1.0, 1, POLL, OK, "t", 0, None, "v", batch=1, seq=1).line() + "\n", "poll of type ok needs its offset"),
        (Op(1.0, 1, POLL, OK, "t", 0, -1, "v", batch=1, seq=1).line() + "\n", "offset must not be negative"),
        (Op(1.0, 1, "jump", OK, "t", 0, 1, "v", batch=1, seq=1).line() + "\n", "op is 'jump'"),
        (Op(1.0, 1, POLL, OK, "t", 0, 1, "v", batch=1, seq=1).line()[:-2] + "01}\n", "not a JSON line"),
        (
            Op(1.0, 1, POLL, OK, "t", 0, 1, "v", batch=1, seq=1).line().replace(":1.0", ":01.0") + "\n",
            "not a JSON line",
        ),
        (Op(1e12, 1, POLL, OK, "t", 0, 1, "v", batch=1, seq=1).line() + "\n", "time must be a number"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, names: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(Op(1.0, 1, SEND, INVOKE, "t", 0, None, "v").line() + "\n" + line)
    for read in (read_history, check_history):
        with pytest.raises(HistoryError, match=":2: ") as caught:
            read(path)
        assert names in str(caught.value)


def test_what_a_run_writes_is_checked_without_a_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all lines of a long history are like these; to parse each again would cost as much as to judge it."""
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as history:
        history.invoke_send(1, "t", 0, "p1-1")
        history.complete_send(1, OK, "t", 0, 17, "p1-1")
        history.poll(1000, 5, "t", 0, 17, "p1-1", 2)
    monkeypatch.setattr(json, "loads", None)
    check_history(path)


def test_times_never_go_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims and gaps are judged by times: a wall clock that is set back meanwhile must not move a line before another."""
    path, clock = tmp_path / "history.jsonl", MachineClock()
    with HistoryWriter(path, clock.time) as history:
        history.invoke_send(1, "t", 0, "a")
        monkeypatch.setattr(time, "time", lambda: 1000.0)
        history.complete_send(1, OK, "t", 0, 0, "a")
    first, second = read_history(path)
    assert 0 <= second.time - first.time < 60


def test_a_value_names_its_send_only_with_its_own_padding() -> None:
    """A record of somebody else, or one that was changed, is not taken for the one that was sent."""
    assert [unique_part(padded(value, size)) for value, size in (("m1", 0), ("m1", 50), ("a|b", 50))] == [
        "m1",
        "m1",
        "a|b",
    ]
    assert [unique_part(value) for value in (b"m1|hello", b"m1|...x", b"m1", None)] == ["m1|hello", "m1|...x", "m1", ""]


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="No such file"):
        read_history(tmp_path / "nowhere.jsonl")


def test_lines_are_numbered_also_by_a_second_writer(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    for value in ("a", "b"):
        with HistoryWriter(path) as writer:
            writer.invoke_send(1, "t", 0, value)
            writer.complete_send(1, OK, "t", 0, 0, value)
    assert [op.seq for op in read_history(path)] == [0, 1, 2, 3]
