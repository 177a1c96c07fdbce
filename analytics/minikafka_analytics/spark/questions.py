"""Steps and answers of an analysis, each computed as soon as the steps that it needs are there, several at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from minikafka_analytics.spark.sql import heard

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame

    from minikafka_analytics.spark.steps import Steps

Record = dict[str, Any]
Make = Callable[..., "DataFrame"]

STEPS_AT_ONCE, ANSWERS_AT_ONCE = 2, 2
"""Planning one query overlaps running another; more than this only queue for two cores. Answers have threads of their own, for
the chain of steps is what takes longest and must not wait for them."""


class Questions:
    """What is to be computed, by name. A step may be needed before it is declared; after a `with` block nothing is running."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._step_threads = ThreadPoolExecutor(STEPS_AT_ONCE)
        self._answer_threads = ThreadPoolExecutor(ANSWERS_AT_ONCE)
        self._there: dict[str, Future[DataFrame]] = {}
        self._answers: dict[str, Future[list[Record]]] = {}
        self._asked: dict[str, Record] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Questions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._step_threads.shutdown(cancel_futures=True)
        self._answer_threads.shutdown(cancel_futures=True)

    def add_table(self, name: str, make: Callable[[], DataFrame]) -> None:
        """Add a step that needs no other, and that `make` lands by itself."""
        self._when(self._step_threads, (), make, self._step(name))

    def step(self, name: str, make: Make, *needs: str, few: bool = False) -> None:
        """Land what `make` gives of the steps that are needed, in this order. `few`: see Steps.land."""
        make = self._noting(name, False, needs, make)
        self._when(
            self._step_threads, needs, lambda *found: self._steps.land(name, make(*found), few), self._step(name)
        )

    def view(self, name: str, make: Make, *needs: str) -> None:
        """A step of which nothing is landed: some rows or columns of the steps that are needed."""
        make = self._noting(name, False, needs, make)
        self._when(self._step_threads, needs, lambda *found: self._steps.whole(make(*found)), self._step(name))

    def answer(self, name: str, make: Make, *needs: str) -> None:
        """Bring the rows of what `make` gives to the driver."""
        future = self._answers[name] = Future()
        make = self._noting(name, True, needs, make)
        self._when(self._answer_threads, needs, lambda *found: collected(make(*found)), future)

    def answers(self) -> dict[str, list[Record]]:
        """All answers, by name; raises what the first that failed raised."""
        return {name: future.result() for name, future in self._answers.items()}

    def asked(self) -> list[Record]:
        """Return what was asked of Spark, in the order of declaration: name, whether it is an answer, what it needs, its SQL.

        `sql` is empty where rows are taken as they are, or by expressions of Spark's own API.
        """
        return list(self._asked.values())

    def _noting(self, name: str, is_answer: bool, needs: tuple[str, ...], make: Make) -> Make:
        """`make`, noting the SQL that it asks."""
        about: Record = {"name": name, "answer": is_answer, "needs": list(needs), "sql": []}
        # An answer that hands out a step of its name has no SQL of its own.
        self._asked[f"{name} {is_answer}"] = about

        def noting(*found: DataFrame) -> DataFrame:
            with heard() as texts:
                frame = make(*found)
            about["sql"] = texts
            return frame

        return noting

    def _step(self, name: str) -> Future[DataFrame]:
        with self._lock:
            return self._there.setdefault(name, Future())

    def _when(
        self, threads: ThreadPoolExecutor, needs: tuple[str, ...], make: Callable[..., Any], future: Future[Any]
    ) -> None:
        """Have `future` filled in by one of the threads once all needs are there; a need that failed fails it, too."""
        waiting = [self._step(need) for need in needs]
        left = [len(waiting)]

        def work() -> None:
            try:
                future.set_result(make(*(each.result() for each in waiting)))
            except BaseException as error:
                future.set_exception(error)

        def begin(_: object = None) -> None:
            with self._lock:
                left[0] -= 1
                ready = left[0] <= 0
            if ready:
                try:
                    threads.submit(work)
                except RuntimeError as error:  # the threads are at their end, for something else has failed
                    future.set_exception(error)

        if not waiting:
            begin()
        for each in waiting:
            each.add_done_callback(begin)


def collected(frame: DataFrame) -> list[Record]:
    """The rows of a frame as plain records."""
    return [row.asDict(recursive=True) for row in frame.collect()]
