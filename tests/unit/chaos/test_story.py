"""Telling a story: order, write-ahead journal, targets by role and seed, and what ends it early."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds import BrokerCondition
from minikafka_chaos.load.clients import PartitionView
from minikafka_chaos.load.load import Tally
from minikafka_chaos.record.history import FAIL, INFO, OK
from minikafka_chaos.record.journal import Journal, read_journal
from minikafka_chaos.record.observe import FOLLOWER, ReplicaStatus
from minikafka_chaos.run.conditions import RunState
from minikafka_chaos.run.open_faults import OpenFaults
from minikafka_chaos.run.reporter import Silent
from minikafka_chaos.run.story import Story as Telling

from .fake_ground import FakeGround
from .test_scenario import fault, parse

TP = TopicPartition("t", 0)


class FakeView:
    """Metadata that a test sets."""

    def __init__(self) -> None:
        self.state: dict[TopicPartition, PartitionView] | None = {
            TopicPartition("t", 0): PartitionView(2, (1, 2, 3), (1, 2, 3)),
            TopicPartition("t", 1): PartitionView(3, (1, 2, 3), (3, 1)),
        }
        self.controlled_by = 1

    def partitions(self, topic: str) -> dict[TopicPartition, PartitionView] | None:
        return self.state

    def partition(self, topic_partition: TopicPartition) -> PartitionView | None:
        return None if self.state is None else self.state.get(topic_partition)

    def controller(self) -> int:
        return self.controlled_by


class FakeScript:
    """Sends that go as a test wants."""

    def __init__(self, outcome: str = OK) -> None:
        self.sent: list[str] = []
        self.outcome = outcome

    def send(self, topic: str, partition: int, values: Sequence[str], deadline_s: float) -> dict[str, int]:
        self.sent += values
        return {OK: 0, FAIL: 0, INFO: 0} | {self.outcome: len(values)}


class Stage:
    """A world to tell a story in."""

    def __init__(self, tmp_path: Path, steps: list[dict[str, Any]], **spec: Any) -> None:
        self.ground = FakeGround()
        self.ground.conditions = dict.fromkeys((1, 2, 3), BrokerCondition.RUNNING)
        self.view = FakeView()
        self.tally = Tally()
        self.script = FakeScript()
        rng = random.Random(7)
        self.world = RunState(self.ground, self.view, self.tally, rng)
        self.path = tmp_path / "journal.jsonl"
        self.journal = Journal(self.path)
        self.faults = OpenFaults(self.ground, self.journal, Silent().say)
        self.story = Telling(
            parse(steps=steps, **{"cluster": {"brokers": 4}, **spec}).spec,
            self.world,
            self.script,
            self.journal,
            self.faults,
            Silent(),
            self.until,
            rng,
        )

    def until(self, holds: Callable[[], bool], deadline_s: float) -> bool:
        return holds()

    def run(self) -> str | None:
        return self.story.run()

    def acked(self, number: int, topic_partition: TopicPartition = TP) -> None:
        self.tally.outcomes[OK][1, topic_partition] += number

    @property
    def actions(self) -> list[tuple[str, str, str]]:
        return [
            (line["phase"], line["fault"], line["target"])
            for line in read_journal(self.path)
            if line["kind"] == "action"
        ]


def waiting(name: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "wait": {"conditions": list(conditions)}}


def test_steps_are_done_in_order(tmp_path: Path) -> None:
    steps = [fault("a", type="Brokers", brokers=[1]), fault("b", "Start", type="SameAs", step="a")]
    stage = Stage(tmp_path, steps)
    assert stage.run() is None
    assert stage.ground.asked == ["kill 1", "start 1", "wait_ready 1"]
    assert [step for step, _ in stage.story.fault_times] == ["a", "b"]


def test_a_fault_is_in_the_journal_before_it_is_done(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [fault("a", type="Brokers", brokers=[1])])
    seen: list[tuple[str, str, str]] = []
    stage.ground._asked = lambda what: seen.extend(stage.actions)  # type: ignore[method-assign]
    stage.run()
    assert seen == [("begin", "Kill", "broker-1")]
    assert stage.actions == [("begin", "Kill", "broker-1"), ("end", "Kill", "broker-1")]


def test_a_fault_that_cannot_be_done_is_trouble_and_told_so(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [fault("a", type="Brokers", brokers=[1])])
    stage.ground._fail_at = "kill"
    with pytest.raises(ToolTrouble):
        stage.run()
    end = read_journal(stage.path)[-1]
    assert (end["phase"], end["ok"], end["detail"]) == ("end", False, "ToolTrouble: the ground is wet")


@pytest.mark.parametrize(
    ("verb", "asked"),
    [
        ("Kill", ["kill 1 2"]),
        ("PowerLoss", ["kill 1 2", "wipe_unflushed 1", "wipe_unflushed 2"]),
        ("Pause", ["pause 1 2"]),
        ("Terminate", ["terminate 1", "terminate 2"]),
        ("Restart", ["terminate 1", "start 1", "terminate 2", "start 2", "wait_ready 1", "wait_ready 2"]),
        ("Resume", ["resume 1", "resume 2"]),
        ("WipeUnflushed", ["wipe_unflushed 1", "wipe_unflushed 2"]),
        ("WipeVolume", ["wipe_volume 1", "wipe_volume 2"]),
        ("Cut", ["Cut 1-3 2-3"]),
        ("Heal", ["Heal 1-3 2-3"]),
        ("Recover", ["resume 1", "start 2", "wait_ready 1", "wait_ready 2"]),
        ("DiskFull", ["DiskFull 1 2"]),
    ],
)
def test_every_verb_reaches_the_ground(tmp_path: Path, verb: str, asked: list[str]) -> None:
    stage = Stage(tmp_path, [fault("a", verb, type="Brokers", brokers=[1, 2])])
    if verb == "Recover":
        stage.ground.conditions.update({1: BrokerCondition.PAUSED, 2: BrokerCondition.DEAD})
    stage.run()
    assert stage.ground.asked == asked


@pytest.mark.parametrize(
    ("target", "brokers"),
    [
        ({"type": "Leader", "topic": "t"}, (2,)),
        ({"type": "Leader", "topic": "t", "partition": 1}, (3,)),
        ({"type": "Follower", "topic": "t", "partition": 1}, (1,)),  # the only in-sync one
        ({"type": "Controller"}, (1,)),
        ({"type": "All"}, (1, 2, 3)),
    ],
)
def test_targets_are_chosen_by_role(tmp_path: Path, target: dict[str, Any], brokers: tuple[int, ...]) -> None:
    stage = Stage(tmp_path, [fault("a", **target)])
    stage.run()
    choice = stage.world.marks["a"].choice
    assert choice is not None
    assert choice.brokers == brokers


def test_another_broker_is_another_one_and_the_seed_decides(tmp_path: Path) -> None:
    steps = [fault("a", "Pause", type="Controller"), fault("b", type="Any", otherThan=["a"])]
    chosen = []
    for number in range(2):
        stage = Stage(tmp_path / str(number), steps)
        stage.run()
        chosen.append(stage.ground.asked[1])
    assert chosen[0] == chosen[1]
    assert chosen[0] in ("kill 2", "kill 3")


def test_any_never_is_a_broker_that_is_down(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [fault("a", type="Any")])
    stage.ground.conditions.update({1: BrokerCondition.DEAD, 2: BrokerCondition.PAUSED})
    stage.run()
    assert stage.ground.asked == ["kill 3"]


def test_without_a_leader_the_story_ends_without_blame(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [fault("a", type="Leader", topic="t"), fault("b", type="Any")])
    stage.view.state = None
    problem = stage.run()
    assert problem is not None
    assert "no broker is Leader of t" in problem
    assert stage.ground.asked == []


def test_a_state_that_is_not_reached_ends_the_story_and_is_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [waiting("a", {"type": "Acked", "atLeast": 5}), fault("b", type="Any")])
    stage.acked(4)
    assert stage.run() == "step a: not reached in 30 s (Acked 4 acknowledged)"
    assert stage.ground.asked == []
    check = next(line for line in read_journal(stage.path) if line["kind"] == "check")
    assert (check["ok"], check["seen"]) == (False, "Acked 4 acknowledged")


def test_acknowledgements_count_since_a_step(tmp_path: Path) -> None:
    acked = {"type": "Acked", "topic": "t", "partition": 0, "since": "kill", "atLeast": 5}
    stage = Stage(tmp_path, [fault("kill", type="Any"), waiting("go-on", acked)])
    stage.acked(100)
    assert stage.run() == "step go-on: not reached in 30 s (Acked 0 acknowledged)"


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"type": "Isr", "topic": "t", "brokers": [3, 2, 1]}, True),
        ({"type": "Isr", "topic": "t", "brokers": [1, 2]}, False),
        ({"type": "FullIsr", "topic": "t"}, False),
        ({"type": "Leader", "topic": "t", "broker": 2}, True),
        ({"type": "Leader", "topic": "t", "broker": 1}, False),
        ({"type": "Leader", "topic": "t"}, True),
        ({"type": "NoLeader", "topic": "t"}, False),
        ({"type": "BrokerReady", "broker": 1}, True),
        ({"type": "Elapsed", "seconds": 5}, False),
        ({"type": "ReplicaRole", "topic": "t", "broker": 1, "role": "Leader"}, False),
        ({"type": "LogEndOffset", "topic": "t", "broker": 1, "equals": 1}, False),
        ({"type": "CheckpointedHighWatermark", "topic": "t", "broker": 1, "atMost": 9}, False),
    ],
)
def test_conditions(tmp_path: Path, condition: dict[str, Any], holds: bool) -> None:
    assert (Stage(tmp_path, [waiting("a", condition)]).run() is None) is holds


@pytest.mark.parametrize(
    ("bounds", "holds"),
    [({"equals": 7}, True), ({"equals": 6}, False), ({"atLeast": 7, "atMost": 7}, True), ({"atMost": 6}, False)],
)
def test_offsets_are_told_by_the_replicas_own_broker(tmp_path: Path, bounds: dict[str, int], holds: bool) -> None:
    steps = [
        waiting("a", {"type": "HighWatermark", "topic": "t", "broker": 1, **bounds}),
        waiting("b", {"type": "ReplicaRole", "topic": "t", "broker": 1, "role": "Follower"}),
    ]
    stage = Stage(tmp_path, steps)
    stage.ground.statuses[1] = ReplicaStatus(
        role=FOLLOWER, leader_epoch=0, log_end_offset=9, high_watermark=7, flushed_offset=5
    )
    assert (stage.run() is None) is holds


def test_nobody_answering_is_no_state(tmp_path: Path) -> None:
    for condition in ({"type": "FullIsr", "topic": "t"}, {"type": "NoLeader", "topic": "t"}):
        stage = Stage(tmp_path, [waiting("a", condition)])
        stage.view.state = None
        assert "nobody answers" in (stage.run() or "")


def test_a_send_that_is_not_acknowledged_ends_the_story_unless_it_may(tmp_path: Path) -> None:
    send = {"topic": "t", "values": ["m0", "m1"]}
    strict = Stage(tmp_path / "1", [{"name": "a", "send": send}])
    strict.script.outcome = INFO
    assert "not acknowledged" in (strict.run() or "")
    lenient = Stage(tmp_path / "2", [{"name": "a", "send": send | {"expect": "Any"}}])
    lenient.script.outcome = INFO
    assert lenient.run() is None


def test_a_cut_of_all_is_each_from_each(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [fault("a", "Cut", type="All")])
    stage.run()
    assert stage.ground.asked == ["Cut 1-2 1-3 2-1 2-3 3-1 3-2"]


def test_clients_are_a_peer(tmp_path: Path) -> None:
    cut = {"verb": "Cut", "target": {"type": "Brokers", "brokers": [1]}, "peer": {"type": "Clients"}}
    stage = Stage(tmp_path, [{"name": "a", "fault": cut}])
    stage.run()
    assert stage.ground.asked == ["Cut 1--1"]


def test_an_isr_without_whom_a_step_chose(tmp_path: Path) -> None:
    gone = {"type": "Isr", "topic": "t", "partition": 1, "otherThan": ["a"]}
    for broker, holds in ((1, False), (2, True)):
        stage = Stage(
            tmp_path / str(broker), [fault("a", "Pause", type="Brokers", brokers=[broker]), waiting("b", gone)]
        )
        assert (stage.run() is None) is holds


def test_rounds_repeat_the_steps_with_values_of_their_own(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [{"name": "a", "send": {"topic": "t", "values": ["m"]}}], rounds=3)
    assert stage.run() is None
    assert stage.script.sent == ["m", "m-r2", "m-r3"]


def test_one_of_several_verbs_is_the_seeds_choice(tmp_path: Path) -> None:
    steps = [
        {"name": "a", "fault": {"oneOf": ["Kill", "Pause"], "target": {"type": "Brokers", "brokers": [1]}}},
        fault("b", "Recover", type="SameAs", step="a"),
    ]
    stage = Stage(tmp_path, steps, rounds=20)
    assert stage.run() is None
    assert {what.split()[0] for what in stage.ground.asked} == {"kill", "pause", "start", "resume", "wait_ready"}
