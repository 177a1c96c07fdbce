"""Forms of tests with many values: which of them `make full` alone tries, and which are one test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Any

import pytest


def in_full(values: Iterable[Any]) -> list[Any]:
    """Mark values of ``pytest.mark.parametrize`` as those of `make full`.

    Raises TypeError for a set: each of pytest-xdist's workers would have the tests in another order, which it refuses.
    """
    if isinstance(values, Set):
        raise TypeError("in_full: a set has another order in each process")
    return [pytest.param(value, marks=pytest.mark.full) for value in values]


def for_each(values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Make one test of a quick check: it is made of every value (of the parts of a tuple), and all failures are told.

    What pytest does for each test by itself costs more than such checks do. A check that needs fixtures is parametrized instead.
    """
    tried = list(values)

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            failures = []
            for value in tried:
                try:
                    check(*value) if isinstance(value, tuple) else check(value)
                except Exception as error:
                    failures.append(f"{value!r:.200}: {type(error).__name__}: {error}")
            assert not failures, "\n\n".join([f"{len(failures)} of {len(tried)} fail", *failures])
            assert tried

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorate
