"""Many seeds over worker processes, with results in the order of the seeds.

The order matters: "the first seed that fails" must not depend on which worker was faster.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple, NoReturn

from minikafka_simulator.bugs.catalogue import with_bug_seed
from minikafka_simulator.checks.account import Violation
from minikafka_simulator.faults.plan import SECONDS_USUAL, Plan
from minikafka_simulator.schedules.world import Result, simulate

SEEDS_PER_TASK = 2
"""Small, so that a search stops soon after its first hit; a schedule takes tens of milliseconds."""

CPU_SECONDS_MAX = 120.0
"""Of a schedule of usual length, which takes 0.1 to 3. One that takes this long does not get on in virtual time: something in it
goes round without waiting, as no count of events can tell, and takes ever more memory."""


class Job(NamedTuple):
    """One schedule, as it is sent to a worker. ``bug`` names a simulator bug, None is production."""

    seed: int
    bug: str | None
    plan: Plan


def run_job(job: Job) -> Result:
    with with_bug_seed(job.bug), _bounded(CPU_SECONDS_MAX * max(1.0, job.plan.seconds / SECONDS_USUAL)):
        return simulate(job.seed, job.plan)


@contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    """Raises L4 in the block once this process has used so much CPU in it; again and again, for work may be tried anew."""

    def stuck(number: int, frame: object) -> NoReturn:
        del number, frame
        raise Violation("L4 bounded", f"no end after {seconds:.0f} s of CPU: something goes round without waiting")

    before = signal.signal(signal.SIGPROF, stuck)
    signal.setitimer(signal.ITIMER_PROF, seconds, 10.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def run_seeds(
    seeds: range, bug: str | None = None, plan: Plan | None = None, workers: int = 1
) -> Generator[Result, None, None]:
    """Results of all seeds, in their order. Closing the iterator ends the workers."""
    jobs = (Job(seed, bug, plan or Plan()) for seed in seeds)
    if workers <= 1:
        yield from map(run_job, jobs)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, _leave_interrupts_to_the_parent) as pool:
        yield from pool.imap(run_job, jobs, SEEDS_PER_TASK)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass(slots=True)
class Totals:
    """Sums over the schedules of one call; ``unclean`` counts schedules that had an unclean election, not elections."""

    schedules: int = 0
    events: int = 0
    faults: int = 0
    acknowledged: int = 0
    unclean: int = 0
    violations: int = 0
    _hash: blake2b = field(default_factory=lambda: blake2b(digest_size=8))

    def add(self, result: Result) -> None:
        self.schedules += 1
        self.events += result.events
        self.faults += result.faults
        self.acknowledged += result.acknowledged
        self.unclean += result.unclean_elections > 0
        self.violations += result.violation is not None
        self._hash.update(result.digest.encode())

    def digest(self) -> str:
        """Equal when all traces are."""
        return self._hash.hexdigest()


class Catch(NamedTuple):
    """How a simulator bug was found: the first seed that fails, what it breaks, and how many schedules that took."""

    result: Result
    schedules: int


def first_violation(seeds: range, bug: str | None = None, plan: Plan | None = None, workers: int = 1) -> Catch | None:
    """The first seed that breaks an invariant, or None."""
    results = run_seeds(seeds, bug, plan, workers)
    try:
        for schedules, result in enumerate(results, 1):
            if result.violation is not None:
                return Catch(result, schedules)
    finally:
        results.close()
    return None
