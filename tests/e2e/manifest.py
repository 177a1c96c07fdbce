"""The YAML files of manifests/, with their ${...} filled in."""

from __future__ import annotations

from pathlib import Path
from string import Template

HERE = Path(__file__).parent / "manifests"


def manifest(name: str, **values: object) -> str:
    """The text of a manifest. Raises KeyError for a value that it needs and does not get."""
    return Template((HERE / name).read_text(encoding="utf-8")).substitute(values)
