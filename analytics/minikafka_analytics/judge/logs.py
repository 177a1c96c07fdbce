"""The anomalies that replicas' own logs show, by the definitions of docs/reference/verdicts.md, from replicas.jsonl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.judge.anomalies import named
from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEQUENCES = 1 << 31
"""Sequence numbers count from 0 to 2147483647 and begin again (KIP-98)."""


def facts(replicas: DataFrame) -> DataFrame:
    """Return what replicas.jsonl tells of topics, of bounds of replicas and of starts that moved: all but the batches."""
    return query(
        """
        SELECT run, time, kind, topic, partition, broker, partitions, replication_factor, config, in_sync, start, `end`, damage,
               `from`, `to`, reason
        FROM {replicas} WHERE kind <> 'batch'
        """,
        replicas=replicas,
    )


def bounds(facts: DataFrame, extents: DataFrame) -> DataFrame:
    """Replicas that end before *F* does, and starts that nothing explains."""
    return query(
        named(
            """
            SELECT run, explode(filter(array(
                     IF(in_sync AND end < f_end, :short-replica:, NULL),
                     IF(start > deleted_to, :unexplained-start:, NULL),
                     IF(damage IS NOT NULL, :broken-log:, NULL)), k -> k IS NOT NULL)) AS kind,
                   false AS note, topic, partition, end AS offset, CONCAT('broker ', broker) AS value
            FROM {facts} JOIN {extents} USING (run, topic, partition)
            WHERE kind = 'replica'
            """
        ),
        facts=facts,
        extents=extents,
    )


def of_replicas(replicas: DataFrame) -> DataFrame:
    """One row per replica that a line tells of: its bounds, how many batches it has and how many are in evidence (`found`).

    `lines` that describe it, `astray`: out of sync when all was over, `doubled` batches named twice, `last` the highest index,
    `ends` the offset where the batches do. `whole`: all of its batches are in evidence (null: nothing tells how many there are).
    """
    return query(
        """
        SELECT *, batches = found AS whole FROM (
          SELECT run, topic, partition, broker, max(start) AS start, max(`end`) AS `end`, max(batches) AS batches,
                 count_if(kind = 'batch') AS found,
                 count_if(kind = 'replica') AS lines, bool_or(kind = 'replica' AND NOT in_sync) AS astray,
                 count_if(kind = 'batch') - count(DISTINCT IF(kind = 'batch', index, NULL)) AS doubled,
                 max(index) FILTER (WHERE kind = 'batch') AS last,
                 coalesce(max_by(last_offset, index) FILTER (WHERE kind = 'batch') + 1, max(start)) AS ends
          FROM {replicas} WHERE kind IN ('replica', 'batch')
          GROUP BY run, topic, partition, broker)
        """,
        replicas=replicas,
    )


def of_batches(replicas: DataFrame, logs: DataFrame, extents: DataFrame) -> DataFrame:
    """Wrong CRCs, offsets that overlap or leave a hole, epochs that fall, sequence numbers that do not follow each other."""
    return query(
        named(
            """
            WITH step AS (
              SELECT b.run, b.topic, b.partition, b.broker, base_offset, last_offset, crc_right, compacted, leader_epoch,
                     r.start, r.whole,
                     lag(last_offset) OVER log AS last_before, lag(leader_epoch) OVER log AS epoch_before,
                     base_sequence,
                     lag((base_sequence + last_offset - base_offset) % {sequences}) OVER producer AS sequence_before,
                     producer_id >= 0 AND base_sequence >= 0 AS sequenced
              FROM (SELECT *, producer_id >= 0 AND base_sequence >= 0 AS counted
                    FROM {replicas} WHERE kind = 'batch') b
              JOIN {extents} USING (run, topic, partition)
              JOIN {logs} r USING (run, topic, partition, broker)
              WINDOW log AS (PARTITION BY b.run, b.topic, b.partition, b.broker ORDER BY index),
                     producer AS (PARTITION BY b.run, b.topic, b.partition, b.broker, producer_id, producer_epoch, counted
                                  ORDER BY index)
            )
            SELECT run, explode(filter(array(
                     IF(NOT crc_right, :corrupt-batch:, NULL),
                     IF(whole AND (last_offset < base_offset OR coalesce(leader_epoch < epoch_before, false)
                                   OR CASE WHEN last_before IS NULL THEN NOT compacted AND base_offset > start
                                           WHEN compacted THEN base_offset <= last_before
                                           ELSE base_offset <> last_before + 1 END), :broken-log:, NULL),
                     IF(whole AND sequenced AND NOT compacted AND base_sequence <> (sequence_before + 1) % {sequences},
                        :broken-sequence:, NULL)), k -> k IS NOT NULL)) AS kind,
                   false AS note, topic, partition, base_offset AS offset, CONCAT('broker ', broker) AS value
            FROM step
            """
        ),
        replicas=replicas,
        logs=logs,
        extents=extents,
        sequences=SEQUENCES,
    )


def divergence(replicas: DataFrame, logs: DataFrame, extents: DataFrame) -> DataFrame:
    """Pairs of replicas of which one has a batch, within what both keep, that the other has not; of logs all of whose batches
    are in evidence.

    Batches that every replica of a partition has are dropped first, so that pairs are made of what differs only.
    """
    return query(
        named(
            """
            WITH log AS (SELECT run, topic, partition, broker, start, `end` FROM {logs} WHERE whole),
            copies AS (SELECT run, topic, partition, count(*) AS copies FROM log GROUP BY run, topic, partition),
            batch AS (
              SELECT run, topic, partition, base_offset, last_offset, leader_epoch, crc, collect_set(broker) AS brokers
              FROM {replicas} LEFT SEMI JOIN log USING (run, topic, partition, broker)
              WHERE kind = 'batch'
              GROUP BY run, topic, partition, base_offset, last_offset, leader_epoch, crc
            ), odd AS (
              SELECT b.* FROM batch b
              JOIN copies c ON c.run = b.run AND c.topic = b.topic AND c.partition = b.partition AND size(brokers) < copies
              JOIN {extents} e ON e.run = b.run AND e.topic = b.topic AND e.partition = b.partition AND NOT e.compacted
            ), held AS (SELECT *, explode(brokers) AS broker FROM odd)
            SELECT h.run, :divergent-replicas: AS kind, false AS note, h.topic, h.partition, min(h.base_offset) AS offset,
                   CONCAT('brokers ', least(h.broker, o.broker), ' and ', greatest(h.broker, o.broker)) AS value
            FROM held h
            JOIN log m ON m.run = h.run AND m.topic = h.topic AND m.partition = h.partition AND m.broker = h.broker
            JOIN log o ON o.run = h.run AND o.topic = h.topic AND o.partition = h.partition
                      AND NOT array_contains(h.brokers, o.broker)
            WHERE h.last_offset >= greatest(m.start, o.start) AND h.base_offset < least(m.end, o.end)
            GROUP BY h.run, h.topic, h.partition, least(h.broker, o.broker), greatest(h.broker, o.broker)
            """
        ),
        replicas=replicas,
        logs=logs,
        extents=extents,
    )


def gaps_in_evidence(replicas: DataFrame, facts: DataFrame, logs: DataFrame, extents: DataFrame) -> DataFrame:
    """Per partition, what keeps the logs from being judged whole (rule Problems).

    Missing replica lines, replicas with missing batches or out of sync (`astray`), a topic of the evidence that no line tells
    of (`untold`, partition null), partitions that a topic does not have (`beyond`); and contradictions (`twice`): a topic, a
    replica or a batch that is told of twice, a batch of no replica, a replica whose batches are not those that it tells of.
    """
    return query(
        """
        WITH expected AS (
          SELECT run, topic, explode(sequence(0, partitions - 1)) AS partition, replication_factor FROM {facts}
          WHERE kind = 'topic' AND partitions > 0
        ), seen AS (
          SELECT run, topic, partition, count_if(lines > 0) AS replicas, count_if(lines > 0 AND found <> batches) AS torn,
                 count_if(astray) AS astray,
                 count_if(lines <> 1 OR doubled > 0 OR last >= batches OR (found = batches AND ends <> `end`)) AS twice
          FROM {logs} GROUP BY run, topic, partition
        ), configured AS (
          SELECT run, topic, count(*) AS lines FROM {facts} WHERE kind = 'topic' GROUP BY run, topic
        ), with_logs AS (SELECT DISTINCT run FROM {replicas})
        SELECT run, topic, partition, replication_factor, coalesce(replicas, 0) AS replicas, coalesce(torn, 0) AS torn,
               coalesce(astray, 0) AS astray, coalesce(twice, 0) AS twice, false AS untold, 0 AS beyond
        FROM expected FULL OUTER JOIN seen USING (run, topic, partition)
        WHERE torn > 0 OR astray > 0 OR twice > 0 OR coalesce(replicas, 0) < replication_factor
        UNION ALL
        SELECT run, topic, NULL, NULL, 0, 0, 0, coalesce(max(lines) - 1, 0), max(lines) IS NULL, count_if(partition >= partitions)
        FROM {extents} JOIN with_logs USING (run) LEFT JOIN configured USING (run, topic)
        GROUP BY run, topic HAVING max(lines) IS NULL OR max(lines) > 1 OR count_if(partition >= partitions) > 0
        """,
        replicas=replicas,
        facts=facts,
        logs=logs,
        extents=extents,
    )
