"""What the clients asked for and were told: sends with their outcome, acknowledgements per second, gaps between them.

Outcomes follow Jepsen's rule for histories (https://github.com/jepsen-io/jepsen, "ok, fail, info"): `acked` when the cluster
said yes, `failed` when it said no, `unknown` when nobody can say, which includes a send that was never answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PERCENTILE_ACCURACY = 10_000
MOST_STEPS = 300  # of time in a plot of rates: an hour is shown in steps of 12 s
LONGEST_GAPS_KEPT = 5  # per partition; the shorter ones say nothing that the plot of acknowledgements does not


def sends(history: DataFrame) -> DataFrame:
    """One row per value sent: (run, value, topic, partition, process, invoked_at, completed_at, outcome, offset, error).

    Times in unix seconds. A value that was sent twice by the client and acknowledged once counts as acknowledged.
    """
    return history.sparkSession.sql(
        """
        WITH operation AS (
          SELECT run, value,
                 max(topic) AS topic,
                 coalesce(max(partition) FILTER (WHERE type = 'ok'), max(partition)) AS partition,
                 min(process) AS process,
                 min(time) FILTER (WHERE type = 'invoke') AS invoked_at,
                 min(time) FILTER (WHERE type = 'ok') AS acked_at,
                 min(time) FILTER (WHERE type = 'fail') AS failed_at,
                 min(time) FILTER (WHERE type = 'info') AS unknown_at,
                 min(offset) FILTER (WHERE type = 'ok' AND offset >= 0) AS offset,
                 max(leader_epoch) FILTER (WHERE type = 'ok') AS leader_epoch,
                 max_by(error, time) FILTER (WHERE error IS NOT NULL) AS error
          FROM {history}
          WHERE op = 'send' AND malformed IS NULL AND value IS NOT NULL
          GROUP BY run, value
        )
        SELECT run, value, topic, partition, process,
               coalesce(invoked_at, acked_at, failed_at, unknown_at) AS invoked_at,
               CASE WHEN acked_at IS NOT NULL THEN acked_at
                    WHEN unknown_at IS NOT NULL THEN unknown_at ELSE failed_at END AS completed_at,
               CASE WHEN acked_at IS NOT NULL THEN 'acked'
                    WHEN unknown_at IS NOT NULL OR failed_at IS NULL THEN 'unknown' ELSE 'failed' END AS outcome,
               acked_at IS NULL AND unknown_at IS NULL AND failed_at IS NULL AS unanswered,
               offset, leader_epoch, IF(acked_at IS NULL, error, NULL) AS error
        FROM operation
        """,
        history=history,
    )


def rates(sends: DataFrame, clock: DataFrame) -> DataFrame:
    """Outcomes and latency (seconds) per step of the run, per partition, and over all: one row per grouping.

    `second` is where a step begins, and is null for the whole run; `topic` and `partition` are null for all partitions
    together. Latency runs from the call of the client to its answer, of acknowledged sends only; percentiles are values
    that occurred, in rank right to 1 in 10,000.
    """
    return sends.sparkSession.sql(
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
    """How often each error was given, and with which outcome."""
    return sends.sparkSession.sql(
        """
        SELECT run, outcome, IF(unanswered, 'no answer before the run ended', coalesce(error, 'no reason given')) AS error,
               count(*) AS sends, min(invoked_at) AS first_at, max(invoked_at) AS last_at
        FROM {sends} WHERE outcome <> 'acked' GROUP BY ALL
        """,
        sends=sends,
    )


def gaps(sends: DataFrame) -> DataFrame:
    """Time between one acknowledgement and the next, per partition: (run, topic, partition, began, ended, seconds, open).

    `open`: nothing was acknowledged after it although the clients went on asking; it ends with their last send.
    """
    return sends.sparkSession.sql(
        """
        WITH mark AS (
          SELECT run, topic, partition, completed_at AS time, false AS last FROM {sends} WHERE outcome = 'acked'
          UNION ALL
          SELECT run, topic, partition, max(invoked_at), true FROM {sends} GROUP BY run, topic, partition
          HAVING max(invoked_at) > max(completed_at) FILTER (WHERE outcome = 'acked')
        ), step AS (
          SELECT run, topic, partition, time AS began, lead(time) OVER following AS ended, lead(last) OVER following AS open
          FROM mark WINDOW following AS (PARTITION BY run, topic, partition ORDER BY time)
        )
        SELECT *, ended - began AS seconds FROM step WHERE ended IS NOT NULL
        """,
        sends=sends,
    )


def longest_gaps(gaps: DataFrame, sends: DataFrame, faults: DataFrame) -> DataFrame:
    """The longest gaps of each partition, how many sends were begun in each, and the faults that overlap it."""
    return gaps.sparkSession.sql(
        """
        WITH ranked AS (
          SELECT *, row_number() OVER (PARTITION BY run, topic, partition ORDER BY seconds DESC, began) AS rank FROM {gaps}
        ), kept AS (SELECT * FROM ranked WHERE rank <= {kept}), asked AS (
          SELECT k.run, k.topic, k.partition, k.rank, count(*) AS asked
          FROM kept k JOIN {sends} s
            ON s.run = k.run AND s.topic = k.topic AND s.partition = k.partition
           AND s.invoked_at < k.ended AND coalesce(s.completed_at, k.ended) >= k.ended
          GROUP BY ALL
        ), overlap AS (
          SELECT k.run, k.topic, k.partition, k.rank, array_sort(collect_list(f.number)) AS faults
          FROM kept k JOIN {faults} f ON f.run = k.run AND f.began < k.ended AND coalesce(f.ended, k.ended) >= k.began
          GROUP BY ALL
        )
        SELECT k.*, coalesce(a.asked, 0) AS waiting, coalesce(o.faults, array()) AS faults
        FROM kept k
        LEFT JOIN asked a USING (run, topic, partition, rank)
        LEFT JOIN overlap o USING (run, topic, partition, rank)
        """,
        gaps=gaps,
        sends=sends,
        faults=faults,
        kept=LONGEST_GAPS_KEPT,
    )
