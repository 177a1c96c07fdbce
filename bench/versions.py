"""Whether a change costs speed: the brokers of two checkouts, turn by turn in one run.

    git worktree add --detach /tmp/before COMMIT
    python -m bench.versions /tmp/before --rounds 5
    python -m bench.versions /tmp/before --full --tests produce_256k raw_64k

Both clusters are up all the time and share this checkout's client and tests; only the brokers' code differs. A ratio is this
checkout's median over the other's, the second one that of the best rounds, which other work on the machine disturbed least.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.contenders import MiniKafka, data_folder
from bench.measurements import FULL, SHORT, SHORT_TESTS, Bench, Row, Size
from bench.summary import LINES, Line
from bench.warming import warm_up

HERE, OTHER = "this checkout", "the other"
PACKAGES = "broker-image"


class Version(MiniKafka):
    """Brokers that run the code of one checkout."""

    def __init__(self, name: str, checkout: Path, data: Path) -> None:
        super().__init__(data)
        self.name = name
        self._path = str((checkout / PACKAGES).resolve(strict=True))

    def _up(self, failure: list[BaseException]) -> None:
        with _first_on_path(self._path):
            super()._up(failure)


@contextmanager
def _first_on_path(path: str) -> Iterator[None]:
    """Put a directory first on the PYTHONPATH of processes that are started meanwhile."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = path
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


TESTS = {test.__name__: test for test in SHORT_TESTS}


def measure(other: Path, rounds: int, console: Console, size: Size = SHORT, names: Sequence[str] = ()) -> list[Row]:
    """The rows of both, in turns: of all tests, or of those that are named."""
    tests = [TESTS[name] for name in names] or SHORT_TESTS
    rows: list[Row] = []
    with data_folder() as data:
        here = Path(__file__).parent.parent
        subjects = [Version(HERE, here, data / "here"), Version(OTHER, other, data / "other")]
        try:
            for subject in subjects:
                subject.up()
            benches = [Bench(subject, size, rows.append) for subject in subjects]
            for bench in benches:
                warm_up(bench)
            rows.clear()
            for number in range(1, rounds + 1):
                for test in tests:
                    for bench in benches if number % 2 else reversed(benches):  # neither is always first
                        bench.round = number
                        test(bench)
                console.print(f"round {number} of {rounds}")
        finally:
            for subject in subjects:
                subject.destroy()
    return rows


def _figures(rows: Sequence[Row], name: str, line: Line) -> list[float]:
    found = []
    for row in rows:
        if row.contender == name and row.test == line.test:
            values = row.figures | {
                "resident_mb": row.resident_mb,
                "broker_cpu_s_per_gb": row.broker_cpu_s / row.gigabytes if row.gigabytes else 0.0,
            }
            found.append(values[line.figure])
    return sorted(found)


def table(rows: Sequence[Row]) -> Table:
    """A line for each figure that was measured of both."""
    found = Table(title="this checkout beside the other")
    for head in ("what", "unit", OTHER, HERE, "ratio of medians", "best to best"):
        found.add_column(head, justify="left" if head == "what" else "right")
    for line in LINES:
        here, other = (_figures(rows, name, line) for name in (HERE, OTHER))
        if not here or not other:
            continue
        best = -1 if line.higher_is_better else 0
        medians = [statistics.median(each) for each in (here, other)]
        ratios = [f"{a / b:.2f}" if b else "" for a, b in (medians, (here[best], other[best]))]
        spans = [f"{each[0]:.3g} / {statistics.median(each):.3g} / {each[-1]:.3g}" for each in (other, here)]
        found.add_row(line.title, line.unit, *spans, *ratios)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.versions", description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument(
        "--full", action="store_true", help="more bytes a test: less spread, and more than twice the time"
    )
    parser.add_argument("--tests", nargs="+", choices=TESTS, default=[], metavar="TEST", help=f"of {', '.join(TESTS)}")
    options = parser.parse_args(arguments)
    if not (options.other / PACKAGES / "minikafka").is_dir():
        parser.error(f"{options.other}: is no checkout of this project")
    console = Console(width=None if sys.stdout.isatty() else 140)
    rows = measure(options.other, options.rounds, console, FULL if options.full else SHORT, options.tests)
    console.print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
