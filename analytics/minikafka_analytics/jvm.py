"""The JVM that Spark runs in on this machine: launched with its output in a file, and ended with the analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from minikafka_analytics.java import Java


class SparkDidNotStart(RuntimeError):
    """The JVM or Spark in it ended before it could be used; the message is one line with what it said last."""


NO_JVM = "Error occurred during initialization of VM"
"""What a JVM writes before the line that tells why it cannot start."""

SECONDS_TO_END = 120.0  # a JVM that leaves a class archive takes some seconds, many on a busy machine


@contextmanager
def starting(java: Java, said: Path) -> Iterator[None]:
    """Raises SparkDidNotStart for whatever the start of a JVM, or of Spark in it, raises. `said`: what the JVM writes."""
    try:
        yield
    except Exception as error:
        raise SparkDidNotStart(f"Spark did not start on {java.home}: {_last_words(said, error)}") from error


def launch(settings: Mapping[str, str], said: Path) -> None:
    """Starts the JVM that Spark in this process will use.

    What it writes, to either standard stream, goes into the file `said`: it warns of its own incubator modules, which nobody who
    runs an analysis can act on, and why it cannot start it tells on standard output, where our own answer belongs. Spark's errors
    reach Python as exceptions.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with said.open("ab") as file:
        gateway = launch_gateway(conf, {"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


def process_id() -> int | None:
    """Of the JVM that is there; None without one that this process has launched."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return None if process is None else int(process.pid)


def end() -> None:
    """Ends the JVM that `SparkSession.stop` leaves behind: a second session may take other settings, and no process stays."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    if process is not None:
        if process.stdin is not None:
            process.stdin.close()  # the JVM ends when its standard input does
        try:
            process.wait(timeout=SECONDS_TO_END)
        except Exception:  # whatever it is, the JVM must not outlive the analysis
            process.kill()
            process.wait()


def _last_words(said: Path, error: Exception) -> str:
    try:
        text = said.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    lines = [line.strip() for line in text.splitlines()]
    why = next((after for line, after in pairwise(lines) if line == NO_JVM), None)
    errors = [line for line in lines if line.lower().startswith(("error", "exception", "caused by", "fatal"))]
    return why or (errors or [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__])[0]
