"""Faults of network, disk, clock and store on real processes: each shows what it is known for, and leaves when it is undone.

The scenarios say what has to be seen before they go on; a fault without its effect ends in Inconclusive.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from minikafka_chaos.grounds.processes import ProcessesGround
from minikafka_chaos.record.journal import read_journal
from minikafka_chaos.run.runner import RunResult, run_scenario
from minikafka_chaos.scenario.scenario import Scenario, parse_scenario
from minikafka_chaos.verdict.verdict import Outcome

SECONDS_MAX = 180
LEADER = {"type": "Leader", "topic": "t"}


def wait(name: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "wait": {"conditions": list(conditions), "deadlineSeconds": SECONDS_MAX}}


def fault(name: str, verb: str, target: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    whom = {} if target is None else {"target": target}
    return {"name": name, "fault": {"verb": verb, **whom, "deadlineSeconds": SECONDS_MAX, **more}}


def recover(name: str, step: str) -> dict[str, Any]:
    return fault(name, "Recover", step=step)


def acked(since: str, number: int = 30) -> dict[str, Any]:
    return {"type": "Acked", "since": since, "atLeast": number}


def another_leads(step: str) -> dict[str, Any]:
    return {"type": "Leader", "topic": "t", "otherThan": [step]}


def isr_without(step: str) -> dict[str, Any]:
    return {"type": "Isr", "topic": "t", "otherThan": [step]}


FULL = {"type": "FullIsr", "topic": "t"}


def scenario(
    steps: list[dict[str, Any]],
    workload: dict[str, Any] | None = None,
    steady: dict[str, Any] | None = None,
    **config: str,
) -> Scenario:
    """One partition on three brokers, led by broker 1 at first."""
    settings = {"replica.lag.time.max.ms": "1500", "auto.leader.rebalance.enable": "false", **config}
    spec = {
        "cluster": {"brokers": 3, "config": [{"name": name, "value": value} for name, value in settings.items()]},
        "topics": [{"name": "t", "replicaAssignments": [{"partition": 0, "replicas": [1, 0, 2]}]}],
        "workload": {"topic": "t", "ratePerSecond": 50, "producers": 1, **(workload or {})},
        **({} if steady is None else {"steadyState": steady}),
        "steps": steps,
        "claims": [{"name": "nothing-lost", "type": "NoAcknowledgedRecordLost"}],
        "recovery": {"fullIsrDeadlineSeconds": SECONDS_MAX, "readDeadlineSeconds": SECONDS_MAX},
    }
    document = {
        "apiVersion": "minikafka.dev/v1alpha1",
        "kind": "ChaosExperiment",
        "metadata": {"name": "faults"},
        "spec": spec,
    }
    return parse_scenario(json.dumps(document))


def run(tested: Scenario, directory: Path) -> RunResult:
    result = run_scenario(tested, ProcessesGround(directory / "cluster"), directory, seed=1)
    assert result.verdict.outcome is Outcome.PASSED, result.verdict.summary
    return result


def recovered(directory: Path) -> dict[str, str]:
    """Fault -> what undid it."""
    return {line["id"]: line["by"] for line in read_journal(directory / "journal.jsonl") if line["kind"] == "recovered"}


@pytest.mark.full
def test_links_are_cut_one_way_delayed_and_cut_both_ways(tmp_path: Path) -> None:
    """The follower is not the controller: one that hears nobody would fence the leader instead."""
    follower = {"type": "Follower", "topic": "t", "otherThan": ["who-controls"]}
    same = {"type": "SameAs", "step": "deaf"}
    steps = [
        wait("load", {"type": "Leader", "topic": "t", "broker": 1}, acked("load")),
        fault("who-controls", "Heal", {"type": "Controller"}),
        # The follower's fetches arrive, the answers do not.
        fault("deaf", "Cut", follower, peer=LEADER, parameters={"direction": "Inbound"}, durationSeconds=SECONDS_MAX),
        wait("deaf-is-out", isr_without("deaf"), acked("deaf")),
        recover("deaf-hears", "deaf"),
        wait("deaf-is-back", FULL, acked("deaf-hears")),
        fault("far", "Delay", same, peer=LEADER, parameters={"millis": 5000, "jitterMillis": 100}),
        wait("far-is-out", isr_without("far"), acked("far")),
        fault("near", "Heal", same, peer=LEADER),
        wait("far-is-back", FULL, acked("near")),
        fault("alone", "Cut", LEADER, durationSeconds=20),
        wait("another-leads", another_leads("alone"), acked("alone")),
        wait("it-comes-back", FULL, acked("another-leads")),
    ]
    run(scenario(steps), tmp_path)
    assert recovered(tmp_path) == {"deaf": "step deaf-hears", "far": "step near", "alone": "its duration"}


@pytest.mark.full
def test_clients_are_cut_off_from_a_leader_that_the_brokers_reach(tmp_path: Path) -> None:
    steps = [
        {"name": "before", "send": {"topic": "t", "values": ["a"], "deadlineSeconds": SECONDS_MAX}},
        fault("unreachable", "Cut", LEADER, peer={"type": "Clients"}),
        {"name": "lost", "send": {"topic": "t", "values": ["b"], "expect": "Any", "deadlineSeconds": 4}},
        wait("leads-all-the-same", {"type": "Leader", "topic": "t", "broker": 1}, FULL),
        recover("reachable", "unreachable"),
        {"name": "after", "send": {"topic": "t", "values": ["c"], "deadlineSeconds": SECONDS_MAX}},
    ]
    run(scenario(steps, {"mode": "Scripted", "tailReaders": "None"}), tmp_path)
    assert outcomes(tmp_path) == {"before": ("ok", 1), "lost": ("info", 1), "after": ("ok", 1)}


def outcomes(directory: Path) -> dict[str, tuple[str, int]]:
    """Send step -> its one outcome."""
    found = {}
    for line in read_journal(directory / "journal.jsonl"):
        if line["kind"] == "action" and line["fault"] == "Send" and line["phase"] == "end":
            (found[line["step"]],) = [each for each in line["outcomes"].items() if each[1]]
    return found


def events(directory: Path) -> list[dict[str, Any]]:
    paths = (directory / "events").glob("*.jsonl")
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@pytest.mark.full
def test_a_full_disk_takes_the_log_offline_until_there_is_room(tmp_path: Path) -> None:
    steps = [
        wait("load", acked("load")),
        fault("full", "DiskFull", LEADER),
        wait("another-leads", another_leads("full"), acked("full"), {"type": "Elapsed", "seconds": 4, "since": "full"}),
        recover("room", "full"),
        wait("whole", FULL, acked("room")),
    ]
    query = "sum(minikafka_offline_logs) == 0"
    steady = {
        "conditions": [FULL],
        "probes": [{"name": "none-offline", "query": query}],
        "deadlineSeconds": SECONDS_MAX,
    }
    run(scenario(steps, steady=steady), tmp_path)
    looks = [line for line in read_journal(tmp_path / "journal.jsonl") if line.get("step") == "steady-state"]
    assert [line["ok"] for line in looks if line["when"] != "during"] == [True, True]
    assert False in [line["ok"] for line in looks if line["when"] == "during"]
    told = [event for event in events(tmp_path) if event["event"] == "log_offline"]
    assert {event["broker"] for event in told} == {1}
    assert "No space left on device (injected)" in told[0]["fields"]["error"]
    started = [event["broker"] for event in events(tmp_path) if event["event"] == "broker_starting"]
    assert started.count(1) == 1


@pytest.mark.full
def test_a_broker_whose_fsync_failed_gives_up_and_is_started_again(tmp_path: Path) -> None:
    steps = [
        wait("load", acked("load")),
        fault("broken", "FailingFsync", LEADER),
        wait("another-leads", another_leads("broken"), acked("broken")),
        recover("mended", "broken"),
        wait("healed", FULL, acked("mended")),
    ]
    run(scenario(steps, **{"log.flush.interval.messages": "1"}), tmp_path)
    assert "Input/output error (injected)" in (tmp_path / "cluster" / "broker-1" / "broker.log").read_text()
    started = [event["broker"] for event in events(tmp_path) if event["event"] == "broker_starting"]
    assert started.count(1) == 2


@pytest.mark.full
@pytest.mark.parametrize("mode", ["Torn", "Garbage"])
def test_a_power_loss_that_leaves_a_part_is_survived(tmp_path: Path, mode: str) -> None:
    """The log ends in the middle of a batch, or in garbage: recovery cuts that, and the others have what is missing."""
    steps = [
        wait("load", acked("load", 100)),
        fault("out", "PowerLoss", LEADER, parameters={"mode": mode}),
        wait("another-leads", another_leads("out"), acked("out")),
        recover("back", "out"),
        wait("whole", FULL, acked("back")),
    ]
    run(scenario(steps), tmp_path)
    (told,) = [
        event["fields"]
        for event in events(tmp_path)
        if event["event"] == "log_recovered" and event["topic"] == "t" and not event["fields"]["clean"]
    ]
    assert told["log_end_offset"] + told["truncated_bytes"] > 0


def test_fsync_is_slow_and_the_clock_is_wrong(tmp_path: Path) -> None:
    """Both on broker 1, which leads: what it took is not flushed, and then it takes nothing, for everything is from an hour
    ahead of it (message.timestamp.after.max.ms)."""
    one = {"type": "Brokers", "brokers": [1]}
    flushed = {"type": "FlushedOffset", "broker": 1, "topic": "t"}
    steps = [
        {"name": "first", "send": {"topic": "t", "values": ["a"], "deadlineSeconds": SECONDS_MAX}},
        wait("flushed", {**flushed, "equals": 1}),
        fault("slow", "SlowFsync", one, parameters={"millis": 600_000}),
        {"name": "second", "send": {"topic": "t", "values": ["b"], "deadlineSeconds": SECONDS_MAX}},
        wait(
            "not-flushed",
            {"type": "LogEndOffset", "broker": 1, "topic": "t", "equals": 2},
            {**flushed, "equals": 1},
            {"type": "Elapsed", "seconds": 2, "since": "second"},
        ),
        recover("fast", "slow"),
        wait("flushed-at-last", {**flushed, "equals": 2}),
        fault("back", "ClockStep", one, parameters={"millis": -7_200_000}),
        {"name": "refused", "send": {"topic": "t", "values": ["c"], "expect": "Any", "deadlineSeconds": 60}},
        recover("right", "back"),
        {"name": "third", "send": {"topic": "t", "values": ["d"], "deadlineSeconds": SECONDS_MAX}},
    ]
    run(
        scenario(
            steps,
            {"mode": "Scripted", "tailReaders": "None"},
            **{"log.flush.interval.ms": "100", "log.message.timestamp.after.max.ms": "3600000"},
        ),
        tmp_path,
    )
    assert outcomes(tmp_path) == {"first": ("ok", 1), "second": ("ok", 1), "refused": ("fail", 1), "third": ("ok", 1)}


@pytest.mark.full
def test_without_the_store_nobody_is_elected(tmp_path: Path) -> None:
    steps = [
        wait("load", {"type": "Leader", "topic": "t", "broker": 1}, acked("load")),
        fault("outage", "StoreOutage"),
        fault("dies", "Kill", LEADER),
        wait(
            "orphaned",
            {"type": "Elapsed", "seconds": 5, "since": "dies"},
            {"type": "Leader", "topic": "t", "broker": 1},
        ),
        recover("store-is-back", "outage"),
        wait("another-leads", another_leads("dies"), acked("store-is-back")),
        fault("returns", "Start", {"type": "SameAs", "step": "dies"}),
        wait("whole", FULL),
    ]
    run(scenario(steps), tmp_path)
    assert recovered(tmp_path) == {"outage": "step store-is-back", "dies": "step returns"}
