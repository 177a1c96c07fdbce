"""Requests that wait."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest
from minikafka.server.purgatory import DelayedFetch


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What nobody refers to is gone at once, or stays."""
    gc.disable()
    yield
    gc.enable()


def a_fetch_from_start_to_end() -> weakref.ref[Callable[[bool], None]]:
    """What it was to be tried again with."""

    def retry(final: bool) -> None:
        assert parked.follower is final

    parked = DelayedFetch(0.0, True, retry)
    parked.retry(True)
    parked.forget()
    parked.retry(False)  # it had been woken before
    return weakref.ref(retry)


@pytest.mark.usefixtures("no_collector")
def test_a_fetch_that_is_over_leaves_nothing_to_the_garbage_collector() -> None:
    """A thousand a second did, and each collection held up all partitions for up to a tenth of a second."""
    assert a_fetch_from_start_to_end()() is None
