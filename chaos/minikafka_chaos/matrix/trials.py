"""Trials: one cell under one seed, run on a ground and judged; and many of them over worker processes."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds.installed import GroundClass, installed_ground
from minikafka_chaos.matrix.document import Matrix, parse_matrix
from minikafka_chaos.run.runner import RunResult, run_scenario
from minikafka_chaos.verdict.anomalies import DIVERGENCE, AnomalyKind
from minikafka_chaos.verdict.verdict import NOTHING_ACKNOWLEDGED, Outcome, Verdict

SIMULATION, PROCESSES = "simulation", "processes"
TRIALS_PER_TASK = 2
JUDGED = (Outcome.PASSED, Outcome.FAILED, Outcome.INCONCLUSIVE)
"""Outcomes that say something about the data. Error and Aborted say something about the tool."""


class TrialTask(NamedTuple):
    """One trial, as it is sent to a worker."""

    cell: int
    seed: int


class Trial(NamedTuple):
    """What became of one trial: figures of its verdict, nothing else. Field by field a line of the results file."""

    cell: int
    seed: int
    faults: str
    """The mix that the seed drew."""
    verdict: str
    told: bool
    """Whether the run could tell what became of the data: no problem but that nothing was acknowledged (acks=0)."""
    sent: int
    acknowledged: int
    failed: int
    unknown: int
    unknown_but_there: int
    lost: int
    duplicated: int
    divergent: int
    """Anomalies of the kinds of divergence."""
    longest_gap_s: float | None
    errors: dict[str, int]
    """Kind of anomaly -> how many."""


def ground_class(name: str) -> GroundClass:
    """Import a ground's class. Raises NotSupported, and ToolTrouble for one that matrices are not run on."""
    if name == SIMULATION:
        return installed_ground(name)
    if name == PROCESSES:
        from minikafka_chaos.grounds.processes import ProcessesGround

        return ProcessesGround
    raise ToolTrouble(f"no matrix on ground {name}; allowed: {SIMULATION}, {PROCESSES}")


def run_trial(matrix: Matrix, job: TrialTask, ground: str, directory: Path) -> RunResult:
    """Run one trial in `directory`, which keeps all that a run leaves. Raises NotSupported."""
    scenario = matrix.scenario(matrix.cells[job.cell], matrix.drawn(job.seed))
    return run_scenario(scenario, ground_class(ground)(directory / "cluster"), directory, seed=job.seed)


def counted(matrix: Matrix, job: TrialTask, verdict: Verdict) -> Trial:
    """The figures of a verdict. Raises ToolTrouble for one that says nothing about the data."""
    if verdict.outcome not in JUDGED:
        cell = matrix.cells[job.cell].name
        raise ToolTrouble(f"cell {cell}, seed {job.seed}: {verdict.outcome.value}: {verdict.summary}")
    counts = verdict.counts
    return Trial(
        cell=job.cell,
        seed=job.seed,
        faults=matrix.spec.faults[matrix.drawn(job.seed)].name,
        verdict=verdict.outcome.value,
        told=all(problem == NOTHING_ACKNOWLEDGED for problem in verdict.problems),
        sent=counts["sent"],
        acknowledged=counts["acknowledged"],
        failed=counts["failed"],
        unknown=counts["unknown"],
        unknown_but_there=counts["unknown_but_there"],
        lost=counts["lost"],
        duplicated=counts["duplicated"],
        divergent=sum(number for kind, number in verdict.errors.items() if AnomalyKind(kind) in DIVERGENCE),
        longest_gap_s=counts["longest_ack_gap_s"],
        errors=dict(sorted(verdict.errors.items())),
    )


# -- many of them --------------------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """What a worker needs to know once."""

    text: str
    origin: str
    ground: str
    folder: Path
    """Where trials happen; each leaves nothing."""


class _Worker:
    """What a worker process keeps from trial to trial."""

    task: Task
    matrix: Matrix


def _begin(task: Task) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # interrupts are the parent's: it ends the workers
    _Worker.task = task
    _Worker.matrix = parse_matrix(task.text, task.origin)


def _try(job: TrialTask) -> Trial:
    task, matrix = _Worker.task, _Worker.matrix
    directory = Path(tempfile.mkdtemp(dir=task.folder))
    try:
        return counted(matrix, job, run_trial(matrix, job, task.ground, directory).verdict)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def run_trials(jobs: Iterable[TrialTask], task: Task, workers: int) -> Generator[Trial, None, None]:
    """The trials of these jobs, in their order. Closing the iterator ends the workers."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, _begin, (task,)) as pool:
        yield from pool.imap(_try, jobs, TRIALS_PER_TASK)


def as_line(trial: Trial) -> dict[str, Any]:
    return trial._asdict()
