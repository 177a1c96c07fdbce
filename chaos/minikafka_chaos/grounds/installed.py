"""Finds grounds that other packages bring: they name them in their distribution's entry points, so chaos imports none of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from minikafka_chaos.errors import NotSupported
from minikafka_chaos.grounds import Ground

GROUP = "minikafka.grounds"
"""The group of entry points: a ground's name, and the class that is made with the folder of its brokers' data."""

GroundClass = Callable[[Path], Ground]


@cache
def installed_ground(name: str) -> GroundClass:
    """Import a ground that an entry point names. Raises NotSupported where its package is not installed."""
    for entry_point in entry_points(group=GROUP, name=name):
        try:
            return cast(GroundClass, entry_point.load())
        except ModuleNotFoundError as error:
            if error.name != entry_point.module.partition(".")[0]:
                raise
    raise NotSupported(
        f"--ground {name} needs a package that brings it (entry point {name!r} of {GROUP!r}), and none is installed: "
        "pip install minikafka"
    )
