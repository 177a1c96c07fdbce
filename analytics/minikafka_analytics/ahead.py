"""Spark started ahead of its analysis, and warmed up by another, small one, at a low priority beside what else goes on.

A second analysis in the same JVM takes two thirds of the first one's time: its classes are initialised, its hot methods compiled,
its parser has seen the grammar (docs/proposals/013). Whoever knows that an analysis will come can have that done before.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from minikafka_analytics import jvm, priority
from minikafka_analytics.session import spark_session
from minikafka_analytics.spark_settings import settings_for

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession

MASTER = "local[*]"
CANCEL_SECONDS = 0.05


def warm_up(spark: SparkSession) -> None:
    """Analyse a run of a few lines, which asks all that is asked of others."""
    from minikafka_analytics.analyze import analyze
    from minikafka_analytics.archive import write_tiny_run

    @contextmanager
    def lent(*_: object) -> Iterator[SparkSession]:
        yield spark

    with tempfile.TemporaryDirectory(prefix="minikafka-warm-up-") as scratch:
        analyze([write_tiny_run(Path(scratch) / "run")], Path(scratch) / "out", MASTER, start=lent)


class Ahead:
    """Spark on this machine that `begin` starts in a thread of its own, for the one analysis that takes it by `session`.

    Until then it is warmed up by `warm` (None: not at all), at a low priority. At the end of a `with` block it is stopped,
    whether anybody took it or not.
    """

    def __init__(self, warm: Callable[[SparkSession], None] | None = warm_up) -> None:
        self._warm = warm
        self._thread: threading.Thread | None = None
        self._size = 0
        self._spark: SparkSession | None = None
        self._error: Exception | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def begin(self, size: int) -> None:
        """Start Spark for about this many bytes of files, and come back at once. Who takes it is told why it did not start."""
        self._size = size
        self._thread = threading.Thread(target=self._start, name="spark-ahead")
        self._thread.start()

    @contextmanager
    def session(
        self, master: str = MASTER, settings: Mapping[str, str] | None = None, size: int = 0
    ) -> Iterator[SparkSession]:
        """What `session.spark_session` gives: the Spark that was begun where it is the one that is asked for, else another."""
        self._wait()
        fits = master == MASTER and not settings and settings_for(size, master) == settings_for(self._size, MASTER)
        if self._thread is None or not fits:
            self._end()
            with spark_session(master, settings, size) as spark:
                yield spark
            return
        if self._spark is None:
            assert self._error is not None
            raise self._error
        try:
            yield self._spark
        finally:
            self._end()

    def _start(self) -> None:
        priority.lower()
        try:
            self._spark = self._stack.enter_context(spark_session(MASTER, None, self._size))
        except Exception as error:
            self._error = error
            return
        if self._warm is not None:
            with suppress(Exception):  # it was cut off; or it failed, and so will the analysis, which tells why
                self._warm(self._spark)

    def _wait(self) -> None:
        """Until Spark has started, by now at the priority of who waits; what it does to warm up is cut off."""
        if self._thread is None:
            return
        while self._thread.is_alive():
            priority.raise_to_mine(self._thread, jvm.process_id())
            if self._spark is not None:
                with suppress(Exception):  # a JVM that has died is doing nothing
                    self._spark.sparkContext.cancelAllJobs()
            self._thread.join(CANCEL_SECONDS)
        priority.raise_to_mine(None, jvm.process_id())

    def _end(self) -> None:
        self._wait()
        self._thread = self._spark = None
        self._stack.close()
