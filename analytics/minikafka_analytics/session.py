"""Starts Spark: on this machine with what a small machine can give, or against a cluster with as little as possible said.

Every setting has its reason here. For a `local` master all of them apply. For another master (`k8s://...`) only those
that the analysis itself relies on do, and the rest belongs to whoever runs the driver: spark-defaults.conf, or `settings`.
"""

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
from minikafka_analytics.stores import Place, in_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkDidNotStart(RuntimeError):
    """The JVM or Spark in it ended before it could be used; the message is one line with what it said last."""


NO_JVM = "Error occurred during initialization of VM"
"""What a JVM writes before the line that tells why it cannot start."""

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
MEMORY = "spark.driver.memory"
LOCAL = {
    MEMORY: "1g",
    "spark.driver.host": "127.0.0.1",  # the machine's name may not resolve, and nobody else needs to reach the driver
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",  # several small questions are asked at once
    "spark.sql.files.openCostInBytes": "65536",
    "spark.sql.autoBroadcastJoinThreshold": "64m",
    "spark.sql.parquet.compression.codec": "zstd",
}
SCRATCH = "minikafka-spark-"
STDOUT, STDERR = 1, 2
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
    # Checks of each plan after each batch of rules, and the place in a program of each call, are for who debugs Spark.
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    # What nothing here has: partitions to be pruned by other tables, variants, columns of CHAR, nested columns to be left out.
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    "spark.sql.variant.pushVariantIntoScan": "false",
    "spark.sql.readSideCharPadding": "false",
    # Between threads of one process nothing is gained by making it smaller.
    "spark.broadcast.compress": "false",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # Of a heap of 1 GB Spark makes pages of 16 MB: each aggregate and each sort of ten rows would take one or more.
    "spark.buffer.pageSize": "1m",
    # No other program waits for the marker of a folder; its manifest comes later.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
BYTES_OF_A_PARTITION = 64 << 20
"""Of files, for each partition of a shuffle: rows of the widest question are sorted there in memory (docs/proposals/015)."""
MOST_PARTITIONS = 1_000  # each writes a file a task, and a row of figures in the driver
LARGE = {
    # Tables of this many bytes in files take some ten times as much in memory, and several questions are asked at once.
    "spark.sql.autoBroadcastJoinThreshold": "4m",
    # Partitions that are small after all are joined, but to no more than is sorted in memory.
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    # Of a heap of 1 GB Spark makes pages of 16 MB, and each sort and aggregate of a task holds one at least.
    "spark.buffer.pageSize": "2m",
    # A window or a sort that spilled is merged from all its files at once, each with buffers of 1 MB that nothing counts: one
    # to read, one for a row, and one to read ahead, which files that were just written do not need.
    "spark.unsafe.sorter.spill.read.ahead.enabled": "false",
    # A task that runs alone may take all memory there is. What its window holds cannot be taken back while it is read: when a
    # second task starts, the first is above its half, and gets nothing for the step above the window, which then fails.
    "spark.sql.windowExec.buffer.spill.size.threshold": "64m",
}
"""What is large is read with the memory of a driver that read what is small: so much at a time, however much there is."""
INTERPRETED_BYTES = 40 << 20
GENERATING_BESIDE = "spark.minikafka.generating"
"""Of a session that interprets of its own accord: what is large may be landed by generated code in one beside it."""
INTERPRETED = {
    GENERATING_BESIDE: "true",
    # Of a demo run (25 MB) compiling generated code takes several times as long as running it (docs/proposals/015).
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Interpreted, common expressions are looked up in a cache that is emptied for each row: 6 % of all CPU.
    "spark.sql.subexpressionElimination.enabled": "false",
}
GENERATED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.subexpressionElimination.enabled": "true",
}
# Growing the heap and the class space step by step costs a full collection each time; two cores need no parallel collector.
STORES = {
    # Of its own accord S3A tries for minutes before it says that a store does not answer.
    "spark.hadoop.fs.s3a.attempts.maximum": "1",
    "spark.hadoop.fs.s3a.retry.limit": "2",
    "spark.hadoop.fs.s3a.connection.establish.timeout": "10s",
    "spark.hadoop.fs.s3a.connection.timeout": "15s",
}
"""What Hadoop is told beside what the user says, where something is in a store."""
JVM_OPTIONS = "-XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
OF_THE_HEAP = "-Xms800m"
"""With the memory that is given by default; of another the JVM chooses the parts itself."""
# What a small run leaves is collected before it grows old. A large one's sorts and hash tables are old: they take what Spark
# counts as memory for execution, which with half of the heap for the young there would not be.
YOUNG_OF_SMALL, YOUNG_OF_LARGE = "-Xmn500m", "-XX:NewRatio=4"
# In a job of seconds the second JIT compiler costs more CPU than its code gives back; the first one pays off sooner than by
# its own thresholds, which are halved.
SMALL_JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:Tier3InvocationThreshold=100 -XX:Tier3MinInvocationThreshold=50 "
    "-XX:Tier3CompileThreshold=1000 -XX:Tier3BackEdgeThreshold=30000"
)


def of_few_bytes(size: int) -> bool:
    """Whether files of this many bytes are planned as small data: as few tasks, stages and compiled classes as can be."""
    return size < SMALL_BYTES


def generating(spark: SparkSession) -> SparkSession:
    """A session beside this one, of the same context, that generates code; this one where it does so itself, or is told what
    to do by the user."""
    if spark.conf.get(GENERATING_BESIDE, None) is None:
        return spark
    beside = spark.newSession()
    for key, value in GENERATED.items():
        beside.conf.set(key, value)
    return beside


def settings_for(size: int, master: str = "local[*]") -> dict[str, str]:
    """How Spark plans and runs what is asked about this many bytes, the same answers in every case.

    A demo's run is interpreted and in one task; several demos' worth run generated code, planned once; above that plans are
    adaptive and both JIT compilers are there, and on this machine the partitions of a shuffle are as many as keep each as large
    as those of a small run. How many a cluster's shuffles have is the cluster's own choice.
    """
    if not of_few_bytes(size):
        partitions = min(max(size // BYTES_OF_A_PARTITION, 4), MOST_PARTITIONS)
        return LARGE | {"spark.sql.shuffle.partitions": str(partitions)} if is_local(master) else {}
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
                    with suppress(
                        Exception
                    ):  # a JVM that has died cannot be stopped, and what killed it is being raised
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


def is_local(master: str) -> bool:
    """Whether Spark works in the driver's process alone."""
    return master.startswith("local")


def is_one_process(master: str) -> bool:
    """Whether driver and executor are one process. Of `local-cluster` they are not: its executors can be lost."""
    return is_local(master) and not master.startswith("local-cluster")


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
