"""Pages name files and folders: each of them exists, so that a move does not leave readers behind."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).parents[2]
OF_A_RUN = {
    "matrix.json",
    "report.json",
    "metrics/unanswered.json",
    "comparison.json",
    "runs/comparison/comparison.json",
}
"""Files that are not in the tree: runs have them."""

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FILE = re.compile(r"`([\w./-]+\.(?:py|sh|yaml|md|json|toml|css))`")
CODE = re.compile(r"```.*?```", re.DOTALL)


def tracked(*patterns: str) -> list[str]:
    done = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.split()


FILES = tracked()
TOP = {PurePath(file).parts[0] for file in FILES if "/" in file}
PATH = re.compile(rf"`((?:{'|'.join(map(re.escape, sorted(TOP)))})/[\w./-]*)`")
PAGES = [page for page in tracked("*.md") if page != "CHANGELOG.md" and not page.startswith("docs/proposals/")]
"""What tells how things are; the others tell how they were."""


def ends() -> set[str]:
    """Every way to name a file by the end of its path."""
    return {"/".join(PurePath(file).parts[index:]) for file in FILES for index in range(len(PurePath(file).parts))}


ENDS = ends()


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    text = CODE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    links = [link for link in LINK.findall(text) if ":" not in link]
    missing = [link for link in links if not (ROOT / page).parent.joinpath(link).exists()]
    missing += [file for file in FILE.findall(text) if file not in ENDS | OF_A_RUN]
    missing += [path for path in PATH.findall(text) if not (ROOT / path).exists() and path.rstrip("/") not in ENDS]
    assert not missing


STARTED = """-m[\"', ]+minikafka[a-z_]*(\\.[a-z_]+)*"""
"""A module that is started as a program: in a command of a shell, of a chart, or of a list in Python."""
THEN = [":!CHANGELOG.md", ":!docs/shown.md"]
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


FOUND = (ROOT / "docs/what-it-found.md").read_text(encoding="utf-8")
TESTS = re.compile(r"def (test_\w+)\(")


def test_what_was_found_has_a_test() -> None:
    """The page names tests, invariants, bug seeds and seeds of schedules: each is there."""
    code = "\n".join((ROOT / file).read_text(encoding="utf-8") for file in tracked("tests/*.py"))
    simulation = (ROOT / "docs/simulation.md").read_text(encoding="utf-8")
    schedules = (ROOT / "tests/simulation/test_schedules.py").read_text(encoding="utf-8")
    seen_by = re.findall(r"^\|.*\| (.*) \|$", FOUND, re.MULTILINE)
    words = [word for cell in seen_by for word in re.findall(r"`([\w-]+)`|\b(\d{6,7}|[ABGL]\d+)\b", cell)]
    assert len(words) > 50
    tests = set(TESTS.findall(code))
    missing = [quoted for quoted, _ in words if quoted.startswith("test_") and quoted not in tests]
    missing += [quoted for quoted, _ in words if quoted and f"`{quoted}`" not in simulation and quoted not in code]
    missing += [seed for _, seed in words if seed.isdigit() and f"{seed}:" not in schedules]
    missing += [name for _, name in words if name[:1].isalpha() and f"| {name} " not in simulation]
    assert not missing
