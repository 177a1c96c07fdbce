"""entry_points.py PYPROJECT FOLDER: writes down the entry points of the project, as an installed wheel has them.

An image has the project's own code as a folder, not as a wheel: without this nobody would find a ground in it.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def write(pyproject: Path, folder: Path) -> None:
    """Write it below the folder that has the code."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    lines = []
    for group, places in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in places.items())]
    info = folder / f"{project['name']}-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
