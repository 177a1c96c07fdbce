"""Describes a mistake as a change of the source: the text that stands in a file, and the text that takes its place.

A text to be replaced must stand in its file exactly once. So a refactoring that takes it away is noticed at once, instead of
leaving a bug that is not planted any more and a table that says it is caught.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

SOURCE = "broker-image/minikafka"
PACKAGES = ("kube/", "operator/", "chaos/", "analytics/")
"""Folders beside the broker's; their files are named from the root of the project."""


class Drifted(Exception):
    """A text to be replaced is not in its file exactly once."""


class SourcePatch(NamedTuple):
    """Replaces one text in one file, which is named below ``broker-image/minikafka``, or from the root where it is not there."""

    file: str
    old: str
    new: str

    @property
    def path(self) -> str:
        """The file, from the root of the project."""
        return self.file if self.file.startswith(PACKAGES) else f"{SOURCE}/{self.file}"

    @property
    def module(self) -> str:
        """The module that the file is."""
        return self.path.partition("/")[2].removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class Bug(NamedTuple):
    """A mistake that somebody could make."""

    name: str
    mistake: str
    rule: str
    """What it breaks: a rule of docs/internals/rules.md, a KIP, or what the project promises; or where it was made."""
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    """Test files that should notice it, quickest first."""
    also: tuple[SourcePatch, ...] = ()
    """Further places that the same mistake takes."""

    @property
    def patches(self) -> tuple[SourcePatch, ...]:
        """All places."""
        return (SourcePatch(self.file, self.old, self.new), *self.also)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that it changes, from the root of the project."""
        return tuple(dict.fromkeys(patch.path for patch in self.patches))


def planted_texts(bug: Bug, sources: Mapping[str, str]) -> dict[str, str]:
    """Put a bug into texts of files.

    Args:
        sources: the text of each of :attr:`Bug.paths`.

    Raises:
        Drifted: a text to be replaced is not there exactly once.
    """
    texts = {path: sources[path] for path in bug.paths}
    for patch in bug.patches:
        found = texts[patch.path].count(patch.old)
        if found != 1:
            raise Drifted(f"{bug.name}: its text stands {found} times in {patch.path}, not once; plant it anew")
        texts[patch.path] = texts[patch.path].replace(patch.old, patch.new)
    return texts
