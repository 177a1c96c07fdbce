"""requirements.py PYPROJECT [EXTRA...]: prints what the project requires, with these extras, one requirement a line.

So that an image's packages are installed apart from the project's own code, which changes far more often.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def requirements(pyproject: Path, extras: list[str]) -> list[str]:
    """The project's dependencies and those of the extras, sorted. Raises SystemExit for an extra that it does not have."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    if unknown := [extra for extra in extras if extra not in optional]:
        raise SystemExit(f"requirements.py: no such extra: {unknown[0]} (there are: {', '.join(optional)})")
    return sorted({*project["dependencies"], *(line for extra in extras for line in optional[extra])})


if __name__ == "__main__":
    print("\n".join(requirements(Path(sys.argv[1]), sys.argv[2:])))
