"""The generated parts of ``docs/internals/simulation.md``: bug seeds, invariants, and how soon each mistake is caught.

``make docs`` writes the first two. ``python -m minikafka_chaos.simulation.docs`` searches for every bug seed, which takes
minutes, and writes what it found.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from minikafka.telemetry.marked_page import replaced

from minikafka_chaos.simulation.invariants import INVARIANTS
from minikafka_chaos.simulation.mutants import BUG_SEEDS
from minikafka_chaos.simulation.runs import Totals, first_violation, run_seeds

PAGE = "simulation.md"
COMMAND = "python -m minikafka_chaos.simulation.docs"
SEARCH = range(1, 1501)
"""Seeds to search for each mistake."""
GREEN = range(1, 501)
"""Seeds of production's own code that are run beside, for the speed and to show that they hold."""


def bug_table() -> str:
    """The mistakes that can be put in."""
    lines = ["| bug seed | mistake | source |", "|---|---|---|"]
    lines += [f"| `{bug.name}` | {bug.mistake} | {bug.source} |" for bug in BUG_SEEDS.values()]
    return "\n".join(lines)


def invariant_table() -> str:
    """What is checked."""
    lines = ["| invariant | what must hold | from |", "|---|---|---|"]
    lines += [f"| {name} | {it.statement} | {it.source} |" for name, it in INVARIANTS.items()]
    return "\n".join(lines)


def measured_table(workers: int) -> str:
    """Search for every mistake. Minutes; what is found depends on the code only, not on the machine."""
    totals, began = Totals(), time.monotonic()
    for result in run_seeds(GREEN, workers=workers):
        totals.add(result)
    seconds = time.monotonic() - began
    lines = [
        f"Production's code, seeds {GREEN[0]}..{GREEN[-1]}: {totals.violations} violations, {totals.events:,} events, "
        f"{totals.faults:,} faults, {totals.acknowledged:,} records acknowledged by acks=all, {totals.unclean} schedules "
        f"with an unclean election; {totals.schedules / seconds:.0f} schedules/s and {totals.events / seconds:,.0f} events/s "
        f"with {workers} workers on a shared machine.",
        "",
        "| bug seed | caught by | after schedules |",
        "|---|---|---|",
    ]
    for name in BUG_SEEDS:
        caught = first_violation(SEARCH, name, workers=workers)
        row = f"| `{name}` | **not found** | {len(SEARCH)} |"
        if caught is not None:
            row = f"| `{name}` | {caught.result.invariant} | {caught.schedules} |"
        print(row, flush=True)
        lines.append(row)
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the page's part. Exit codes: 0 it is written, 2 bad input."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Searches for every bug seed, which takes minutes.")
    parser.add_argument("--workers", type=int, default=2, help="processes to measure with (default 2)")
    parser.add_argument(
        "--docs", type=Path, default=Path("docs/internals"), help="folder of the page (default: docs/internals)"
    )
    options = parser.parse_args(arguments)
    path = options.docs / PAGE
    if not path.is_file():
        print(f"--docs={options.docs}: there is no {PAGE} in it; allowed: the project's docs", file=sys.stderr)
        return 2
    measured = measured_table(options.workers)
    path.write_text(replaced(path.read_text(encoding="utf-8"), "measured", measured), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
