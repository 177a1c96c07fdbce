"""List what the gauges of leaders said and when, to be held against events: what was over before the next is in none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SIGHTINGS = (
    "run STRING, topic STRING, partition INT, leader INT, leader_epoch BIGINT, isr_size BIGINT, time DOUBLE, before DOUBLE, "
    "last BOOLEAN"
)


def sightings(wide: DataFrame, clock: DataFrame) -> DataFrame:
    """The scrapes of leaders that differ from the one before of their partition: `SIGHTINGS`, in this order.

    `leader_epoch` and `isr_size` as the leader exported them at `time` (unix seconds); `before` is when the state of the row
    before was scraped last (null for the first row). The `last` scrape of a partition is a row, too, whatever it says. A leader
    that exports neither is no row.
    """
    return query(
        """
        SELECT run, topic, partition, leader, leader_epoch, isr_size, time, before, last FROM (
          SELECT w.run, w.topic, w.partition, w.broker AS leader, w.leader_epoch, w.isr_size, w.time,
                 lag(w.time) OVER series AS before, lead(w.time) OVER series IS NULL AS last,
                 NOT (lag(w.leader_epoch) OVER series <=> w.leader_epoch AND lag(w.isr_size) OVER series <=> w.isr_size) AS other
          FROM {wide} w JOIN {clock} c ON c.run = w.run
          WHERE w.role = 2 AND coalesce(w.leader_epoch, w.isr_size) IS NOT NULL AND w.time BETWEEN c.began AND c.ended
          WINDOW series AS (PARTITION BY w.run, w.topic, w.partition ORDER BY w.time, w.leader_epoch, w.broker))
        WHERE before IS NULL OR other OR last
        """,
        wide=wide,
        clock=clock,
    )
