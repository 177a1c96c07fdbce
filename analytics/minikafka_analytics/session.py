"""Starts Spark: on this machine with what a small machine can give, or against a cluster with as little as possible said.

Every setting has its reason here. For a `local` master all of them apply. For another master (`k8s://...`) only those
that the analysis itself relies on do, and the rest belongs to whoever runs the driver: spark-defaults.conf, or `settings`.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minikafka_analytics.archive import archived
from minikafka_analytics.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkDidNotStart(RuntimeError):
    """The JVM or Spark in it ended before it could be used; the message is one line with what it said last."""


SECONDS_TO_END = 120.0  # a JVM that leaves a class archive takes some seconds, many on a busy machine

LOG_SETTINGS = Path(__file__).parent / "templates" / "log4j2.properties"

ALWAYS = {
    "spark.sql.session.timeZone": "UTC",  # times in the report do not depend on the machine's own zone
    # A torn or foreign value must become null and be counted, never stop the analysis of the rest.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the default, INT96, is what other readers gave up
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # a label that is written twice stops nothing
    "spark.sql.sources.partitionOverwriteMode": "dynamic",  # landing a run again replaces that run and no other
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # a run called 007 stays "007"
    # Runs are landed each in a folder of its own; only of more runs than this are the rows sorted by run for it.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
}
LOCAL = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",  # the machine's name may not resolve, and nobody else needs to reach the driver
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.scheduler.mode": "FAIR",  # several small questions are asked at once
    "spark.sql.files.openCostInBytes": "65536",
    "spark.sql.autoBroadcastJoinThreshold": "64m",
    "spark.sql.parquet.compression.codec": "zstd",
}
SMALL_BYTES = 128 << 20
SMALL = {
    # Adaptive plans plan what runs for milliseconds again after each stage.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    # The text of each plan is for the web UI, which is off.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "0",
    # `limit` tries one partition first, then four: each is a job of its own.
    "spark.sql.limit.initialNumPartitions": "100",
}
INTERPRETED_BYTES = 40 << 20
INTERPRETED = {
    # Of a demo run (25 MB) compiling generated code takes several times as long as running it (docs/proposals/015).
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Interpreted, common expressions are looked up in a cache that is emptied for each row: 6 % of all CPU.
    "spark.sql.subexpressionElimination.enabled": "false",
}
# Growing the heap and the class space step by step costs a full collection each time; two cores need no parallel collector.
JVM_OPTIONS = "-XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m -Xms800m -Xmn500m"
# In a job of seconds the second JIT compiler costs more CPU than its code gives back.
SMALL_JVM_OPTIONS = "-XX:TieredStopAtLevel=1"


def of_few_bytes(size: int) -> bool:
    """Whether files of this many bytes are planned as small data: as few tasks, stages and compiled classes as can be."""
    return size < SMALL_BYTES


def settings_for(size: int) -> dict[str, str]:
    """How Spark plans and runs what is asked about this many bytes, the same answers in every case.

    A demo's run is interpreted and in one task; several demos' worth run generated code, planned once; above that Spark's own
    defaults hold: adaptive plans and both JIT compilers.
    """
    if not of_few_bytes(size):
        return {}
    # Memory and collector are a cluster's own choice; its extraJavaOptions in spark-defaults.conf stay.
    options = {f"spark.{role}.defaultJavaOptions": SMALL_JVM_OPTIONS for role in ("driver", "executor")}
    return SMALL | (INTERPRETED if size < INTERPRETED_BYTES else {}) | options


@contextmanager
def spark_session(
    master: str = "local[*]", settings: Mapping[str, str] | None = None, size: int = 0
) -> Iterator[SparkSession]:
    """A Spark session that is stopped, and whose scratch folder is removed, at the end. `size`: bytes that will be read.

    Where a session is already active in this process it is lent and left running. Raises JavaMissing before anything
    is started when there is no Java to run on.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    local = master.startswith("local")
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run whichever python3 is first on the PATH
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark warns about a name that resolves to loopback
    scratch = Path(tempfile.mkdtemp(prefix="minikafka-spark-"))
    is_small = of_few_bytes(size)
    chosen = ALWAYS | (LOCAL if local else {}) | settings_for(size)
    chosen["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
    session = None
    try:
        with archived(java) if local and is_small else nullcontext("") as class_archive:
            if local:
                chosen["spark.local.dir"] = str(scratch)
                chosen["spark.driver.extraJavaOptions"] = (
                    f"{JVM_OPTIONS} {class_archive} "
                    f'-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} "-Djava.io.tmpdir={scratch}"'
                )
            chosen |= dict(settings or {})
            builder = SparkSession.builder.master(small(master)).appName("minikafka analyze")
            for key, value in chosen.items():
                builder = builder.config(key, value)
            try:
                with _jvm_stderr(scratch / "jvm.stderr") as said:
                    try:
                        session = builder.getOrCreate()
                    except Exception as error:
                        raise SparkDidNotStart(
                            f"Spark did not start on {java.home}: {_last_words(said, error)}"
                        ) from error
                session.sparkContext.setLogLevel("ERROR")
                yield session
            finally:
                if session is not None:
                    with suppress(
                        Exception
                    ):  # a JVM that has died cannot be stopped, and what killed it is being raised
                        session.stop()
                _end_gateway()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _jvm_stderr(path: Path) -> Iterator[Path]:
    """Sends what a JVM that is started meanwhile writes to its standard error into a file: it warns of its own incubator modules,
    which nobody who runs an analysis can act on. Spark's errors reach Python as exceptions."""
    java_gateway: Any = import_module("pyspark.java_gateway")  # its Popen is no public name
    launch = java_gateway.Popen
    with path.open("ab") as file:
        java_gateway.Popen = functools.partial(launch, stderr=file)
        try:
            yield path
        finally:
            java_gateway.Popen = launch


def _last_words(said: Path, error: Exception) -> str:
    lines = [line.strip() for line in said.read_text(encoding="utf-8", errors="replace").splitlines()]
    errors = [line for line in lines if line.lower().startswith(("error", "exception", "caused by", "fatal"))]
    return (errors or [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__])[0]


def small(master: str) -> str:
    """`local[*]` is held to two cores: a run is small, and the brokers of another run may be at work beside it."""
    return f"local[{min(2, os.cpu_count() or 1)}]" if master in {"local[*]", "local"} else master


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
