"""The event log: schema, refusals, and a file that survives kills and full disks."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from minikafka.telemetry.events import EVENTS, FIELDS, EventLog, problem

REQUIRED = {
    "broker_starting": (),
    "broker_ready": (),
    "broker_stopping": (),
    "broker_stopped": (),
    "broker_registered": (),
    "broker_fenced": (),
    "broker_unfenced": (),
    "controller_elected": ("controller_epoch",),
    "controller_resigned": ("reason",),
    "leader_elected": ("leader", "leader_epoch", "isr", "clean", "reason"),
    "partition_offline": (),
    "became_leader": ("leader_epoch", "start_offset", "isr", "high_watermark"),
    "became_follower": ("leader", "leader_epoch", "log_end_offset", "high_watermark"),
    "isr_shrunk": ("removed", "isr", "leader_epoch", "high_watermark", "log_end_offset"),
    "isr_expanded": ("added", "isr"),
    "alter_partition_refused": ("error",),
    "log_truncated": ("from_offset", "to_offset", "records", "reason", "leader_epoch"),
    "log_recovered": ("clean", "recovery_point", "log_end_offset", "truncated_bytes"),
    "topic_created": (),
    "topic_deleted": (),
    "group_rebalanced": ("group", "generation", "members"),
}
"""Events and fields that the analysis reads."""

EXAMPLES: dict[str, Any] = {"int": 7, "float": 0.5, "str": "why", "bool": True, "ints": [1, 2], "strs": ["a", "b"]}


class Code(IntEnum):
    FENCED = 74


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    log = EventLog(tmp_path / "events.jsonl", 3, clock=lambda: 1700000000.1234567)
    yield log
    log.close()


def test_what_the_analysis_reads_is_declared() -> None:
    for name, fields in REQUIRED.items():
        assert set(fields) <= set(EVENTS[name].fields), name


def test_declarations_are_complete() -> None:
    used = {field for event in EVENTS.values() for field in event.fields}
    assert used == set(FIELDS), "every field is declared once and used"
    assert all(event.doc.endswith(".") for event in EVENTS.values())


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_has_the_schema_it_declares(name: str, log: EventLog, tmp_path: Path) -> None:
    event = EVENTS[name]
    log.emit(name, topic="bank", partition=0, **{field: EXAMPLES[FIELDS[field].type] for field in event.fields})
    (record,) = lines(tmp_path / "events.jsonl")
    assert problem(record) is None
    assert record["time"] == 1700000000.123457
    assert (record["broker"], record["event"], record["topic"], record["partition"]) == (3, name, "bank", 0)
    assert list(record["fields"]) == list(event.fields)


def test_an_undeclared_event_is_refused(log: EventLog, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="undeclared event isr_shrank"):
        log.emit("isr_shrank", topic="bank", partition=0)
    assert lines(tmp_path / "events.jsonl") == []


def test_an_undeclared_field_is_refused(log: EventLog) -> None:
    with pytest.raises(AssertionError, match=r"isr_shrunk: undeclared fields \['lost'\]"):
        log.emit("isr_shrunk", topic="bank", partition=0, lost=[1])


def test_a_partitions_event_needs_its_partition(log: EventLog) -> None:
    with pytest.raises(AssertionError, match="isr_shrunk: no partition"):
        log.emit("isr_shrunk", isr=[1])


def test_missing_fields_are_null_and_odd_values_made_plain(log: EventLog, tmp_path: Path) -> None:
    log.emit("isr_shrunk", topic="bank", partition=0, removed={3, 2}, isr=(1,), leader_epoch=Code.FENCED)
    (record,) = lines(tmp_path / "events.jsonl")
    assert record["fields"]["removed"] == [2, 3]
    assert record["fields"]["isr"] == [1]
    assert record["fields"]["leader_epoch"] == 74
    assert record["fields"]["high_watermark"] is None
    assert problem(record) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"event": "foo"}, "undeclared event"),
        ({"extra": 1}, "keys are"),
        ({"broker": "1"}, "no number"),
        ({"topic": None}, "needs topic and partition"),
        ({"fields": {"leader_epoch": 1}}, "has fields"),
        ({"fields": {"offset": "1", "error": "CRC"}}, "offset='1' is no int"),
        ({"fields": {"offset": True, "error": "CRC"}}, "offset=True is no int"),
    ],
)
def test_the_schema_check_finds_what_is_wrong(change: dict[str, Any], said: str) -> None:
    record = {
        "time": 1.0,
        "broker": 1,
        "event": "corrupt_batch",
        "topic": "bank",
        "partition": 0,
        "fields": {"offset": 5, "error": "CRC"},
    }
    assert problem(record) is None
    assert said in (problem({**record, **change}) or "")


def test_counts(log: EventLog) -> None:
    for _ in range(3):
        log.emit("broker_stopping", reason="test")
    assert log.counts == {"broker_stopping": 3}


def test_without_a_file_events_are_only_counted() -> None:
    log = EventLog(None, 1)
    log.emit("broker_stopped", clean=True)
    log.close()
    assert (log.counts, log.dropped) == ({"broker_stopped": 1}, 0)


def test_a_second_start_appends(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "events.jsonl"
    for _ in range(2):
        log = EventLog(path, 1)
        log.emit("broker_stopped", clean=True)
        log.close()
    assert len(lines(path)) == 2


def test_a_full_disk_drops_events_and_nothing_else(tmp_path: Path) -> None:
    if not os.access("/dev/full", os.W_OK):
        pytest.skip("needs /dev/full, which Linux has")
    log = EventLog("/dev/full", 1)
    log.emit("broker_stopped", clean=True)
    assert (log.counts, log.dropped) == ({"broker_stopped": 1}, 1)
    log.close()


def test_a_line_cut_short_by_a_full_disk_spoils_only_itself(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda fd, data: write(fd, data[:20]))
        log.emit("broker_stopping", reason="first")
    log.emit("broker_stopping", reason="second")
    log.emit("broker_stopping", reason="third")
    torn, *whole = (tmp_path / "events.jsonl").read_text().splitlines()
    assert len(torn) == 20
    assert [json.loads(line)["fields"]["reason"] for line in whole] == ["second", "third"]
    assert log.dropped == 1


@pytest.mark.slow
def test_standard_output_gets_the_same_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    program = (
        "import sys\nfrom minikafka.telemetry.events import EventLog\n"
        "EventLog(sys.argv[1], 1, stdout=True).emit('broker_stopped', clean=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, check=True, timeout=60)
    assert done.stdout == path.read_bytes()
    assert done.stdout.endswith(b"}\n")


FILLS_ITS_PIPE = """
import sys
from minikafka.telemetry import standard_output
from minikafka.telemetry.events import EventLog
log = EventLog(None, 1, stdout=True)
for number in range(int(sys.argv[1])):
    log.emit("broker_stopping", reason=f"{number} " + "x" * 9000)
print(log.dropped, file=sys.stderr, flush=True)
sys.stdin.read()
log.emit("broker_stopped", clean=True)
standard_output.CLOSE_SECONDS_MAX = float(sys.argv[2])
log.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("emitted", "fits"), [(5, True), (500, True), (2000, False)])
def test_a_reader_of_standard_output_that_stands_still_does_not_hold_the_broker_up(emitted: int, fits: bool) -> None:
    """Of nine thousand bytes each: what the pipe does not take waits, up to 8 MiB; all of it comes whole and in order."""
    command = [sys.executable, "-c", FILLS_ITS_PIPE, str(emitted), "60"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stderr is not None
        dropped = int(process.stderr.readline())  # it got there, although nobody reads
        output, _ = process.communicate(timeout=60)
    records = [json.loads(line) for line in output.splitlines()]
    taken = emitted - dropped
    assert fits == (dropped == 0)
    assert taken > 900 or fits
    assert [record["event"] for record in records] == ["broker_stopping"] * taken + ["broker_stopped"]
    assert [record["fields"]["reason"].split()[0] for record in records[:-1]] == [str(n) for n in range(taken)]


@pytest.mark.slow
def test_a_reader_that_never_reads_does_not_keep_the_broker_from_ending() -> None:
    command = [sys.executable, "-c", FILLS_ITS_PIPE, "500", "0.1"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.slow
def test_nobody_reads_standard_output_any_more() -> None:
    program = (
        "import os, sys\nfrom minikafka.telemetry.events import EventLog\n"
        "reader, writer = os.pipe()\nos.dup2(writer, 1)\nos.close(reader)\n"
        "log = EventLog(None, 1, stdout=True)\nlog.emit('broker_stopped', clean=True)\nos._exit(log.dropped + 40)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 41


@pytest.mark.slow
def test_the_newest_events_are_kept_within_the_limit(tmp_path: Path) -> None:
    """27 D28: a log of events that grows without end would fill its volume, and have the pod evicted."""
    path, limit = tmp_path / "broker-1.jsonl", 20_000
    log = EventLog(path, 1, bytes_max=limit)
    for _ in range(1000):
        log.emit("broker_stopped", clean=True)
        assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= limit
    log.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["broker-1.1.jsonl", "broker-1.jsonl"]
    before, now = ([json.loads(line) for line in each.read_text().splitlines()] for each in sorted(tmp_path.iterdir()))
    assert (before[0]["event"], now[0]["event"]) == ("event_file_begun_anew",) * 2
    assert now[0]["fields"]["bytes"] > 0, "what is lost is told"
    assert len(before) + len(now) > limit // 400
    assert log.dropped == 0


def test_a_broker_goes_on_with_the_file_that_it_had(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    for _ in range(2):
        log = EventLog(path, 1, bytes_max=4_000)
        for _ in range(10):
            log.emit("broker_stopped", clean=True)
        log.close()
    assert path.stat().st_size < 2_000
    assert (tmp_path / "e.1.jsonl").exists()
