"""entry_points.py PYPROJECT FOLDER: writes what a package of the project says of its entry points, as an installed wheel has it.

An image has the project's own code as a folder, not as a wheel; without this nobody would find the grounds in it.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def entry_points(pyproject: Path) -> str:
    """Return the text of ``entry_points.txt``."""
    groups = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["entry-points"]
    return "\n".join(
        line for group, names in groups.items() for line in (f"[{group}]", *(f"{n} = {at}" for n, at in names.items()))
    )


if __name__ == "__main__":
    folder = Path(sys.argv[2]) / "minikafka-0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: minikafka\nVersion: 0\n", encoding="utf-8")
    (folder / "entry_points.txt").write_text(f"{entry_points(Path(sys.argv[1]))}\n", encoding="utf-8")
