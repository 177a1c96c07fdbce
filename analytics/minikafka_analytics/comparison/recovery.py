"""How long clusters took to recover, by kind of fault, over all runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BY_KIND = (
    "kind STRING, measure STRING, runs BIGINT, faults BIGINT, times BIGINT, never BIGINT, p50 DOUBLE, p95 DOUBLE, "
    "longest DOUBLE"
)


def by_kind(times: DataFrame) -> DataFrame:
    """From `reports.times`, one row for each kind of fault and measure: `BY_KIND`, in this order.

    `times`: how many were measured, of how many `faults` in how many `runs`; `never`: of these, what never came, which is in no
    percentile. p50 and p95 (seconds) are times that occurred (nearest rank), so of fewer than 20 the latter is the longest.
    """
    return query(
        """
        SELECT kind, measure, count(DISTINCT run) AS runs, count(DISTINCT run, number) AS faults, count(*) AS times,
               count_if(seconds IS NULL) AS never,
               percentile_disc(0.5) WITHIN GROUP (ORDER BY seconds) AS p50,
               percentile_disc(0.95) WITHIN GROUP (ORDER BY seconds) AS p95,
               max(seconds) AS longest
        FROM {times} GROUP BY kind, measure ORDER BY kind, measure
        """,
        times=times,
    )
