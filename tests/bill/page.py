"""What was measured of each test file, on record, and ``docs/internals/tests.md`` made from it."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.adversary import results
from tests.bill.plugin import FORMS, FULL

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("bill.json")
PARTS = Path(__file__).with_name("full.tsv")
"""What `make full` has put on record of its parts (``tools/parts --record``)."""
PAGE = ROOT / "docs/internals/tests.md"
COSTLY_SECONDS = 20
"""Of processor time: what costs more says what it alone proves."""


class Cost(NamedTuple):
    """Of the tests of one file in one form: their number, seconds of processor and of wall."""

    tests: int
    cpu: float
    wall: float

    def __add__(self, other: Any) -> Cost:
        return Cost(*(round(one + more, 1) for one, more in zip(self, other, strict=True)))  # type: ignore[arg-type]


NOTHING = Cost(0, 0.0, 0.0)
Bill = dict[str, dict[str, Cost]]
"""By file and by form."""


def load(path: Path = RECORD) -> Bill:
    """What is on record of files that are still there."""
    if not path.is_file():
        return {}
    recorded = json.loads(path.read_text(encoding="utf-8"))
    return {
        file: {form: Cost(*cost) for form, cost in forms.items()}
        for file, forms in recorded.items()
        if (ROOT / file).is_file()
    }


def save(bill: Bill, path: Path = RECORD) -> None:
    lines = [f" {json.dumps(file)}: {json.dumps(forms)}" for file, forms in sorted(bill.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def by_file(measured: Iterable[Mapping[str, Any]]) -> Bill:
    """Sum up by file and form what the plug-in has written of each test."""
    found: dict[str, dict[str, Cost]] = defaultdict(dict)
    for line in measured:
        if "test" in line:
            forms = found[line["test"].partition("::")[0]]
            forms[line["form"]] = forms.get(line["form"], NOTHING) + Cost(1, line["cpu"], line["wall"])
    return dict(found)


def noticed_only_by() -> dict[str, list[str]]:
    """The planted bugs that the tests of one file alone noticed, of what is on record; by file."""
    found: dict[str, list[str]] = defaultdict(list)
    for bug, by_suite in results.load().items():
        noticers = {by.partition("::")[0] for by in by_suite.values() if by}
        if len(noticers) == 1:
            found[noticers.pop()].append(bug)
    return found


def what_it_proves(file: str) -> str:
    """The first sentence of a file's docstring."""
    told = ast.get_docstring(ast.parse((ROOT / file).read_text(encoding="utf-8"))) or ""
    return " ".join(told.split("\n\n", maxsplit=1)[0].split())


def page(bill: Bill) -> str:
    """The text of ``docs/internals/tests.md``."""
    only = noticed_only_by()
    forms = {form: _total(forms.get(form, NOTHING) for forms in bill.values()) for form in FORMS}
    lines = [
        "# What the tests cost",
        "",
        "For anyone who writes tests: which file takes how long, in which form of the tests it runs, what it alone proves.",
        "",
        "Measured by `make bill`, made from its record by `make docs`; do not edit.",
        "Processor seconds are those of a test and of all that it started (brokers,",
        "JVMs), collection aside; wall seconds depend on what else ran. A file in several forms has a row for each.",
        "",
        "| form | command | tests | CPU s | files |",
        "|---|---|---|---|---|",
    ]
    sum_, files = NOTHING, set()
    for form in FORMS:
        sum_ += forms[form]
        files |= {file for file, found in bill.items() if form in found}
        lines.append(f"| {form} | `make {form}` | {sum_.tests:,} | {sum_.cpu:,.0f} | {len(files)} |")
    lines += [
        "",
        "Each form has what stands above it. `make full` also repeats some tests, measures the core's branch coverage, runs",
        "2,000 schedules of the simulator, and the tests on a Kubernetes API server and on a kind cluster,",
        "which have no row below, for nearly all that they cost is Kubernetes'.",
        "",
        "In no form: `make compare` asks Apache Kafka and MiniKafka every API with odd input, and ends with 1 at a",
        "difference that `tests/interop/declared_differences.py` does not have (a quarter of an hour).",
        "",
        *gate(PARTS.read_text(encoding="utf-8").splitlines() if PARTS.is_file() else ()),
        "## Files",
        "",
        f"*Proves* is said of what costs more than {COSTLY_SECONDS} CPU s. *Bugs* are those planted ones that this file alone",
        "is on record for ([adversary](adversary.md)).",
        "",
        "| file | form | tests | CPU s | wall s | bugs | proves |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    rows = [(file, form, cost) for file, found in bill.items() for form, cost in found.items()]
    for file, form, cost in sorted(rows, key=lambda row: (-row[2].cpu, row[0], row[1])):
        bugs = " ".join(only.get(file, ())) if form != FULL else ""
        proves = what_it_proves(file) if cost.cpu > COSTLY_SECONDS else ""
        lines.append(
            f"| [{file.removeprefix('tests/')}](../../{file}) | {form} | {cost.tests} | {cost.cpu:.1f} | {cost.wall:.1f} "
            f"| {bugs} | {proves} |"
        )
    return "\n".join(lines) + "\n"


def gate(recorded: Iterable[str]) -> list[str]:
    """The section on the parts of `make full`, as they ended last; none where nothing is on record."""
    rows = [line.split("\t") for line in recorded]
    if not rows:
        return []
    return [
        "## The last run of each part of `make full`",
        "",
        "A `+` after the commit: something in the working tree differed from it. CPU seconds leave out what daemons and",
        "containers used.",
        "",
        "| part | commit | outcome | s | CPU s | tests passed | skipped |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| `{command}` | {commit} | {outcome} | {int(wall):,} | {int(cpu):,} | {int(passed):,} | {skipped} |"
            for command, commit, outcome, wall, cpu, passed, skipped in rows
        ),
        "",
    ]


def _total(costs: Iterable[Cost]) -> Cost:
    total = NOTHING
    for cost in costs:
        total += cost
    return total
