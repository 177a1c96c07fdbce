"""The process that `prewarm.PrewarmedAnalysis` starts: Spark, warmed up for an analysis that is asked for later.

`python -m minikafka_analytics.commands.prewarm_worker [BYTES]` starts Spark for about so many bytes and warms it up until it
reads one line of standard input, `{"run": FOLDER, "out": FOLDER}`; without BYTES it starts Spark when it has read that. Its
answer is one line of standard output: `html`, `json` and `differ` (how the two judges differ, or null), or `failed`, one line
that says why. It ends, and all that it has started, at once when its standard input does: who asked is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from minikafka_analytics.commands import priority
from minikafka_analytics.spark import jvm
from minikafka_analytics.spark.session import spark_session
from minikafka_analytics.spark.settings import settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[*]"
CANCEL_SECONDS = 0.05


def warm_up(spark: SparkSession) -> None:
    """Analyse a run of a few lines, which asks all that is asked of others."""
    from minikafka_analytics.analyze import analyze
    from minikafka_analytics.commands.tiny_run import write_tiny_run

    @contextmanager
    def lent(*_: object) -> Iterator[SparkSession]:
        yield spark

    with tempfile.TemporaryDirectory(prefix="minikafka-warm-up-") as scratch:
        analyze([write_tiny_run(Path(scratch) / "run")], Path(scratch) / "out", MASTER, start=lent)


class Order:
    """The one line of a stream, which a thread of its own reads: `came` is called then, and `gone` where the stream ends."""

    def __init__(self, stream: IO[bytes], came: Callable[[], None], gone: Callable[[], None]) -> None:
        self._came = threading.Event()
        self._line = b""
        self._calls = came, gone
        threading.Thread(target=self._read, args=(stream,), name="order", daemon=True).start()

    def wait(self, seconds: float | None = None) -> bytes:
        """The line, once it is there; empty after so many seconds."""
        return self._line if self._came.wait(seconds) else b""

    def _read(self, stream: IO[bytes]) -> None:
        came, gone = self._calls
        for line in stream:
            self._line = line
            came()
            self._came.set()
        gone()


class WarmSpark:
    """Spark for about `size` bytes, started and warmed up until there is an order; `session` lends it to one analysis."""

    def __init__(self, size: int, order: Order, warm: Callable[[SparkSession], None] = warm_up) -> None:
        self._size = size
        self._spark: SparkSession | None = None
        self._error: Exception | None = None
        self._stack = ExitStack()
        try:
            self._spark = self._stack.enter_context(spark_session(MASTER, None, size))
        except Exception as error:
            self._error = error
            return
        if not order.wait(0):
            with _cut_off(self._spark, order), suppress(Exception):  # it was; or it failed, as the analysis will
                warm(self._spark)

    @contextmanager
    def session(self, master: str, settings: Mapping[str, str] | None, size: int) -> Iterator[SparkSession]:
        """What `session.spark_session` gives: this Spark where it is planned for so much, else another.

        Ends this process where the JVM did not start or was ended meanwhile, by a kernel that was out of memory, say: who asked
        starts another, for PySpark cannot start a second JVM after one that died. Raises why where it was silent.
        """
        fits = master == MASTER and not settings and settings_for(size, MASTER) == settings_for(self._size, MASTER)
        if self._error is not None:
            if isinstance(self._error.__cause__, TimeoutError):
                raise self._error
            raise SystemExit(str(self._error))
        if not jvm.is_alive():
            raise SystemExit("Spark's JVM ended before it was wanted")
        if self._spark is None or not fits:
            self._stack.close()
            with spark_session(master, settings, size) as another:
                yield another
            return
        with self._stack:
            yield self._spark


@contextmanager
def _cut_off(spark: SparkSession, order: Order) -> Iterator[None]:
    """Cancels all that Spark does in the block, again and again, from when there is an order."""
    over = threading.Event()

    def cancel() -> None:
        order.wait()
        while not over.wait(CANCEL_SECONDS):
            with suppress(Exception):  # a JVM that has died is doing nothing
                spark.sparkContext.cancelAllJobs()

    canceller = threading.Thread(target=cancel, name="cut-off", daemon=True)
    canceller.start()
    try:
        yield
    finally:
        over.set()
        if order.wait(0):  # else it still waits for one
            canceller.join()


def answer_to(order: Order, size: int | None) -> dict[str, str | None]:
    """Start Spark if a size is given, wait for the order, and do it."""
    from minikafka_analytics.analyze import analyze, reported_runs

    try:
        start = spark_session if size is None else WarmSpark(size, order).session
        asked = json.loads(order.wait())
        paths = analyze([Path(asked["run"])], Path(asked["out"]), MASTER, start=start)
        differ = next((each.sentence for each in reported_runs(paths) if each.agree is False), None)
    except ModuleNotFoundError as error:
        return {"failed": f"{error}; pip install 'minikafka[analytics]'"}
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return {"failed": lines[0]}
    return {"html": str(paths.html), "json": str(paths.json), "differ": differ}


def _nothing() -> None:
    pass


def _end_all() -> None:
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main() -> int:
    """Run the process; see the module."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else None
    came = _nothing if size is None else partial(priority.give_back, priority.lower())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing that is printed on the way is an answer
    # Unbuffered: a thread that waits for a buffered stream holds its lock, and Python aborts where it ends meanwhile.
    with open(0, "rb", buffering=0, closefd=False) as orders:
        order = Order(orders, came, _end_all)
        answers.write(json.dumps(answer_to(order, size)) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
