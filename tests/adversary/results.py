"""What a run found, and ``docs/internals/adversary.md`` made from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minikafka_simulator.bugs.bug import Bug

from tests.adversary.bugs import BUGS
from tests.adversary.planting import ROOT
from tests.adversary.suites import FIRST_SEED, JUDGES, SIMULATION, SUITES, UNIT, WIRE, tries
from tests.adversary.unseen import UNSEEN
from tools.wrap import wrapped

RESULTS = ROOT / "tests/adversary/results.json"
PAGE = ROOT / "docs/internals/adversary.md"

AUDITED = {"m": 34, "s": 14}
"""The last number of each kind."""

Found = dict[str, str | None]
"""By suite: who noticed, None for nobody. A suite that was not run is not in it."""


def load(path: Path = RESULTS) -> dict[str, Found]:
    """What is on record, by bug. Bugs that are not declared any more are left out."""
    if not path.is_file():
        return {}
    recorded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["bugs"]
    return {name: found for name, found in recorded.items() if name in BUGS}


def merged(recorded: Mapping[str, Found], found: Mapping[str, Found]) -> dict[str, Found]:
    """What was on record with what a run found, in the order of the declarations."""
    return {
        name: dict(sorted({**recorded.get(name, {}), **found.get(name, {})}.items()))
        for name in BUGS
        if name in recorded or name in found
    }


def save(results: Mapping[str, Found], schedules: int, path: Path = RESULTS) -> None:
    text = json.dumps({"schedules": schedules, "bugs": results}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def schedules_on_record(path: Path = RESULTS) -> int:
    return int(json.loads(path.read_text(encoding="utf-8"))["schedules"]) if path.is_file() else 0


def survivors(results: Mapping[str, Found]) -> list[str]:
    """Bugs that no suite noticed."""
    return [name for name, found in results.items() if not any(found.values())]


def current_page() -> str:
    """The page of what is on record and declared now."""
    return page(merged(load(), {}), schedules_on_record())


def write_page() -> None:
    PAGE.write_text(wrapped(current_page()), encoding="utf-8")


def is_of_the_audit(name: str) -> bool:
    """Whether a bug is one of those that an audit of the first release planted: m01 to m34 and s01 to s14."""
    return name[1:].isdigit() and int(name[1:]) <= AUDITED.get(name[0], 0)


def page(results: Mapping[str, Found], schedules: int) -> str:
    """The text of ``docs/internals/adversary.md``."""
    alive = survivors(results)
    lines = [
        "# Planted bugs, and what notices them",
        "",
        "For anyone who asks whether the tests would notice a mistake: each one that was planted, and what noticed it.",
        "",
        "Made from `tests/adversary` by `make docs`; do not edit. `make adversary ARGS=--write` finds it out anew.",
        "",
        "`make adversary` puts one mistake at a time into a copy of the source and runs the tests on it: first the few files",
        "that should notice at once, then whole suites, until one fails. A bug that no suite notices ends it with exit code 1,",
        "else it ends with 0. The mistakes are exact replacements of a few lines: in `tests/adversary/*_bugs.py` those with a",
        "number, in `simulator/minikafka_simulator/bugs/crashes.py` those that `make crashes` finds as well, in",
        "`tests/specification/mistakes.py` those that the specification refuses. The unit",
        "tests check on every run that each can still be planted. Column *breaks*: the rule (R1 to R18 are in",
        "[rules.md](rules.md)), the KIP, or the part of the page that is broken. An empty cell: the suite was not tried after",
        "another had noticed.",
        "",
        "| suite | what it is |",
        "|---|---|",
        f"| {UNIT} | `tests/unit/` log, replication, controller, membership, metadata, server and groups; and, wherever they "
        "are, the few files that are run first |",
        f"| {WIRE} | `tests/unit/wire`: a real broker on loopback, whose only peer the test plays |",
        f"| {SIMULATION} | `minikafka simulate --seeds {FIRST_SEED}..{FIRST_SEED + schedules - 1}`; sockets are its own |",
        f"| {JUDGES} | `tests/unit/` chaos and analytics: the verifier and Spark, for bugs in them (v: verifier, j: Spark) |",
        "",
        f"{len(results)} bugs, {len(results) - len(alive)} noticed.",
        "",
        f"| | planted bug | breaks | in | {' | '.join(SUITES)} | noticed by |",
        f"|---|---|---|---|{'---|' * len(SUITES)}---|",
    ]  # fmt: skip
    lines += [_row(BUGS[name], found) for name, found in results.items()]
    audited = {name: found for name, found in results.items() if is_of_the_audit(name) and SIMULATION in found}
    missed = [name for name, found in audited.items() if not found[SIMULATION]]
    lines += [
        "",
        f"Of m01 to m34 and s01 to s14 the simulation was tried on all {len(audited)}, and notices "
        f"{len(audited) - len(missed)} by itself. The others:",
        "",
        *(f"- {name}: {UNSEEN[name]}." for name in missed),
    ]
    return "\n".join(lines) + "\n"


def _row(bug: Bug, found: Found) -> str:
    by = next((found[suite] for suite in (WIRE, UNIT, JUDGES, SIMULATION) if found.get(suite)), None)
    cells = [_cell(bug, suite, found) for suite in SUITES]
    where = f"[{bug.file}](../../{bug.paths[0]})"
    noticed = "**nothing**" if by is None else f"`{by.rpartition('::')[2] if '::' in by else by}`"
    return f"| {bug.name} | {bug.mistake} | {bug.rule} | {where} | {' | '.join(cells)} | {noticed} |"


def _cell(bug: Bug, suite: str, found: Found) -> str:
    if not tries(suite, bug):
        return "not in it"
    if suite not in found:
        return ""
    return "noticed" if found[suite] else "missed"
