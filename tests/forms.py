"""Which values of a parameter `make full` alone tries: those that repeat what others show already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def in_full(values: Iterable[Any]) -> list[Any]:
    """Mark values of ``pytest.mark.parametrize`` as those of `make full`."""
    return [pytest.param(value, marks=pytest.mark.full) for value in values]
