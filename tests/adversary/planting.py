"""A planted bug: one exact replacement in one file of a copy of the source.

The text to be replaced must stand in the file exactly once. So a refactoring that takes it away is noticed at once
(``tests/unit/test_planted_bugs.py``), instead of leaving a bug that is not planted any more and a table that says it is caught.
"""

from __future__ import annotations

import ast
import shutil
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "broker-image/minikafka"
PACKAGES = ("kube/", "operator/", "chaos/", "analytics/")
"""Folders beside the broker's that bugs are planted in; their files are named from the root of the project."""
COPIED = ("broker-image", "kube", "operator", "chaos", "analytics", "tests", "bench", "docs")
"""What a copy needs so that tests run in it."""
COPIED_FILES = ("pyproject.toml",)
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache", "node_modules")


class Drifted(Exception):
    """The text to be replaced is not in the file exactly once."""


class Bug(NamedTuple):
    """A mistake that somebody could make, and what notices it first."""

    name: str
    mistake: str
    rule: str
    """What it breaks: a rule of docs/internals/rules.md, a KIP, or what the project promises."""
    file: str
    """Below ``broker-image/minikafka``, or from the root where that is not the broker's."""
    old: str
    new: str
    tests: tuple[str, ...]
    """Test files, quickest first: run before any whole suite."""

    @property
    def path(self) -> str:
        """The file, from the root of the project."""
        return self.file if self.file.startswith(PACKAGES) else f"{SOURCE}/{self.file}"

    @property
    def is_of_the_broker(self) -> bool:
        """Whether the broker runs the file; what lies beside it judges, breaks or tends it."""
        return self.path.startswith(SOURCE)

    @property
    def is_simulated(self) -> bool:
        """Whether `minikafka simulate` runs the file at all: it brings its own sockets, disk and database."""
        apart = (
            "server/http",
            "server/machine",
            "log/filesystem",
            "metadata/sqlite",
            "kubernetes/connection",
            "kubernetes/credentials",
        )
        return self.is_of_the_broker and not self.file.startswith(apart)


def planted(bug: Bug, source: str) -> str:
    """The file's text with the bug in it. Raises Drifted, SyntaxError."""
    found = source.count(bug.old)
    if found != 1:
        raise Drifted(f"{bug.name}: its text stands {found} times in {bug.path}, not once; plant it anew")
    result = source.replace(bug.old, bug.new)
    ast.parse(result, bug.file)
    return result


def check(bug: Bug, root: Path = ROOT) -> None:
    """That the bug can be planted into the present source. Raises Drifted, SyntaxError."""
    path = root / bug.path
    if not path.is_file():
        raise Drifted(f"{bug.name}: there is no {bug.path} any more")
    planted(bug, path.read_text(encoding="utf-8"))
    for test in bug.tests:
        if not (root / test).exists():
            raise Drifted(f"{bug.name}: there is no {test} any more")


class Copy:
    """A copy of the source in a folder of its own, with at most one bug in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sound: tuple[Path, str]
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=LEFT_OUT)
        for name in COPIED_FILES:
            shutil.copy2(ROOT / name, folder / name)

    def plant(self, bug: Bug) -> None:
        """Put the bug in. Raises Drifted, SyntaxError."""
        path = self.folder / bug.path
        sound = path.read_text(encoding="utf-8")
        self._write(path, planted(bug, sound))
        self._sound = path, sound

    def heal(self) -> None:
        """Take it out again."""
        self._write(*self._sound)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()  # Python knows a change by size and whole seconds only
