"""``docs/internals/rules.md``: where each rule of replication is kept, and which tests name it.

``make docs`` writes the page, but not where a rule R1 to R18 has no code or no test, or a simulator bug has no test. A place in
the code keeps a rule when its docstring or a comment names it; a test shows it when the docstring of the test, its class or
its file does.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CODE = ("broker-image/minikafka", "chaos/minikafka_chaos", "simulator/minikafka_simulator")
TESTS = ("tests",)
SEEDS_MODULES = tuple(f"simulator/minikafka_simulator/bugs/{name}.py" for name in ("rules", "replication"))
"""Those whose simulator bugs break a rule that a test shows by itself."""

RULES = {
    "R1": "replicas of a partition on different brokers; leaders, replicas and racks spread evenly",
    "R2": "clients talk to the leader only; followers pull with the Fetch that consumers use",
    "R3": "LEO is the next offset; HW <= LEO; below the HW is committed, and is what consumers see",
    "R4": "produce: append, advance LEO, HW = max(HW, min(LEO of the ISR)), wake who waits",
    "R5": "a follower's fetch: its offset is its LEO; only the leader keeps the LEOs of other replicas",
    "R6": "a follower's append: HW = min(LEO, leader's HW), one fetch behind",
    "R7": "a fetch with nothing to return waits, and is completed early by a produce",
    "R8": "in sync: within replica.lag.time.max.ms at the leader's end, or at its end of the fetch before; others leave",
    "R9": "a follower returns to the ISR at the HW and past the start of the leader's epoch; that may move the HW",
    "R10": "ISR changes: compare-and-set, announced in batches, no storm on the store",
    "R11": "checkpoints: high watermarks, recovery points, leader epochs",
    "R12": "a leader epoch is (epoch, start offset), grows at every change of leader, and fences older ones",
    "R13": "a follower truncates by leader epochs, not by its HW; a leader never truncates",
    "R14": "election: the first live replica in the ISR; empty: offline, or unclean when that is allowed",
    "R15": "the controller is elected among the brokers, over a store with compare-and-set, leases and watches",
    "R16": "acks 0, 1 and all; NOT_ENOUGH_REPLICAS before and after the append",
    "R17": "writes go to memory, flushes are forced by settings; what a power loss takes, a leader that has it gives back",
    "R18": "producers: retries, order, idempotence; consumers: commits and rewinding",
}

_RULE = re.compile(r"\bR(\d{1,2})(?:\s*(?:to|-|–)\s*R(\d{1,2}))?\b")
_SOURCE = re.compile(r"\b(?:KIP-\d+|KAFKA-\d+|Fluss #\d+|redpanda #\d+|OFFSET_NOT_AVAILABLE|Kip320\.tla)")
_SEED = re.compile(r"[Ss]imulator\s+bug\s+([a-z0-9-]+[a-z0-9])")


class Mention(NamedTuple):
    """A place that names a rule, a source or a simulator bug."""

    name: str
    file: str
    place: str
    """Qualified name within the file; empty for the file itself."""


def names_in(text: str) -> Iterator[str]:
    """Every rule (ranges taken apart), source and simulator bug that a text names."""
    for first, last in _RULE.findall(text):
        for number in range(int(first), int(last or first) + 1):
            if f"R{number}" in RULES:
                yield f"R{number}"
    yield from _SOURCE.findall(text)
    yield from (f"simulator bug {name}" for name in _SEED.findall(text))


def attribute_docstrings(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Every attribute, constant or enum member of a body that has a string right below it, with that string."""
    for statement, below in pairwise(body):
        match statement, below:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, text


def mentions_in(path: Path, *, comments: bool) -> Iterator[Mention]:
    """Return what the docstrings (and the comments) of a file name, and where."""
    source = path.read_text(encoding="utf-8")
    file = str(path.relative_to(ROOT))
    spans: list[tuple[int, int, str]] = []

    def visit(node: ast.AST, prefix: str) -> Iterator[Mention]:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for name in names_in(ast.get_docstring(node) or ""):
                yield Mention(name, file, prefix)
            for attribute, text in attribute_docstrings(node.body):
                for name in names_in(text):
                    yield Mention(name, file, f"{prefix}.{attribute}" if prefix else attribute)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                inner = f"{prefix}.{child.name}" if prefix else child.name
                spans.append((child.lineno, child.end_lineno or child.lineno, inner))
                yield from visit(child, inner)

    yield from visit(ast.parse(source), "")
    if not comments:
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        around = [s for s in spans if s[0] <= token.start[0] <= s[1]]
        place = max(around)[2] if around else ""
        for name in names_in(token.string):
            yield Mention(name, file, place)


def collect(folders: Sequence[str], *, comments: bool) -> dict[str, dict[str, list[str]]]:
    """Places by file by name."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name, file, place in mentions_in(path, comments=comments):
                if place not in found[name][file]:
                    found[name][file].append(place)
    return found


def tests_only(places: list[str]) -> list[str]:
    """Select from the places in a test file the tests, classes of tests and the file itself."""
    return [p for p in places if not p or p.rpartition(".")[2].startswith(("test_", "Test"))]


def bug_seeds() -> dict[str, tuple[str, str]]:
    """(mistake, source) by name, read from the declarations without importing them."""
    seeds = {}
    trees = [ast.parse((ROOT / module).read_text(encoding="utf-8")) for module in SEEDS_MODULES]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Bug":
            name, mistake, source = (ast.literal_eval(argument) for argument in node.args[:3])
            seeds[name] = (mistake, source)
    return seeds


def page(code: dict[str, dict[str, list[str]]], tests: dict[str, dict[str, list[str]]]) -> str:
    """The text of ``docs/internals/rules.md``."""
    lines = [
        "# Rules, where they are kept and where they are shown",
        "",
        "For anyone who changes a rule of replication: where the code keeps it, and which tests show it.",
        "",
        "Made from the docstrings and comments that name a rule by `make docs`; do not edit. R1 to R18 are numbers that this",
        "project gives Kafka's rules; KIP and KAFKA numbers are Kafka's proposals and issues. *Places* and *tests* count what",
        "is listed below.",
        "",
        "## R1 to R18",
        "",
        "| rule | | places | tests |",
        "|---|---|---|---|",
    ]
    for rule, title in RULES.items():
        places, shown = _count(code.get(rule, {})), _count(tests.get(rule, {}))
        lines.append(f"| [{rule}](#{rule.lower()}) | {title} | {places} | {shown} |")
    for rule, title in RULES.items():
        lines += ["", f"### {rule}", "", f"{title[0].upper()}{title[1:]}.", "", "Code:", ""]
        lines += _listed(code.get(rule, {}))
        lines += ["", "Tests:", ""]
        lines += _listed(tests.get(rule, {}))
    lines += [
        "",
        "## Simulator bugs that break a rule",
        "",
        "Those that break a rule which a test shows by itself, with that test. [All of them](simulation.md#simulator-bugs);",
        "[which invariant finds each](simulation.md#how-soon-they-are-caught), in which schedule.",
        "",
        "| simulator bug | mistake | source | tests |",
        "|---|---|---|---|",
    ]
    for name, (mistake, source) in bug_seeds().items():
        lines.append(f"| `{name}` | {mistake} | {source} | {'<br>'.join(_seed_tests(name, tests))} |")
    lines += [
        "",
        "## Kafka's proposals and issues",
        "",
        "| | code | tests |",
        "|---|---|---|",
    ]
    for name in sorted({n for n in (*code, *tests) if n.startswith(("KIP-", "KAFKA-"))}, key=_by_number):
        lines.append(f"| {_linked_source(name)} | {_files(code.get(name, {}))} | {_files(tests.get(name, {}))} |")
    return "\n".join(lines) + "\n"


def _count(by_file: dict[str, list[str]]) -> int:
    return sum(len(places) for places in by_file.values())


def _link(file: str) -> str:
    short = file.removeprefix("broker-image/").removeprefix("chaos/").removeprefix("simulator/").removeprefix("tests/")
    return f"[{short}](../../{file})"


def _listed(by_file: dict[str, list[str]]) -> list[str]:
    lines = []
    for file, places in by_file.items():
        named = ", ".join(f"`{place}`" for place in places if place)
        lines.append(f"- {_link(file)}: {named}" if named else f"- {_link(file)}")
    return lines


def _files(by_file: dict[str, list[str]]) -> str:
    return ", ".join(_link(file) for file in by_file) or "-"


def _seed_tests(name: str, tests: dict[str, dict[str, list[str]]]) -> list[str]:
    return [
        f"{_link(file)} `{place.rpartition('.')[2]}`"
        for file, places in tests.get(f"simulator bug {name}", {}).items()
        for place in places
    ]


def _by_number(name: str) -> tuple[str, int]:
    kind, number = name.split("-")
    return kind, int(number)


def _linked_source(name: str) -> str:
    if name.startswith("KAFKA-"):
        return f"[{name}](https://issues.apache.org/jira/browse/{name})"
    return name


def problems(code: dict[str, dict[str, list[str]]], tests: dict[str, dict[str, list[str]]]) -> list[str]:
    """Return what is missing, a line each."""
    missing = [f"{rule}: no place in the code names it" for rule in RULES if not code.get(rule)]
    missing += [f"{rule}: no test names it" for rule in RULES if not tests.get(rule)]
    seeds = bug_seeds()
    missing += [f"simulator bug {name}: no test names it" for name in seeds if not tests.get(f"simulator bug {name}")]
    named = {n.removeprefix("simulator bug ") for n in tests if n.startswith("simulator bug ")}
    missing += [
        f"simulator bug {name}: named by a test, but there is none of that name" for name in sorted(named - set(seeds))
    ]
    return missing


def current_page() -> str:
    """Make the page. ValueError: a rule R1 to R18 has no code or no test, or a simulator bug has no test."""
    code = collect(CODE, comments=True)
    tests: dict[str, dict[str, list[str]]] = {}
    for name, by_file in collect(TESTS, comments=False).items():
        kept = {file: tests_only(places) for file, places in by_file.items() if Path(file).name.startswith("test_")}
        if any(kept.values()):
            tests[name] = {file: places for file, places in kept.items() if places}
    if missing := problems(code, tests):
        raise ValueError("\n".join(missing))
    return page(code, tests)
