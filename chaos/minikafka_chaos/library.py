"""The scenarios that come with this project, by name."""

from __future__ import annotations

from pathlib import Path

from minikafka_chaos.errors import BadScenario
from minikafka_chaos.scenario import Scenario, load_scenario

SUFFIX = ".yaml"


def folder() -> Path:
    """Where the scenarios are: inside the package when installed, beside it in a checkout."""
    installed = Path(__file__).parent / "scenarios"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "scenarios"


def names() -> list[str]:
    """The names, sorted."""
    return sorted(path.stem for path in folder().glob(f"*{SUFFIX}"))


def find(name_or_file: str) -> Scenario:
    """A scenario by its file, or by the name of one that comes with the project. Raises BadScenario."""
    path = Path(name_or_file)
    if not path.exists() and name_or_file in names():
        path = folder() / f"{name_or_file}{SUFFIX}"
    if not path.exists():
        raise BadScenario(f"{name_or_file}: no such file, and no scenario of that name ({', '.join(names())})")
    return load_scenario(path)
