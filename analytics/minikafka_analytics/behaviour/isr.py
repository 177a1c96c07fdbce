"""How often the ISR of each partition changed, and for how long it was not full: from events, which miss nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WITHIN_SECONDS = 60
"""Shrinks of a partition this close together are counted together: an ISR that flaps does so every `replica.lag.time.max.ms`
(30 s by default) or faster."""

BY_PARTITION = (
    "run STRING, topic STRING, partition INT, replicas BIGINT, shrinks BIGINT, expansions BIGINT, shrinks_within BIGINT, "
    "shrinks_within_from DOUBLE, least INT, short DOUBLE, longest_short DOUBLE, alone DOUBLE"
)


def by_partition(changes: DataFrame, partitions: DataFrame, clock: DataFrame) -> DataFrame:
    """From `leadership.isr_changes`, one row for each partition: `BY_PARTITION`, in this order.

    `shrinks` and `expansions`: changes by which a replica left, and by which one joined; the first ISR is neither.
    `shrinks_within`: the most shrinks within `WITHIN_SECONDS`, and where these begin (unix seconds; null without one). `least`:
    in-sync replicas at worst. Seconds, cut to the run: `short` with fewer than all replicas in all, the `longest_short` such
    time, and `alone` with one or none of several.
    """
    return query(
        f"""
        WITH change AS (
          SELECT i.run, i.topic, i.partition, p.replicas, i.time, size(i.isr) AS members, greatest(i.time, c.began) AS began,
                 greatest(least(coalesce(i.until, c.ended), c.ended), i.time, c.began) AS ended,
                 greatest(coalesce(i.full_at, c.ended), i.time, c.began) AS full_at,
                 NOT i.first AND size(i.removed) > 0 AS shrunk, NOT i.first AND size(i.added) > 0 AS expanded
          FROM {{changes}} i JOIN {{clock}} c ON c.run = i.run
          JOIN {{partitions}} p ON p.run = i.run AND p.topic = i.topic AND p.partition = i.partition
        ), counted AS (
          SELECT *, IF(shrunk, count_if(shrunk) OVER (PARTITION BY run, topic, partition ORDER BY time
                      RANGE BETWEEN CURRENT ROW AND {WITHIN_SECONDS}D FOLLOWING), NULL) AS ahead
          FROM change
        )
        SELECT run, topic, partition, max(replicas) AS replicas, count_if(shrunk) AS shrinks, count_if(expanded) AS expansions,
               coalesce(max(ahead), 0) AS shrinks_within,
               -max(IF(shrunk, struct(ahead, -time AS before), NULL)).before AS shrinks_within_from,
               min(members) AS least, sum(IF(members < replicas, ended - began, 0D)) AS short,
               max(IF(members < replicas, full_at - began, 0D)) AS longest_short,
               sum(IF(members < 2 AND replicas > 1, ended - began, 0D)) AS alone
        FROM counted GROUP BY run, topic, partition
        """,
        changes=changes,
        partitions=partitions,
        clock=clock,
    )
