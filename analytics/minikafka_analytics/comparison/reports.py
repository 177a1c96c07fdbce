"""The reports of runs (report.json) as tables: runs, faults, and how partitions came through faults.

Columns and their types are declared here. Durations are seconds; what a report does not tell is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minikafka_analytics.behaviour.operations import NOTABLE_GAP_SECONDS
from minikafka_analytics.storage.paths import reader
from minikafka_analytics.storage.stores import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORT = """
    schema STRING, runs ARRAY<STRUCT<
      id: STRING, path: STRING, began_unix: DOUBLE, seconds: DOUBLE,
      scenario: STRUCT<name: STRING, version: STRING, ground: STRING>,
      verdict: STRUCT<verdict: STRING, agree: BOOLEAN>,
      counts: STRUCT<sent: BIGINT, acknowledged: BIGINT, lost: BIGINT, duplicated: BIGINT, reordered: BIGINT,
                     longest_ack_gap_s: DOUBLE>,
      figures: STRUCT<latency_p99: DOUBLE>,
      faults: ARRAY<STRUCT<
        number: INT, name: STRING, told: BOOLEAN, noticed: DOUBLE, brokers: ARRAY<INT>,
        partitions: ARRAY<STRUCT<topic: STRING, partition: INT, led: BOOLEAN, re_elected: DOUBLE, gap: DOUBLE,
                                 re_acknowledged: DOUBLE, never_again: BOOLEAN, shrunk: DOUBLE, full_isr: DOUBLE>>>>>>
"""
"""What is read of a report: a part of what is in it (`report.document`)."""

RUNS = (
    "run STRING, scenario STRING, version STRING, ground STRING, verdict STRING, agree BOOLEAN, began_unix DOUBLE, "
    "seconds DOUBLE, sent BIGINT, acknowledged BIGINT, lost BIGINT, duplicated BIGINT, reordered BIGINT, "
    "longest_gap DOUBLE, latency_p99 DOUBLE, faults INT, untold_faults INT"
)
TIMES = "run STRING, number INT, kind STRING, measure STRING, topic STRING, partition INT, seconds DOUBLE"

NOTICED, ELECTED, ACKNOWLEDGED, FULL_ISR = "noticed", "elected", "acknowledged", "full ISR"
MEASURES = {
    NOTICED: "from a fault until the controller had fenced a broker of it",
    ELECTED: "from a fault until a partition that a broker of it led had another leader",
    ACKNOWLEDGED: "from a fault until the end of the pause of acknowledgements that it made",
    FULL_ISR: "from a fault until an ISR that lost a broker of it had every replica again",
}


def read(spark: SparkSession, paths: Sequence[Place]) -> DataFrame:
    """One row a run, in the shape of `REPORT`."""
    read, names = reader(spark, paths)
    return read.schema(REPORT).option("multiLine", "true").json(names).selectExpr("inline(runs)")


def runs(reports: DataFrame) -> DataFrame:
    """One row a run: `RUNS`. A run whose journal tells no scenario or version has null there.

    `untold_faults`: those of which the report does not tell how partitions came through them, for too much had happened.
    """
    return reports.selectExpr(
        "id AS run",
        "scenario.name AS scenario",
        "scenario.version AS version",
        "scenario.ground AS ground",
        "verdict.verdict AS verdict",
        "verdict.agree AS agree",
        "began_unix",
        "seconds",
        "counts.sent AS sent",
        "counts.acknowledged AS acknowledged",
        "counts.lost AS lost",
        "counts.duplicated AS duplicated",
        "counts.reordered AS reordered",
        "counts.longest_ack_gap_s AS longest_gap",
        "figures.latency_p99 AS latency_p99",
        "size(faults) AS faults",
        "size(filter(faults, fault -> NOT fault.told)) AS untold_faults",
    )


def times(reports: DataFrame) -> DataFrame:
    """One row for each time that is measured: `TIMES`; `measure` is one of `MEASURES`, `seconds` is null for what never came.

    A broker that was struck is noticed once a fault (topic and partition null; a fault of no broker has nobody to be noticed).
    The others are of a partition: elected of one that was led by a broker of the fault, acknowledged of one with a pause that a
    client would notice, full ISR of one whose ISR shrank.
    """
    fault = reports.selectExpr("id AS run", "inline(faults)")
    noticed = fault.where("size(brokers) > 0").selectExpr(
        "run", "number", "name AS kind", f"'{NOTICED}' AS measure", "CAST(NULL AS STRING) AS topic",
        "CAST(NULL AS INT) AS partition", "noticed AS seconds",
    )  # fmt: skip
    each = f"""inline(array(
        struct('{ELECTED}' AS measure, led AS asked, re_elected AS seconds),
        struct('{ACKNOWLEDGED}' AS measure, gap >= {NOTABLE_GAP_SECONDS} AS asked,
               IF(never_again, NULL, re_acknowledged) AS seconds),
        struct('{FULL_ISR}' AS measure, shrunk IS NOT NULL AS asked, full_isr AS seconds)))"""
    of_partitions = (
        fault.selectExpr("run", "number", "name AS kind", "inline(partitions)")
        .selectExpr("run", "number", "kind", "topic", "partition", each)
        .where("asked")
        .select("run", "number", "kind", "measure", "topic", "partition", "seconds")
    )
    return noticed.unionAll(of_partitions)
