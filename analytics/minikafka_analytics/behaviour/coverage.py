"""How far the final read came in each partition, against the ends that leaders named and exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def coverage(markers: DataFrame, sittings: DataFrame, wide: DataFrame) -> DataFrame:
    """One row per partition: records and last offset of the final read, the bounds its leader named last, how far readers came.

    `high_watermark` is the last that a leader of the partition exported.
    """
    return query(
        """
        WITH bounds AS (
          SELECT run, topic, partition,
                 max_by(offset, time) FILTER (WHERE op = 'start_offset') AS start_offset,
                 max_by(offset, time) FILTER (WHERE op = 'end_offset') AS end_offset,
                 max(offset) FILTER (WHERE op = 'read') AS read_to,
                 max(error) FILTER (WHERE op = 'read' AND type <> 'ok') AS read_error,
                 count_if(op = 'read' AND type = 'ok') AS readers_at_the_end
          FROM {markers}
          WHERE op IN ('start_offset', 'end_offset', 'read') AND topic IS NOT NULL
          GROUP BY run, topic, partition
        ), read AS (
          SELECT run, topic, partition, records, highest AS last_offset FROM {sittings} WHERE final
        ), exported AS (
          SELECT run, topic, partition, max_by(hw, time) AS high_watermark
          FROM {wide} WHERE role = 2 GROUP BY run, topic, partition
        )
        SELECT * FROM read FULL OUTER JOIN bounds USING (run, topic, partition)
        LEFT JOIN exported USING (run, topic, partition)
        """,
        markers=markers,
        sittings=sittings,
        wide=wide,
    )
