"""The simulation ground: the scenario files' verdicts are those of real brokers, and a seed is a run, to the byte.

As in the tests on processes nothing here says what is lost: the verifier finds it, from what clients were told and from
the replicas' logs.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from minikafka.cli.main import main
from minikafka.controller import brokers
from minikafka.telemetry.events import problem
from minikafka_chaos.errors import NotSupported
from minikafka_chaos.record.history import POLL, read_history
from minikafka_chaos.record.journal import read_journal
from minikafka_chaos.run.runner import RunResult, run_scenario
from minikafka_chaos.scenario import library
from minikafka_chaos.scenario.scenario import Scenario, parse_scenario
from minikafka_chaos.scenario.variants import VARIANTS
from minikafka_chaos.verdict.anomalies import AnomalyKind, Severity
from minikafka_chaos.verdict.expectation import difference
from minikafka_chaos.verdict.verdict import Outcome, Verdict
from minikafka_simulator.ground.ground import SimulationGround

from tests.forms import in_full

SEEDS = range(1, 1 + int(os.environ.get("MINIKAFKA_TEST_SEEDS", "1")))
"""Of each story; `make full` has twenty."""

HASHED = """
import sys
from pathlib import Path
from minikafka_chaos.scenario import library
from minikafka_simulator.ground.ground import SimulationGround
from minikafka_chaos.run.runner import run_scenario
out = Path(sys.argv[2])
run_scenario(library.find(sys.argv[1]).lasting(2), SimulationGround(out / "cluster"), out, seed=7)
"""


def run(scenario: Scenario, directory: Path, seed: int) -> RunResult:
    return run_scenario(scenario, SimulationGround(directory / "cluster"), directory, seed=seed)


def errors(verdict: Verdict) -> set[AnomalyKind]:
    return {anomaly.kind for anomaly in verdict.anomalies if anomaly.severity is Severity.ERROR}


def lost(verdict: Verdict) -> list[str | None]:
    return [a.value for a in verdict.anomalies if a.kind in (AnomalyKind.LOST_WRITE, AnomalyKind.UNSEEN)]


def digest(folder: Path) -> str:
    """Of all files of a run and of their names."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found.update(f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


# -- the stories -------------------------------------------------------------------------------------------------------


def m1_is_lost(verdict: Verdict) -> None:
    assert verdict.outcome is Outcome.FAILED
    assert lost(verdict) == ["m1"]
    assert AnomalyKind.DIVERGENT_REPLICAS not in errors(verdict)


def nothing_is_lost(verdict: Verdict) -> None:
    assert verdict.outcome is Outcome.PASSED
    assert (verdict.counts["acknowledged"], verdict.counts["read"]) == (2, 2)


def replicas_diverge(verdict: Verdict) -> None:
    assert verdict.outcome is Outcome.FAILED
    assert errors(verdict) == {AnomalyKind.DIVERGENT_REPLICAS}
    (divergence,) = (a for a in verdict.anomalies if a.kind is AnomalyKind.DIVERGENT_REPLICAS)
    assert divergence.offset == 1
    assert [batch["values"] for batch in divergence.evidence["batches"]] == [["m1"], ["m2"]]


def replicas_agree(verdict: Verdict) -> None:
    assert verdict.outcome is Outcome.PASSED
    assert verdict.counts["accepted_loss"] == 1


def six_are_read(verdict: Verdict) -> None:
    assert verdict.outcome is Outcome.PASSED
    assert verdict.counts["read"] == 6


def five_are_lost(verdict: Verdict) -> None:
    assert verdict.outcome is Outcome.FAILED
    assert lost(verdict) == ["r0", "r1", "r2", "r3", "r4"]


STORIES: dict[str, Callable[[Verdict], None]] = {
    "kip-101-data-loss.high-watermark": m1_is_lost,
    "kip-101-data-loss.leader-epoch": nothing_is_lost,
    "kip-101-divergence.high-watermark": replicas_diverge,
    "kip-101-divergence.leader-epoch": replicas_agree,
    "caveat-unclean-election": m1_is_lost,
    "last-replica-standing.fence": six_are_read,
    "last-replica-standing.trust-isr": five_are_lost,
}
LOADS = ("demo", "kill-leader", "soak")


def test_the_stories_and_loads_are_there() -> None:
    """The others are tried in test_library.py, each under every setting that it expects something of."""
    assert {*STORIES, *LOADS, *VARIANTS} <= set(library.names())


@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_as_it_does_on_real_brokers(tmp_path: Path, name: str) -> None:
    scenario = library.find(name)
    for seed in SEEDS:
        directory = tmp_path / str(seed)
        verdict = run(scenario, directory, seed).verdict
        STORIES[name](verdict)
        expected = scenario.spec.expected
        assert expected is not None
        assert difference(expected, verdict) is None
        assert read_journal(directory / "journal.jsonl")[-1]["verdict"] == verdict.outcome.value


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("name", "faults"), [("demo", 4), ("kill-leader", 6), ("soak", 4)])
def test_nothing_is_lost_under_load(tmp_path: Path, name: str, faults: int, seed: int) -> None:
    scenario = library.find(name).lasting(10)
    if name == "kill-leader":
        scenario = scenario.model_copy(update={"spec": scenario.spec.model_copy(update={"rounds": 3})})
    result = run(scenario, tmp_path, seed)
    verdict = result.verdict
    assert verdict.outcome is Outcome.PASSED, verdict.summary
    assert len(result.fault_times) >= faults
    assert verdict.counts["acknowledged"] > 1000
    assert verdict.counts["replicas_compared"] == 3 * scenario.spec.topics[0].partitions
    times = [op.time for op in read_history(tmp_path / "history.jsonl")]
    assert times == sorted(times) and times[-1] - times[0] >= 10


# -- a seed is a run ---------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("name", ["kip-101-divergence.high-watermark", "last-replica-standing.fence"])
def test_the_same_seed_makes_the_same_files(tmp_path: Path, name: str) -> None:
    scenario = library.find(name)
    digests = []
    for attempt, seed in enumerate((3, 3, 4)):
        run(scenario, tmp_path / str(attempt), seed)
        digests.append(digest(tmp_path / str(attempt)))
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


@pytest.mark.full
def test_hash_seeds_of_python_do_not_matter(tmp_path: Path) -> None:
    for number in ("0", "1"):
        subprocess.run(
            [sys.executable, "-c", HASHED, "soak", str(tmp_path / number)],
            env={**os.environ, "PYTHONHASHSEED": number},
            check=True,
        )
    assert digest(tmp_path / "0") == digest(tmp_path / "1")


def test_a_run_leaves_what_a_run_on_real_brokers_leaves(tmp_path: Path) -> None:
    run(library.find("kip-101-data-loss.high-watermark"), tmp_path, 1)
    assert {path.name for path in tmp_path.iterdir()} == {
        "cluster",
        "events",
        "history.jsonl",
        "journal.jsonl",
        "replicas.jsonl",
    }
    assert {path.name for path in (tmp_path / "events").iterdir()} == {"broker-0.jsonl", "broker-1.jsonl"}
    log = tmp_path / "cluster" / "broker-1" / "data" / "story-0" / "00000000000000000000.log"
    assert log.stat().st_size > 0
    for path in (tmp_path / "events").iterdir():
        events = [json.loads(line) for line in path.read_text().splitlines()]
        assert [problem(event) for event in events] == [None] * len(events)
    names = [event["event"] for event in events]
    assert {"broker_starting", "broker_ready", "became_follower", "broker_stopped"} <= set(names)
    begin = read_journal(tmp_path / "journal.jsonl")[0]
    assert (begin["kind"], begin["ground"], begin["seed"]) == ("scenario", "simulation", 1)


# -- verbs and clients beyond the scenarios that come along ----------------------------------------------------------------


def document(
    steps: list[dict[str, Any]],
    workload: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    topic: dict[str, Any] | None = None,
    **more: Any,
) -> Scenario:
    """A scenario of one partition on three brokers, with what a test changes. The leader is not the controller."""
    assigned = {"replicaAssignments": [{"partition": 0, "replicas": [1, 0, 2]}]}
    return parse_scenario(
        json.dumps(
            {
                "apiVersion": "minikafka.dev/v1alpha1",
                "kind": "ChaosExperiment",
                "metadata": {"name": "test"},
                "spec": {
                    "cluster": {"brokers": 3, **(cluster or {})},
                    "topics": [{"name": "t", **assigned, **(topic or {})}],
                    "workload": {"topic": "t", "ratePerSecond": 50, "producers": 2, **(workload or {})},
                    "steps": steps,
                    "claims": [{"name": "order", "type": "NoReordering"}],
                    **more,
                },
            }
        )
    )


def wait(name: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "wait": {"conditions": list(conditions)}}


def acked(since: str, number: int = 25) -> dict[str, Any]:
    return {"type": "Acked", "since": since, "atLeast": number}


LEADER = {"type": "Leader", "topic": "t"}
A_WHILE = wait("a-while", {"type": "Elapsed", "seconds": 2})
CUT_OFF = [
    wait("load", acked("load")),
    {"name": "cut", "fault": {"verb": "Cut", "target": LEADER}},
    wait("another-leads", {"type": "Leader", "topic": "t", "otherThan": ["cut"]}, acked("cut")),
]


@pytest.mark.parametrize("delivery", [*in_full(["AtLeastOnce"]), "Idempotent"])
@pytest.mark.parametrize("seed", [1, *in_full([2, 3])])
def test_a_leader_that_is_cut_off_is_replaced_and_comes_back(tmp_path: Path, delivery: str, seed: int) -> None:
    steps = [
        *CUT_OFF,
        {"name": "heal", "fault": {"verb": "Heal", "target": {"type": "SameAs", "step": "cut"}}},
        wait("healed", {"type": "FullIsr", "topic": "t"}, acked("heal")),
    ]
    verdict = run(document(steps, {"delivery": delivery}), tmp_path, seed).verdict
    assert verdict.outcome is Outcome.PASSED, verdict.summary
    assert delivery == "AtLeastOnce" or verdict.counts["duplicated"] == 0


def test_the_final_heal_joins_what_is_cut(tmp_path: Path) -> None:
    result = run(document(CUT_OFF), tmp_path, 1)
    assert result.verdict.outcome is Outcome.PASSED, result.verdict.summary
    heal = next(line for line in read_journal(tmp_path / "journal.jsonl") if line.get("step") == "final-heal")
    ends = [line for line in read_journal(tmp_path / "journal.jsonl") if line.get("phase") == "end"]
    assert heal["phase"] == "begin"
    assert ends[-1]["detail"].count("healed brokers") == 2


@pytest.mark.parametrize("seed", [1, *in_full(range(2, 6))])
def test_a_controller_that_is_cut_off_gives_way_to_one_that_is_heard(tmp_path: Path, seed: int) -> None:
    """KAFKA-15489: it hears the store but no other broker. Those hear each other, and go on."""
    steps = [
        wait("load", {"type": "Leader", "topic": "t", "broker": 1}, acked("load")),
        {"name": "cut", "fault": {"verb": "Cut", "target": {"type": "Controller"}}},
        wait("a-session", {"type": "Elapsed", "seconds": 5}),
        wait("without-it", {"type": "Isr", "topic": "t", "otherThan": ["cut"]}, acked("a-session", 125)),
        {"name": "heal", "fault": {"verb": "Heal", "target": {"type": "SameAs", "step": "cut"}}},
        wait("healed", {"type": "FullIsr", "topic": "t"}, acked("heal")),
    ]
    verdict = run(document(steps), tmp_path, seed).verdict
    assert verdict.outcome is Outcome.PASSED, verdict.summary
    ended = [
        (event["broker"], event["fields"]["reason"])
        for path in (tmp_path / "events").glob("*.jsonl")
        for event in map(json.loads, path.read_text().splitlines())
        if event["event"] == "controller_resigned"
    ]
    assert brokers.CUT_OFF in {reason for _, reason in ended}, "of whichever broker was cut"


@pytest.mark.full
@pytest.mark.parametrize("seed", [2, *in_full([4, 5])])
def test_a_controller_in_the_minority_leaves_the_lease_to_the_majority(tmp_path: Path, seed: int) -> None:
    """Seen on Kubernetes, whose API a broker reaches that reaches no other broker: the two of the minority took the lease from
    each other, and kept it. In these runs one of them is the controller."""
    result = run(library.find("minority-partition", ["workload.acks=All"]), tmp_path, seed)
    assert result.verdict.outcome is Outcome.PASSED, result.verdict.summary


def test_only_what_is_cut_is_cut_off(tmp_path: Path) -> None:
    """A leader that one follower cannot reach goes on with the other."""
    cut = {"verb": "Cut", "target": {"type": "Brokers", "brokers": [1]}, "peer": {"type": "Brokers", "brokers": [2]}}
    config = [{"name": "replica.lag.time.max.ms", "value": "1000"}]
    steps = [
        wait("load", {"type": "Leader", "topic": "t", "broker": 1}, acked("load")),
        {"name": "cut", "fault": cut},
        wait("shrunk", {"type": "Isr", "topic": "t", "brokers": [0, 1]}, acked("cut")),
    ]
    verdict = run(document(steps, cluster={"config": config}), tmp_path, 1).verdict
    assert verdict.outcome is Outcome.PASSED, verdict.summary


def faults_made(directory: Path) -> list[str]:
    lines = read_journal(directory / "journal.jsonl")
    return [line["fault"] for line in lines if line["kind"] == "action" and line["phase"] == "begin"]


@pytest.mark.parametrize(
    ("leader", "made"), [pytest.param(1, ["Kill", "Recover", "Heal"], marks=pytest.mark.full), (2, ["Heal"])]
)
def test_without_its_steady_state_no_fault_is_made(tmp_path: Path, leader: int, made: list[str]) -> None:
    """The last is the final heal, which finds nothing to heal."""
    here = {"type": "Leader", "topic": "t", "broker": leader}
    steady = {"conditions": [{"type": "FullIsr", "topic": "t"}, here], "deadlineSeconds": 3}
    steps = [
        {"name": "kill", "fault": {"verb": "Kill", "target": {"type": "Brokers", "brokers": [0]}, "durationSeconds": 3}}
    ]
    verdict = run(
        document([*steps, A_WHILE, wait("back", acked("kill", 500 if leader == 1 else 1))], steadyState=steady),
        tmp_path,
        1,
    ).verdict
    assert faults_made(tmp_path) == made
    if leader == 1:
        assert verdict.outcome is Outcome.PASSED, verdict.summary
    else:
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert "steady state not reached before any fault in 3 s (Leader leader 1)" in verdict.summary


def test_a_steady_state_that_does_not_come_back_is_told(tmp_path: Path) -> None:
    steady = {"conditions": [{"type": "Leader", "topic": "t", "broker": 1}], "deadlineSeconds": 5}
    config = [{"name": "auto.leader.rebalance.enable", "value": "false"}]
    steps = [
        {"name": "kill", "fault": {"verb": "Kill", "target": LEADER}},
        wait("another-leads", {"type": "Leader", "topic": "t", "otherThan": ["kill"]}),
    ]
    verdict = run(document(steps, steadyState=steady, cluster={"config": config}), tmp_path, 1).verdict
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "steady state not reached after the story" in verdict.summary


def test_nobody_scrapes_a_simulation(tmp_path: Path) -> None:
    probe = {"name": "quiet", "query": "sum(minikafka_offline_logs) == 0"}
    with pytest.raises(NotSupported, match=r"steadyState\.probes: nobody scrapes a simulation"):
        run(document([], steadyState={"probes": [probe]}), tmp_path, 1)


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_follower_that_hears_nothing_leaves_the_isr_until_its_time_is_over(tmp_path: Path, seed: int) -> None:
    """One way only, by a duration in virtual time; then late rather than deaf, which is undone by a step."""
    one_way = {"target": {"type": "Brokers", "brokers": [2]}, "peer": {"type": "Brokers", "brokers": [1]}}
    config = [{"name": "replica.lag.time.max.ms", "value": "1000"}]
    out = {"type": "Isr", "topic": "t", "brokers": [0, 1]}
    deaf = {"verb": "Cut", **one_way, "parameters": {"direction": "Inbound"}, "durationSeconds": 10}
    far = {"verb": "Delay", **one_way, "parameters": {"millis": 4000, "jitterMillis": 500}}
    steps = [
        wait("load", {"type": "Leader", "topic": "t", "broker": 1}, acked("load")),
        {"name": "deaf", "fault": deaf},
        wait("deaf-is-out", out, acked("deaf")),
        wait("deaf-is-back", {"type": "FullIsr", "topic": "t"}, {"type": "Elapsed", "seconds": 10, "since": "deaf"}),
        {"name": "far", "fault": far},
        wait("far-is-out", out, acked("far")),
        {"name": "near", "fault": {"verb": "Recover", "step": "far"}},
        wait("far-is-back", {"type": "FullIsr", "topic": "t"}, acked("near")),
    ]
    verdict = run(document(steps, cluster={"config": config}), tmp_path, seed).verdict
    assert verdict.outcome is Outcome.PASSED, verdict.summary
    lines = read_journal(tmp_path / "journal.jsonl")
    ended = {line["id"]: (line["by"], line["time"]) for line in lines if line["kind"] == "recovered"}
    assert {fault: by for fault, (by, _) in ended.items()} == {"deaf": "its duration", "far": "step near"}
    made = next(line["time"] for line in lines if line.get("id") == "deaf")
    assert ended["deaf"][1] - made == pytest.approx(10, abs=0.1)


@pytest.mark.full
def test_a_lossy_link_slows_and_loses_nothing(tmp_path: Path) -> None:
    lossy = {"verb": "Loss", "target": LEADER, "parameters": {"percent": 20}}
    steps = [wait("load", acked("load")), {"name": "lossy", "fault": lossy}, wait("goes-on", acked("lossy"))]
    longest = {}
    for name, told in (("well", steps[:1] + steps[2:]), ("lossy", steps)):
        told[-1] = wait("goes-on", acked("load", 1000))
        verdict = run(document(told), tmp_path / name, 1).verdict
        assert verdict.outcome is Outcome.PASSED, verdict.summary
        longest[name] = verdict.counts["longest_ack_gap_s"]
    assert longest["lossy"] > 5 * longest["well"]


def test_clients_that_are_cut_off_get_no_answer_while_the_brokers_do(tmp_path: Path) -> None:
    cut = {"verb": "Cut", "target": LEADER, "peer": {"type": "Clients"}, "durationSeconds": 5}
    still = {"type": "Leader", "topic": "t", "broker": 1}
    steps = [
        wait("load", acked("load")),
        {"name": "cut", "fault": cut},
        wait(
            "still-leads", still, {"type": "FullIsr", "topic": "t"}, {"type": "Elapsed", "seconds": 4, "since": "cut"}
        ),
        wait("again", acked("still-leads"), {"type": "Elapsed", "seconds": 6, "since": "cut"}),
    ]
    verdict = run(document(steps), tmp_path, 1).verdict
    assert verdict.outcome is Outcome.PASSED, verdict.summary
    assert verdict.counts["longest_ack_gap_s"] > 4


def test_without_the_store_nobody_is_elected(tmp_path: Path) -> None:
    steps = [
        wait("load", {"type": "Leader", "topic": "t", "broker": 1}, acked("load")),
        {"name": "outage", "fault": {"verb": "StoreOutage", "durationSeconds": 8}},
        {"name": "dies", "fault": {"verb": "Kill", "target": LEADER, "durationSeconds": 20}},
        wait(
            "orphaned",
            {"type": "Leader", "topic": "t", "broker": 1},
            {"type": "Elapsed", "seconds": 7, "since": "dies"},
        ),
        wait("another-leads", {"type": "Leader", "topic": "t", "otherThan": ["dies"]}, acked("dies")),
        wait("whole", {"type": "FullIsr", "topic": "t"}, {"type": "Elapsed", "seconds": 20, "since": "dies"}),
    ]
    verdict = run(document(steps), tmp_path, 1).verdict
    assert verdict.outcome is Outcome.PASSED, verdict.summary


def test_a_leader_whose_clock_is_hours_behind_takes_nothing_from_the_future(tmp_path: Path) -> None:
    config = [{"name": "log.message.timestamp.after.max.ms", "value": "3600000"}]
    back = {"verb": "ClockStep", "target": LEADER, "parameters": {"millis": -7_200_000}, "durationSeconds": 3}
    steps = [wait("load", acked("load")), {"name": "back", "fault": back}, wait("right", acked("back", 50))]
    verdict = run(document(steps, cluster={"config": config}), tmp_path, 1).verdict
    assert verdict.outcome is Outcome.PASSED, verdict.summary
    assert verdict.counts["failed"] > 0


def test_what_the_simulation_has_no_time_for_is_refused_with_the_reason(tmp_path: Path) -> None:
    slow = {"name": "slow", "fault": {"verb": "SlowFsync", "target": LEADER, "parameters": {"millis": 10}}}
    with pytest.raises(
        NotSupported, match=r"step slow: the simulation ground cannot SlowFsync: an fsync takes no time there"
    ):
        run(document([slow]), tmp_path, 1)


@pytest.mark.full
def test_a_leader_whose_disk_is_full_leads_no_more_until_there_is_room(tmp_path: Path) -> None:
    full = {"name": "full", "fault": {"verb": "DiskFull", "target": LEADER, "durationSeconds": 4}}
    others = wait("others", {"type": "Leader", "topic": "t", "otherThan": ["full"]}, acked("full"))
    end = wait("healed", {"type": "Elapsed", "seconds": 8}, {"type": "FullIsr", "topic": "t"})
    verdict = run(document([wait("load", acked("load")), full, others, end]), tmp_path, 1).verdict
    assert verdict.outcome is Outcome.PASSED, verdict.summary
    told = "".join(path.read_text() for path in (tmp_path / "events").glob("*.jsonl"))
    assert '"log_offline"' in told and '"log_online"' in told


def test_a_broker_whose_fsync_fails_ends_and_is_started_when_it_works_again(tmp_path: Path) -> None:
    fails = {"name": "fails", "fault": {"verb": "FailingFsync", "target": LEADER, "durationSeconds": 4}}
    others = wait("others", {"type": "Leader", "topic": "t", "otherThan": ["fails"]}, acked("fails"))
    end = wait("healed", {"type": "Elapsed", "seconds": 8}, {"type": "FullIsr", "topic": "t"})
    config = [{"name": "log.flush.interval.messages", "value": "1"}]
    verdict = run(
        document([wait("load", acked("load")), fails, others, end], cluster={"config": config}), tmp_path, 1
    ).verdict
    assert verdict.outcome is Outcome.PASSED, verdict.summary
    told = [
        json.loads(line) for path in (tmp_path / "events").glob("*.jsonl") for line in path.read_text().splitlines()
    ]
    starts = [event["broker"] for event in told if event["event"] == "broker_starting"]
    assert sorted(starts) == [0, 1, 1, 2]


def test_what_is_old_goes_and_is_not_lost(tmp_path: Path) -> None:
    """Retention is in evidence, so no record that it took is missed; and nobody took one that had to stay."""
    cluster = {"config": [{"name": "log.retention.check.interval.ms", "value": "500"}]}
    topic = {"config": [{"name": "retention.ms", "value": "2000"}, {"name": "segment.bytes", "value": "4096"}]}
    steps = [wait("load", acked("load", 100)), A_WHILE, wait("later", {"type": "Elapsed", "seconds": 2})]
    verdict = run(document(steps, cluster=cluster, topic=topic), tmp_path, 1).verdict
    assert verdict.outcome is Outcome.PASSED, verdict.summary
    told = "".join(path.read_text() for path in (tmp_path / "events").glob("*.jsonl"))
    assert '"log_start_advanced"' in told and "deleted" in verdict.summary, verdict.summary


@pytest.mark.full
def test_a_part_of_what_is_unflushed_is_not_lost_here(tmp_path: Path) -> None:
    torn = {"name": "torn", "fault": {"verb": "PowerLoss", "target": LEADER, "parameters": {"mode": "Torn"}}}
    with pytest.raises(NotSupported, match=r"step torn: parameters\.mode Torn: not on this ground; allowed: All"):
        run(document([torn]), tmp_path, 1)


def test_a_disk_that_is_lost_is_filled_again(tmp_path: Path) -> None:
    same = {"type": "SameAs", "step": "kill"}
    steps = [
        wait("load", acked("load")),
        {"name": "kill", "fault": {"verb": "Kill", "target": LEADER}},
        {"name": "wipe", "fault": {"verb": "WipeVolume", "target": same}},
        wait("goes-on", acked("wipe")),
        {"name": "start", "fault": {"verb": "Start", "target": same}},
        wait("healed", {"type": "FullIsr", "topic": "t"}),
    ]
    verdict = run(document(steps), tmp_path, 1).verdict
    assert verdict.outcome is Outcome.PASSED, verdict.summary
    assert verdict.counts["replicas_compared"] == 3


@pytest.mark.full
def test_the_weakest_acks_lose_records_with_a_leader_and_its_power(tmp_path: Path) -> None:
    """acks=1 promises nothing beyond the leader: the verifier tells that apart from acks=0, which promises nothing."""
    isolate = {"name": "alone", "fault": {"verb": "Cut", "target": LEADER}}
    steps = [
        wait("load", acked("load")),
        isolate,
        wait("still-acknowledged", acked("alone", 1)),
        {"name": "dies", "fault": {"verb": "Kill", "target": {"type": "SameAs", "step": "alone"}}},
        wait("another-leads", {"type": "Leader", "topic": "t", "otherThan": ["alone"]}, acked("dies")),
    ]
    found = {acks: run(document(steps, {"acks": acks}), tmp_path / acks, 1).verdict for acks in ("Leader", "All")}
    assert found["Leader"].outcome is Outcome.FAILED
    assert found["Leader"].counts["lost"] > 0
    assert found["All"].counts["lost"] == 0
    counts = run(document([A_WHILE], {"acks": "None"}), tmp_path / "None", 1).verdict.counts
    assert counts["acknowledged"] == 0
    assert counts["unknown"] >= counts["unknown_but_there"] > 25


def test_sends_without_a_leader_time_out_and_are_unknown(tmp_path: Path) -> None:
    steps = [
        wait("load", acked("load")),
        {"name": "all-stop", "fault": {"verb": "Pause", "target": {"type": "All"}}},
        wait("a-while", {"type": "Elapsed", "seconds": 4}),
    ]
    result = run(document(steps, {"deliveryTimeoutMillis": 1000}), tmp_path, 1)
    assert result.verdict.outcome is Outcome.PASSED, result.verdict.summary
    assert result.verdict.counts["unknown"] > 25
    told = {op.error for op in read_history(tmp_path / "history.jsonl") if op.error is not None}
    assert told == {"_MSG_TIMED_OUT"}


def test_a_record_that_is_too_large_fails_for_certain(tmp_path: Path) -> None:
    topic = {"config": [{"name": "max.message.bytes", "value": "1000"}]}
    verdict = run(document([A_WHILE], {"recordBytes": 2000}, topic=topic), tmp_path, 1).verdict
    assert verdict.counts["failed"] == verdict.counts["sent"] > 50
    assert verdict.counts["read"] == 0


def test_the_following_reader_reads_while_it_goes_on(tmp_path: Path) -> None:
    run(document([A_WHILE]), tmp_path, 1)
    history = read_history(tmp_path / "history.jsonl")
    assert any(op.op == POLL and op.process == 1000 for op in history)
    assert any(op.op == "end_offset" and op.process == 1000 for op in history)


# -- what is refused, and the command ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cluster": {"config": [{"name": "broker.rack", "value": "a"}]}}, "cluster.config broker.rack"),
        (
            {"cluster": {"config": [{"name": "minikafka.metrics.port", "value": "1"}]}},
            "cluster.config minikafka.metrics.port",
        ),
    ],
)
def test_what_means_nothing_here_is_refused_by_its_name(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    scenario = document([], **change)
    with pytest.raises(NotSupported) as refusal:
        run(scenario, tmp_path / "run", 1)
    assert field in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_the_command_runs_a_story_and_replays_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digests = []
    for attempt in ("1", "2"):
        out = tmp_path / attempt
        arguments = ["kip-101-data-loss.high-watermark", "--ground", "simulation", "--seed", "9", "--out", str(out)]
        assert main(["chaos", "run", *arguments, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["verdict"] == "Failed"
        digests.append(digest(Path(told["run"])))
    assert digests[0] == digests[1]


def test_the_command_keeps_the_disks_of_a_run_that_passed_only_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, kept in (([], False), (["--keep-data"], True)):
        arguments = ["kip-101-data-loss.leader-epoch", "--ground", "simulation", "--out", str(tmp_path), *options]
        assert main(["chaos", "run", *arguments, "--json"]) == 0
        directory = Path(json.loads(capsys.readouterr().out)["run"])
        assert (directory / "cluster").exists() is kept
