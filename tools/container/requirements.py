"""requirements.py FOLDER [NAME...]: prints what FOLDER/requirements.lock has of these extras and groups, to be installed by hash.

One lock has everything that the project and its tools are installed from; who installs takes its part by this. It is of the
standard library alone, for it also runs while an image is built.

Names are extras or dependency groups of FOLDER/pyproject.toml. The project's own dependencies are always among what is printed,
unless only groups were named, or the group `broker`: the part of them that images without chaos have instead. What a package
requires for an extra of its own that somebody in the lock asks for is printed for everybody: a lock does not tell the two apart.
Wheels that were built from a locked source archive are locked by FOLDER/built.lock, where there is one: its lines replace those
of the same packages.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOCK = "requirements.lock"
BROKER = "broker"
BUILT = "built.lock"
_PACKAGE = re.compile(r"^([A-Za-z0-9][\w.-]*)==(\S+)((?: ?;[^\\]*)?)(?: \\)?$")
_HASH = re.compile(r"^    --hash=(sha256:[0-9a-f]{64})(?: \\)?$")
_VIA = re.compile(r"^    #(?: via|  ) (\S.*)$")


@dataclass
class Locked:
    """A package of the lock: `via` has the normal names of those that require it."""

    name: str
    version: str
    marker: str
    hashes: list[str]
    via: set[str]

    def lines(self) -> list[str]:
        """Make the lines of a requirements file."""
        parts = [f"{self.name}=={self.version}{self.marker}", *(f"--hash={digest}" for digest in self.hashes)]
        return [*(f"{'    ' if number else ''}{part} \\" for number, part in enumerate(parts[:-1])), f"    {parts[-1]}"]


def normal(name: str) -> str:
    """Make a distribution's name what PEP 503 compares."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    """Make the normal name of a requirement's distribution."""
    return normal(re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0])


def read(lock: Path) -> dict[str, Locked]:
    """Read a lock. Raises SystemExit that names the line which is none of a lock's, or the package without a hash."""
    packages: dict[str, Locked] = {}
    package = None
    for number, line in enumerate(lock.read_text(encoding="utf-8").splitlines(), start=1):
        if found := _PACKAGE.match(line):
            package = Locked(normal(found[1]), found[2], found[3].rstrip(), [], set())
            if package.name in packages:
                raise SystemExit(f"{lock}: line {number}: {package.name} is there twice")
            packages[package.name] = package
        elif package is not None and (found := _HASH.match(line)):
            package.hashes.append(found[1])
        elif package is not None and (found := _VIA.match(line)):
            package.via.add(name_of(found[1]))
        elif line.strip() not in ("", "# via") and not line.startswith("#"):
            raise SystemExit(f"{lock}: line {number}: only NAME==VERSION with --hash=sha256:... is allowed: {line}")
    if bare := [package.name for package in packages.values() if not package.hashes]:
        raise SystemExit(f"{lock}: {bare[0]} has no hash")
    return packages


def asked_for(pyproject: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
    """Yield the requirements of extras and groups, and of what those include. Raises SystemExit for one that is neither."""
    project, groups = pyproject["project"], pyproject.get("dependency-groups", {})
    extras, names = project["optional-dependencies"], list(names)
    if unknown := [name for name in names if name not in extras and name not in groups]:
        raise SystemExit(
            f"requirements.py: no such extra or group: {unknown[0]} (there are: {', '.join([*extras, *groups])})"
        )
    if BROKER not in names and (not names or any(name in extras for name in names)):
        yield from project["dependencies"]
    for name in names:
        for requirement in extras.get(name, groups.get(name)):
            if name_of(requirement) == project["name"]:
                yield from asked_for(pyproject, re.findall(r"[\w-]+", requirement.partition("[")[2].partition("]")[0]))
            else:
                yield requirement


def closure(packages: Mapping[str, Locked], roots: Iterable[str]) -> set[str]:
    """Find all that the packages of these names require, and themselves."""
    found: set[str] = set()
    waiting = set(roots)
    while waiting:
        found |= waiting
        waiting = {package.name for package in packages.values() if package.via & waiting} - found
    return found


def selection(folder: Path, names: Iterable[str]) -> list[Locked]:
    """Select what the lock in a folder has of these extras and groups. Raises SystemExit where the lock lacks one of them."""
    packages = read(folder / LOCK)
    pyproject = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    roots = {name_of(requirement) for requirement in asked_for(pyproject, names)}
    if missing := sorted(roots - packages.keys()):
        raise SystemExit(f"{LOCK} is older than pyproject.toml: it lacks {missing[0]}; run make lock")
    built = read(folder / BUILT) if (folder / BUILT).is_file() else {}
    return [built.get(name, packages[name]) for name in sorted(closure(packages, roots))]


if __name__ == "__main__":
    for chosen in selection(Path(sys.argv[1]), sys.argv[2:]):
        print("\n".join(chosen.lines()))
