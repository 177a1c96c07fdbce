"""Starts Spark: on this machine with what a small machine can give, or against a cluster with as little as possible said."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from minikafka_analytics.archive import archived
from minikafka_analytics.java import Java, find_java
from minikafka_analytics.on_kubernetes import DEFAULTS, IN_CLUSTER, MASTER, is_kubernetes
from minikafka_analytics.scratch import ScratchFolder
from minikafka_analytics.spark_settings import (
    ALWAYS,
    GENERATED,
    GENERATING_BESIDE,
    JVM_OPTIONS,
    LOCAL,
    MEMORY,
    OF_THE_HEAP,
    SMALL_JVM_OPTIONS,
    STORES,
    YOUNG_OF_LARGE,
    YOUNG_OF_SMALL,
    is_local,
    of_few_bytes,
    settings_for,
    small,
)
from minikafka_analytics.stores import Place, in_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkDidNotStart(RuntimeError):
    """The JVM or Spark in it ended before it could be used; the message is one line with what it said last."""


NO_JVM = "Error occurred during initialization of VM"
"""What a JVM writes before the line that tells why it cannot start."""

SECONDS_TO_END = 120.0  # a JVM that leaves a class archive takes some seconds, many on a busy machine

LOG_SETTINGS = Path(__file__).parent / "templates" / "log4j2.properties"

SCRATCH = "minikafka-spark-"
STDOUT, STDERR = 1, 2


def generating(spark: SparkSession) -> SparkSession:
    """A session beside this one, of the same context, that generates code; this one where it does so itself, or is told what
    to do by the user."""
    if spark.conf.get(GENERATING_BESIDE, None) is None:
        return spark
    beside = spark.newSession()
    for key, value in GENERATED.items():
        beside.conf.set(key, value)
    return beside


@contextmanager
def spark_session(
    master: str = "local[*]", settings: Mapping[str, str] | None = None, size: int = 0
) -> Iterator[SparkSession]:
    """A Spark session that is stopped, and whose scratch folder is removed, at the end. `size`: bytes that will be read.

    Where a session is already active in this process it is lent and left running. Raises JavaMissing before anything
    is started when there is no Java to run on.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    java = _java_found(master)
    own = ScratchFolder(Path(tempfile.gettempdir()), SCRATCH)
    scratch = own.path
    is_small = of_few_bytes(size)
    reach = _reaches[-1] if _reaches else None
    if reach is not None and reach.is_small and not is_small:
        _end_gateway()  # its JVM has one JIT compiler, which what is large would wait for
        reach.is_small = False
    started = SparkContext._gateway is None  # else by `reached`
    chosen = ALWAYS | (LOCAL if is_local(master) else {}) | (STORES if reach else {}) | settings_for(size, master)
    if settings and not set(GENERATED).isdisjoint(settings):
        chosen.pop(GENERATING_BESIDE, None)
    chosen["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
    if is_local(master):
        chosen["spark.local.dir"] = str(scratch)
    session = None
    try:
        place = reach.scratch if reach else scratch
        nothing: AbstractContextManager[dict[str, str]] = nullcontext({})
        classes = archived(java, make=reach is None) if is_small else nullcontext("")
        young = YOUNG_OF_SMALL if is_small else YOUNG_OF_LARGE
        with _launched(master, place, classes, young, settings) if started else nothing as options:
            builder = SparkSession.builder.master(small(master)).appName("minikafka analyze")
            for key, value in (chosen | options | dict(settings or {})).items():
                builder = builder.config(key, value)
            try:
                with _starting(java, scratch):
                    session = builder.getOrCreate()
                session.sparkContext.setLogLevel("ERROR")
                yield session
            finally:
                if session is not None:
                    # A JVM that has died cannot be stopped, and what killed it is being raised.
                    with suppress(Exception):
                        session.stop()
                if started and reach is None:
                    _end_gateway()
    finally:
        own.remove()


@dataclass
class _Reach:
    """A JVM that `reached` keeps: its folder for temporary files, and whether it was launched for small runs, as most are."""

    scratch: Path
    is_small: bool = True


_reaches: list[_Reach] = []


@contextmanager
def reached(places: Sequence[Place], master: str, settings: Mapping[str, str] | None = None) -> Iterator[None]:
    """Has stores be readable while the body runs: where one of the places is in a store, Spark's JVM is started before Spark is.

    What is in a store has to be listed before it is known how much it is, and so how Spark is to plan. Sessions in the body use
    that JVM, and it is ended at the end. Where one runs already it is left running. Raises what `spark_session` raises.
    """
    if not any(map(in_store, places)):
        yield
        return
    from pyspark import SparkConf, SparkContext

    if SparkContext._gateway is not None:
        yield
        return
    java = _java_found(master)
    own = ScratchFolder(Path(tempfile.gettempdir()), SCRATCH)
    scratch = own.path
    try:
        with _launched(master, scratch, archived(java, make=False), YOUNG_OF_SMALL, settings) as options:
            chosen = ALWAYS | (LOCAL if is_local(master) else {}) | STORES | options
            chosen["spark.driver.defaultJavaOptions"] = SMALL_JVM_OPTIONS
            if is_kubernetes(master):
                chosen["spark.driver.memory"] = DEFAULTS["spark.driver.memory"]
            conf = SparkConf(loadDefaults=False).setMaster(IN_CLUSTER if master == MASTER else small(master))
            conf.setAll([*chosen.items(), *(settings or {}).items()])
            try:
                with _starting(java, scratch):
                    SparkContext._ensure_initialized(conf=conf)
                _reaches.append(_Reach(scratch))
                yield
            finally:
                _reaches.clear()
                _end_gateway()
    finally:
        own.remove()


def _java_found(master: str) -> Java:
    """Has this process's environment name the Java and the Python that Spark is to run on. Raises JavaMissing."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run whichever python3 is first on the PATH
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark warns about a name that resolves to loopback
    return java


@contextmanager
def _launched(
    master: str,
    scratch: Path,
    archive: AbstractContextManager[str],
    young: str,
    settings: Mapping[str, str] | None,
) -> Iterator[dict[str, str]]:
    """The settings that a JVM is launched with which ends in the block. `archive` gives its options for an archive of classes,
    `young` is the one for its young objects, `settings` are the user's."""
    if not is_local(master):
        yield {}
        return
    heap = f"{OF_THE_HEAP} {young}" if MEMORY not in (settings or {}) else ""
    with archive as class_archive:
        yield {
            "spark.hadoop.hadoop.tmp.dir": str(scratch),  # where S3A keeps what it has not sent yet
            "spark.driver.extraJavaOptions": f"{JVM_OPTIONS} {heap} {class_archive} "
            f'-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} "-Djava.io.tmpdir={scratch}"',
        }


@contextmanager
def _starting(java: Java, scratch: Path) -> Iterator[None]:
    """Raises SparkDidNotStart for whatever the start of a JVM, or of Spark in it, raises."""
    with _jvm_output(scratch / "jvm.output") as said:
        try:
            yield
        except Exception as error:
            raise SparkDidNotStart(f"Spark did not start on {java.home}: {_last_words(said, error)}") from error


@contextmanager
def _jvm_output(path: Path) -> Iterator[Path]:
    """Sends what a JVM that is started meanwhile writes, to either standard stream, into a file: it warns of its own incubator
    modules, which nobody who runs an analysis can act on. Why it cannot start it tells on standard output, where our own answer
    belongs. Spark's errors reach Python as exceptions.

    The JVM inherits the descriptors. So the file is this process's standard output and error, too, as long as the block lasts.
    """
    sys.stdout.flush()
    with ExitStack() as undo, path.open("ab") as file:
        for stream in (STDOUT, STDERR):
            with suppress(OSError):  # a process without it
                kept = os.dup(stream)
                undo.callback(os.close, kept)
                undo.callback(os.dup2, kept, stream)
            os.dup2(file.fileno(), stream)
        yield path


def _last_words(said: Path, error: Exception) -> str:
    lines = [line.strip() for line in said.read_text(encoding="utf-8", errors="replace").splitlines()]
    why = next((after for line, after in pairwise(lines) if line == NO_JVM), None)
    errors = [line for line in lines if line.lower().startswith(("error", "exception", "caused by", "fatal"))]
    return why or (errors or [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__])[0]


def spilling_to(spark: SparkSession) -> Path | None:
    """Where Spark on this machine puts what does not fit into memory; None where executors do that elsewhere."""
    context = spark.sparkContext
    found = context.getConf().get("spark.local.dir") if is_local(str(context.master)) else None
    return Path(found) if found else None


@contextmanager
def cancelling(spark: SparkSession) -> Iterator[None]:
    """Ends all that Spark is doing when the block raises, so that nothing waits for answers that nobody wants."""
    try:
        yield
    except BaseException:
        with suppress(Exception):  # a JVM that has died is doing nothing
            spark.sparkContext.cancelAllJobs()
        raise


def _end_gateway() -> None:
    """Ends the JVM that `stop()` leaves behind, so that a second session may take other settings and no process stays."""
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
