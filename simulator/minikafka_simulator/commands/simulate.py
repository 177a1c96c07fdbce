"""`minikafka simulate`: random schedules of faults over the production replication code in virtual time.

Every invariant is checked after every event (docs/internals/simulation.md). A seed that fails is printed with the end of its
trace and the command that replays it. With `--bug NAME` a simulator bug is put in, and the question is how soon it is found.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from minikafka.command.parser import offer

if TYPE_CHECKING:
    from minikafka_simulator.faults.plan import Plan
    from minikafka_simulator.schedules.runs import Totals
    from minikafka_simulator.schedules.world import Result

HELP = "random schedules in simulation, all invariants; exit 1 on a violation"

SEEDS_DEFAULT = range(1, 201)
SEEDS_DEFAULT_BUG = range(1, 1501)
SEEDS_MAX = 1_000_000_000
"""In one range."""
STEPS_MAX = 150_000
"""Below the number of events at which a run counts as run wild."""
SECONDS_MAX = 600.0
WORKERS_MAX = 64
TAIL_LINES = 40
TAIL_WHOLE = 12
ORDINARY = (" leads append ", " appends ")
"""What fills most of a trace and tells least; `--trace` shows it."""
OK, VIOLATION, BAD_INPUT = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `minikafka simulate`."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--seeds", type=_seeds, metavar="A..B", help="run these seeds (default 1..200; with --bug 1..1500)"
    )
    which.add_argument("--seed", type=_seed, metavar="N", help="replay one seed")
    which.add_argument("--list-bugs", action="store_true", help="print the simulator bugs: mistakes to search for")
    bug = parser.add_argument("--bug", metavar="NAME", help="make this simulator bug and search until it is found")
    offer(bug, _bugs)
    parser.add_argument("--trace", action="store_true", help="with --seed: print the whole trace")
    parser.add_argument("--shrink", action="store_true", help="make the first failing schedule small")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    parser.add_argument("--workers", type=_workers, default=2, metavar="N", help="processes (default 2)")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    length = parser.add_argument_group("length of a schedule")
    length.add_argument("--steps", type=_steps, metavar="N", help="heal after N events instead of after --seconds")
    length.add_argument("--seconds", type=_seconds, metavar="S", help="virtual seconds with faults (default 8)")
    length.add_argument("--strikes", type=_strikes, metavar="N", help="at most N faults")
    length.add_argument("--skip", type=_numbers, default=frozenset(), metavar="N,..", help="leave these faults out")


def run(args: argparse.Namespace) -> int:
    """Run `minikafka simulate`: 0 nothing found, 1 a violation (with --bug: the mistake was found), 2 bad input."""
    from minikafka_simulator.bugs.bug import Drifted
    from minikafka_simulator.bugs.catalogue import BUG_SEEDS, with_bug_seed
    from minikafka_simulator.bugs.in_process import CannotPatch

    if args.list_bugs:
        return _list_bugs(args.json)
    if args.bug is not None and args.bug not in BUG_SEEDS:
        import difflib

        close = difflib.get_close_matches(args.bug, BUG_SEEDS, n=1)
        hint = f"did you mean {close[0]}?" if close else "allowed: see --list-bugs"
        return _bad(f"--bug={args.bug}: no such simulator bug; {hint}")
    if args.trace and args.seed is None:
        return _bad("--trace: prints one schedule; give its --seed")
    if args.keep_going and (args.seed is not None or args.shrink):
        return _bad("--keep-going: only with --seeds, and without --shrink")
    if args.steps is not None and args.seconds is not None:
        return _bad("--steps and --seconds: both set the length of a schedule; give one")
    try:
        with with_bug_seed(args.bug):
            pass  # it can be planted here
    except (CannotPatch, Drifted, SyntaxError) as error:
        return _bad(f"--bug: {error}")
    plan = _plan(args)
    return _replay(args, plan) if args.seed is not None else _search(args, plan)


def _bad(line: str) -> int:
    print(f"minikafka simulate: {line}", file=sys.stderr)
    return BAD_INPUT


def _plan(args: argparse.Namespace) -> Plan:
    from minikafka_simulator.faults.plan import Plan

    plan = Plan(steps=args.steps, strikes_max=args.strikes, skip=args.skip)
    return plan if args.seconds is None else replace(plan, seconds=args.seconds)


def _bugs() -> list[str]:
    from minikafka_simulator.bugs.catalogue import BUG_SEEDS

    return list(BUG_SEEDS)


def _list_bugs(as_json: bool) -> int:
    from minikafka_simulator.bugs.catalogue import BUG_SEEDS

    if as_json:
        print(json.dumps([{"name": b.name, "mistake": b.mistake, "source": b.rule} for b in BUG_SEEDS.values()]))
        return OK
    name_width = max(map(len, BUG_SEEDS))
    mistake_width = max(len(bug.mistake) for bug in BUG_SEEDS.values())
    for bug in BUG_SEEDS.values():
        print(f"{bug.name:{name_width}}  {bug.mistake:{mistake_width}}  {bug.rule}")
    return OK


# -- one seed ----------------------------------------------------------------------------------------------------------------


def _replay(args: argparse.Namespace, plan: Plan) -> int:
    from minikafka_simulator.bugs.catalogue import with_bug_seed
    from minikafka_simulator.schedules.world import simulate

    with with_bug_seed(args.bug):
        result = simulate(args.seed, plan, trace=args.trace)
    if args.json:
        document = _as_json(result, args.bug, plan)
        document["trace"] = result.trace
        if args.shrink and result.violation is not None:
            document["shrunk"] = _shrink(args, result, plan)
        print(json.dumps(document, indent=2))
        return OK if result.violation is None else VIOLATION
    if args.trace:
        print("\n".join(result.trace))
    elif result.violation is not None:
        _print_tail(result)
    print(
        f"seed {result.seed}: {result.violation or 'all invariants hold'}\n"
        f"{result.events} events, {result.faults} faults, {result.acknowledged} acknowledged records, "
        f"{result.unclean_elections} unclean elections; trace hash {result.digest}"
    )
    if result.violation is None:
        return OK
    if args.shrink:
        _shrink(args, result, plan)
    elif not args.trace:
        print(f"replay:  {replay_command(result.seed, args.bug, plan)} --trace")
    return VIOLATION


def _print_tail(result: Result) -> None:
    print("\n".join(excerpt(result.trace)))


def excerpt(trace: list[str]) -> list[str]:
    """About 40 lines: the last of the trace as they are, and before them those that are no ordinary append."""
    end = max(0, len(trace) - TAIL_WHOLE)
    chosen = [index for index in range(end) if not any(word in trace[index] for word in ORDINARY)]
    chosen = chosen[-(TAIL_LINES - TAIL_WHOLE) :] + list(range(end, len(trace)))
    lines, after = [], 0
    for index in chosen:
        if index == after + 1:
            lines.append(trace[after])
        elif index > after:
            lines.append(f"         ... {index - after} more")
        lines.append(trace[index])
        after = index + 1
    return lines


def replay_command(seed: int, bug: str | None, plan: Plan) -> str:
    """Return what to type to see this schedule again."""
    from minikafka_simulator.faults.plan import Plan

    words = ["minikafka", "simulate", "--seed", str(seed)]
    if bug is not None:
        words += ["--bug", bug]
    if plan.steps is not None:
        words += ["--steps", str(plan.steps)]
    elif plan.seconds != Plan().seconds:
        words += ["--seconds", f"{plan.seconds:g}"]
    if plan.strikes_max is not None:
        words += ["--strikes", str(plan.strikes_max)]
    if plan.skip:
        words += ["--skip", ",".join(map(str, sorted(plan.skip)))]
    return shlex.join(words)


def _shrink(args: argparse.Namespace, found: Result, plan: Plan) -> dict[str, Any]:
    """Shrink, print the smaller trace unless JSON is wanted, and describe it."""
    from minikafka_simulator.bugs.catalogue import with_bug_seed
    from minikafka_simulator.schedules.shrink import shrink

    with with_bug_seed(args.bug), _progress("shrinking", None) as advance:
        small = shrink(found.seed, plan, lambda tries: advance(_count(tries, "schedule")))
    assert small is not None, "the same seed fails again"
    command = f"{replay_command(found.seed, args.bug, small.plan)} --trace"
    if not args.json:
        print(
            f"\nshrunk from {found.faults} faults and {found.events} events to {small.strikes} and "
            f"{small.result.events} ({small.tries} schedules tried):"
        )
        _print_tail(small.result)
        print(f"replay:  {command}")
    return {
        "invariant": small.result.invariant,
        "faults": small.strikes,
        "events": small.result.events,
        "tries": small.tries,
        "trace_hash": small.result.digest,
        "replay": command,
        "trace": small.result.trace,
    }


# -- many seeds --------------------------------------------------------------------------------------------------------------


def _search(args: argparse.Namespace, plan: Plan) -> int:
    from minikafka_simulator.schedules.runs import Totals, run_seeds

    seeds: range = args.seeds or (SEEDS_DEFAULT if args.bug is None else SEEDS_DEFAULT_BUG)
    totals, found = Totals(), []
    began = time.monotonic()
    results = run_seeds(seeds, args.bug, plan, min(args.workers, len(seeds)))
    try:
        with _progress(args.bug or "schedules", len(seeds)) as advance:
            for result in results:
                totals.add(result)
                advance(_count(totals.violations, "violation"))
                if result.violation is not None:
                    found.append(result)
                    if not args.keep_going:
                        break
    finally:
        results.close()
    seconds = time.monotonic() - began
    if args.json:
        print(json.dumps(_search_as_json(args, plan, totals, found, seconds), indent=2))
    else:
        _print_search(args, plan, totals, found, seconds)
    return VIOLATION if found else OK


def _print_search(args: argparse.Namespace, plan: Plan, totals: Totals, found: list[Result], seconds: float) -> None:
    if found:
        _print_tail(found[0])
        print()
    for result in found:
        print(f"seed {result.seed}: {result.violation}\nreplay:  {replay_command(result.seed, args.bug, plan)} --trace")
    print(
        f"{_count(totals.schedules, 'schedule')} in {seconds:.1f} s with {_count(args.workers, 'worker')}: "
        f"{totals.schedules / seconds:.1f} schedules/s, {totals.events / seconds:,.0f} events/s\n"
        f"{totals.events:,} events, {totals.faults:,} faults injected, {totals.acknowledged:,} records acknowledged "
        f"by acks=all, {totals.unclean} schedules with an unclean election"
    )
    if args.bug is not None:
        from minikafka_simulator.bugs.catalogue import BUG_SEEDS

        bug = BUG_SEEDS[args.bug]
        outcome = (
            f"caught by {found[0].invariant} after {_count(totals.schedules, 'schedule')}" if found else "NOT FOUND"
        )
        print(f"simulator bug {bug.name} ({bug.mistake}; {bug.rule}): {outcome}")
    elif not found:
        print(f"all invariants hold; hash of all traces {totals.digest()}")
    else:
        print(_count(len(found), "violation"))
    if found and args.shrink:
        _shrink(args, found[0], plan)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _search_as_json(
    args: argparse.Namespace, plan: Plan, totals: Totals, found: list[Result], seconds: float
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "bug": args.bug,
        "schedules": totals.schedules,
        "seconds": round(seconds, 3),
        "workers": args.workers,
        "schedules_per_second": round(totals.schedules / seconds, 2),
        "events_per_second": round(totals.events / seconds),
        "events": totals.events,
        "faults": totals.faults,
        "acknowledged": totals.acknowledged,
        "schedules_with_unclean_election": totals.unclean,
        "trace_hash": totals.digest(),
        "violations": [{**_as_json(r, args.bug, plan), "trace": excerpt(r.trace)} for r in found],
    }
    if found and args.shrink:
        document["shrunk"] = _shrink(args, found[0], plan)
    return document


def _as_json(result: Result, bug: str | None, plan: Plan) -> dict[str, Any]:
    return {
        "seed": result.seed,
        "bug": bug,
        "invariant": result.invariant,
        "violation": result.violation,
        "events": result.events,
        "faults": result.faults,
        "acknowledged": result.acknowledged,
        "unclean_elections": result.unclean_elections,
        "trace_hash": result.digest,
        "replay": f"{replay_command(result.seed, bug, plan)} --trace",
    }


@contextmanager
def _progress(title: str, total: int | None) -> Iterator[Callable[[str], None]]:
    """A bar on standard error when that is a terminal; the yielded function counts one step and says how it stands."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, TextColumn("{task.fields[state]}"), console=console, transient=True) as progress:
        task = progress.add_task(title, total=total, state="")
        yield lambda state: progress.update(task, advance=1, state=state)


# -- arguments ---------------------------------------------------------------------------------------------------------------


def _seeds(text: str) -> range:
    first, dots, last = text.partition("..")
    if not (dots and first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise argparse.ArgumentTypeError(f"{text!r} is no range of seeds; allowed: A..B with 0 <= A <= B")
    if int(last) - int(first) >= SEEDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} are too many seeds; allowed: at most {SEEDS_MAX:,}")
    return range(int(first), int(last) + 1)


def _whole(text: str, least: int, most: int | None, what: str) -> int:
    if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
        limit = f"{least} or more" if most is None else f"{least}..{most}"
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}; allowed: {limit}")
    return int(text)


def _seed(text: str) -> int:
    return _whole(text, 0, None, "seed")


def _workers(text: str) -> int:
    return _whole(text, 1, WORKERS_MAX, "number of workers")


def _steps(text: str) -> int:
    return _whole(text, 1, STEPS_MAX, "number of events")


def _strikes(text: str) -> int:
    return _whole(text, 0, None, "number of faults")


def _numbers(text: str) -> frozenset[int]:
    return frozenset(_whole(part, 1, None, "number of a fault") for part in text.split(","))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no length in seconds; allowed: above 0, at most {SECONDS_MAX:g}")
    return value
