"""What became of the records, by scenario and version, over all runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BY_SCENARIO = (
    "scenario STRING, version STRING, runs BIGINT, passed BIGINT, failed BIGINT, could_not_tell BIGINT, acknowledged BIGINT, "
    "lost BIGINT, runs_with_loss BIGINT, duplicated BIGINT, reordered BIGINT, gap_p50 DOUBLE, gap_p95 DOUBLE, gap_longest DOUBLE"
)


def by_scenario(runs: DataFrame) -> DataFrame:
    """From `reports.runs`, one row for each scenario and version of MiniKafka: `BY_SCENARIO`, in this order.

    Records are summed over runs. Gaps (seconds) are the longest pause of acknowledgements of each run; percentiles are values
    that occurred. `could_not_tell`: verdicts that are neither Passed nor Failed.
    """
    return query(
        """
        SELECT scenario, version, count(*) AS runs, count_if(verdict = 'Passed') AS passed,
               count_if(verdict = 'Failed') AS failed,
               count_if(verdict IS NULL OR verdict NOT IN ('Passed', 'Failed')) AS could_not_tell,
               sum(acknowledged) AS acknowledged, sum(lost) AS lost, count_if(lost > 0) AS runs_with_loss,
               sum(duplicated) AS duplicated, sum(reordered) AS reordered,
               percentile_disc(0.5) WITHIN GROUP (ORDER BY longest_gap) AS gap_p50,
               percentile_disc(0.95) WITHIN GROUP (ORDER BY longest_gap) AS gap_p95,
               max(longest_gap) AS gap_longest
        FROM {runs} GROUP BY scenario, version ORDER BY scenario, version
        """,
        runs=runs,
    )
