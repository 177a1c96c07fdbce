"""Runs that came out unlike the others of their kind.

By the modified z-score (`behaviour.z_score`); of runs more than half of which have the same value (MAD 0), by the mean absolute
deviation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.behaviour.z_score import MAD_OF_NORMAL, SCORE_LEAST
from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALUES_LEAST = 5
"""Of fewer nobody can say which is the odd one."""
SECONDS_LEAST = 0.1
"""Of times that lie closer together than this nobody would call one odd, whatever their spread."""

OUTLIERS = "of STRING, measure STRING, run STRING, value DOUBLE, median DOUBLE, mad DOUBLE, score DOUBLE, among BIGINT"


def figures(runs: DataFrame, times: DataFrame) -> DataFrame:
    """From `reports.runs` and `reports.times`, what runs are compared by, in seconds: (of, measure, run, value).

    `of` says which others are of the same kind: runs of a scenario and version (longest gap, latency p99), or of a kind of
    fault (the longest time to each of `reports.MEASURES` in the run).
    """
    return query(
        """
        SELECT concat('scenario ', coalesce(scenario, '?'), ', version ', coalesce(version, '?')) AS of, measure, run, value
        FROM (SELECT run, scenario, version, inline(array(
                struct('longest gap' AS measure, longest_gap AS value), struct('latency p99' AS measure, latency_p99 AS value)))
              FROM {runs})
        WHERE value IS NOT NULL
        UNION ALL
        SELECT concat('fault ', kind) AS of, measure, run, max(seconds) AS value
        FROM {times} WHERE seconds IS NOT NULL GROUP BY kind, measure, run
        """,
        runs=runs,
        times=times,
    )


def found(figures: DataFrame) -> DataFrame:
    """From `figures`, those that are outliers, the oddest first: `OUTLIERS`; `score` is negative for one that is below."""
    return query(
        """
        WITH middle AS (
          SELECT of, measure, median(value) AS median, count(*) AS among FROM {figures} GROUP BY of, measure
          HAVING count(*) >= {values_least}
        ), apart AS (
          SELECT f.of, f.measure, f.run, f.value, m.median, m.among, f.value - m.median AS apart
          FROM {figures} f JOIN middle m ON m.of = f.of AND m.measure = f.measure
        ), spread AS (
          SELECT of, measure, median(abs(apart)) AS mad, avg(abs(apart)) AS mean FROM apart GROUP BY of, measure
        ), scored AS (
          SELECT a.of, a.measure, a.run, a.value, a.median, s.mad,
                 IF(s.mad > 0, {mad_of_normal} * a.apart / s.mad, a.apart / (1.253314 * s.mean)) AS score, a.among, a.apart
          FROM apart a JOIN spread s ON s.of = a.of AND s.measure = a.measure
        )
        SELECT of, measure, run, value, median, mad, score, among FROM scored
        WHERE abs(score) > {score_least} AND abs(apart) >= {seconds_least} ORDER BY abs(score) DESC, of, measure, run
        """,
        figures=figures,
        values_least=VALUES_LEAST,
        mad_of_normal=MAD_OF_NORMAL,
        score_least=SCORE_LEAST,
        seconds_least=SECONDS_LEAST,
    )
