"""Joins in time by windows: what held at a moment, which moments lie in a span. None of them compares all with all.

Both sides are put in one order of time and swept once, so the cost is that of sorting, however many faults a run has. Times are
unix seconds; `lane` is whatever the two sides have to have in common beside the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def latest(rows: DataFrame, spans: DataFrame) -> DataFrame:
    """Return which span holds at a moment: (run, lane, id, number, began).

    Rows are (run, lane, id, time), spans (run, lane, number, began, until).

    Of several the one that began last, unless it is over by then: then the one that lasts longest. No row where none holds.
    """
    return query(
        """
        WITH lane AS (
          SELECT run, lane, NULL AS id, began AS time, 0 AS later, struct(until, number, began) AS span FROM {spans}
          UNION ALL
          SELECT run, lane, id, time, 1, NULL FROM {rows}
        ), swept AS (
          SELECT run, lane, id, time, last(span, true) OVER before AS last, max(span) OVER before AS longest
          FROM lane WINDOW before AS (PARTITION BY run, lane ORDER BY time, later
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
        ), held AS (
          SELECT run, lane, id, CASE WHEN last.until >= time THEN last WHEN longest.until >= time THEN longest END AS span
          FROM swept WHERE id IS NOT NULL
        )
        SELECT run, lane, id, span.number AS number, span.began AS began FROM held WHERE span IS NOT NULL
        """,
        rows=rows,
        spans=spans,
    )


def within(moments: DataFrame, spans: DataFrame) -> DataFrame:
    """Return which moments (run, lane, number, time) lie in which spans (run, lane, id, low, high): (run, lane, id, number).

    `low` belongs to the span, `high` does not. The moments of a lane are numbered in order, so those of a span are a range.
    """
    return query(
        """
        WITH bound AS (
          SELECT run, lane, NULL AS id, time, 1 AS moment, CAST(NULL AS BOOLEAN) AS first FROM {moments}
          UNION ALL SELECT run, lane, id, low, 0, true FROM {spans}
          UNION ALL SELECT run, lane, id, high, 0, false FROM {spans} WHERE high IS NOT NULL
          UNION ALL SELECT run, lane, id, double('Infinity'), 0, false FROM {spans} WHERE high IS NULL
        ), counted AS (
          SELECT *, sum(moment) OVER (PARTITION BY run, lane ORDER BY time, moment
                      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS passed
          FROM bound
        ), range AS (
          SELECT run, lane, id, max(passed) FILTER (WHERE first) + 1 AS low, max(passed) FILTER (WHERE NOT first) AS high
          FROM counted WHERE id IS NOT NULL GROUP BY run, lane, id
        ), member AS (SELECT run, lane, id, explode(sequence(low, high)) AS nth FROM range WHERE low <= high),
        numbered AS (
          SELECT run, lane, number, row_number() OVER (PARTITION BY run, lane ORDER BY time, number) AS nth FROM {moments}
        )
        SELECT m.run, m.lane, m.id, n.number
        FROM member m JOIN numbered n ON n.run = m.run AND n.lane = m.lane AND n.nth = m.nth
        """,
        moments=moments,
        spans=spans,
    )
