"""Pages and code name pages, files and folders: each exists, so that a move does not leave readers behind."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path, PurePath

from minikafka_simulator.bugs.catalogue import BUG_SEEDS
from minikafka_simulator.checks.invariants import INVARIANTS

from tests.forms import for_each
from tests.printed import Written, steps
from tests.unit.verdict_cases import CASES
from tools.wrap import wrapped

ROOT = Path(__file__).parents[2]
OF_A_RUN = {
    "matrix.json",
    "report.json",
    "metrics/unanswered.json",
    "comparison.json",
    "runs/comparison/comparison.json",
}
"""Files that are not in the tree: runs have them."""

LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
FILE = re.compile(r"`([\w./-]+\.(?:py|sh|yaml|md|json|toml|css))`")
CODE = re.compile(r"```.*?```", re.DOTALL)


def tracked(*patterns: str) -> list[str]:
    done = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.split()


FILES = tracked()
TOP = {PurePath(file).parts[0] for file in FILES if "/" in file}
PATH = re.compile(rf"`((?:{'|'.join(map(re.escape, sorted(TOP)))})/[\w./-]*)`")
ALL_PAGES = tracked("*.md")
PAGES = [page for page in ALL_PAGES if page != "CHANGELOG.md" and not page.startswith("docs/decisions/")]
"""What tells how things are; the others tell how they were."""
MENTION = re.compile(r"(?<![\w/.-])(?:minikafka/blob/main/)?(docs/(?:[a-z]|STATUS)[\w./-]*)")
"""A page or a folder of them as code, charts and other pages name it."""


def ends() -> set[str]:
    """Every way to name a file by the end of its path."""
    return {"/".join(PurePath(file).parts[index:]) for file in FILES for index in range(len(PurePath(file).parts))}


ENDS = ends()


@for_each(PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    whole = (ROOT / page).read_text(encoding="utf-8")
    written = {step.name for step in steps(whole) if isinstance(step, Written)}
    text = CODE.sub("", whole)
    missing = [file for file in FILE.findall(text) if file not in ENDS | OF_A_RUN | written]
    missing += [path for path in PATH.findall(text) if not (ROOT / path).exists() and path.rstrip("/") not in ENDS]
    assert not missing


STARTED = """-m[\"', ]+minikafka[a-z_]*(\\.[a-z_]+)*"""
"""A module that is started as a program: in a command of a shell, of a chart, or of a list in Python."""
THEN = [":!CHANGELOG.md"]
"""What tells how things were."""


def programs() -> set[str]:
    """The modules that can be started: those with a part for that."""
    command = ["git", "grep", "-l", '^if __name__ == "__main__":', "--", "*.py"]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    dotted = [file.partition("/")[2].removesuffix(".py").replace("/", ".") for file in (*found, *tracked("*.py"))]
    return {*dotted[: len(found)], *(name.removesuffix(".__main__") for name in dotted if name.endswith(".__main__"))}


def test_what_is_started_is_there() -> None:
    """Charts, scripts, pages and code start modules by their names, which no import and no type checker follows."""
    command = ["git", "grep", "-hoIE", "-e", STARTED, "--", ".", *THEN]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    named = {re.split("[\"', ]+", each)[-1] for each in found}
    assert len(named) > 5
    missing = named - programs()
    assert not missing


def anchors(page: Path) -> set[str]:
    """Find the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@for_each(ALL_PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    text = CODE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    missing = []
    for link, anchor in LINK.findall(text):
        there = (ROOT / page).parent / link if link else ROOT / page
        if ":" not in link and not (there.exists() and (not anchor or anchor in anchors(there))):
            missing.append(f"{link}#{anchor}")
    assert not missing


def test_every_mention_of_a_page_is_of_one_that_is_there() -> None:
    """Also in code, charts, tools and tests; ``docs/decisions/004`` stands for the page that begins so."""
    missing = {}
    for file in FILES:
        if file == "tests/unit/test_generated.py" or (ROOT / file).is_symlink():
            continue
        text = (ROOT / file).read_bytes().decode(errors="replace")
        gone = [
            path for path in MENTION.findall(text) if not any(known.startswith(path.rstrip(".")) for known in FILES)
        ]
        if gone:
            missing[file] = gone
    assert not missing


@for_each(ALL_PAGES)
def test_prose_is_wrapped(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert wrapped(text) == text, f"python -m tools.wrap {page}"


@for_each(page for page in ALL_PAGES if page.startswith(("docs/guide/", "docs/reference/", "docs/internals/")))
def test_a_page_says_first_who_needs_it(page: str) -> None:
    title, empty, first = (ROOT / page).read_text(encoding="utf-8").split("\n")[:3]
    assert title.startswith("# ")
    assert not empty
    assert first.startswith("For ")


def test_the_index_has_every_page() -> None:
    linked = {str(PurePath("docs", link)) for link, _ in LINK.findall((ROOT / "docs/README.md").read_text())}
    rooms = ("docs/guide/", "docs/reference/", "docs/internals/")
    assert {page for page in ALL_PAGES if page.startswith(rooms)} <= linked


FOUND = (ROOT / "docs/internals/what-it-found.md").read_text(encoding="utf-8")
TESTS = re.compile(r"def (test_\w+)\(")


def test_what_was_found_has_a_test() -> None:
    """The page names tests, invariants and simulator bugs: each is there."""
    code = "\n".join((ROOT / file).read_text(encoding="utf-8") for file in tracked("tests/*.py"))
    simulation = (ROOT / "docs/internals/simulation.md").read_text(encoding="utf-8")
    seen_by = re.findall(r"^\|.*\| (.*) \|$", FOUND, re.MULTILINE)
    words = [word for cell in seen_by for word in re.findall(r"`([\w-]+)`|\b([ABGL]\d+)\b", cell)]
    assert len(words) > 50
    tests = set(TESTS.findall(code))
    missing = [quoted for quoted, _ in words if quoted.startswith("test_") and quoted not in tests]
    missing += [quoted for quoted, _ in words if quoted and f"`{quoted}`" not in simulation and quoted not in code]
    missing += [name for _, name in words if name and f"| {name} " not in simulation]
    assert not missing


def test_the_readme_has_the_figures_of_the_tables() -> None:
    adversary = (ROOT / "docs/internals/adversary.md").read_text(encoding="utf-8")
    simulation = (ROOT / "docs/internals/simulation.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (.*) \| (\d+) \|$", simulation, re.MULTILINE)
    caught = [int(seed) for _, invariant, seed in rows if "not found" not in invariant]
    planted = re.search(r"^(\d+) bugs, (\d+) noticed", adversary, re.MULTILINE)
    row = re.compile(r"^\| (?!what was wrong)", re.MULTILINE)
    defects, kafkas = len(row.findall(FOUND)), len(row.findall(FOUND.split("\n## ")[1]))
    assert planted
    assert {name for name, *_ in rows} == set(BUG_SEEDS)
    figures = [
        f"{len(INVARIANTS)} invariants",
        f"of {len(BUG_SEEDS)} simulator bugs (mistakes made in the simulator's process), {len(caught)} break an invariant "
        f"within {max(caught)} schedules",
        f"of {planted[1]} planted bugs (mistakes made in a copy of the source), {planted[2]} are noticed",
        f"{len(CASES)} hand-made runs",
        f"{defects} defects: {defects - kafkas} of MiniKafka, {kafkas} in rules that Apache Kafka itself follows",
    ]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [figure for figure in figures if figure not in readme] == []


def test_the_readme_shows_code_that_a_test_runs() -> None:
    """The code of guides is run as it is printed (`tests/unit/testing/test_examples.py`)."""
    block = re.compile(r"^```python\n.*?^```", re.DOTALL | re.MULTILINE)
    guide = (ROOT / "docs/guide/test-your-service.md").read_text(encoding="utf-8")
    shown = block.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert shown
    assert set(shown) <= set(block.findall(guide))


PLACEHOLDER = re.compile(r"NAME: |\b[A-Z](?:-0)?\b")
"""What a page writes where a printed sentence has a name or a number."""


def test_the_sentences_of_verdicts_are_printed() -> None:
    """Whoever looks up the sentence after *Inconclusive* finds it as it was printed."""
    page = (
        (ROOT / "docs/guide/read-a-verdict.md")
        .read_text(encoding="utf-8")
        .split("## When a verdict is Inconclusive")[1]
    )
    rows = re.findall(r"^\| (`.*?) \|", page.split("\n## ")[0], re.MULTILINE)
    folders = (
        "chaos/minikafka_chaos/run/*.py",
        "chaos/minikafka_chaos/verdict/*.py",
        "analytics/minikafka_analytics/judge/*.py",
    )
    printed = "\n".join((ROOT / file).read_text(encoding="utf-8") for file in tracked(*folders))
    said = [part for row in rows for quoted in re.findall(r"`(.*?)`", row) for part in PLACEHOLDER.split(quoted)]
    assert len(rows) > 10
    assert [part for part in said if part.strip() not in printed] == []


def test_every_attempt_on_the_page_of_security_names_its_test() -> None:
    page = (ROOT / "docs/reference/security-attempts.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!attempt|---).*\|$", page, re.MULTILINE)
    sources = "\n".join((ROOT / file).read_text(encoding="utf-8") for file in tracked("tests/*.py"))
    missing = [name for row in rows for name in re.findall(r"`(test_\w+)`", row) if f"def {name}(" not in sources]
    assert missing == []
    assert all("`test_" in row for row in rows)
    assert len(rows) >= 30
