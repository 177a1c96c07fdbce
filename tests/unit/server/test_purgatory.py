"""Requests that wait."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from minikafka.protocol.fetch import CONSUMER, FetchRequest
from minikafka.replication.clock import Clock
from minikafka.replication.purgatory import FetchTopics

from tests.unit.replication.unwired import replica_manager


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What nobody refers to is gone at once, or stays."""
    gc.disable()
    yield
    gc.enable()


class Connection:
    """Knows the fetch that waits for it, which knows how to answer it."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        manager = replica_manager(Clock(lambda: 0.0, lambda: 0, lambda *_: None))
        request = FetchRequest(CONSUMER, 1000, 1, 1 << 20, 0, 0, -1, [("t", [])])
        self.parked = manager.fetch(request, self.answered)

    def answered(self, topics: FetchTopics, size: int) -> None:
        assert topics == [("t", [])]
        self.answers.append(size)


def a_fetch_from_start_to_end(answered: bool) -> weakref.ref[Connection]:
    connection = Connection()
    parked = connection.parked
    assert parked is not None and not parked.is_over
    parked.retry(False)
    assert not parked.is_over, "there is nothing for it yet"
    if answered:
        parked.retry(True)
    else:
        parked.give_up()
    assert parked.is_over
    parked.retry(False)  # it had been woken before
    assert connection.answers == [0] * answered
    return weakref.ref(connection)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("answered", [True, False])
def test_a_fetch_that_is_over_leaves_nothing_to_the_garbage_collector(answered: bool) -> None:
    """A thousand a second did, and each collection held up all partitions for up to a tenth of a second."""
    assert a_fetch_from_start_to_end(answered)() is None
