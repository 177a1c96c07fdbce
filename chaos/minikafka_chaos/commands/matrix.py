"""`minikafka chaos matrix FILE`: every combination of settings under the same seeded faults, counted."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from minikafka.command.parser import offer

from minikafka_chaos.errors import BadScenario

if TYPE_CHECKING:
    from rich.console import Console

    from minikafka_chaos.matrix.document import Cell, Matrix
    from minikafka_chaos.matrix.report import MatrixReport
    from minikafka_chaos.matrix.results import Results

HELP = "every combination of settings under the same seeded faults: what is lost, how often"
GROUNDS = ("simulation", "processes")
WORKERS_MAX = 256
TRIALS_FOLDER = "running"
"""Where trials happen, each in a folder that goes with it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `minikafka chaos matrix`."""
    matrix = parser.add_argument("matrix", metavar="FILE", help="a matrix file, or the name of one that comes along")
    offer(matrix, _matrices)
    parser.add_argument("--seeds", type=int, metavar="N", help="how many seeds for each cell (default: the file's)")
    parser.add_argument("--ground", choices=GROUNDS, default="simulation", help="where (default simulation)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one for each core; processes: 1)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where results go; what is there is not done again (runs/matrix-NAME-...)",
    )
    parser.add_argument("--cell", metavar="A=X,B=Y", help="run one cell under one --seed and keep the run")
    parser.add_argument("--seed", type=int, metavar="N", help="with --cell")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _matrices() -> list[str]:
    from minikafka_chaos.scenario import library

    return library.matrix_names()


def run(args: argparse.Namespace) -> int:
    """Exit codes: 0 counted, 2 bad input, 3 ended before it was done. One trial (--cell): its verdict's.

    Raises BadScenario, ToolTrouble.
    """
    from minikafka_chaos.matrix.document import load_matrix
    from minikafka_chaos.scenario import library

    if (args.cell is None) != (args.seed is None):
        raise BadScenario("--cell and --seed: one trial needs both")
    matrix = load_matrix(library.matrix_path(args.matrix))
    if args.cell is not None:
        return _run_one(args, matrix)
    count = matrix.spec.seeds if args.seeds is None else args.seeds
    if count < 1:
        raise BadScenario(f"--seeds {count}: must be at least 1")
    workers = args.workers or (1 if args.ground == "processes" else len(os.sched_getaffinity(0)))
    if not 1 <= workers <= WORKERS_MAX:
        raise BadScenario(f"--workers {workers}: allowed: 1..{WORKERS_MAX}")
    return _run_all(args, matrix, range(matrix.spec.first_seed, matrix.spec.first_seed + count), workers)


def _run_one(args: argparse.Namespace, matrix: Matrix) -> int:
    from minikafka_chaos.matrix.trials import TrialTask, run_trial
    from minikafka_chaos.run.progress import new_console
    from minikafka_chaos.run.runner import new_run_directory
    from minikafka_chaos.verdict.report_table import print_verdict

    cell = matrix.cell(args.cell)
    mix = matrix.spec.faults[matrix.drawn(args.seed)].name
    directory = new_run_directory(args.out or Path("runs"), matrix.name)
    verdict = run_trial(matrix, TrialTask(cell.number, args.seed), args.ground, directory).verdict
    if args.json:
        print(json.dumps({**verdict.as_json(), "cell": cell.name, "faults": mix, "run": str(directory)}, indent=2))
    else:
        rows = [("cell", cell.name), ("faults", mix), ("run directory", str(directory))]
        print_verdict(new_console(), verdict, rows)
    return verdict.outcome.exit_code


def _run_all(args: argparse.Namespace, matrix: Matrix, seeds: range, workers: int) -> int:
    from minikafka_chaos.matrix import page, report, table
    from minikafka_chaos.matrix.results import FILE_NAME, Results, code_digest, document_digest
    from minikafka_chaos.matrix.trials import TrialTask
    from minikafka_chaos.run.progress import new_console

    document = matrix.document.model_dump(mode="json", by_alias=True, exclude_none=True)
    header = {
        "name": matrix.name,
        "ground": args.ground,
        "document": document_digest(document),
        "code": code_digest(args.ground),
    }
    folder = (
        args.out or Path("runs") / f"matrix-{matrix.name}-{args.ground}-{header['document'][:6]}{header['code'][:6]}"
    )
    left_out = _left_out(args.ground, matrix, folder)
    console = new_console(stderr=args.json)
    jobs = [
        TrialTask(cell.number, seed)
        for seed in seeds
        if matrix.spec.faults[matrix.drawn(seed)].name not in left_out
        for cell in matrix.possible
    ]
    with Results(folder / FILE_NAME, header) as results:
        missing = [job for job in jobs if job not in results.trials]
        there = len(jobs) - len(missing)
        if there and missing:
            console.print(f"{there:,} of {len(jobs):,} trials are in {folder} already")
        if not _do(args, matrix, results, missing, min(workers, len(missing)), there, console):
            done = len(results.trials)
            console.print(f"interrupted after {done:,} trials; the same command goes on from there")
            return 3
        trials = [results.trials[job] for job in jobs]
    found = report.report(matrix, seeds, trials, header, left_out)
    written = _write(folder, found, page.page(found))
    if args.json:
        print(found.model_dump_json(indent=2))
    else:
        table.print_report(console, found)
        _print_first(console, found, matrix, args.matrix)
        console.print(f"written: {', '.join(map(str, written))}")
    return 0


def _left_out(ground: str, matrix: Matrix, folder: Path) -> dict[str, str]:
    """Mixes of faults that the ground cannot do, and why. Raises BadScenario when it cannot do anything of the matrix."""
    from minikafka_chaos.matrix.trials import ground_class

    place = ground_class(ground)(folder / TRIALS_FOLDER)
    for cell in matrix.possible:
        for line in place.refusals(cell.calm.spec):
            raise BadScenario(f"cell {cell.name}: {line}")
    found = {}
    for mix in matrix.spec.faults:
        wanted = {verb for step in mix.steps if step.fault is not None for verb in step.fault.verbs}
        if missing := sorted(wanted & place.lacks.keys()):
            found[mix.name] = (
                f"the {ground} ground cannot {', '.join(f'{verb} ({place.lacks[verb]})' for verb in missing)}"
            )
    if len(found) == len(matrix.spec.faults):
        raise BadScenario(f"faults: {'; '.join(f'{name}: {why}' for name, why in found.items())}")
    return found


def _do(
    args: argparse.Namespace,
    matrix: Matrix,
    results: Results,
    missing: Sequence[tuple[int, int]],
    workers: int,
    there: int,
    console: Console,
) -> bool:
    """Run the trials that are missing; whether all were done."""
    from minikafka_chaos.matrix.trials import Task, TrialTask, run_trials

    if not missing:
        return True
    folder = results.path.parent / TRIALS_FOLDER
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
    folder.mkdir(parents=True)
    text = json.dumps(matrix.document.model_dump(mode="json", by_alias=True, exclude_unset=True))
    trials = run_trials(itertools.starmap(TrialTask, missing), Task(text, args.matrix, args.ground, folder), workers)
    try:
        with _progress(console, matrix.name, there, there + len(missing)) as advance:
            for trial in trials:
                results.add(trial)
                advance()
    except KeyboardInterrupt:
        return False
    finally:
        trials.close()
        shutil.rmtree(folder, ignore_errors=True)
    return True


@contextmanager
def _progress(console: Console, title: str, done: int, total: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, a line every tenth elsewhere; what is yielded counts one trial."""
    if not console.is_terminal:
        counted = itertools.count(done + 1)

        def print_progress() -> None:
            number = next(counted)
            if number * 10 // total > (number - 1) * 10 // total:
                print(f"{number:,} of {total:,} trials", file=sys.stderr, flush=True)

        yield print_progress
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task(title, total=total, completed=done)
        yield lambda: progress.advance(task)


def _write(folder: Path, found: MatrixReport, page: str) -> list[Path]:
    from minikafka_chaos.matrix import report

    files = {folder / report.FILE_NAME: found.model_dump_json(indent=2) + "\n", folder / "matrix.html": page}
    for path, text in files.items():
        partial = path.with_suffix(f"{path.suffix}.partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    return list(files)


def _print_first(console: Console, found: MatrixReport, matrix: Matrix, name: str) -> None:
    """How to see one of the losses for oneself."""
    cells: dict[str, Cell] = {cell.name: cell for cell in matrix.cells}
    worst = max(
        (cell for cell in found.cells if cell.measures and cell.measures["loss"].first_seed is not None),
        key=lambda cell: cell.measures["loss"].share or 0.0,
        default=None,
    )
    if worst is not None:
        named = cells[worst.name].name.replace(", ", ",")
        seed = worst.measures["loss"].first_seed
        console.print(f'see a loss: minikafka chaos matrix {name} --cell "{named}" --seed {seed}', soft_wrap=True)
