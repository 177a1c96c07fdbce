"""The generated parts of ``docs/internals/simulation.md``: simulator bugs, invariants, and how soon each mistake is caught.

``make docs`` writes the first two. ``python -m minikafka_simulator.commands.docs`` runs all simulator bugs: the schedule that the
page has for it, and where that finds nothing any more, schedules from 1 on. It writes what it found.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from minikafka.telemetry.marked_page import replaced

from minikafka_simulator.bugs.catalogue import BUG_SEEDS
from minikafka_simulator.checks.invariants import INVARIANTS
from minikafka_simulator.schedules.runs import Totals, first_violation, run_seeds

PAGE = "simulation.md"
COMMAND = "python -m minikafka_simulator.commands.docs"
SEARCH = range(1, 401)
"""Seeds to search for each mistake."""
GREEN = range(1, 101)
"""Seeds of production's own code that are run beside, to show that they hold."""


def bug_table() -> str:
    """The mistakes that can be put in."""
    lines = ["| simulator bug | mistake | source |", "|---|---|---|"]
    lines += [f"| `{bug.name}` | {bug.mistake} | {bug.rule} |" for bug in BUG_SEEDS.values()]
    return "\n".join(lines)


def invariant_table() -> str:
    """What is checked."""
    lines = ["| invariant | what must hold | from |", "|---|---|---|"]
    lines += [f"| {name} | {it.statement} | {it.source} |" for name, it in INVARIANTS.items()]
    return "\n".join(lines)


def caught_by(page: str) -> dict[str, int]:
    """The schedule in which each simulator bug was caught when the page was written."""
    return {name: int(seed) for name, seed in re.findall(r"^\| `([\w-]+)` \| .* \| (\d+) \|$", page, re.MULTILINE)}


def measured_table(workers: int, known: Mapping[str, int]) -> str:
    """Run every mistake, in the schedule that is known to catch it first. What is found depends on the code only."""
    totals = Totals()
    for result in run_seeds(GREEN, workers=workers):
        totals.add(result)
    lines = [
        f"Production's code, seeds {GREEN[0]}..{GREEN[-1]}: {totals.violations} violations, {totals.events:,} events, "
        f"{totals.faults:,} faults, {totals.acknowledged:,} records acknowledged by acks=all, {totals.unclean} schedules "
        "with an unclean election.",
        "",
        "| simulator bug | caught by | in schedule |",
        "|---|---|---|",
    ]
    for name in BUG_SEEDS:
        seed = known.get(name, SEARCH[0])
        caught = first_violation(range(seed, seed + 1), name) or first_violation(SEARCH, name, workers=workers)
        row = f"| `{name}` | **not found** | {len(SEARCH)} |"
        if caught is not None:
            row = f"| `{name}` | {caught.result.invariant} | {caught.result.seed} |"
        print(row, flush=True)
        lines.append(row)
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the page's part. Exit codes: 0 it is written, 2 bad input."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Runs every simulator bug, which takes minutes.")
    parser.add_argument("--workers", type=int, default=2, help="processes to measure with (default 2)")
    parser.add_argument(
        "--docs", type=Path, default=Path("docs/internals"), help="folder of the page (default: docs/internals)"
    )
    options = parser.parse_args(arguments)
    path = options.docs / PAGE
    if not path.is_file():
        print(f"--docs={options.docs}: there is no {PAGE} in it; allowed: the project's docs", file=sys.stderr)
        return 2
    page = path.read_text(encoding="utf-8")
    measured = measured_table(options.workers, caught_by(page))
    path.write_text(replaced(page, "measured", measured), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
