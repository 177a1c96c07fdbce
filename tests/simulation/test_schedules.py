"""Production's code holds under random faults, and a seed is a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from minikafka.protocol.errors import ErrorCode
from minikafka.replication.internal_log import InternalLog
from minikafka_chaos.simulation import runs
from minikafka_chaos.simulation.rules import Rules
from minikafka_chaos.simulation.runs import Job, Totals, first_violation, run_job, run_seeds
from minikafka_chaos.simulation.world import PROFILES, Plan, World, simulate

from tests.forms import in_full

SEEDS_EACH = 10
RUNS = {
    "usual": "from minikafka_chaos.simulation.world import simulate; print(simulate(4).digest)",
    "whole processes": "from minikafka_chaos.simulation.world import PROFILES, Plan, simulate\n"
    "print(*(simulate(seed, plan=Plan(whole=1.0)).digest for seed in (3,)))",
}


@pytest.mark.parametrize("first", [1, *in_full(range(11, 61, SEEDS_EACH))])
def test_all_invariants_hold(first: int) -> None:
    for result in run_seeds(range(first, first + SEEDS_EACH)):
        assert result.violation is None, f"minikafka simulate --seed {result.seed} --trace: {result.violation}"
        assert result.faults > 0 and result.events > 1000


BEFORE = Plan(
    profiles=tuple(p for p in PROFILES if p.name != "names"),
    whole=0.0,
    pipelined=0.0,
    unclean=0.0,
    unheard=0.0,
    passing=False,
)
"""What a schedule was like when these were found."""

FOUND_SOMETHING = {
    100978: "a mark of a log that was made anew",
    101553: "an append of a duplicate moves the high watermark",
    101626: "an epoch is noted, and the disk refuses its first batch",
    102010: "pages of a failed fsync are read, and gone with the power",
    102948: "pages of an index",
    105249: "a follower whose retention was ahead ends below what is committed",
    106160: "the log starts inside a producer's last batch",
    107640: "a checkpoint that was refused, and written",
    108484: "groups of a record that is never committed",
    109387: "an epoch before the log start that the disk does not let go",
    3002187: "an epoch before the start of a log that is empty, and the disk does not let it go",
    109558: "a coordinator that loads from a disk that refuses",
    900371: "a reassignment drops the last that has what is committed, itself still arriving",
}


@pytest.mark.full
@pytest.mark.parametrize("seed", FOUND_SOMETHING)
def test_what_was_found_once(seed: int) -> None:
    """Rare schedules among ten thousand; most of what they found has a test of its own, too."""
    assert simulate(seed, plan=BEFORE).violation is None


def test_groups_of_what_is_not_committed() -> None:
    """Too rare for a search: a coordinator that tells what it has read, committed or not, gives a share twice."""

    class Tells(InternalLog):
        def when_committed(self, topic: str, partition: int, done: Callable[[ErrorCode], None]) -> None:
            del topic, partition
            done(ErrorCode.NONE)

    rules = Rules()
    rules.internal_log = Tells
    violation = simulate(109190, rules, BEFORE).violation
    assert violation is not None and violation.startswith("G3 FencedGeneration")


FOUND_SOMETHING_LATELY = {
    4001765: "a leader from before an unclean election commits",
    4005038: "the same, and its successor has other records there",
    4007257: "the same, and it acknowledges",
    4007688: "a controller that was paused does not know the topic that the leader asks about",
    4008749: "a term that ends before its own heartbeat is sent",
    5001281: "a batch whose answer was lost twice, others behind it acknowledged before it",
    5004515: "a follower keeps what it knew of producers, of records that the leader has deleted",
    5004907: "one broker down at a time, and an ambush cuts another off",
    5005611: "the answer to a write of an object comes after the news that it was deleted",
    5007230: "a leader whose log has failed commits",
    5008929: "a new leader takes for known what was never committed, from before its leader's log start",
    6008122: "who led last leaves the replicas, comes back with nothing, and is elected for what it had",
    7006273: "an attempt to let a replica join is held back, and carried out after a later one was refused",
    5009606: "a broker is fenced and heard of again in one write",
}


@pytest.mark.full
@pytest.mark.parametrize("seed", FOUND_SOMETHING_LATELY, ids=FOUND_SOMETHING_LATELY.values())
def test_what_schedules_as_they_are_found(seed: int) -> None:
    assert run_job(Job(seed, None, Plan())).violation is None


def test_a_schedule_that_goes_round_without_waiting_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 4008749 had taken 16 GB, and would never have ended."""

    def goes_round(world: World) -> None:
        while True:
            pass

    monkeypatch.setattr(runs, "CPU_SECONDS_MAX", 0.5)
    monkeypatch.setattr(World, "run", goes_round)
    violation = run_job(Job(1, None, Plan())).violation
    assert violation is not None and violation.startswith("L4 bounded")


@pytest.mark.full
def test_the_schedules_are_worth_something() -> None:
    totals = Totals()
    for result in run_seeds(range(1, 41)):
        totals.add(result)
    assert totals.acknowledged > 1000
    assert totals.faults > 100
    assert 0 < totals.unclean < totals.schedules, "unclean elections happen, but excuse losses in few schedules only"


def test_a_seed_is_a_run() -> None:
    first, again, other = simulate(7), simulate(7, trace=True), simulate(8)
    assert first.digest == again.digest and first.events == again.events
    assert first.digest != other.digest


@pytest.mark.parametrize("run", [RUNS["usual"], *in_full([RUNS["whole processes"]])], ids=RUNS)
def test_hash_seeds_of_python_do_not_matter(run: str) -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", run],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "4")
    }
    assert len(digests) == 1


@pytest.mark.full
def test_results_come_in_the_order_of_seeds_whatever_the_workers() -> None:
    alone = [(r.seed, r.digest) for r in run_seeds(range(1, 5), workers=1)]
    assert [seed for seed, _ in alone] == [1, 2, 3, 4]
    assert [(r.seed, r.digest) for r in run_seeds(range(1, 5), workers=2)] == alone


def test_a_search_ends_its_workers_at_the_first_violation() -> None:
    caught = first_violation(range(1, 1_000_000), "hw-on-divergence", workers=2)
    assert caught is not None
    assert caught.schedules < 50 and caught.result.seed == caught.schedules


def test_strikes_left_out_change_nothing_before_them() -> None:
    whole = simulate(5, trace=True)
    for plan in (Plan(strikes_max=3), Plan(skip=frozenset({4}))):
        shorter = simulate(5, plan=plan, trace=True)
        same = next(i for i, (a, b) in enumerate(zip(whole.trace, shorter.trace, strict=False)) if a != b)
        assert same > 20, "the first three strikes come some way into the run"
    assert simulate(5, plan=Plan(strikes_max=whole.faults)).digest == whole.digest


def test_a_schedule_can_be_measured_in_events() -> None:
    short, long = simulate(1, plan=Plan(steps=1)), simulate(1, plan=Plan(steps=6000))
    assert short.violation is None and long.violation is None
    assert short.events < 6000 < long.events
