"""Production's code holds under random faults, and a seed is a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from minikafka.protocol.types import TopicPartition
from minikafka_simulator.checks.client_checks import ClientChecks
from minikafka_simulator.checks.group_checks import GroupChecks
from minikafka_simulator.cluster.gate import Gate
from minikafka_simulator.faults.plan import Plan
from minikafka_simulator.schedules import runs
from minikafka_simulator.schedules.runs import Job, Totals, first_violation, run_job, run_seeds
from minikafka_simulator.schedules.world import World, simulate

from tests.forms import in_full

SEEDS_EACH = 3
RUN = """
from minikafka_simulator.faults.plan import Plan
from minikafka_simulator.schedules.world import simulate
print(simulate(4, Plan(seconds=2)).digest)
"""


@pytest.mark.parametrize("first", [1, *in_full(range(4, 61, SEEDS_EACH))])
def test_all_invariants_hold(first: int) -> None:
    for result in run_seeds(range(first, first + SEEDS_EACH)):
        assert result.violation is None, f"minikafka simulate --seed {result.seed} --trace: {result.violation}"
        assert result.faults > 0 and result.events > 1000


TOLD = {
    ClientChecks: (
        "sent", "answered", "acknowledged", "promised", "begins_anew", "refused_if_wrong", "given", "consumed",
        "out_of_range", "end_offset", "seen_by",
    ),
    GroupChecks: ("assigned", "sent", "acknowledged"),
}  # fmt: skip


def test_clients_tell_the_checks_what_befalls_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that nobody tells anything finds nothing; and a reader names the leader epoch that it has read last (KIP-320)."""
    told: set[tuple[type, str]] = set()
    epochs: list[int] = []

    def noting(kind: type, name: str) -> Callable[..., object]:
        method = getattr(kind, name)

        def noted(*arguments: object) -> object:
            told.add((kind, name))
            return method(*arguments)

        return noted

    def serving(gate: Gate, tp: TopicPartition, led: int, position: int, last_epoch: int, *more: object) -> None:
        if position:
            epochs.append(last_epoch)
        serve(gate, tp, led, position, last_epoch, *more)

    serve: Callable[..., None] = Gate.serve_reader
    monkeypatch.setattr(Gate, "serve_reader", serving)
    wanted = {(kind, name) for kind, names in TOLD.items() for name in names}
    for kind, name in wanted:
        monkeypatch.setattr(kind, name, noting(kind, name))
    for seed in (1, 2, 4):
        assert simulate(seed, Plan()).violation is None
    assert wanted - told == set()
    assert sum(epoch >= 0 for epoch in epochs) > len(epochs) * 0.9


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
    short = Plan(seconds=4)
    first, again, other = simulate(7, short), simulate(7, short, trace=True), simulate(8, short)
    assert first.digest == again.digest and first.events == again.events
    assert first.digest != other.digest


def test_hash_seeds_of_python_do_not_matter() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", RUN],
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


@pytest.mark.full
def test_a_search_ends_its_workers_at_the_first_violation() -> None:
    caught = first_violation(range(1, 1_000_000), "hw-on-divergence", Plan(seconds=4), workers=2)
    assert caught is not None
    assert caught.schedules < 50 and caught.result.seed == caught.schedules


def test_strikes_left_out_change_nothing_before_them() -> None:
    short = Plan(seconds=3)
    whole = simulate(5, plan=short, trace=True)
    shorter = simulate(5, plan=replace(short, skip=frozenset({4})), trace=True)
    same = next(i for i, (a, b) in enumerate(zip(whole.trace, shorter.trace, strict=False)) if a != b)
    assert same > 20, "the first three strikes come some way into the run"
    assert simulate(5, plan=replace(short, strikes_max=whole.faults)).digest == whole.digest


def test_a_schedule_can_be_measured_in_events() -> None:
    short, long = simulate(1, plan=Plan(steps=1)), simulate(1, plan=Plan(steps=2000))
    assert short.violation is None and long.violation is None
    assert short.events < 2000 < long.events
