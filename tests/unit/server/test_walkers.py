"""The threads that look into what clients have compressed: whose turn it is."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import Future

from minikafka.server.walkers import Walkers

DEADLINE = 60.0


class Works:
    """What is done, in order; nothing is before it may go on."""

    def __init__(self, walkers: Walkers) -> None:
        self.walkers = walkers
        self.done: list[str] = []
        self.may_go_on = threading.Event()

    def submit(self, whose: str, name: str) -> Future[None]:
        return self.walkers.submit(whose, lambda: self._work(name))

    def _work(self, name: str) -> None:
        assert self.may_go_on.wait(DEADLINE)
        self.done.append(name)


def test_owners_are_served_round_robin() -> None:
    works = Works(Walkers(1))
    futures = [works.submit(name[0], name) for name in ("a1", "a2", "a3", "b1", "b2", "c1")]
    futures[2].cancel()
    works.may_go_on.set()
    for future in futures[:2] + futures[3:]:
        future.result(DEADLINE)
    assert works.done == ["a1", "a2", "b1", "c1", "b2"]


def test_one_owner_leaves_threads_for_others() -> None:
    walkers = Walkers(3, 2)
    works = Works(walkers)
    futures = [works.submit("a", name) for name in ("a1", "a2", "a3")]
    assert walkers.submit("b", lambda: "at once").result(DEADLINE) == "at once"
    assert walkers.submit("b", lambda: "again").result(DEADLINE) == "again", "the thread is free, and still not a's"
    works.may_go_on.set()
    for future in futures:
        future.result(DEADLINE)
    assert sorted(works.done) == ["a1", "a2", "a3"]


def test_nothing_is_kept_for_who_waits_no_more() -> None:
    """A batch of 100 MiB, say, behind the work of others."""
    works = Works(Walkers(1))
    first = works.submit("a", "a1")
    batch = threading.Event()
    kept = weakref.ref(batch)
    second = works.walkers.submit("a", batch.set)
    del batch
    assert kept() is not None
    second.cancel()
    assert kept() is None
    works.may_go_on.set()
    first.result(DEADLINE)


def test_what_fails_is_told_and_gives_its_thread_back() -> None:
    walkers = Walkers(1)
    failed = walkers.submit("a", lambda: 1 / 0)
    assert isinstance(failed.exception(DEADLINE), ZeroDivisionError)
    assert walkers.of("a").submit(divmod, 7, 2).result(DEADLINE) == (3, 1)
