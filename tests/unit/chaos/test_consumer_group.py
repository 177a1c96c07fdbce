"""The processes of a group's members: what they tell becomes history, and an end that nobody asked for is trouble."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from minikafka.client.security import ClientSecurity
from minikafka.protocol.types import TopicPartition
from minikafka.security.sasl_client import Login
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load import consumer_group
from minikafka_chaos.load.clients import GroupSettings
from minikafka_chaos.load.consumer_group import ConsumerGroup
from minikafka_chaos.load.dead_letters import BEFORE_COMMIT
from minikafka_chaos.record.history import HistoryWriter, read_history

from tests.waiting import until_now

DEADLINE_S = 30.0
NOBODY = "127.0.0.1:1"
LOGIN = ClientSecurity(login=Login("SCRAM-SHA-512", "alice", "s3cret"))

MEMBER = """
import json, os, signal, sys
for op in ('{"op": "assign", "partition": 0, "offset": 3}',
           '{"op": "poll", "partition": 0, "offset": 3, "value": "v", "batch": 1, "leader_epoch": 0}',
           '{"op": "process", "partition": 0, "offset": 3, "value": "v"}',
           '{"op": "commit", "partition": 0, "offset": 4, "error": null}',
           '{"op": "commit", "partition": 0, "offset": 9, "error": "REBALANCE_IN_PROGRESS"}',
           '{"op": "poll", "par'):
    os.write(1, op.encode() + (b"" if op.endswith("par") else bytes([10])))
config = json.loads(sys.stdin.readline())
assert (config["group.id"], config["sasl.password"]) == ("g", "s3cret") and "s3cret" not in "".join(sys.argv)
for line in sys.stdin:
    if line.strip() == "crash BeforeCommit":
        os.kill(os.getpid(), signal.SIGKILL)
    break
"""
"""A member that tells a little, and does what it is asked. Its arguments, which everybody can read, hold no secret."""


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsumerGroup]:
    program = tmp_path / "member.py"
    program.write_text(MEMBER)
    monkeypatch.setattr(consumer_group, "COMMAND", (sys.executable, str(program)))
    with HistoryWriter(tmp_path / "history.jsonl") as history:
        made = ConsumerGroup(NOBODY, lambda: LOGIN, GroupSettings("g", "t", 1), [TopicPartition("t", 0)], history)
        made.start()
        yield made
        made.stop()


def lines_of(tmp_path: Path) -> list[tuple[object, ...]]:
    return [(op.process, op.op, op.type, op.offset, op.value) for op in read_history(tmp_path / "history.jsonl")]


def test_what_a_member_tells_is_the_history(group: ConsumerGroup, tmp_path: Path) -> None:
    assert group.crash_member(1, BEFORE_COMMIT, DEADLINE_S)
    group.start_member(1)
    group.stop()
    group._history.close()
    life = [
        ("assign", "ok", 3, None),
        ("poll", "ok", 3, "v"),
        ("process", "ok", 3, "v"),
        ("commit", "ok", 4, None),
        ("commit", "info", 9, None),
    ]
    joined = ("join", "ok", None, "g")
    assert lines_of(tmp_path) == [(3001, *line) for line in (joined, *life)] + [
        (3002, *line) for line in (joined, *life)
    ]
    assert group.failure is None, "who was asked to end may end, and half a line is no line"


def test_an_end_that_nobody_asked_for_is_trouble(group: ConsumerGroup) -> None:
    os.kill(group._running[1].process.pid, signal.SIGKILL)
    until_now(lambda: group.failure is not None)
    assert "member 1 ended with -9" in str(group.failure)


def test_a_member_that_runs_is_not_started_and_a_dead_one_does_not_die(group: ConsumerGroup) -> None:
    with pytest.raises(ToolTrouble, match="member 1 runs"):
        group.start_member(1)
    assert group.crash_member(1, BEFORE_COMMIT, DEADLINE_S)
    with pytest.raises(ToolTrouble, match="member 1 does not run"):
        group.crash_member(1, BEFORE_COMMIT, DEADLINE_S)


@pytest.mark.slow
def test_while_no_broker_answers_the_group_is_nowhere(group: ConsumerGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_group, "ASK_S", 0.1)
    assert group.lag() is None
    assert group.state() is None


@pytest.mark.slow
def test_the_real_member_ends_with_whoever_started_it(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history.jsonl") as history:
        real = ConsumerGroup(NOBODY, lambda: LOGIN, GroupSettings("g", "t", 1), [TopicPartition("t", 0)], history)
        real.start()
        process = real._running[1].process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(DEADLINE_S) == -signal.SIGKILL
        real._running.clear()
