"""The settings that Spark gets, by the size of what it reads and by where it works.

Every one has its reason here. For a `local` master all of them apply. For another master (`k8s://...`) only those that the
analysis itself relies on do, and the rest belongs to whoever runs the driver: spark-defaults.conf, or `settings`.
"""

from __future__ import annotations

import os

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
GENERATED_BYTES = 1 << 20
"""A file of this size or more is landed by generated code, also where all else is interpreted: parsing a line costs more
than any question asks of it."""
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
"""Of files, for each partition of a shuffle: rows of the widest question are sorted there in memory (docs/decisions/015)."""
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
    # Of a demo run (25 MB) compiling generated code takes several times as long as running it (docs/decisions/015).
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
STORES = {
    # Of its own accord S3A tries for minutes before it says that a store does not answer.
    "spark.hadoop.fs.s3a.attempts.maximum": "1",
    "spark.hadoop.fs.s3a.retry.limit": "2",
    "spark.hadoop.fs.s3a.connection.establish.timeout": "10s",
    "spark.hadoop.fs.s3a.connection.timeout": "15s",
}
"""What Hadoop is told beside what the user says, where something is in a store."""
# Growing the heap and the class space step by step costs a full collection each time; two cores need no parallel collector.
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


def settings_for(size: int, master: str = "local[*]") -> dict[str, str]:
    """Return how Spark plans and runs what is asked about this many bytes, the same answers in every case.

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


def of_few_bytes(size: int) -> bool:
    """Return whether files of this many bytes are planned as small data: as few tasks, stages and compiled classes as can be."""
    return size < SMALL_BYTES


def is_local(master: str) -> bool:
    """Return whether Spark works in the driver's process alone."""
    return master.startswith("local")


def is_one_process(master: str) -> bool:
    """Return whether driver and executor are one process. Of `local-cluster` they are not: its executors can be lost."""
    return is_local(master) and not master.startswith("local-cluster")


def small(master: str) -> str:
    """`local[*]` is held to two cores: a run is small, and the brokers of another run may be at work beside it."""
    return f"local[{min(2, os.cpu_count() or 1)}]" if master in {"local[*]", "local"} else master
