"""`make crashes`: try what a crash may leave of a broker's files, at every prefix of its system calls.

A violation is printed with the shortest prefix that shows it and the command that replays it
(docs/internals/crash-states.md).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from minikafka_simulator.bugs.bug import Drifted
from minikafka_simulator.bugs.catalogue import CRASH_BUGS
from minikafka_simulator.bugs.in_process import CannotPatch, planted
from minikafka_simulator.crashes.search import CrashSearch, operations_of, search
from minikafka_simulator.crashes.store_life import StoreUnderTrace
from minikafka_simulator.crashes.store_search import search_store

OK, VIOLATION, BAD_INPUT = 0, 1, 2
SEEDS_DEFAULT = 12
STATES_DEFAULT = 6
STATES_MAX = 10_000


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("make crashes", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, metavar="N", help="the life of this seed (default: those of 1 to --lives)")
    parser.add_argument("--lives", type=int, default=SEEDS_DEFAULT, metavar="N", help=f"default {SEEDS_DEFAULT}")
    parser.add_argument(
        "--states",
        type=int,
        default=STATES_DEFAULT,
        metavar="M",
        help=f"power losses at each prefix (default {STATES_DEFAULT})",
    )
    parser.add_argument("--steps", type=int, default=0, metavar="N", help="at least so many steps in a life")
    parser.add_argument(
        "--prefix", type=int, metavar="N", help="with --seed: replay this prefix alone, with its record"
    )
    parser.add_argument("--minutes", type=float, metavar="N", help="begin no further life after so long")
    parser.add_argument("--store", action="store_true", help="the cluster store of one machine instead (needs strace)")
    parser.add_argument("--bug", metavar="NAME", help="make this simulator bug, and look for a prefix that shows it")
    parser.add_argument("--list-bugs", action="store_true", help="print the simulator bugs")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `make crashes`: 0 every promise holds (with --bug: it was noticed), 1 not so, 2 bad input."""
    args = _parser().parse_args(arguments)
    if args.list_bugs:
        for bug in CRASH_BUGS.values():
            print(f"{bug.name:24} {bug.mistake}")
        return OK
    problem = _problem(args)
    if problem is not None:
        print(f"make crashes: {problem}", file=sys.stderr)
        return BAD_INPUT
    if args.store:
        return _search_store(args)
    if args.bug is None:
        return VIOLATION if _search(args) else OK
    try:
        with planted(CRASH_BUGS[args.bug]):
            return OK if _search(args) else VIOLATION
    except (Drifted, CannotPatch) as error:
        print(f"make crashes: --bug: {error}", file=sys.stderr)
        return BAD_INPUT


def _problem(args: argparse.Namespace) -> str | None:
    if args.bug is not None and args.bug not in CRASH_BUGS:
        return f"--bug={args.bug}: no such simulator bug; allowed: see --list-bugs"
    if not 1 <= args.states <= STATES_MAX:
        return f"--states={args.states}: allowed: 1 to {STATES_MAX}"
    if args.lives < 1:
        return f"--lives={args.lives}: allowed: 1 or more"
    if args.prefix is not None and args.seed is None:
        return "--prefix: a prefix of which life? give its --seed"
    return None


def _search(args: argparse.Namespace) -> bool:
    """Whether something was found."""
    began = time.monotonic()
    seeds = [args.seed] if args.seed is not None else range(1, args.lives + 1)
    outcomes: list[CrashSearch] = []
    for seed in seeds:
        if args.minutes is not None and time.monotonic() - began > args.minutes * 60:
            print(f"{args.minutes:g} minutes are over: {seed - 1} lives of {args.lives} were tried")
            break
        prefixes = None if args.prefix is None else [args.prefix]
        outcome = search(seed, args.states, steps=args.steps, prefixes=prefixes)
        outcomes.append(outcome)
        print(
            f"seed {seed}: {outcome.prefixes} prefixes, {outcome.states} crash states and {outcome.known} that were the "
            f"same as another, {outcome.again} of recoveries",
            flush=True,
        )
        if outcome.violations:
            _print(args, outcome)
            break
    kinds = Counter[str]()
    for outcome in outcomes:
        kinds.update(outcome.kinds)
    print(
        f"{len(outcomes)} lives, {sum(o.prefixes for o in outcomes)} prefixes, {sum(o.states for o in outcomes)} crash states, "
        f"{sum(o.again for o in outcomes)} second crashes, {time.monotonic() - began:.0f} s; operations: "
        + ", ".join(f"{kinds[kind]} {kind.lower()}" for kind in sorted(kinds))
    )
    return any(outcome.violations for outcome in outcomes)


def _search_store(args: argparse.Namespace) -> int:
    try:
        outcome = search_store(args.seed or 1, args.states, args.bug)
    except StoreUnderTrace as error:
        print(f"make crashes: --store: {error}", file=sys.stderr)
        return BAD_INPUT
    for violation in outcome.violations:
        print(f"VIOLATION {violation}")
    print(f"cluster store: {outcome.prefixes} prefixes, {outcome.states} crash states")
    return VIOLATION if bool(outcome.violations) == (args.bug is None) else OK


def _print(args: argparse.Namespace, outcome: CrashSearch) -> None:
    (violation,) = outcome.violations
    print(f"\nVIOLATION {violation}\n\nits last operations:")
    if args.prefix is None:
        print("\n".join(violation.operations))
    else:
        print("\n".join(operations_of(outcome.seed, args.steps, args.prefix)))
    options = "".join(
        f" --{name} {value}" for name, value in (("steps", args.steps), ("bug", args.bug)) if value not in (0, None)
    )
    prefix = f"--seed {outcome.seed} --prefix {violation.prefix} --states {args.states}{options}"
    print(f"\nreplay:  make crashes ARGS='{prefix}'\n")


if __name__ == "__main__":
    sys.exit(main())
