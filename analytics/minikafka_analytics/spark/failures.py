"""What can go wrong in Spark, and what to do about it, in one line each.

None of it says anything about the run, so `minikafka analyze` ends with 3, could not tell. Spark tells of a failure in a Java
stack trace of sixty lines; which failure it is stands in one of its causes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from minikafka_analytics.spark import jvm
from minikafka_analytics.storage.stores import Place

LONGEST_CAUSE = 300  # characters of what Spark said, for a failure that is none of the known ones

RESULT_TOO_LARGE = "the answers are larger than the driver may hold: --conf spark.driver.maxResultSize=4g"
OUT_OF_MEMORY = (
    "Spark ran out of memory: give it more with --conf spark.driver.memory=4g, or analyse fewer runs at once"
)
EXECUTORS_LOST = (
    "executors were lost again and again: see the cluster's logs; often they need more memory "
    "(--conf spark.executor.memory=4g, spark.executor.memoryOverhead=1g)"
)
FETCH_FAILED = "executors could not read each other's shuffle files: see the cluster's logs and its network"
JVM_GONE = "Spark's JVM ended while it worked ({}): try --conf spark.driver.memory=4g, or analyse fewer runs at once"


class SparkFailed(RuntimeError):
    """Spark could not finish; the message is one line that says what to do."""


@contextmanager
def in_one_line(out: Place, spilling: Callable[[], Path | None] = lambda: None) -> Iterator[None]:
    """Turns whatever Spark raises, and all that is raised when its JVM has ended, into SparkFailed. JavaMissing and
    SparkDidNotStart say what to do by themselves.

    `out` is where the analysis writes, `spilling` tells where Spark spills to. PySpark's own log of exceptions, which repeats the
    stack trace on standard error, is switched off meanwhile; py4j writes to the root logger, too.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    loggers = [logging.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j", "")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    scratch = None
    try:
        scratch = spilling()
        yield
    except Exception as error:
        ended = jvm.how_it_ended()
        if ended is None and not isinstance(error, PySparkException | Py4JError | ConnectionError):
            raise
        raise SparkFailed(advice(_text(error), out, scratch, ended)) from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def while_it_lives() -> Iterator[None]:
    """Turns all that is raised when Spark's JVM has ended into SparkFailed: which call has met that tells nothing."""
    try:
        yield
    except SparkFailed:
        raise
    except Exception as error:
        ended = jvm.how_it_ended()
        if ended is None:
            raise
        raise SparkFailed(JVM_GONE.format(ended)) from error


def advice(text: str, out: Place, scratch: Path | None = None, ended: str | None = None) -> str:
    """One line for the text of a failure. `ended`: how the JVM has ended; None while it lives."""
    if "maxResultSize" in text:
        return RESULT_TOO_LARGE
    if "No space left on device" in text or "Disk quota exceeded" in text:
        spills = "" if scratch is None else f", or in {scratch}, where Spark spills to (TMPDIR moves that)"
        return f"the disk is full: free some space in {out}{spills}"
    if "OutOfMemoryError" in text or "exit code 52" in text or "Cannot allocate memory" in text:
        return OUT_OF_MEMORY
    if "ExecutorLostFailure" in text or "ExecutorDeadException" in text or "executors have failed" in text:
        return EXECUTORS_LOST
    if "FetchFailed" in text or "MetadataFetchFailed" in text:
        return FETCH_FAILED
    denied = re.search(r"(?:AccessControlException|AccessDeniedException|Permission denied)[^\n]*", text)
    if denied:
        return f"Spark may not write in {out}: {denied.group()[:LONGEST_CAUSE]}"
    if ended is not None:
        return JVM_GONE.format(ended)
    return f"Spark failed: {_cause(text)}"


def _text(error: BaseException) -> str:
    """All that is known of a failure: its own words and its Java causes, down to the first."""
    parts: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        try:
            parts.append(f"{type(seen).__name__}: {seen}")
        except Exception as gone:  # PySpark asks the JVM for the words
            parts.append(f"Py4JNetworkError: {gone}")
        parts += [text for text in (getattr(seen, "_stackTrace", None), getattr(seen, "_desc", None)) if text]
        seen = seen.__cause__ or seen.__context__
    return "\n".join(parts)


def _cause(text: str) -> str:
    """The innermost cause in a Java stack trace, else the first line."""
    causes = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("\tat", "\t..."))]
    found = causes[-1] if causes else lines[0] if lines else "for no reason that it gave"
    return str(found)[:LONGEST_CAUSE]
