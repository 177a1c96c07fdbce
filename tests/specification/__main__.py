"""``python -m tests.specification``: the specification of one partition, searched by chance and asked about recorded steps.

Exit codes: 0 all is as it should be; 1 the specification refuses a step of the broker, allows one of a mistake, or loses what it
promises (or a weakened one does not); 2 bad input, or Quint came to no verdict.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from minikafka_simulator.faults.plan import Plan

from tests.specification import page
from tests.specification.judge import QuintFailed, judged
from tests.specification.mistakes import MISTAKES, NOT_COVERED
from tests.specification.recorder import Trace
from tests.specification.runs import PLAN, golden_traces, simulated
from tests.specification.search import searched
from tests.specification.translation import Refusal
from tests.specification.weakened import ALL

OF_HIGH_WATERMARK = ".high-watermark"
"""A golden trace in the truncation mode from before KIP-101, which the specification refuses."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make spec", description="Judge the broker by the specification in spec/.")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)} (default: all)", default=list(PARTS)
    )
    parser.add_argument("--schedules", type=int, default=50, metavar="N", help="simulated schedules (default 50)")
    parser.add_argument("--runs", type=int, default=2000, metavar="N", help="runs by chance (default 2000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the runs by chance (default 1)")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {page.PAGE.name}")
    given = parser.parse_args(arguments)
    if unknown := [part for part in given.parts if part not in PARTS]:
        print(f"{unknown[0]}: no such part; allowed: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    wrong = 0
    try:
        for part in given.parts:
            wrong += PARTS[part](given)
    except QuintFailed as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if wrong else 0


def search(given: argparse.Namespace) -> int:
    """The specification keeps what it promises."""
    found = searched(given.runs, given.seed)
    print(
        f"search: {found.runs} runs, {', '.join(found.broken) or 'all invariants hold'}, {found.witnessed}", flush=True
    )
    if given.write:
        page.write("search", page.search(found))
    return len(found.broken)


def weakened(given: argparse.Namespace) -> int:
    """Without one of its guards it does not."""
    rows, survived = [], 0
    for each in ALL:
        found = searched(given.runs, given.seed, each)
        print(f"weakened: {each.name}: {', '.join(found.broken) or 'NOT FOUND'} after {found.runs} runs", flush=True)
        rows.append((each, found))
        survived += not found.broken
    if given.write:
        page.write("weakened", page.weakened(rows))
    return survived


def replay(given: argparse.Namespace) -> int:
    """It allows every step that was recorded, but in the truncation mode from before KIP-101."""
    traces: list[Trace] = [trace for trace in golden_traces() if trace.config is not None]
    golden = len(traces)
    seed = 0
    while len(traces) < golden + given.schedules:
        seed += 1
        trace = simulated(seed)
        if trace.config is not None:
            traces.append(trace)
    wrong = 0
    verdicts = judged(traces)
    for trace, verdict in zip(traces, verdicts, strict=True):
        expected = trace.name.endswith(OF_HIGH_WATERMARK)
        if bool(verdict.rule) != expected:
            wrong += 1
            print(f"replay: {described(verdict, trace)}", flush=True)
    print(
        f"replay: {golden} golden traces, {given.schedules} schedules, {sum(v.taken for v in verdicts)} steps",
        flush=True,
    )
    if given.write:
        page.write("replay", page.replay(traces[:golden], traces[golden:], verdicts))
    return wrong


def mistakes(given: argparse.Namespace) -> int:
    """It refuses a step of each mistake."""
    traces = [simulated(each.seed, each.bug, Plan() if each.usual else PLAN) for each in MISTAKES]
    refused: dict[str, Refusal] = {}
    for mistake, verdict in zip(MISTAKES, judged(traces), strict=True):
        if verdict.rule:
            refused[mistake.bug.name] = verdict
    for mistake in MISTAKES:
        verdict = refused.get(mistake.bug.name)
        said = (
            "ALLOWED" if verdict is None else f"refuses {page.shown(verdict.step)} of {verdict.trace}: {verdict.rule}"
        )
        print(f"mistakes: {mistake.rule} {mistake.bug.name}: {said}", flush=True)
    if given.write:
        page.write("mistakes", page.mistakes(MISTAKES, refused, NOT_COVERED))
    return len(MISTAKES) - len(refused)


def described(verdict: Refusal, trace: Trace) -> str:
    """What was refused, and the steps before it."""
    before = "\n".join(f"    {page.shown(step)}" for step in trace.steps[max(0, verdict.taken - 5) : verdict.taken])
    return f"{trace.name}: {verdict.rule or 'nothing is refused'}\n{before}\n  > {page.shown(verdict.step)}"


PARTS = {"search": search, "weakened": weakened, "replay": replay, "mistakes": mistakes}


if __name__ == "__main__":
    sys.exit(main())
