"""The scenarios that come with this project, by name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from minikafka_chaos.errors import BadScenario
from minikafka_chaos.scenario.scenario import Scenario, load_scenario

SUFFIX = ".yaml"
PACKAGE = Path(__file__).parent.parent


def folder() -> Path:
    """Return where the scenarios are: inside the package when installed, beside it in a checkout."""
    installed = PACKAGE / "scenarios"
    return installed if installed.is_dir() else PACKAGE.parent / "scenarios"


def matrices_folder() -> Path:
    """Return where the matrices are, as `folder`."""
    installed = PACKAGE / "matrices"
    return installed if installed.is_dir() else PACKAGE.parent / "matrices"


def matrix_path(name_or_file: str) -> Path:
    """The file of a matrix, given that or the name of one that comes along. Raises BadScenario."""
    path = Path(name_or_file)
    if path.is_file():
        return path
    known = matrix_names()
    if name_or_file not in known:
        raise BadScenario(
            f"{name_or_file}: no such file, and no matrix of that name; allowed: a file, or {', '.join(known)}"
        )
    return matrices_folder() / f"{name_or_file}{SUFFIX}"


def matrix_names() -> list[str]:
    """The names of the matrices that come along, sorted."""
    return sorted(path.stem for path in matrices_folder().glob(f"*{SUFFIX}"))


def names() -> list[str]:
    """The names, sorted."""
    return sorted(path.stem for path in folder().glob(f"*{SUFFIX}"))


def find(name_or_file: str, settings: Sequence[str] = ()) -> Scenario:
    """A scenario by its file, or by the name of one that comes with the project, with `settings` changed.

    A folder is no scenario, whatever its name. Raises BadScenario.
    """
    path = Path(name_or_file)
    if not path.is_file() and name_or_file in names():
        path = folder() / f"{name_or_file}{SUFFIX}"
    if path.is_dir():
        raise BadScenario(f"{name_or_file}: a folder; allowed: a scenario file, or one of {', '.join(names())}")
    if not path.exists():
        near = difflib.get_close_matches(name_or_file, names(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"allowed: a file, or one of {', '.join(names())}"
        raise BadScenario(f"{name_or_file}: no such file, and no scenario of that name; {hint}")
    return load_scenario(path, settings)
