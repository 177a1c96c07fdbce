"""What each replica exported over time: end of log, high watermark, how much of it was flushed; and when nobody could ask.

All of it comes from scrapes, so it is known at scrape times only: a replica that died keeps nothing of what it did after its
last scrape. Events, which miss nothing, are used wherever they say the same thing (see `leadership`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.landing.schemas import FOLLOWER_LAG, INTERNAL_TOPICS, METRICS_OF_A_REPLICA
from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POINTS_PER_REPLICA = 400  # a line in a plot 1,000 units wide needs no more
SILENT_AFTER_SCRAPES = 3.0  # as many missed scrapes in a row count as a gap: one late scrape is the scraper's
SILENT_AFTER_SECONDS = 1.0  # and never less than this


def wide(samples: DataFrame) -> DataFrame:
    """One row per scrape of one replica, the metrics of it as columns, `at_risk` = records not flushed at that moment.

    `behind`: what a leader tells of its followers, (follower, records) each; null where it tells nothing.
    """
    columns = ", ".join(
        f"CAST(max(value) FILTER (WHERE metric = '{metric}') AS BIGINT) AS {column}"
        for metric, column in METRICS_OF_A_REPLICA.items()
    )
    columns += f"""
        , nullif(collect_list(struct(CAST(labels['follower'] AS INT) AS follower, CAST(value AS BIGINT) AS records))
                 FILTER (WHERE metric = '{FOLLOWER_LAG}' AND labels['follower'] IS NOT NULL), array()) AS behind"""
    named = ", ".join(f"'{metric}'" for metric in (*METRICS_OF_A_REPLICA, FOLLOWER_LAG))
    return query(
        f"""
        SELECT *, greatest(leo - flushed, 0) AS at_risk FROM (
          SELECT run, time, broker, topic, partition, {columns}
          FROM {{samples}}
          WHERE metric IN ({named}) AND topic NOT IN {INTERNAL_TOPICS!r} AND partition IS NOT NULL
          GROUP BY run, time, broker, topic, partition)
        """,
        samples=samples,
    )


def series(wide: DataFrame, clock: DataFrame) -> DataFrame:
    """The same, thinned to what a plot can show. `fresh`: the first sample after a silence, so the line must not join them.

    In each step of time the last offsets and the most records at risk are kept.
    """
    return query(
        """
        WITH step AS (
          SELECT w.*, floor((w.time - c.began) / greatest((c.ended - c.began) / {points}, c.interval)) AS step, c.silence
          FROM {wide} w JOIN {clock} c ON w.run = c.run
        ), thinned AS (
          SELECT run, topic, partition, broker, step, max(time) AS time, max(silence) AS silence,
                 max_by(leo, time) AS leo, max_by(hw, time) AS hw, max_by(flushed, time) AS flushed,
                 max_by(role, time) AS role, max_by(isr_size, time) AS isr_size, max(at_risk) AS at_risk
          FROM step GROUP BY run, topic, partition, broker, step
        )
        SELECT run, topic, partition, broker, time, leo, hw, flushed, role, isr_size, at_risk,
               coalesce(time - lag(time) OVER (PARTITION BY run, topic, partition, broker ORDER BY time) > silence, true) AS fresh
        FROM thinned ORDER BY run, topic, partition, broker, time
        """,
        wide=wide,
        clock=clock,
        points=POINTS_PER_REPLICA,
    )


def lag(wide: DataFrame, clock: DataFrame) -> DataFrame:
    """Return how far each follower was behind, as its leader counted: (run, topic, partition, broker, time, behind, fresh).

    `broker` is the follower. Both offsets are the leader's own, of one moment, so no scrape is compared with another, and no
    leader can be behind. In each step of time the largest lag is kept.
    """
    return query(
        f"""
        WITH each AS (
          SELECT run, topic, partition, time, inline(behind) AS (broker, behind) FROM {{wide}} WHERE behind IS NOT NULL
        ), step AS (
          SELECT e.*, c.silence,
                 floor((e.time - c.began) / greatest((c.ended - c.began) / {POINTS_PER_REPLICA}, c.interval)) AS step
          FROM each e JOIN {{clock}} c ON e.run = c.run
        ), thinned AS (
          SELECT run, topic, partition, broker, max(time) AS time, max(behind) AS behind, max(silence) AS silence
          FROM step WHERE broker IS NOT NULL GROUP BY run, topic, partition, broker, step
        )
        SELECT run, topic, partition, broker, time, behind,
               coalesce(time - lag(time) OVER (PARTITION BY run, topic, partition, broker ORDER BY time) > silence, true) AS fresh
        FROM thinned ORDER BY run, topic, partition, broker, time
        """,
        wide=wide,
        clock=clock,
    )


def at_risk(wide: DataFrame) -> DataFrame:
    """Per replica: the most records it held that were not flushed, when first, and how many it held on average."""
    return query(
        """
        SELECT run, broker, topic, partition, max(at_risk) AS most, avg(at_risk) AS mean,
               -max(struct(at_risk, -time AS before)).before AS most_at  -- of several moments the first, however it is planned
        FROM {wide} WHERE at_risk IS NOT NULL GROUP BY run, broker, topic, partition
        """,
        wide=wide,
    )


def exposure(wide: DataFrame, clock: DataFrame, partitions: DataFrame) -> DataFrame:
    """Records not flushed over time, of the partitions the workload wrote to.

    One row per broker and step of time: what its replicas held unflushed, together. And with `broker` null: committed
    records that no replica had flushed, which a power loss of all brokers at that moment would have taken although
    clients had been told that they were safe. Scrapes of different brokers are not simultaneous, so the latter is an
    upper bound, too high by at most what came in during one interval. What a broker that is down had flushed counts for
    as long as five steps.
    """
    return query(
        """
        WITH step AS (
          SELECT w.run, w.topic, w.partition, w.broker, max(c.silence) AS silence,
                 floor((w.time - c.began) / greatest((c.ended - c.began) / {points}, c.interval)) AS step,
                 max(w.time) AS time, max(w.hw) AS hw, max(w.flushed) AS flushed, max(w.at_risk) AS at_risk
          FROM {wide} w JOIN {clock} c ON w.run = c.run
          LEFT SEMI JOIN (SELECT * FROM {partitions} WHERE watched) p
            ON p.run = w.run AND p.topic = w.topic AND p.partition = w.partition
          WHERE w.leo IS NOT NULL AND w.flushed IS NOT NULL GROUP BY w.run, w.topic, w.partition, w.broker, step
        ), together AS (
          SELECT run, topic, partition, step, max(silence) AS silence, max(time) AS time, max(hw) AS hw, max(flushed) AS flushed
          FROM step GROUP BY run, topic, partition, step
        ), bare AS (
          SELECT run, step, silence, time, greatest(hw - max(flushed) OVER (
                   PARTITION BY run, topic, partition ORDER BY step ROWS BETWEEN 5 PRECEDING AND CURRENT ROW), 0) AS records
          FROM together
        ), point AS (
          SELECT run, broker, step, max(time) AS time, max(silence) AS silence, sum(at_risk) AS records
          FROM step GROUP BY run, broker, step
          UNION ALL
          SELECT run, NULL, step, max(time), max(silence), sum(records) FROM bare GROUP BY run, step
        )
        SELECT run, broker, time, records,
               coalesce(time - lag(time) OVER (PARTITION BY run, broker ORDER BY time) > silence, true) AS fresh
        FROM point ORDER BY run, broker, time
        """,
        wide=wide,
        clock=clock,
        partitions=partitions,
        points=POINTS_PER_REPLICA,
    )


def silences(scrapes: DataFrame, clock: DataFrame) -> DataFrame:
    """Return when a broker could not be scraped: (run, broker, began, ended, open, failed scrapes)."""
    return query(
        """
        WITH counted AS (
          SELECT run, broker, time, value, count_if(value = 0) OVER (PARTITION BY run, broker ORDER BY time) AS failed,
                 count_if(value = 0) OVER (PARTITION BY run, broker) AS failed_at_all
          FROM {scrapes}
        ), answered AS (
          SELECT run, broker, time AS began, lead(time) OVER before AS next,
                 coalesce(lead(failed) OVER before, failed_at_all) - failed AS failed
          FROM counted WHERE value = 1 WINDOW before AS (PARTITION BY run, broker ORDER BY time)
        )
        SELECT a.run, a.broker, a.began, coalesce(a.next, c.ended) AS ended, a.next IS NULL AS open, a.failed
        FROM answered a JOIN {clock} c ON a.run = c.run WHERE coalesce(a.next, c.scraped_until) - a.began > c.silence
        ORDER BY run, began, broker
        """,
        scrapes=scrapes,
        clock=clock,
    )


def watermarks_that_went_back(wide: DataFrame) -> DataFrame:
    """Leaders that exported a smaller high watermark than before within one term: never allowed.

    From one leader to the next it may seem to fall for a moment, because a follower learns of it one fetch later (KIP-207).
    """
    return query(
        """
        SELECT run, topic, partition, broker, time, hw, reached, leader_epoch FROM (
          SELECT run, topic, partition, broker, time, hw, leader_epoch,
                 max(hw) OVER (PARTITION BY run, topic, partition, broker, leader_epoch ORDER BY time
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached
          FROM {wide} WHERE role = 2 AND hw IS NOT NULL)
        WHERE hw < reached ORDER BY run, topic, partition, time LIMIT 200
        """,
        wide=wide,
    )
