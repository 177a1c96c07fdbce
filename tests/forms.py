"""Which values of a parameter `make full` alone tries: those that repeat what others show already."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

import pytest


def in_full(values: Iterable[Any]) -> list[Any]:
    """Mark values of ``pytest.mark.parametrize`` as those of `make full`.

    Raises TypeError for a set: each of pytest-xdist's workers would have the tests in another order, which it refuses.
    """
    if isinstance(values, Set):
        raise TypeError("in_full: a set has another order in each process")
    return [pytest.param(value, marks=pytest.mark.full) for value in values]
