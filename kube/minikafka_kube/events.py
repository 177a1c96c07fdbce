"""Kubernetes Events that are to be written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Emit:
    """An Event about the object that is looked after.

    ``action`` is what was done, in one CamelCase word, where that differs; ``related_pod`` the name of a pod that is being
    replaced, or empty.
    """

    reason: str
    note: str
    warning: bool = False
    action: str = ""
    related_pod: str = ""
