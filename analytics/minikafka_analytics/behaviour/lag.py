"""Stalls: times in which a high watermark, or what a follower has, did not move although there was something to move for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HIGH_WATERMARK, FOLLOWER = "high watermark", "follower"

STALLS = (
    "run STRING, what STRING, topic STRING, partition INT, broker INT, leader INT, leader_epoch BIGINT, began DOUBLE, "
    "ended DOUBLE, seconds DOUBLE, scrapes BIGINT, behind BIGINT, open BOOLEAN"
)


def stalls(wide: DataFrame, clock: DataFrame) -> DataFrame:
    """One row a stall: `STALLS`, in this order. From the scrapes of leaders, all of whose offsets are of one moment.

    `what`: the `high watermark` stood still below the log end offset, or the `follower` (`broker`) fetched nothing though it
    lacked records. `began` and `ended` (unix seconds) are the first and the last scrape with the same offset, so a stall lasted
    `seconds` at least, and was longer by less than two intervals; one that a single scrape saw is none. `behind`: records, at
    worst. `open`: it lasted to the last look at the run.

    A stall is of one leader in one epoch, in which both offsets only grow; for another one it counts anew. So an offset that is
    the same before and after scrapes that failed has stood still meanwhile, and `scrapes` tells how many saw it. A scrape without
    the leader's role, its log end offset or (of a follower) `minikafka_follower_lag` tells nothing.
    """
    return query(
        f"""
        WITH led AS (
          SELECT w.run, w.topic, w.partition, w.broker AS leader, w.leader_epoch, w.time, c.scraped_until, c.silence,
                 inline(array_append(
                   transform(coalesce(w.behind, array()), one ->
                     struct('{FOLLOWER}' AS what, one.follower AS broker, w.leo - one.records AS reached, one.records AS behind)),
                   struct('{HIGH_WATERMARK}' AS what, w.broker AS broker, w.hw AS reached, w.leo - w.hw AS behind)))
          FROM {{wide}} w JOIN {{clock}} c ON c.run = w.run
          WHERE w.role = 2 AND w.leo IS NOT NULL AND w.time BETWEEN c.began AND c.ended
        )
        SELECT run, what, topic, partition, broker, leader, leader_epoch, min(time) AS began, max(time) AS ended,
               max(time) - min(time) AS seconds, count(*) AS scrapes, max(behind) AS behind,
               max(scraped_until) - max(time) <= max(silence) AS open
        FROM led WHERE behind > 0 AND broker IS NOT NULL
        GROUP BY run, what, topic, partition, broker, leader, leader_epoch, reached HAVING count(*) > 1
        """,
        wide=wide,
        clock=clock,
    )
