"""``python -m tests.adversary``: plant bugs, see what notices. Exit codes: 0 every bug is noticed, 1 one survives, 2 bad input or
a bug that cannot be planted any more, 3 a suite fails without any bug."""

from __future__ import annotations

import argparse
import fnmatch
import os
import signal
import sys
from collections.abc import Sequence

from minikafka_simulator.bugs.bug import Bug, Drifted
from minikafka_simulator.bugs.catalogue import BUG_SEEDS

from tests.adversary import results
from tests.adversary.bugs import BUGS
from tests.adversary.hunt import Hunt, Plan
from tests.adversary.planting import check
from tests.adversary.suites import JUDGES, SIMULATION, SUITES, UNIT, WIRE, Broken

ALL_NOTICED, SURVIVED, BAD_INPUT, UNSOUND, INTERRUPTED = 0, 1, 2, 3, 130
ORDER = (WIRE, UNIT, JUDGES, SIMULATION)
"""Quickest first."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="make adversary", description="Plant bugs into a copy; see which suite notices."
    )
    made.add_argument(
        "bugs", nargs="*", metavar="BUG", help="names or patterns: m07 's*', or simulator bugs (default: all but those)"
    )
    made.add_argument("--suites", type=_suites, default=ORDER, metavar="S,..", help=f"some of {', '.join(SUITES)}")
    made.add_argument("--every", action="store_true", help="try every suite on every bug, also after one has noticed")
    made.add_argument("--schedules", type=_count, default=250, metavar="N", help="of the simulation (default 250)")
    made.add_argument(
        "--workers", type=_count, default=os.cpu_count() or 1, metavar="N", help="bugs at once (default: cores)"
    )
    made.add_argument(
        "--write", action="store_true", help="put what was found on record and into docs/internals/adversary.md"
    )
    made.add_argument("--list", action="store_true", help="print the bugs and end")
    return made


def _suites(text: str) -> tuple[str, ...]:
    wanted = text.split(",")
    for name in wanted:
        if name not in SUITES:
            raise argparse.ArgumentTypeError(f"{name!r} is no suite; allowed: {', '.join(SUITES)}")
    return tuple(suite for suite in ORDER if suite in wanted)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a number from 1 on")
    return int(text)


def chosen(patterns: Sequence[str]) -> list[Bug]:
    """The bugs that are named. Raises ValueError for a pattern that names none."""
    for pattern in patterns:
        if pattern not in BUG_SEEDS and not fnmatch.filter(BUGS, pattern):
            raise ValueError(
                f"{pattern}: no such bug; allowed: {min(BUGS)} to {max(BUGS)}, see --list, or a simulator bug"
            )
    planted = [bug for bug in BUGS.values() if not patterns or any(fnmatch.fnmatch(bug.name, p) for p in patterns)]
    return planted + [BUG_SEEDS[name] for name in patterns if name in BUG_SEEDS]


def tell(bug: Bug, found: results.Found, seconds: float) -> None:
    """A line for each bug as it is decided."""
    noticed = [f"{suite}: {by}" for suite, by in found.items() if by]
    missed = [suite for suite, by in found.items() if not by]
    outcome = "noticed " if noticed else "SURVIVED"
    words = [*noticed, *([f"missed by {', '.join(missed)}"] if missed else [])]
    print(f"{bug.name}  {outcome}  {seconds:4.0f} s  {bug.mistake}  [{'; '.join(words)}]", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        bugs = chosen(options.bugs)
        if options.list:
            for bug in bugs:
                print(f"{bug.name}  {bug.mistake}  ({bug.rule})  {bug.file}")
            return ALL_NOTICED
        for bug in bugs:
            check(bug)
        unrecorded = [bug.name for bug in bugs if bug.name not in BUGS]
        if options.write and unrecorded:
            raise ValueError(
                f"--write: {unrecorded[0]} is a simulator bug; allowed: bugs that are on record, see --list"
            )
        known = results.schedules_on_record()
        if options.write and known not in (0, options.schedules) and len(bugs) < len(BUGS):
            raise ValueError(
                f"--schedules={options.schedules}: the record is of {known}; allowed with --write: the same"
            )
    except (ValueError, Drifted, SyntaxError) as error:
        print(f"make adversary: {error}", file=sys.stderr)
        return BAD_INPUT

    def told(bug: Bug, found: results.Found, seconds: float) -> None:
        tell(bug, found, seconds)
        if options.write:  # at once: a run that is interrupted was not for nothing
            results.save(results.merged(results.load(), {bug.name: found}), options.schedules)
            results.write_page()

    plan = Plan(options.suites, options.every, options.schedules, min(options.workers, len(bugs)))
    try:
        with Hunt(plan) as hunt:
            found = hunt.run(bugs, told)
    except Broken as error:
        print(f"make adversary: {error}", file=sys.stderr)
        return UNSOUND
    except KeyboardInterrupt:
        print("make adversary: interrupted", file=sys.stderr)
        return INTERRUPTED
    alive = results.survivors(found)
    print(
        f"{len(found) - len(alive)} of {len(found)} bugs noticed" + (f"; survived: {', '.join(alive)}" if alive else "")
    )
    return SURVIVED if alive else ALL_NOTICED


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end what runs, remove the copies
    sys.exit(main())
