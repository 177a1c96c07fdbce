"""Who led, who was in sync, who cut its log: from the brokers' event logs, which miss nothing between scrapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka_analytics.behaviour.asof import latest
from minikafka_analytics.behaviour.faults import blows
from minikafka_analytics.landing.schemas import INTERNAL_TOPICS
from minikafka_analytics.spark.sql import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def relevant(events: DataFrame, clock: DataFrame) -> DataFrame:
    """The events of an analysis: of the run's own time, for taking the brokers down at the end is no part of it, and of no
    internal topic."""
    return query(
        f"""
        SELECT e.* FROM {{events}} e JOIN {{clock}} c ON c.run = e.run
        WHERE e.time <= c.ended AND (e.topic IS NULL OR e.topic NOT IN {INTERNAL_TOPICS!r})
        """,
        events=events,
        clock=clock,
    )


def terms(events: DataFrame) -> DataFrame:
    """One row per leader epoch of a partition: who led, from when until when (`until` null: to the end of the run).

    A term begins when the controller decided it or its leader said so, whichever was seen first: the controller's own log may
    have died with it. An epoch without a leader (the partition was offline) has `leader` -1; `next_leader` and
    `next_led_from` are of the next epoch that has one.
    """
    return query(
        """
        WITH said AS (
          SELECT run, topic, partition, leader_epoch, event, time, clean, reason, isr,
                 CASE event WHEN 'became_leader' THEN broker WHEN 'partition_offline' THEN -1 ELSE leader END AS leader,
                 IF(event = 'became_leader', NULL, broker) AS controller
          FROM {events}
          WHERE event IN ('leader_elected', 'became_leader', 'partition_offline')
             AND leader_epoch IS NOT NULL AND topic IS NOT NULL
        ), term AS (
          SELECT run, topic, partition, leader_epoch,
                 coalesce(max_by(leader, time) FILTER (WHERE event = 'became_leader'), max_by(leader, time)) AS leader,
                 min(time) AS began,
                 min(time) FILTER (WHERE event = 'leader_elected') AS elected_at,
                 min(time) FILTER (WHERE event = 'became_leader') AS took_office_at,
                 max(controller) AS controller, bool_and(clean) AS clean, max(reason) AS reason, min_by(isr, time) AS isr
          FROM said GROUP BY run, topic, partition, leader_epoch
        )
        SELECT *, lag(leader) OVER office AS previous_leader, lead(began) OVER office AS until,
               first(IF(leader >= 0, leader, NULL), true) OVER later AS next_leader,
               first(IF(leader >= 0, began, NULL), true) OVER later AS next_led_from
        FROM term WINDOW
          office AS (PARTITION BY run, topic, partition ORDER BY leader_epoch),
          later AS (PARTITION BY run, topic, partition ORDER BY leader_epoch ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
        """,
        events=events,
    )


def isr_changes(events: DataFrame, partitions: DataFrame) -> DataFrame:
    """Every change of a partition's ISR, with who left and who came, and the broker that reported it.

    Told from the ISR that each event carries, against the one before: an election changes the ISR as well as the leader's own
    `isr_shrunk` and `isr_expanded`. The first ISR of a partition is a row too (nobody removed, everybody added).
    `full_at`: when, after that, the ISR had every replica again. `seq` is of the event: by time and it changes have one order.
    """
    return query(
        """
        WITH states AS (
          SELECT run, topic, partition, time, seq, event, broker, leader_epoch, array_sort(isr) AS isr
          FROM {events}
          WHERE isr IS NOT NULL AND topic IS NOT NULL AND partition IS NOT NULL
            AND event IN ('leader_elected', 'became_leader', 'isr_shrunk', 'isr_expanded')
        ), step AS (
          SELECT *, lag(isr) OVER (PARTITION BY run, topic, partition ORDER BY leader_epoch, time, seq) AS before FROM states
        ), change AS (
          SELECT run, topic, partition, time, seq, event, broker, leader_epoch, isr, before IS NULL AS first,
                 array_except(coalesce(before, array()), isr) AS removed, array_except(isr, coalesce(before, array())) AS added
          FROM step
        )
        SELECT c.*, array_union(removed, added) AS concerned,
               lead(time) OVER (PARTITION BY c.run, c.topic, c.partition ORDER BY leader_epoch, time, seq) AS until,
               min(IF(size(isr) >= p.replicas, time, NULL)) OVER (PARTITION BY c.run, c.topic, c.partition
                 ORDER BY leader_epoch, time, seq ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS full_at
        FROM change c LEFT JOIN {partitions} p ON p.run = c.run AND p.topic = c.topic AND p.partition = c.partition
        WHERE first OR size(removed) > 0 OR size(added) > 0
        """,
        events=events,
        partitions=partitions,
    )


def partitions(events: DataFrame, wide: DataFrame, sent: DataFrame) -> DataFrame:
    """The partitions of a run, how many replicas each has, and whether the workload wrote to it (`watched`)."""
    return query(
        """
        WITH seen AS (
          SELECT run, topic, partition, broker, replicas FROM {wide} WHERE role > 0
          UNION ALL
          SELECT run, topic, partition, explode(isr), NULL FROM {events} WHERE isr IS NOT NULL AND topic IS NOT NULL
        )
        SELECT run, topic, partition, coalesce(replicas, 0) AS replicas, coalesce(sends, 0) AS sends,
               coalesce(sends, 0) > 0 AS watched
        FROM (SELECT run, topic, partition, coalesce(max(replicas), count(DISTINCT broker)) AS replicas
              FROM seen GROUP BY run, topic, partition)
        FULL OUTER JOIN (SELECT run, topic, partition, sends FROM {sent}) USING (run, topic, partition)
        WHERE topic IS NOT NULL AND partition IS NOT NULL
        """,
        events=events,
        wide=wide,
        sent=sent,
    )


def truncations(events: DataFrame, fates: DataFrame, terms: DataFrame, faults: DataFrame) -> DataFrame:
    """Every time a replica cut its log: the range it cut, why, and what became of the acknowledged records in that range.

    `acked`: records that had been acknowledged at an offset in the range while this replica could have taken them in: before its
    broker was struck, when it cut on its return, else before the leader of that moment took over. What was acknowledged at
    those offsets later are the next leader's own records, not those that were cut. A cut of acknowledged records alone is no
    loss, the leader may have them. `acked_lost`: those of them that the final read did not find.
    """
    cuts = query(
        """
        SELECT run, row_number() OVER (PARTITION BY run ORDER BY time, seq, broker) AS id, time, broker, topic, partition,
               leader_epoch, reason, records, least(from_offset, to_offset) AS low, greatest(from_offset, to_offset) AS high,
               array(broker) AS concerned
        FROM {events} WHERE event = 'log_truncated' AND topic IS NOT NULL
        """,
        events=events,
    )
    ever = blows(faults).selectExpr("run", "lane", "number", "began", "double('Infinity') AS until")
    struck = latest(cuts.selectExpr("run", "broker AS lane", "id", "time"), ever)
    return query(
        """
        WITH cut AS (SELECT * FROM {cuts}), lane AS (
          SELECT run, topic, partition, NULL AS id, began AS time, 0 AS later, began AS since FROM {terms}
          UNION ALL SELECT run, topic, partition, id, time, 1, NULL FROM cut
        ), office AS (
          SELECT run, id, since FROM (
            SELECT run, id, max(since) OVER (PARTITION BY run, topic, partition ORDER BY time, later
              ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS since FROM lane) WHERE id IS NOT NULL
        ), blow AS (
          SELECT s.run, s.id, s.began AS struck, f.ended AS back
          FROM {struck} s JOIN {faults} f ON f.run = s.run AND f.number = s.number
        ), dated AS (
          SELECT c.*, CASE WHEN b.struck IS NOT NULL AND (o.since IS NULL OR o.since < coalesce(b.back, c.time)) THEN b.struck
                           ELSE coalesce(o.since, c.time) END AS had_until
          FROM cut c LEFT JOIN office o ON o.run = c.run AND o.id = c.id LEFT JOIN blow b ON b.run = c.run AND b.id = c.id
        ), gone AS (SELECT run, id, topic, partition, had_until, explode(sequence(low, high - 1)) AS offset FROM dated
                    WHERE high > low),
        hit AS (
          SELECT c.run, c.id, count(*) AS acked, count_if(f.lost) AS acked_lost
          FROM gone c JOIN {fates} f
            ON f.run = c.run AND f.topic = c.topic AND f.partition = c.partition AND f.outcome = 'acked'
           AND f.offset = c.offset AND f.completed_at <= c.had_until
          GROUP BY c.run, c.id
        )
        SELECT c.*, coalesce(h.acked, 0) AS acked, coalesce(h.acked_lost, 0) AS acked_lost
        FROM cut c LEFT JOIN hit h USING (run, id)
        """,
        cuts=cuts,
        struck=struck,
        fates=fates,
        terms=terms,
        faults=faults,
    )


def returns(events: DataFrame, wide: DataFrame) -> DataFrame:
    """Return what each replica had left when its broker came back after an unclean stop, against what it last exported.

    `missing` is a lower bound of the records it lost by itself: what it took in after its last scrape was never seen.
    """
    return query(
        """
        WITH opened AS (
          SELECT run, row_number() OVER (PARTITION BY run ORDER BY time, seq, broker) AS id, time, broker, topic, partition,
                 clean, recovery_point, log_end_offset, truncated_bytes, array(broker) AS concerned
          FROM {events} WHERE event = 'log_recovered' AND topic IS NOT NULL
        ), lane AS (
          SELECT run, broker, topic, partition, NULL AS id, time, 1 AS later, struct(leo, flushed, time) AS seen FROM {wide}
          UNION ALL SELECT run, broker, topic, partition, id, time, 0, NULL FROM opened
        ), before AS (
          SELECT run, id, seen.leo AS last_leo, seen.flushed AS last_flushed, seen.time AS last_seen FROM (
            SELECT run, id, last(seen, true) OVER (PARTITION BY run, broker, topic, partition ORDER BY time, later
              ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS seen FROM lane)
          WHERE id IS NOT NULL AND seen IS NOT NULL
        )
        SELECT o.*, b.last_leo, b.last_flushed, b.last_seen, greatest(b.last_leo - o.log_end_offset, 0) AS missing
        FROM opened o JOIN before b USING (run, id)
        """,
        events=events,
        wide=wide,
    )


def others(events: DataFrame) -> DataFrame:
    """Events that a reader wants in order beside the faults: brokers and controllers that come and go, partitions offline."""
    return query(
        """
        SELECT run, seq, time, broker, event, topic, partition, controller_epoch, leader_epoch, target, reason, error, fields
        FROM {events}
        WHERE event IN ('broker_ready', 'broker_stopped', 'broker_fenced', 'broker_unfenced', 'controller_elected',
                        'controller_resigned', 'partition_offline', 'alter_partition_refused', 'corrupt_batch',
                        'replica_fetch_failed', 'log_restarted')
        """,
        events=events,
    )
