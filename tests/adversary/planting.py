"""Plants bugs in a copy of the source.

A simulator bug is the same kind of row (:mod:`minikafka_simulator.bugs`): `same_as` has both use one.
``tests/unit/adversary`` sees that each can still be planted.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Mapping
from pathlib import Path

from minikafka_simulator.bugs.bug import SOURCE, Bug, Drifted, planted_texts
from minikafka_simulator.bugs.catalogue import BUG_SEEDS, CRASH_BUGS

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("broker-image", "kube", "operator", "chaos", "simulator", "analytics", "tests", "bench", "docs", "tools")
"""What a copy needs so that tests run in it."""
COPIED_FILES = ("pyproject.toml",)
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache", "node_modules")


NOT_SIMULATED = (
    "transport/http",
    "server/machine",
    "log/filesystem",
    "metadata/sqlite",
    "kubernetes/connection",
    "kubernetes/credentials",
)
"""Files of the broker in whose place `minikafka simulate` has its own: sockets, disk and database."""


def same_as(seed: str, name: str, rule: str, tests: tuple[str, ...]) -> Bug:
    """A simulator bug, planted under a name of this table."""
    return {**BUG_SEEDS, **CRASH_BUGS}[seed]._replace(name=name, rule=rule, tests=tests)


def is_of_the_broker(bug: Bug) -> bool:
    """Whether the broker runs what it changes; what lies beside it judges, breaks or tends it."""
    return all(path.startswith(SOURCE) for path in bug.paths)


def is_simulated(bug: Bug) -> bool:
    """Whether `minikafka simulate` runs what it changes at all."""
    return is_of_the_broker(bug) and not bug.file.startswith(NOT_SIMULATED)


def sources(bug: Bug, root: Path = ROOT) -> dict[str, str]:
    """The texts of the files that it changes. Raises Drifted."""
    for path in bug.paths:
        if not (root / path).is_file():
            raise Drifted(f"{bug.name}: there is no {path} any more")
    return {path: (root / path).read_text(encoding="utf-8") for path in bug.paths}


def _written(bug: Bug, sound: Mapping[str, str]) -> dict[str, str]:
    """The files with the bug in them. Raises Drifted, and SyntaxError where no Python comes of it."""
    texts = planted_texts(bug, sound)
    for path, text in texts.items():
        ast.parse(text, path)
    return texts


def check(bug: Bug, root: Path = ROOT) -> None:
    """That the bug can be planted into the present source. Raises Drifted, SyntaxError."""
    _written(bug, sources(bug, root))
    for test in bug.tests:
        if not (root / test).exists():
            raise Drifted(f"{bug.name}: there is no {test} any more")


class Copy:
    """A copy of the source in a folder of its own, with at most one bug in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sound: dict[str, str] = {}
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=LEFT_OUT)
        for name in COPIED_FILES:
            shutil.copy2(ROOT / name, folder / name)

    def plant(self, bug: Bug) -> None:
        """Put the bug in. Raises Drifted, SyntaxError."""
        sound = sources(bug, self.folder)
        self._write_all(_written(bug, sound))
        self._sound = sound

    def heal(self) -> None:
        """Take it out again."""
        self._write_all(self._sound)

    def _write_all(self, texts: dict[str, str]) -> None:
        for path, text in texts.items():
            self._write(self.folder / path, text)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()  # Python knows a change by size and whole seconds only
