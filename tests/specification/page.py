"""The tables of ``docs/internals/specification.md``, which `make spec ARGS=--write` finds out anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from minikafka.metadata.image import PartitionState
from minikafka.telemetry.marked_page import replaced

from tests.specification.judge import ROOT
from tests.specification.mistakes import Mistake
from tests.specification.recorder import RECORDS, Step, Trace
from tests.specification.search import STEPS, Search
from tests.specification.translation import Refusal
from tests.specification.weakened import Weakened

PAGE = ROOT / "docs/internals/specification.md"


def write(part: str, text: str) -> None:
    """Put a table into the page."""
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), part, text), encoding="utf-8")


def shown(step: Step | None) -> str:
    """A step for people."""
    if step is None:
        return "nothing"
    name, *values = step
    return f"{name}({', '.join(map(_shown, values))})"


def _shown(value: Any) -> str:
    match value:
        case PartitionState():
            return (
                f"leader {value.leader} epoch {value.leader_epoch}.{value.partition_epoch} "
                f"isr {_shown(frozenset(value.isr))} elr {_shown(frozenset(value.elr))}"
            )
        case frozenset():
            return f"{{{', '.join(map(str, sorted(value)))}}}"
        case list() if len(value) > 3:
            return f"[{_shown(value[0])}, ... {len(value)} records]"
        case list():
            return f"[{', '.join(map(_shown, value))}]"
        case int() if not isinstance(value, bool) and value >= RECORDS:
            return f"{value % RECORDS}@{value // RECORDS}"
    return str(value)


def search(found: Search) -> str:
    """What steps by chance have shown of the specification as it is."""
    seen = ", ".join(f"{name} {count}" for name, count in found.witnessed.items())
    held = "all invariants hold" if not found.broken else f"**{', '.join(found.broken)}** broken"
    return f"{found.runs:,} runs of {STEPS} steps: {held}. Runs that got there: {seen}."


def weakened(rows: Sequence[tuple[Weakened, Search]]) -> str:
    """What steps by chance have found without a guard."""
    lines = ["| weakened | mistake | broken | in run |", "|---|---|---|---|"]
    for each, found in rows:
        lines.append(
            f"| `{each.name}` | {each.mistake} | {', '.join(found.broken) or '**not found**'} | {found.runs:,} |"
        )
    return "\n".join(lines)


def replay(golden: Sequence[Trace], schedules: Sequence[Trace], verdicts: Sequence[Refusal]) -> str:
    """What was replayed, and what of it was refused."""
    refused = [verdict for verdict in verdicts if verdict.rule]
    kinds = Counter(step[0] for trace in (*golden, *schedules) for step in trace.steps)
    ended = Counter(trace.ended for trace in schedules if trace.ended)
    lines = [
        f"{len(golden)} golden traces and {len(schedules)} schedules, "
        f"{sum(verdict.taken for verdict in verdicts):,} steps allowed: "
        f"{', '.join(f'{name} {count:,}' for name, count in kinds.most_common())}.",
        "",
        "Schedules whose recording ended early: "
        f"{', '.join(f'{count} ({why})' for why, count in ended.most_common()) or 'none'}.",
        "",
        "| refused | step | rule |",
        "|---|---|---|",
    ]
    lines += [f"| {verdict.trace} | `{shown(verdict.step)}` | {verdict.rule} |" for verdict in refused]
    return "\n".join(lines)


def mistakes(all_of_them: Sequence[Mistake], refused: Mapping[str, Refusal], not_covered: Mapping[str, str]) -> str:
    """Which step of each mistake is refused."""
    lines = ["| rule | mistake | in | refused step | by |", "|---|---|---|---|---|"]
    for mistake in all_of_them:
        verdict = refused.get(mistake.bug.name)
        if verdict is None:
            lines.append(f"| {mistake.rule} | {mistake.bug.mistake} | - | **none** | - |")
        else:
            where = f"schedule {verdict.trace.rpartition(' ')[2]}, step {verdict.taken + 1:,}"
            lines.append(
                f"| {mistake.rule} | {mistake.bug.mistake} | {where} | `{shown(verdict.step)}` | {verdict.rule} |"
            )
    lines += [f"| {rule} | not covered | | | {why} |" for rule, why in not_covered.items()]
    return "\n".join(lines)
