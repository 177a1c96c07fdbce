"""``python -m tools.supply.lock``: says what of pyproject.toml requirements.lock does not have, or has and nobody requires.

It looks at the two files alone, so `make check` runs it without a network; `make lock` mends what it finds.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from tools.container.requirements import LOCK, asked_for, closure, name_of, read

ROOT = Path(__file__).resolve().parents[2]


def differences(folder: Path) -> list[str]:
    """Compare a folder's lock to its pyproject.toml; a line for each difference."""
    pyproject = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    packages = read(folder / LOCK)
    extras, groups = pyproject["project"]["optional-dependencies"], pyproject.get("dependency-groups", {})
    requirements = {*asked_for(pyproject, [*extras, *groups]), *pyproject["project"]["dependencies"]}
    lines = []
    for requirement in map(Requirement, sorted(requirements)):
        locked = packages.get(name_of(requirement.name))
        if locked is None:
            lines.append(f"pyproject.toml requires {requirement}, which {LOCK} does not have")
        elif not requirement.specifier.contains(locked.version, prereleases=True):
            lines.append(f"pyproject.toml requires {requirement}, and {LOCK} has {locked.version}")
    needed = closure(packages, {name_of(str(requirement)) for requirement in requirements})
    return lines + [f"{LOCK} has {name}, which nothing requires" for name in sorted(packages.keys() - needed)]


def main() -> int:
    """Exit codes: 0 the lock is pyproject.toml's, 1 it is older."""
    lines = differences(ROOT)
    for line in lines:
        print(f"{line}: run make lock", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
