"""Starts Spark: on this machine with what a small machine can give, or against a cluster with as little as possible said."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from minikafka.local.scratch import ScratchFolder

from minikafka_analytics.spark import jvm
from minikafka_analytics.spark.archive import archived
from minikafka_analytics.spark.failures import while_it_lives
from minikafka_analytics.spark.java import Java, find_java
from minikafka_analytics.spark.on_kubernetes import DEFAULTS, IN_CLUSTER, MASTER, is_kubernetes
from minikafka_analytics.spark.settings import (
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
from minikafka_analytics.storage.stores import Place, in_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LOG_SETTINGS = Path(__file__).parent / "log4j2.properties"

SCRATCH = "minikafka-spark-"
OUTPUT = "jvm.output"


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
        jvm.end()  # its JVM has one JIT compiler, which what is large would wait for
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
            merged = chosen | options | dict(settings or {})
            builder = SparkSession.builder.master(small(master)).appName("minikafka analyze")
            for key, value in merged.items():
                builder = builder.config(key, value)
            try:
                with jvm.starting(java, place / OUTPUT):
                    if started:
                        jvm.launch({"spark.master": small(master), **merged}, place / OUTPUT)
                    session = builder.getOrCreate()
                    session.sparkContext.setLogLevel("ERROR")
                with while_it_lives():
                    yield session
            finally:
                if session is not None:
                    # A JVM that has died cannot be stopped, and what killed it is being raised.
                    with suppress(Exception):
                        session.stop()
                if started and reach is None:
                    jvm.end()
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
    from pyspark import SparkContext

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
            chosen["spark.master"] = IN_CLUSTER if master == MASTER else small(master)
            try:
                with jvm.starting(java, scratch / OUTPUT):
                    jvm.launch(chosen | dict(settings or {}), scratch / OUTPUT)
                _reaches.append(_Reach(scratch))
                with while_it_lives():
                    yield
            finally:
                _reaches.clear()
                jvm.end()
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
            f'-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} "-Djava.io.tmpdir={scratch}" '
            f'"-XX:ErrorFile={scratch}/hs_err_%p.log"',  # what a JVM that crashes leaves, else in the user's own folder
        }


def spilling_to(spark: SparkSession) -> Path | None:
    """Return where Spark on this machine puts what does not fit into memory; None where executors do that elsewhere."""
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
