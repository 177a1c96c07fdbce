"""What the clients asked for and were told: sends with their outcome, acknowledgements per second, gaps between them.

Sends are those of `evidence.sends`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PERCENTILE_ACCURACY = 10_000
MOST_STEPS = 300  # of time in a plot of rates: an hour is shown in steps of 12 s
NOTABLE_GAP_SECONDS = 0.25
"""A pause of acknowledgements that a client would notice; librdkafka's retry backoff is 0.1 s."""
LONGEST_GAPS_KEPT = 1_000  # per partition
LONGEST_GAPS_SHOWN = 5  # per partition; the shorter ones say nothing that the plot of acknowledgements does not


def rates(sends: DataFrame, clock: DataFrame) -> DataFrame:
    """Outcomes and latency (seconds) per step of the run, per partition, and over all: one row per grouping.

    `second` is where a step begins, and is null for the whole run; `topic` and `partition` are null for all partitions
    together. Latency runs from the call of the client to its answer, of acknowledged sends only; percentiles are values
    that occurred, in rank right to 1 in 10,000.
    """
    return query(
        """
        SELECT run, topic, partition, second,
               count_if(outcome = 'acked') AS acked,
               count_if(outcome = 'failed') AS failed,
               count_if(outcome = 'unknown') AS unknown,
               percentile_approx(latency, array(0.5, 0.95, 0.99, 0.999), {accuracy}) AS latency,
               max(latency) AS latency_max
        FROM (
          SELECT s.run, topic, partition, outcome,
                 CAST(floor((coalesce(completed_at, invoked_at) - c.began) / c.rate_step) AS INT) * c.rate_step AS second,
                 IF(outcome = 'acked', completed_at - invoked_at, NULL) AS latency
          FROM {sends} s JOIN {clock} c ON s.run = c.run
        )
        GROUP BY GROUPING SETS ((run), (run, topic, partition), (run, second), (run, topic, partition, second))
        """,
        sends=sends,
        clock=clock,
        accuracy=PERCENTILE_ACCURACY,
    )


def errors(sends: DataFrame) -> DataFrame:
    """Return how often each error was given, and with which outcome."""
    return query(
        """
        SELECT run, outcome, IF(unanswered, 'no answer before the run ended', coalesce(error, 'no reason given')) AS error,
               count(*) AS sends, min(invoked_at) AS first_at, max(invoked_at) AS last_at
        FROM {sends} WHERE outcome <> 'acked' GROUP BY ALL
        """,
        sends=sends,
    )


def gaps(sends: DataFrame, sent: DataFrame) -> DataFrame:
    """Pauses of acknowledgements, per partition: (run, topic, partition, began, ended, seconds, open, rank).

    A pause lies between two neighbours of: the first send of the partition, each acknowledgement, and the last line of a
    send when that is later. `open`: nothing was acknowledged after it although clients still sent or waited. Kept are the
    longest of each partition (`rank` 1) and those that a client would notice.
    """
    return query(
        """
        WITH mark AS (
          SELECT run, topic, partition, completed_at AS time, false AS last FROM {sends}
          WHERE outcome = 'acked' AND partition IS NOT NULL
          UNION ALL
          SELECT run, topic, partition,
                 inline(array(struct(first_at AS time, false AS last), struct(last_at AS time, true AS last)))
          FROM {sent} WHERE partition IS NOT NULL
        ), step AS (
          SELECT run, topic, partition, lag(time) OVER before AS began, time AS ended, last AS open
          FROM mark WINDOW before AS (PARTITION BY run, topic, partition ORDER BY time, last)
        ), ranked AS (
          SELECT *, ended - began AS seconds,
                 row_number() OVER (PARTITION BY run, topic, partition ORDER BY ended - began DESC, began) AS rank
          FROM step WHERE began IS NOT NULL
        )
        SELECT * FROM ranked WHERE rank = 1 OR (seconds >= {notable} AND rank <= {kept})
        """,
        sends=sends,
        sent=sent,
        notable=NOTABLE_GAP_SECONDS,
        kept=LONGEST_GAPS_KEPT,
    )


def longest_gaps(gaps: DataFrame, sends: DataFrame) -> DataFrame:
    """The longest gaps of each partition, and how many sends were begun in each."""
    return query(
        """
        WITH kept AS (SELECT * FROM {gaps} WHERE rank <= {shown}), asked AS (
          SELECT k.run, k.topic, k.partition, k.rank, count(*) AS asked
          FROM kept k JOIN {sends} s
            ON s.run = k.run AND s.topic = k.topic AND s.partition = k.partition
           AND s.invoked_at < k.ended AND coalesce(s.completed_at, k.ended) >= k.ended
          GROUP BY ALL
        )
        SELECT k.*, coalesce(a.asked, 0) AS waiting FROM kept k LEFT JOIN asked a USING (run, topic, partition, rank)
        """,
        gaps=gaps,
        sends=sends,
        shown=LONGEST_GAPS_SHOWN,
    )
